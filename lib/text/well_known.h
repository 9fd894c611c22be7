/* google.protobuf.Timestamp and Duration as text, as the protobuf JSON mapping has them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WELL_KNOWN_TEXT_MAX = 96 }; /* bytes with the NUL; more than any takes */

/* Both messages have these two fields. */
struct proto_time {
	int64_t seconds;
	int32_t nanos;
};

/* RFC 3339: "2024-02-29T12:00:00.5Z", also with an offset such as +02:00; years 1 to 9999.
 * -EINVAL when it is none, -ERANGE outside the years. */
int timestamp_parse(const char *text, struct proto_time *ret);
/* In UTC with 0, 3, 6 or 9 digits of a second. -ERANGE for what no text stands for. */
int timestamp_format(const struct proto_time *time, char ret[static WELL_KNOWN_TEXT_MAX]);

/* Seconds: "90s", "-0.25s", at most 315,576,000,000 either way. Errors as above. */
int duration_parse(const char *text, struct proto_time *ret);
int duration_format(const struct proto_time *time, char ret[static WELL_KNOWN_TEXT_MAX]);
