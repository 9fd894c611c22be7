/* Numbers as the protobuf JSON mapping writes them. No locale has a say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An integer: decimal digits without leading zeros, or a form such as 1.5e3 that comes to a whole number.
 * -EINVAL when it is none, -ERANGE when it does not fit. */
int number_parse_u64(const char *text, uint64_t *ret);
int number_parse_i64(const char *text, int64_t *ret);
/* Also "NaN", "Infinity" and "-Infinity". -ERANGE for a finite text beyond the double's range. */
int number_parse_double(const char *text, double *ret);

/* What "2GiB", "512M", "1.5 TB" mean in bytes: only to say so in a message. False when text is no such
 * size. */
bool number_guess_size(const char *text, uint64_t *ret);

/* How many significant digits (15…17) a double needs to be read back as the same; for a float 6…9. */
int number_digits_double(double value);
int number_digits_float(float value);
