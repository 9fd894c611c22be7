/* Protobuf bytes by hand, right and wrong ones, for tests of what is taken in. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct wire_builder {
	uint8_t *bytes; /* owned */
	size_t n, n_allocated;
};

void wire_builder_done(struct wire_builder *w);
#define CLEANUP_WIRE __attribute__((cleanup(wire_builder_done)))
void wire_put_raw(struct wire_builder *w, const void *data, size_t n);
void wire_put_varint(struct wire_builder *w, uint64_t v);
void wire_put_number(struct wire_builder *w, unsigned field, uint64_t v);                /* wire type 0 */
void wire_put_bytes(struct wire_builder *w, unsigned field, const void *data, size_t n); /* wire type 2 */
void wire_put_text(struct wire_builder *w, unsigned field, const char *text);
/* What is there becomes the value of that field: one level more around it. */
void wire_wrap(struct wire_builder *w, unsigned field);
