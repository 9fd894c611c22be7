/* Messages on the output, for programs: the standard protobuf JSON mapping, or the same as YAML. */
#pragma once

#include "cli/cli.h"
#include "cli/table.h"

#include "google/protobuf/timestamp.pb-c.h"

#include <protobuf-c/protobuf-c.h>

/* One message. An exit code. */
int answer_print(struct cli *cli, const ProtobufCMessage *message);
/* A list of messages of one type: a JSON array or a YAML list. */
int answers_print(struct cli *cli, const ProtobufCMessage *const *messages, size_t n_messages);
/* One of a stream: a JSON object on a line of its own, or a YAML document behind "---"; at once. */
int answer_print_next(struct cli *cli, const ProtobufCMessage *message);
/* table_print() as the global options say. */
int answer_table(struct cli *cli, const struct table *table);

/* "RUNNING"; a number the enum does not have as that number. Static or in buf. */
enum { ENUM_TEXT_MAX = 16 };
const char *enum_text(const ProtobufCEnumDescriptor *type, int value, char buf[static ENUM_TEXT_MAX]);
#define ENUM_TEXT(type, value) enum_text(&(type), (int)(value), (char[ENUM_TEXT_MAX]){ 0 })

int64_t timestamp_seconds(const Google__Protobuf__Timestamp *time); /* 0 for NULL */
