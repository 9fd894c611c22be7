/* What protobuf-c leaves out: messages on the heap, made and copied whole. All are freed with
 * protobuf_c_message_free_unpacked(message, NULL). */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* With its defaults. NULL without memory, as all here. */
ProtobufCMessage *message_new(const ProtobufCMessageDescriptor *type);
/* A deep copy, of the same type. */
ProtobufCMessage *message_copy(const ProtobufCMessage *from);
/* The same type and the same bytes on the wire; false, too, without memory. */
bool message_is_same(const ProtobufCMessage *a, const ProtobufCMessage *b);

/* Replaces a text field of such a message. -ENOMEM. */
int message_text_set(char **slot, const char *text);
