#include "svc-runtime-libvirt/serial_tap.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/tsan.h"
#include "svc-runtime-libvirt/port_lock.h"
#include "svc-runtime-libvirt/virt_err.h"
#include "svc-runtime-libvirt/xml_node.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 4096 };

struct serial_tap {
	struct loop *loop;   /* weak */
	virStreamPtr stream; /* owned until it is closed; not used once removed is set */
	const struct serial_tap_handlers *handlers; /* loop thread; NULL before start and after close */
	void *userdata;

	/* The loop's, the stream callback's, a post's. Not by the lock: libvirt lets the callback's go with its own lock
	 * on the stream held, and we ask things of the stream with ours held. */
	atomic_uint refs;

	pthread_mutex_t lock; /* of everything below; nothing that may wait is done with it held */
	char *output;         /* owned */
	size_t n_output;
	uint64_t output_usec; /* when the first byte of output was read */
	char *input;          /* owned */
	size_t n_input;
	bool over;    /* the stream gave EOF or an error */
	bool removed; /* its callback is */
	bool drained; /* input was sent since the last post */
	bool started;
	bool posted;
	int armed;           /* events the stream wakes us for */
	struct loop_tag tag; /* of the one post in flight */
	struct job close_job;
};

static void unref(struct serial_tap *tap)
{
	if (atomic_fetch_sub(&tap->refs, 1) != 1)
		return;
	(void)pthread_mutex_destroy(&tap->lock);
	free(tap->output);
	free(tap->input);
	free(tap);
}

static void on_freed(void *opaque)
{
	TSAN_ACQUIRE(opaque);
	unref(opaque);
}

static void on_post(struct loop_tag *tag, bool ok);

/* With the lock held. */
static void post(struct serial_tap *tap)
{
	if (tap->posted || !tap->started)
		return;
	tap->posted = true;
	atomic_fetch_add(&tap->refs, 1);
	tap->tag.on_done = on_post;
	loop_post(tap->loop, &tap->tag);
}

/* With the lock held: what the stream is to wake us for. */
static int wanted_events(const struct serial_tap *tap)
{
	int events = VIR_STREAM_EVENT_ERROR | VIR_STREAM_EVENT_HANGUP;

	if (tap->n_output < SERIAL_TAP_BUFFER_BYTES)
		events |= VIR_STREAM_EVENT_READABLE;
	if (tap->n_input > 0)
		events |= VIR_STREAM_EVENT_WRITABLE;
	return events;
}

/* With the lock held. */
static void rearm(struct serial_tap *tap)
{
	int wanted = wanted_events(tap);

	if (tap->removed || wanted == tap->armed)
		return;
	tap->armed = wanted;
	(void)virStreamEventUpdateCallback(tap->stream, wanted);
}

/* False when there is no room for it. */
static bool output_add(struct serial_tap *tap, const char *data, size_t n_data)
{
	bool fits = n_data <= SERIAL_TAP_BUFFER_BYTES - tap->n_output;

	if (fits && !tap->output && !(tap->output = malloc(SERIAL_TAP_BUFFER_BYTES)))
		fits = false;
	if (fits) {
		if (tap->n_output == 0)
			tap->output_usec = clock_monotonic_usec();
		memcpy(tap->output + tap->n_output, data, n_data);
		tap->n_output += n_data;
	}
	return fits;
}

/* On libvirt's thread alone, as write_some(): who else takes output only makes room. */
static void read_some(struct serial_tap *tap, virStreamPtr stream)
{
	char data[READ_BYTES];

	for (;;) {
		(void)pthread_mutex_lock(&tap->lock);
		size_t room = SERIAL_TAP_BUFFER_BYTES - tap->n_output;
		(void)pthread_mutex_unlock(&tap->lock);
		if (room == 0)
			return;
		int n = virStreamRecv(stream, data, room < sizeof(data) ? room : sizeof(data));
		if (n == -2)
			return;
		(void)pthread_mutex_lock(&tap->lock);
		if (n <= 0 || !output_add(tap, data, (size_t)n))
			tap->over = true;
		bool over = tap->over;
		(void)pthread_mutex_unlock(&tap->lock);
		if (over)
			return;
	}
}

static void write_some(struct serial_tap *tap, virStreamPtr stream)
{
	char data[READ_BYTES];

	for (;;) {
		(void)pthread_mutex_lock(&tap->lock);
		size_t n_data = tap->n_input < sizeof(data) ? tap->n_input : sizeof(data);
		memcpy(data, tap->input ? tap->input : "", n_data);
		tap->drained |= n_data == 0;
		(void)pthread_mutex_unlock(&tap->lock);
		if (n_data == 0)
			return;
		int n = virStreamSend(stream, data, n_data);
		if (n == -2)
			return;
		(void)pthread_mutex_lock(&tap->lock);
		if (n <= 0) {
			tap->over = true;
		} else {
			tap->n_input -= (size_t)n;
			memmove(tap->input, tap->input + n, tap->n_input);
		}
		(void)pthread_mutex_unlock(&tap->lock);
		if (n <= 0)
			return;
	}
}

static void on_stream(virStreamPtr stream, int events, void *opaque)
{
	struct serial_tap *tap = opaque;
	bool remove = false;

	TSAN_ACQUIRE(tap);
	(void)pthread_mutex_lock(&tap->lock);
	bool removed = tap->removed;
	(void)pthread_mutex_unlock(&tap->lock);
	if (removed)
		return; /* our own abort, on another thread */
	if (events & (VIR_STREAM_EVENT_READABLE | VIR_STREAM_EVENT_HANGUP | VIR_STREAM_EVENT_ERROR))
		read_some(tap, stream);
	if (events & VIR_STREAM_EVENT_WRITABLE)
		write_some(tap, stream);
	(void)pthread_mutex_lock(&tap->lock);
	/* a hangup whose bytes do not all fit is heard of again */
	if ((events & (VIR_STREAM_EVENT_HANGUP | VIR_STREAM_EVENT_ERROR)) &&
	        tap->n_output < SERIAL_TAP_BUFFER_BYTES)
		tap->over = true;
	post(tap);
	if (tap->over && !tap->removed)
		remove = tap->removed = true;
	rearm(tap);
	(void)pthread_mutex_unlock(&tap->lock);
	if (remove)
		(void)virStreamEventRemoveCallback(stream);
}

static int stream_open(virDomainPtr domain, bool force, virStreamPtr *ret, struct err *err)
{
	virStreamPtr stream = virStreamNew(virDomainGetConnect(domain), VIR_STREAM_NONBLOCK);
	unsigned flags = force ? VIR_DOMAIN_CONSOLE_FORCE : VIR_DOMAIN_CONSOLE_SAFE;

	if (!stream)
		return virt_err(err, "serial port");
	if (virDomainOpenConsole(domain, NULL, stream, flags) < 0) {
		int r = virt_err(err, "serial port");
		(void)virStreamFree(stream);
		return r;
	}
	*ret = stream;
	return 0;
}

/* True when it was in the way. The system's libvirtd has locks that are not ours to remove. */
static bool drop_stale_lock(virDomainPtr domain)
{
	CLEANUP_FREE char *text = virDomainGetXMLDesc(domain, 0);
	CLEANUP_XML_DOC xmlDoc *doc = NULL;
	char port[64];

	if (!text || xml_parse(text, strlen(text), &doc, NULL) < 0)
		return false;
	const xmlNode *console = xml_at(xmlDocGetRootElement(doc), "devices/console");
	return xml_attr(console, "tty", port, sizeof(port)) == 0 &&
	        port_lock_drop_stale(PORT_LOCK_DIR, port) > 0;
}

int serial_tap_open(
        struct loop *loop, virDomainPtr domain, bool force, struct serial_tap **ret, struct err *err)
{
	struct serial_tap *tap = calloc(1, sizeof(*tap));

	if (!tap)
		return -ENOMEM;
	tap->loop = loop;
	atomic_init(&tap->refs, 1);
	(void)pthread_mutex_init(&tap->lock, NULL);
	int r = stream_open(domain, force, &tap->stream, err);
	if (r < 0 && drop_stale_lock(domain))
		r = stream_open(domain, force, &tap->stream, err);
	if (r == 0) {
		atomic_fetch_add(&tap->refs, 1);
		tap->armed = wanted_events(tap);
		TSAN_RELEASE(tap); /* to libvirt's thread, by libvirt's locks */
		if (virStreamEventAddCallback(tap->stream, tap->armed, on_stream, tap, on_freed) < 0) {
			r = virt_err(err, "serial port");
			(void)virStreamAbort(tap->stream);
			(void)virStreamFree(tap->stream);
			unref(tap);
		}
	}
	if (r < 0) {
		unref(tap);
		return r;
	}
	*ret = tap;
	return 0;
}

static void on_post(struct loop_tag *tag, bool ok)
{
	struct serial_tap *tap = CONTAINER_OF(tag, struct serial_tap, tag);

	(void)ok;
	(void)pthread_mutex_lock(&tap->lock);
	tap->posted = false;
	CLEANUP_FREE char *output = TAKE_PTR(tap->output);
	size_t n_output = tap->n_output;
	uint64_t usec = tap->output_usec;
	tap->n_output = 0;
	bool drained = tap->drained, over = tap->over;
	tap->drained = false;
	rearm(tap);
	(void)pthread_mutex_unlock(&tap->lock);

	if (tap->handlers && n_output)
		tap->handlers->on_output(output, n_output, usec, tap->userdata);
	if (tap->handlers && drained)
		tap->handlers->on_input_drained(tap->userdata);
	if (tap->handlers && over)
		tap->handlers->on_over(tap->userdata);
	unref(tap);
}

void serial_tap_start(struct serial_tap *tap, const struct serial_tap_handlers *handlers, void *userdata)
{
	(void)pthread_mutex_lock(&tap->lock);
	tap->handlers = handlers;
	tap->userdata = userdata;
	tap->started = true;
	if (tap->n_output || tap->over)
		post(tap);
	(void)pthread_mutex_unlock(&tap->lock);
}

size_t serial_tap_write(struct serial_tap *tap, const void *data, size_t n_data)
{
	(void)pthread_mutex_lock(&tap->lock);
	if (!tap->input)
		tap->input = malloc(SERIAL_TAP_BUFFER_BYTES);
	size_t room = tap->input ? SERIAL_TAP_BUFFER_BYTES - tap->n_input : 0;
	size_t n = n_data < room ? n_data : room;
	if (n) {
		memcpy(tap->input + tap->n_input, data, n);
		tap->n_input += n;
	}
	rearm(tap);
	(void)pthread_mutex_unlock(&tap->lock);
	return n;
}

static void close_run(struct job *job)
{
	struct serial_tap *tap = CONTAINER_OF(job, struct serial_tap, close_job);

	(void)pthread_mutex_lock(&tap->lock);
	bool remove = !tap->removed;
	tap->removed = true;
	(void)pthread_mutex_unlock(&tap->lock);
	if (remove)
		(void)virStreamEventRemoveCallback(tap->stream);
	(void)virStreamAbort(tap->stream);
	(void)virStreamFree(tap->stream);
}

static void close_done(struct job *job)
{
	unref(CONTAINER_OF(job, struct serial_tap, close_job));
}

struct serial_tap *serial_tap_close(struct serial_tap *tap, struct job_pool *pool)
{
	if (!tap)
		return NULL;
	(void)pthread_mutex_lock(&tap->lock);
	tap->handlers = NULL;
	tap->started = false;
	(void)pthread_mutex_unlock(&tap->lock);
	tap->close_job = (struct job){ .run = close_run, .done = close_done };
	job_submit_always(pool, &tap->close_job);
	return NULL;
}
