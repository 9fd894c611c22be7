/* Bytes as text, RFC 4648. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Standard alphabet, padded. Owned by the caller; NULL without memory. */
char *base64_encode(const uint8_t *data, size_t n_data);
/* Standard or URL-safe alphabet, padded or not, no white space. *ret_data is owned by the caller, NULL for
 * no bytes. -EINVAL for anything else, -ENOMEM. */
int base64_decode(const char *text, size_t n_text, uint8_t **ret_data, size_t *ret_size);
