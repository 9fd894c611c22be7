/* The bytes of a call, through the bounded scan and protobuf-c: a type with every kind of field, below itself, in a
 * oneof and in a map. What the scan lets through unpacks, is what it said, and packs again. */
#include "lib/rpc/intake.h"

#include <echo.pb-c.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	ProtobufCMessage *message = NULL;
	ProtobufCMessage *again = NULL;
	struct err err = { 0 };

	int r = rpc_message_check(&bc__test__echo_message__descriptor, data, n_data, &err);
	if (r < 0) {
		if (!err.text[0])
			abort(); /* a refusal without words */
		return 0;
	}
	/* protobuf-c must have nothing left to refuse */
	if (rpc_message_parse(&bc__test__echo_message__descriptor, data, n_data, &message, NULL) < 0)
		abort();
	size_t n = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = malloc(n + 1);
	if (!bytes || protobuf_c_message_pack(message, bytes) != n)
		abort();
	/* an unset enum or an absent map value may take more or fewer bytes, but stays within every rule */
	if (n <= RPC_WIRE_MAX &&
	        rpc_message_parse(&bc__test__echo_message__descriptor, bytes, n, &again, NULL) < 0)
		abort();
	if (again)
		protobuf_c_message_free_unpacked(again, NULL);
	protobuf_c_message_free_unpacked(message, NULL);
	free(bytes);
	return 0;
}
