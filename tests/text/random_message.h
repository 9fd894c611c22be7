/* Messages of any type with random contents, for tests of what must hold for all of them. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

struct random {
	uint64_t state; /* the seed */
};

uint64_t random_next(struct random *random);
/* Freed with protobuf_c_message_free_unpacked(m, NULL). Enums and times hold what they may, map keys are
 * unique, texts are UTF-8 without NUL, chosen to be hard on YAML and JSON. depth bounds the nesting. */
ProtobufCMessage *random_message(
        struct random *random, const ProtobufCMessageDescriptor *type, unsigned depth);
