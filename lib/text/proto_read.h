/* Any protobuf-c message from YAML or JSON in the standard protobuf JSON mapping.
 *
 * Stricter than the mapping where people err: unknown and doubled keys, two members of a oneof, enum names
 * and numbers that are not there, integers out of range and a number where text is expected are refused,
 * each with its line, its path and what would be right. null stands for "not given". Field names may also
 * be the proto's own. */
#pragma once

#include "lib/text/document.h"
#include "lib/text/problems.h"

#include <protobuf-c/protobuf-c.h>

/* 0, -EINVAL with the reasons in problems, or -ENOMEM. *ret is freed with
 * protobuf_c_message_free_unpacked(m, NULL). */
int proto_read(const char *text, size_t n_text, const ProtobufCMessageDescriptor *type,
        ProtobufCMessage **ret, struct problems *problems);
/* The same from a part of a document that was parsed already; path is what messages call it, "" for the
 * whole. */
int proto_read_node(const struct doc_node *node, const char *path, const ProtobufCMessageDescriptor *type,
        ProtobufCMessage **ret, struct problems *problems);
