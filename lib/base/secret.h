/* Bytes that must not outlive their use: kept out of core dumps and, where the limit allows, out of swap, and
 * zeroed when freed. Never printed: there is no format for one. */
#pragma once

#include "lib/base/cleanup.h"

#include <stddef.h>

struct secret;

/* Copies data; the caller still has its own copy to clear. n_data may be 0. */
int secret_new(const void *data, size_t n_data, struct secret **ret);
/* The same, and data is zeroed: for the copy in a message that was received. */
int secret_new_from(void *data, size_t n_data, struct secret **ret);
/* Room for n_data bytes to be filled in place through secret_data(). */
int secret_new_empty(size_t n_data, struct secret **ret);
char *secret_data(struct secret *secret); /* a NUL follows the last byte */
size_t secret_size(const struct secret *secret);
struct secret *secret_free(struct secret *secret);
CLEANUP_DEFINE(secret, secret_free)
