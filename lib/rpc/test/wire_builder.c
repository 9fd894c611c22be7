#include "lib/rpc/test/wire_builder.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };

void wire_builder_done(struct wire_builder *w)
{
	free(w->bytes);
	*w = (struct wire_builder){ 0 };
}

void wire_put_raw(struct wire_builder *w, const void *data, size_t n)
{
	if (w->n + n > w->n_allocated) {
		w->n_allocated = (w->n + n) * 2;
		w->bytes = realloc(w->bytes, w->n_allocated);
		if (!w->bytes)
			abort();
	}
	if (n > 0)
		memcpy(w->bytes + w->n, data, n);
	w->n += n;
}

void wire_put_varint(struct wire_builder *w, uint64_t v)
{
	do {
		uint8_t byte = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		wire_put_raw(w, &byte, 1);
		v >>= 7;
	} while (v > 0);
}

void wire_put_number(struct wire_builder *w, unsigned field, uint64_t v)
{
	wire_put_varint(w, (uint64_t)field << 3 | WIRE_VARINT);
	wire_put_varint(w, v);
}

void wire_put_bytes(struct wire_builder *w, unsigned field, const void *data, size_t n)
{
	wire_put_varint(w, (uint64_t)field << 3 | WIRE_BYTES);
	wire_put_varint(w, n);
	wire_put_raw(w, data, n);
}

void wire_put_text(struct wire_builder *w, unsigned field, const char *text)
{
	wire_put_bytes(w, field, text, strlen(text));
}

void wire_wrap(struct wire_builder *w, unsigned field)
{
	struct wire_builder inner = *w;

	*w = (struct wire_builder){ 0 };
	wire_put_bytes(w, field, inner.bytes, inner.n);
	wire_builder_done(&inner);
}
