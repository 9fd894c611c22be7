/* All of the bytes, whatever the kernel takes at a time and whatever signals come between. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int fd_write_all(int fd, const void *data, size_t n_data);
int fd_write_all_at(int fd, const void *data, size_t n_data, uint64_t offset);
/* -ENODATA when the file ends before. */
int fd_read_all_at(int fd, void *data, size_t n_data, uint64_t offset);
