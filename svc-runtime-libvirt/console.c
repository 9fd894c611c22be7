#include "svc-runtime-libvirt/console.h"

#include "svc-runtime-libvirt/line_marker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct console {
	struct job_pool *pool; /* weak, as the next two */
	const struct console_handlers *handlers;
	void *userdata;
	struct console_client *client; /* the one session */
	struct console_ring *ring;     /* owned */
	char *log_path;                /* owned; NULL: none of ours */
	uint64_t log_keep_bytes;
	uint64_t n_logged;      /* bytes since the log was looked at */
	struct serial_tap *tap; /* owned; NULL while the guest is off, or the port was lost */
	bool ended;             /* the instance is off */
	bool seen_output, seen_ready, seen_complete; /* since console_begin() */
	struct line_marker ready, complete;
};

int console_new(const struct console_options *options, const struct console_handlers *handlers,
        void *userdata, struct console **ret)
{
	struct console *console = calloc(1, sizeof(*console));

	if (!console)
		return -ENOMEM;
	*console = (struct console){
		.pool = options->pool,
		.handlers = handlers,
		.userdata = userdata,
		.log_keep_bytes = options->log_keep_bytes,
		.ended = true,
		.seen_output = true,
		.seen_ready = true,
		.ready.text = options->ready_marker,
		.complete.text = options->complete_marker,
	};
	int r = console_ring_open(options->ring_path, &console->ring);
	if (r == 0 && options->log_path && !(console->log_path = strdup(options->log_path)))
		r = -ENOMEM;
	if (r < 0) {
		(void)console_free(console);
		return r;
	}
	*ret = console;
	return 0;
}

static void end_client(struct console *console, int r, const char *why)
{
	struct console_client *client = TAKE_PTR(console->client);

	if (client)
		client->on_over(client, r, why);
}

struct console *console_free(struct console *console)
{
	if (!console)
		return NULL;
	end_client(console, -ENOENT, "the instance is being removed");
	console->tap = serial_tap_close(console->tap, console->pool);
	console->ring = console_ring_free(console->ring);
	free(console->log_path);
	free(console);
	return NULL;
}

void console_begin(struct console *console)
{
	console->seen_output = console->seen_ready = console->seen_complete = false;
	line_marker_begin(&console->ready);
	line_marker_begin(&console->complete);
	console->ended = false;
}

void console_go_on(struct console *console)
{
	console->ended = false;
}

/* QEMU writes its log at an offset of its own: a hole in the beginning does not disturb it. */
static void trim_log(struct console *console)
{
	CLEANUP_CLOSE int fd = open(console->log_path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	        (uint64_t)st.st_size <= console->log_keep_bytes)
		return;
	(void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
	        st.st_size - (off_t)console->log_keep_bytes);
}

static void on_output(const char *data, size_t n_data, uint64_t usec, void *userdata)
{
	struct console *console = userdata;

	/* a full disk costs the backlog, not the guest */
	(void)console_ring_write(console->ring, data, n_data);
	console->n_logged += n_data;
	if (console->log_path && console->n_logged >= console->log_keep_bytes / 4) {
		console->n_logged = 0;
		trim_log(console);
	}
	if (!console->seen_output) {
		console->seen_output = true;
		console->handlers->on_first_output(usec, console->userdata);
	}
	if (!console->seen_ready && line_marker_find(&console->ready, data, n_data)) {
		console->seen_ready = true;
		console->handlers->on_ready(usec, console->userdata);
	}
	if (!console->seen_complete && line_marker_find(&console->complete, data, n_data)) {
		console->seen_complete = true;
		console->handlers->on_complete(console->userdata);
	}
	if (console->client)
		console->client->on_more(console->client);
}

static void on_input_drained(void *userdata)
{
	struct console *console = userdata;

	if (console->client)
		console->client->on_more(console->client);
}

static void on_over(void *userdata)
{
	struct console *console = userdata;

	console->tap = serial_tap_close(console->tap, console->pool);
	console->handlers->on_detached(console->userdata);
	if (console->client)
		console->client->on_more(console->client);
}

static const struct serial_tap_handlers tap_handlers = {
	.on_output = on_output,
	.on_input_drained = on_input_drained,
	.on_over = on_over,
};

void console_attach(struct console *console, struct serial_tap *tap)
{
	console->tap = serial_tap_close(console->tap, console->pool);
	console->tap = tap;
	console->ended = false;
	serial_tap_start(tap, &tap_handlers, console);
	if (console->client)
		console->client->on_more(console->client); /* what it has typed meanwhile */
}

bool console_attached(const struct console *console)
{
	return console->tap != NULL;
}

void console_end(struct console *console)
{
	console->ended = true;
	if (console->client)
		console->client->on_more(console->client);
}

void console_shut_down(struct console *console)
{
	end_client(console, -EAGAIN, "this service ends: open the console again");
	console->tap = serial_tap_close(console->tap, console->pool);
}

int console_open(struct console *console, struct console_client *client, bool take_over, bool no_backlog,
        uint64_t *ret_backlog, struct err *err)
{
	if (console->client && !take_over)
		return err_set(err, -EBUSY, "the console is in use by %s; set take_over to end that session",
		        console->client->name);
	if (console->client) {
		char why[96];
		(void)snprintf(why, sizeof(why), "the session was taken over by %s", client->name);
		end_client(console, -EBUSY, why);
	}
	uint64_t end = console_ring_end(console->ring);
	client->offset = no_backlog ? end : console_ring_start(console->ring);
	console->client = client;
	*ret_backlog = end - client->offset;
	return 0;
}

void console_close(struct console *console, struct console_client *client)
{
	if (console->client == client)
		console->client = NULL;
}

size_t console_read(struct console *console, struct console_client *client, char *buf, size_t size)
{
	uint64_t start = console_ring_start(console->ring);

	if (client->offset < start) {
		int n = snprintf(buf, size, "\r\n[%" PRIu64 " bytes were not read in time]\r\n",
		        start - client->offset);
		client->offset = start;
		return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size;
	}
	ssize_t n = console_ring_read(console->ring, client->offset, buf, size);
	if (n > 0) {
		client->offset += (uint64_t)n;
		return (size_t)n;
	}
	if (console->ended && !console->tap && console->client == client)
		end_client(console, 0, "the instance is off");
	return 0;
}

ssize_t console_write(struct console *console, const void *data, size_t n_data)
{
	if (!console->tap)
		return -ENOTCONN;
	return (ssize_t)serial_tap_write(console->tap, data, n_data);
}
