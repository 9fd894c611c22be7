/* One file on its way in or out, by a bc-transfer process that can be ended at any moment. Loop thread only. */
#pragma once

#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "svc-converger/transfer/wire.h"

#include <stdint.h>
#include <systemd/sd-event.h>

struct transfer;

struct transfer_config {
	const char *program; /* bc-transfer's path; weak. NULL: beside this process's own program */
	const char *ca_path; /* PEM of the authorities to trust; NULL: the system's */
	uint64_t stall_sec;  /* below 1 KiB/s for so long a transfer is given up; 0: 60 */
};

struct transfer_result {
	int r; /* 0 or -errno */
	struct err error;
	bool permanent; /* trying again is useless until something changes */
	uint64_t size_bytes;
};

struct transfer_request {
	bool upload;
	const char *url;     /* file: or https: */
	int fd;              /* weak; the file to fill (read-write) or to send */
	uint64_t offset;     /* download: bytes that are there already */
	uint64_t size_bytes; /* of the whole; download: 0 when unknown */
	uint64_t max_bytes;  /* download: no file gets larger */
	const char *digest;  /* what the whole must have */
	void (*on_progress)(uint64_t done_bytes, uint64_t total_bytes, void *userdata); /* may be NULL */
	void (*on_done)(const struct transfer_result *result, void *userdata); /* may call transfer_free() */
	void *userdata;
};

/* Starts the process; on_done runs exactly once, later, unless transfer_free() comes first. */
int transfer_start(sd_event *event, const struct transfer_config *config,
        const struct transfer_request *request, struct transfer **ret, struct err *err);
/* Kills what runs. Nothing is called any more. Accepts NULL. */
struct transfer *transfer_free(struct transfer *transfer);
CLEANUP_DEFINE(transfer, transfer_free)
