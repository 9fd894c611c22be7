/* The last 64 KiB that a guest wrote to its serial port, in a small file of the instance: it costs no memory while
 * nobody reads, and outlives this process. Offsets count every byte since the file was made. */
#pragma once

#include "lib/base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

enum { CONSOLE_RING_BYTES = 64 * 1024 };

struct console_ring;

/* Opens the ring at path, made anew when it is not there or is not one. */
int console_ring_open(const char *path, struct console_ring **ret);
struct console_ring *console_ring_free(struct console_ring *ring);
CLEANUP_DEFINE(console_ring, console_ring_free)

int console_ring_write(struct console_ring *ring, const void *data, size_t n_data);
uint64_t console_ring_end(const struct console_ring *ring);   /* offset behind the last byte */
uint64_t console_ring_start(const struct console_ring *ring); /* of the oldest byte kept */
/* Up to size bytes from offset, which must be within [start, end]. Returns how many, or -errno. */
ssize_t console_ring_read(const struct console_ring *ring, uint64_t offset, void *buf, size_t size);
