/* The rebind disk: how a guest that was restored with its memory gets an identity of its own, and says that it has
 * taken it. The protocol, for guests, is in docs/rebind.md.
 *
 * A raw disk of 128 KiB, hot-added as "vdz" with serial REBIND_SERIAL. Block 0 (4 KiB) is the host's word, block 1
 * the guest's answer, the payload begins at block 2. Blocks are text lines padded with NULs, so that a shell can be
 * a compliant guest. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/secret.h"
#include "lib/image/new_file.h"

#include <stddef.h>
#include <stdint.h>

enum {
	REBIND_BLOCK_BYTES = 4096,
	REBIND_DISK_BYTES = 128 * 1024,
	REBIND_PAYLOAD_MAX = 64 * 1024, /* bytes */
	REBIND_REF_MAX = 256,           /* bytes */
	REBIND_MESSAGE_MAX = 256,       /* bytes with the NUL */
};
#define REBIND_SERIAL "bc-rebind"

/* Writes the disk, whole or not at all, over what is at path. ref is one line of at most REBIND_REF_MAX bytes. */
int rebind_disk_write(
        const char *path, const char *ref, struct secret *payload, struct file_perm perm, struct err *err);

enum rebind_answer {
	REBIND_WAITING, /* nothing written yet, or not for this ref, or half of it */
	REBIND_DONE,
	REBIND_REFUSED, /* the guest could not take it */
};

/* What block 1 says. block is REBIND_BLOCK_BYTES long. ret_message gets the guest's words with REFUSED, else "";
 * foreign text made fit to be shown. */
enum rebind_answer rebind_answer_parse(
        const uint8_t *block, const char *ref, char ret_message[static REBIND_MESSAGE_MAX]);

/* Waits until the guest has answered on the disk at path: 0; -EBADMSG with the guest's words when it refused;
 * -ETIMEDOUT; -ECANCELED once cancel_fd (-EBADF: none) is readable. Blocks: for pool threads. */
int rebind_disk_wait(
        const char *path, const char *ref, uint64_t timeout_usec, int cancel_fd, struct err *err);

/* Overwrites the payload; absent is success. For a disk that a guest does not let go of. */
int rebind_disk_erase(const char *path);

/* The same, and removes the disk. After it was unplugged. */
int rebind_disk_remove(const char *path);
