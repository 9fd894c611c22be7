#include "svc-runtime-libvirt/virt.h"

#include "lib/base/clock.h"
#include "lib/base/tsan.h"
#include "svc-runtime-libvirt/virt_err.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	KEEPALIVE_SECONDS = 5, /* a libvirtd that answers nothing for 20 s is taken for lost */
	KEEPALIVE_COUNT = 3,
	CALLBACKS_MAX = 8,
};
#define RETRY_MIN_USEC (100 * USEC_PER_MSEC)
#define RETRY_MAX_USEC (5 * USEC_PER_SEC)

struct source;

/* With what is registered on it: each of those keeps the connection open until it is taken off again. */
struct connection {
	virConnectPtr conn;           /* owned; NULL: none */
	struct source *source;        /* owned: a reference, for the callback of its end */
	int callbacks[CALLBACKS_MAX]; /* of domain events */
	size_t n_callbacks;
};

struct virt {
	struct loop *loop; /* weak, as the next four */
	struct job_pool *pool;
	const char *uri;
	const struct virt_handlers *handlers;
	void *userdata;
	struct look_paths paths;
	struct connection connection;
	bool opening;
	struct err trouble;     /* why there is no connection */
	uint64_t retry_usec;    /* the next pause */
	sd_event_source *timer; /* owned */
	/* libvirt's callbacks come here from other threads, and may come late */
	atomic_uint refs; /* the owner's, each source's and each post's */
	pthread_mutex_t gate;
	bool stopped;        /* by the gate */
	unsigned generation; /* by the gate; of the connection whose events count */
};

/* --- libvirt's own loop --- */

static void *run_events(void *arg)
{
	(void)arg;
	(void)pthread_setname_np(pthread_self(), "bc-virt-ev");
	for (;;)
		(void)virEventRunDefaultImpl();
	return NULL;
}

int virt_start_events(void)
{
	pthread_t thread;
	sigset_t all, before;

	/* the in-process driver logs as libvirtd does, notes on every guest included; errors reach us as errors */
	(void)setenv("LIBVIRT_DEBUG", "error", 0);
	if (virInitialize() < 0 || virEventRegisterDefaultImpl() < 0)
		return -EIO;
	virt_err_silence();
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&thread, NULL, run_events, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r)
		return -r;
	(void)pthread_detach(thread);
	return 0;
}

/* --- events, on that thread or on one that made a call --- */

static struct virt *virt_get(struct virt *virt)
{
	(void)atomic_fetch_add(&virt->refs, 1);
	return virt;
}

static void virt_put(struct virt *virt)
{
	if (atomic_fetch_sub(&virt->refs, 1) != 1)
		return;
	(void)pthread_mutex_destroy(&virt->gate);
	free(virt);
}

/* What a callback is registered with; one per connection, freed with the last of its callbacks. */
struct source {
	struct virt *virt; /* owned: a reference */
	unsigned generation;
	atomic_uint refs;
};

static void source_unref(void *p)
{
	struct source *source = p;

	TSAN_ACQUIRE(source);
	if (atomic_fetch_sub(&source->refs, 1) != 1)
		return;
	virt_put(source->virt);
	free(source);
}

struct event_post {
	struct loop_tag tag;
	struct virt *virt; /* owned: a reference */
	unsigned generation;
	bool closed; /* the connection is gone; event means nothing */
	struct virt_event event;
};

static void on_event_post(struct loop_tag *tag, bool ok);

static void post(struct source *source, struct event_post *what)
{
	TSAN_ACQUIRE(source);
	struct virt *virt = source->virt;

	what->tag.on_done = on_event_post;
	what->generation = source->generation;
	(void)pthread_mutex_lock(&virt->gate);
	if (virt->stopped || source->generation != virt->generation) {
		free(what);
	} else {
		what->virt = virt_get(virt);
		loop_post(virt->loop, &what->tag);
	}
	(void)pthread_mutex_unlock(&virt->gate);
}

static void post_event(void *opaque, virDomainPtr domain, const struct virt_event *event)
{
	struct event_post *what = calloc(1, sizeof(*what));

	/* An event lost for want of memory is made up for by the next look at everything. */
	if (!what)
		return;
	what->event = *event;
	if (virDomainGetUUIDString(domain, what->event.uuid) < 0)
		free(what);
	else
		post(opaque, what);
}

static int on_lifecycle(virConnectPtr conn, virDomainPtr domain, int event, int detail, void *opaque)
{
	(void)conn;
	post_event(opaque, domain,
	        &(struct virt_event){ .kind = VIRT_EVENT_LIFECYCLE, .event = event, .detail = detail });
	return 0;
}

static void on_reboot(virConnectPtr conn, virDomainPtr domain, void *opaque)
{
	(void)conn;
	post_event(opaque, domain, &(struct virt_event){ .kind = VIRT_EVENT_REBOOT });
}

static void on_metadata(virConnectPtr conn, virDomainPtr domain, int type, const char *ns_uri, void *opaque)
{
	(void)conn;
	(void)type;
	(void)ns_uri;
	post_event(opaque, domain, &(struct virt_event){ .kind = VIRT_EVENT_DEFINITION });
}

static void on_device_removed(virConnectPtr conn, virDomainPtr domain, const char *alias, void *opaque)
{
	struct virt_event event = { .kind = VIRT_EVENT_DEVICE_REMOVED };

	(void)conn;
	(void)snprintf(event.device, sizeof(event.device), "%s", alias);
	post_event(opaque, domain, &event);
}

static void on_watchdog(virConnectPtr conn, virDomainPtr domain, int action, void *opaque)
{
	(void)conn;
	(void)action;
	post_event(opaque, domain, &(struct virt_event){ .kind = VIRT_EVENT_STATE });
}

static void on_io_error(virConnectPtr conn, virDomainPtr domain, const char *path, const char *alias,
        int action, void *opaque)
{
	(void)conn;
	(void)path;
	(void)alias;
	(void)action;
	post_event(opaque, domain, &(struct virt_event){ .kind = VIRT_EVENT_STATE });
}

static void on_close(virConnectPtr conn, int reason, void *opaque)
{
	struct event_post *what = calloc(1, sizeof(*what));

	(void)conn;
	(void)reason;
	if (!what)
		return;
	what->closed = true;
	post(opaque, what);
}

static int register_events(struct connection *connection, struct source *source, struct err *err)
{
	static const struct {
		int id;
		virConnectDomainEventGenericCallback fn;
	} events[] = {
		{ VIR_DOMAIN_EVENT_ID_LIFECYCLE, VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle) },
		{ VIR_DOMAIN_EVENT_ID_REBOOT, VIR_DOMAIN_EVENT_CALLBACK(on_reboot) },
		{ VIR_DOMAIN_EVENT_ID_METADATA_CHANGE, VIR_DOMAIN_EVENT_CALLBACK(on_metadata) },
		{ VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED, VIR_DOMAIN_EVENT_CALLBACK(on_device_removed) },
		{ VIR_DOMAIN_EVENT_ID_WATCHDOG, VIR_DOMAIN_EVENT_CALLBACK(on_watchdog) },
		{ VIR_DOMAIN_EVENT_ID_IO_ERROR, VIR_DOMAIN_EVENT_CALLBACK(on_io_error) },
	};
	_Static_assert(ARRAY_SIZE(events) <= CALLBACKS_MAX, "room for each");
	virConnectPtr conn = connection->conn;

	TSAN_RELEASE(source); /* to libvirt's thread, by libvirt's locks */
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		atomic_fetch_add(&source->refs, 1);
		int id = virConnectDomainEventRegisterAny(
		        conn, NULL, events[i].id, events[i].fn, source, source_unref);
		if (id >= 0) {
			connection->callbacks[connection->n_callbacks++] = id;
			continue;
		}
		source_unref(source);
		/* the test driver lacks a few; without the first nothing would work */
		if (events[i].id == VIR_DOMAIN_EVENT_ID_LIFECYCLE)
			return virt_err(err, "registering for events of libvirt");
	}
	/* in-process drivers cannot be lost; libvirt says yes all the same, and never lets go of what it was given */
	atomic_fetch_add(&source->refs, 1);
	connection->source = source;
	(void)virConnectRegisterCloseCallback(conn, on_close, source, NULL);
	(void)virConnectSetKeepAlive(conn, KEEPALIVE_SECONDS, KEEPALIVE_COUNT);
	return 0;
}

/* For pool threads. */
static void connection_close(struct connection *connection)
{
	virConnectPtr conn = TAKE_PTR(connection->conn);

	if (!conn)
		return;
	for (size_t i = 0; i < connection->n_callbacks; i++)
		(void)virConnectDomainEventDeregisterAny(conn, connection->callbacks[i]);
	connection->n_callbacks = 0;
	(void)virConnectUnregisterCloseCallback(conn, on_close);
	if (connection->source)
		source_unref(TAKE_PTR(connection->source));
	(void)virConnectClose(conn);
}

/* --- opening --- */

struct open_job {
	struct job job;
	struct virt *virt; /* weak; run() reads what never changes */
	unsigned generation;
	struct connection connection;
	struct domain_look *looks;
	size_t n_looks;
	struct err err;
	int r;
};

static void open_run(struct job *job)
{
	struct open_job *open = CONTAINER_OF(job, struct open_job, job);
	struct virt *virt = open->virt;
	struct source *source = calloc(1, sizeof(*source));

	if (!source) {
		open->r = -ENOMEM;
		return;
	}
	*source = (struct source){ .virt = virt_get(virt), .generation = open->generation, .refs = 1 };
	open->connection.conn = virConnectOpen(virt->uri);
	if (!open->connection.conn)
		open->r = virt_err(&open->err, virt->uri);
	else
		open->r = register_events(&open->connection, source, &open->err);
	/* after the events are on: what changes while this is read is heard of */
	if (open->r == 0)
		open->r = domain_look_all(
		        open->connection.conn, &virt->paths, &open->looks, &open->n_looks, &open->err);
	if (open->r < 0)
		connection_close(&open->connection);
	source_unref(source);
}

static void start_opening(struct virt *virt);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	start_opening(userdata);
	return 0;
}

static void retry_later(struct virt *virt)
{
	uint64_t pause = virt->retry_usec;

	virt->retry_usec = pause * 2 > RETRY_MAX_USEC ? RETRY_MAX_USEC : pause * 2;
	(void)sd_event_source_set_time(virt->timer, clock_monotonic_usec() + pause);
	(void)sd_event_source_set_enabled(virt->timer, SD_EVENT_ONESHOT);
}

static void open_done(struct job *job)
{
	struct open_job *open = CONTAINER_OF(job, struct open_job, job);
	struct virt *virt = open->virt;

	virt->opening = false;
	if (open->r < 0) {
		virt->trouble = open->err;
		if (!virt->trouble.code)
			(void)err_set(&virt->trouble, open->r, "opening %s", virt->uri);
		if (!virt->stopped) {
			virt->handlers->on_lost(&virt->trouble, virt->userdata);
			retry_later(virt);
		}
	} else {
		virt->connection = open->connection;
		virt->trouble = (struct err){ 0 };
		virt->retry_usec = RETRY_MIN_USEC;
		if (!virt->stopped)
			virt->handlers->on_open(open->looks, open->n_looks, virt->userdata);
	}
	for (size_t i = 0; i < open->n_looks; i++)
		domain_look_done(&open->looks[i]);
	free(open->looks);
	free(open);
}

static void start_opening(struct virt *virt)
{
	if (virt->opening || virt->connection.conn || virt->stopped)
		return;
	struct open_job *open = calloc(1, sizeof(*open));
	if (open) {
		(void)pthread_mutex_lock(&virt->gate);
		open->generation = ++virt->generation;
		(void)pthread_mutex_unlock(&virt->gate);
		open->virt = virt;
		open->job = (struct job){ .run = open_run, .done = open_done, .key = "virt-open" };
		if (job_submit(virt->pool, &open->job) == 0) {
			virt->opening = true;
			return;
		}
		free(open);
	}
	retry_later(virt);
}

/* --- losing --- */

struct close_job {
	struct job job;
	struct connection connection;
};

static void close_run(struct job *job)
{
	connection_close(&CONTAINER_OF(job, struct close_job, job)->connection);
}

static void close_done(struct job *job)
{
	free(CONTAINER_OF(job, struct close_job, job));
}

static void lose(struct virt *virt, const struct err *why)
{
	if (!virt->connection.conn)
		return;
	struct close_job *c = calloc(1, sizeof(*c));
	if (c) {
		c->job = (struct job){ .run = close_run, .done = close_done, .key = "virt-close" };
		c->connection = virt->connection;
		job_submit_always(virt->pool, &c->job);
	} /* else it is leaked, a descriptor; a blocked loop would be worse */
	virt->connection = (struct connection){ 0 };
	virt->trouble = *why;
	virt->handlers->on_lost(why, virt->userdata);
	retry_later(virt);
}

static void on_event_post(struct loop_tag *tag, bool ok)
{
	struct event_post *what = CONTAINER_OF(tag, struct event_post, tag);
	struct virt *virt = what->virt;

	(void)ok;
	if (!virt->stopped && what->generation == virt->generation) {
		if (what->closed) {
			struct err why = { 0 };
			(void)err_set(
			        &why, -ENOTCONN, "%s: the connection was closed by libvirtd", virt->uri);
			lose(virt, &why);
		} else {
			virt->handlers->on_event(&what->event, virt->userdata);
		}
	}
	virt_put(virt);
	free(what);
}

void virt_suspect(struct virt *virt, const struct err *why)
{
	if (virt->connection.conn && virConnectIsAlive(virt->connection.conn) != 1)
		lose(virt, why);
}

virConnectPtr virt_ref(struct virt *virt)
{
	virConnectPtr conn = virt->connection.conn;

	return conn && virConnectRef(conn) == 0 ? conn : NULL;
}

bool virt_failed(const struct virt *virt)
{
	return !virt->connection.conn && virt->trouble.code != 0;
}

const char *virt_trouble(const struct virt *virt)
{
	if (virt->connection.conn)
		return "";
	return virt->trouble.code ? err_text(&virt->trouble, virt->trouble.code) : "libvirt is being opened";
}

int virt_new(struct loop *loop, struct job_pool *pool, const char *uri, const struct look_paths *paths,
        const struct virt_handlers *handlers, void *userdata, struct virt **ret)
{
	struct virt *virt = calloc(1, sizeof(*virt));

	if (!virt)
		return -ENOMEM;
	*virt = (struct virt){
		.loop = loop,
		.pool = pool,
		.uri = uri,
		.handlers = handlers,
		.userdata = userdata,
		.paths = *paths,
		.retry_usec = RETRY_MIN_USEC,
		.refs = 1,
	};
	(void)pthread_mutex_init(&virt->gate, NULL);
	int r = sd_event_add_time(
	        loop_event(loop), &virt->timer, CLOCK_MONOTONIC, UINT64_MAX, 1000, on_retry, virt);
	if (r < 0) {
		free(virt);
		return r;
	}
	(void)sd_event_source_set_description(virt->timer, "libvirt retry");
	start_opening(virt);
	*ret = virt;
	return 0;
}

void virt_stop(struct virt *virt)
{
	(void)pthread_mutex_lock(&virt->gate);
	virt->stopped = true;
	(void)pthread_mutex_unlock(&virt->gate);
	virt->timer = sd_event_source_disable_unref(virt->timer);
}

struct virt *virt_free(struct virt *virt)
{
	if (virt)
		virt_put(virt);
	return NULL;
}
