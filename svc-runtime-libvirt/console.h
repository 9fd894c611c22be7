/* The serial port of a managed instance as its clients see it: what it said lately, what it says now, and one client
 * at a time that may type. Loop thread only. */
#pragma once

#include "svc-runtime-libvirt/console_ring.h"
#include "svc-runtime-libvirt/serial_tap.h"

#include <stdbool.h>
#include <sys/types.h>

struct console;

struct console_client {
	/* There is output to read, or room for input again. */
	void (*on_more)(struct console_client *client);
	/* Its session is over, and it is forgotten already: -EBUSY when another took it, 0 when the instance stopped and
	 * all output was read, else -errno; why for a person. */
	void (*on_over)(struct console_client *client, int r, const char *why);
	char name[64];   /* for the one who is refused: "uid 1000, pid 4711" */
	uint64_t offset; /* private: of the next byte to read */
};

struct console_handlers {
	/* Since console_begin(): the first byte, the line by which the guest says that it is ready, and the one by which a
	 * job says that it is complete. Each once; usec is monotonic. */
	void (*on_first_output)(uint64_t usec, void *userdata);
	void (*on_ready)(uint64_t usec, void *userdata);
	void (*on_complete)(void *userdata);
	/* The port is closed, by its guest's end or before: everything that came through it was read. */
	void (*on_detached)(void *userdata);
};

struct console_options {
	struct job_pool *pool; /* for ending streams; weak, as all here */
	const char *ring_path;
	/* QEMU's own log, whose beginning is given back to the file system as it grows; NULL: somebody else sees to it */
	const char *log_path;
	uint64_t log_keep_bytes;     /* of log_path */
	const char *ready_marker;    /* begins the line; "" for none; must stay */
	const char *complete_marker; /* the same */
};

int console_new(const struct console_options *options, const struct console_handlers *handlers,
        void *userdata, struct console **ret);
struct console *console_free(struct console *console); /* ends the client's session; accepts NULL */

/* A new run of the guest: its first output and its readiness are still to come. */
void console_begin(struct console *console);
/* The instance runs, whether its port is at hand or not. */
void console_go_on(struct console *console);
/* Consumes tap. */
void console_attach(struct console *console, struct serial_tap *tap);
bool console_attached(const struct console *console);
/* The instance is off: when the port has given its last bytes the client reads to the end and is told. */
void console_end(struct console *console);

/* This process ends: the port is let go, and the client told. The guest runs on. */
void console_shut_down(struct console *console);

/* -EBUSY, with who has it, unless take_over, which ends the other session. *ret_backlog: bytes from before. */
int console_open(struct console *console, struct console_client *client, bool take_over, bool no_backlog,
        uint64_t *ret_backlog, struct err *err);
void console_close(struct console *console, struct console_client *client);

/* The next bytes for the client; 0 when there are none now. Bytes that were overwritten before they were read are
 * announced in the text in their place. */
size_t console_read(struct console *console, struct console_client *client, char *buf, size_t size);
/* How many bytes were taken; the rest after on_more. -ENOTCONN while the port is away. */
ssize_t console_write(struct console *console, const void *data, size_t n_data);
