/* What the converger tells bc-transfer on its standard input, and what it hears on its standard output: lines of
 * text, of bounded length. A URL may be signed, so it travels here and never in an argument list. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TRANSFER_URL_MAX = 2049, /* bytes with the NUL, as all of these */
	TRANSFER_PATH_MAX = 1024,
	TRANSFER_ORDER_TEXT_MAX = 4096, /* a pipe takes that much without a reader */
	TRANSFER_LINE_MAX = 1024,
	TRANSFER_FILE_FD = 3, /* of the file that is filled or sent */
};

struct transfer_order {
	bool upload;
	char url[TRANSFER_URL_MAX];
	uint64_t offset;                 /* download: bytes of the file that are there already */
	uint64_t size_bytes;             /* of the whole; download: 0 when unknown */
	uint64_t max_bytes;              /* download: no file gets larger */
	char digest[SHA256_DIGEST_MAX];  /* what the whole must have */
	char ca_path[TRANSFER_PATH_MAX]; /* PEM of the authorities to trust; "": the system's */
	uint64_t stall_sec;              /* below 1 KiB/s for so long: given up */
};

enum transfer_report_kind {
	TRANSFER_PROGRESS,
	TRANSFER_DONE,
	TRANSFER_FAILED,
};

struct transfer_report {
	enum transfer_report_kind kind;
	uint64_t done_bytes,
	        total_bytes; /* PROGRESS; total 0: unknown. DONE: done_bytes is the file's size */
	int r;               /* FAILED: -errno */
	bool permanent;      /* FAILED: trying again is useless until something changes */
	char text[ERR_TEXT_MAX];
};

/* -EINVAL when a string does not fit or holds a line break. The parsers refuse what the writers do not write. */
int transfer_order_write(const struct transfer_order *order, char buf[static TRANSFER_ORDER_TEXT_MAX]);
int transfer_order_read(const char *text, struct transfer_order *ret);
void transfer_report_write(const struct transfer_report *report, char buf[static TRANSFER_LINE_MAX]);
int transfer_report_read(const char *line, struct transfer_report *ret); /* without the line's end */

/* A URL without what may be secret in it: "https://host/path". Returns buf. */
char *transfer_url_shown(const char *url, char *buf, size_t size);
