/* The open serial port of one running domain: a libvirt stream that is always read. libvirt's thread does the reading
 * and writing, the loop gets what came in few pieces: a guest that writes byte by byte costs no post per byte. */
#pragma once

#include "lib/loop/job.h"

#include "lib/base/err.h"

#include <libvirt/libvirt.h>

struct serial_tap;

enum { SERIAL_TAP_BUFFER_BYTES = 64 * 1024 };

/* On the loop thread. */
struct serial_tap_handlers {
	/* Output; at usec (monotonic) the first byte of it was read. */
	void (*on_output)(const char *data, size_t n_data, uint64_t usec, void *userdata);
	void (*on_input_drained)(void *userdata);
	/* Nothing more will come: the guest is gone, or the connection. Close the tap. */
	void (*on_over)(void *userdata);
};

/* Opens the stream; for pool threads. Nothing is heard of until serial_tap_start(), but nothing is lost either. force
 * ends a session that somebody else has on the port. */
int serial_tap_open(
        struct loop *loop, virDomainPtr domain, bool force, struct serial_tap **ret, struct err *err);
/* On the loop thread. handlers and userdata stay until serial_tap_close(). */
void serial_tap_start(struct serial_tap *tap, const struct serial_tap_handlers *handlers, void *userdata);

/* Takes up to n_data bytes for the guest and says how many: the rest after on_input_drained. */
size_t serial_tap_write(struct serial_tap *tap, const void *data, size_t n_data);

/* No handler runs after this; the stream is ended by a job in pool. Accepts NULL, returns NULL. */
struct serial_tap *serial_tap_close(struct serial_tap *tap, struct job_pool *pool);
