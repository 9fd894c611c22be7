/* The serialized google.protobuf.FileDescriptorSet of every proto served here, with its imports. */
#pragma once

#include <stddef.h>

extern const unsigned char bc_descriptor_set[];
extern const size_t bc_descriptor_set_size; /* bytes */
