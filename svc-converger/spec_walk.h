/* Walking a NodeSpec: where one is in it, the faults found there, and the checks that any field may need. The
 * `field` of every check is the field's own name; the report shows the whole path. */
#pragma once

#include "svc-converger/spec_check.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

enum { SPEC_DEPTH_MAX = 8, SPEC_NO_INDEX = -1 };

/* One level of the path. */
struct spec_step {
	const char *field; /* weak; a literal */
	long index;        /* SPEC_NO_INDEX: the field itself */
};

/* Where one is, written out only when there is a fault: most specs have none. */
struct spec_walk {
	struct spec_report *report; /* weak */
	struct spec_step steps[SPEC_DEPTH_MAX];
	size_t n_steps;
};

/* Goes down into field, or into one item of it; the return value is for spec_leave(). */
size_t spec_enter(struct spec_walk *walk, const char *field);
size_t spec_enter_item(struct spec_walk *walk, const char *field, size_t index);
void spec_leave(struct spec_walk *walk, size_t before);

/* "<where>.<field>: …", with the names that JSON and YAML have. Everything is counted, the first SPEC_FAULTS_SHOWN are kept. field "": where we are. */
void spec_fault(struct spec_walk *walk, const char *field, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/* A text of lib/base, which begins with the field's name already. */
void spec_fault_text(struct spec_walk *walk, const char *text);

void spec_check_count(struct spec_walk *walk, const char *field, size_t n, size_t max);
/* min…max bytes, all from chars; right says so in words. */
void spec_check_chars(struct spec_walk *walk, const char *field, const char *value, const char *chars,
        size_t max, const char *right);
/* At most max bytes and no control character, so that it can stand in a file, a command line or a log. */
void spec_check_line(struct spec_walk *walk, const char *field, const char *value, size_t max);
/* A value that the enum has; unspecified (0) only where a default is meant. */
void spec_check_enum(struct spec_walk *walk, const char *field, const ProtobufCEnumDescriptor *type,
        int value, bool has_default);
void spec_check_range(struct spec_walk *walk, const char *field, uint64_t value, uint64_t min, uint64_t max);
void spec_check_multiple(struct spec_walk *walk, const char *field, uint64_t value, uint64_t of);
void spec_check_url(struct spec_walk *walk, const char *field, const char *url);
/* Runs one of lib/base's checks: uuid_check, digest_check, … */
void spec_check_with(struct spec_walk *walk, const char *field, const char *value,
        int (*check)(const char *what, const char *value, struct err *err));
