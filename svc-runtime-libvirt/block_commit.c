#include "svc-runtime-libvirt/block_commit.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/tsan.h"
#include "svc-runtime-libvirt/virt_err.h"
#include "svc-runtime-libvirt/xml_node.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* An event may be lost with libvirtd: this often the state itself is looked at. */
#define LOOK_USEC USEC_PER_SEC

/* Held by the caller and by libvirt's callback, whose last call can come late. */
struct wait {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned n_refs;
	unsigned n_events;
	int status; /* virConnectDomainEventBlockJobStatus of the last event; -1: none */
};

static void wait_unref(void *arg)
{
	struct wait *wait = arg;

	TSAN_ACQUIRE(wait);
	(void)pthread_mutex_lock(&wait->lock);
	bool last = --wait->n_refs == 0;
	(void)pthread_mutex_unlock(&wait->lock);
	if (!last)
		return;
	(void)pthread_cond_destroy(&wait->changed);
	(void)pthread_mutex_destroy(&wait->lock);
	free(wait);
}

static void cleanup_wait(struct wait **wait)
{
	if (*wait)
		wait_unref(*wait);
}

static struct wait *wait_new(void)
{
	struct wait *wait = calloc(1, sizeof(*wait));
	pthread_condattr_t attr;

	if (!wait)
		return NULL;
	wait->n_refs = 1;
	wait->status = -1;
	(void)pthread_mutex_init(&wait->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&wait->changed, &attr);
	(void)pthread_condattr_destroy(&attr);
	return wait;
}

static void on_block_job(
        virConnectPtr conn, virDomainPtr domain, const char *target, int type, int status, void *userdata)
{
	struct wait *wait = userdata;

	(void)conn;
	(void)domain;
	(void)target;
	(void)type;
	TSAN_ACQUIRE(wait);
	(void)pthread_mutex_lock(&wait->lock);
	wait->n_events++;
	wait->status = status;
	(void)pthread_cond_signal(&wait->changed);
	(void)pthread_mutex_unlock(&wait->lock);
}

/* Until an event came after the n_seen-th, or for LOOK_USEC. */
static void wait_event(struct wait *wait, unsigned n_seen)
{
	uint64_t until = clock_monotonic_usec() + LOOK_USEC;
	struct timespec deadline = { .tv_sec = (time_t)(until / USEC_PER_SEC),
		.tv_nsec = (long)(until % USEC_PER_SEC * NSEC_PER_USEC) };
	int r = 0;

	(void)pthread_mutex_lock(&wait->lock);
	while (wait->n_events == n_seen && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&wait->changed, &wait->lock, &deadline);
	(void)pthread_mutex_unlock(&wait->lock);
}

static unsigned wait_seen(struct wait *wait)
{
	(void)pthread_mutex_lock(&wait->lock);
	unsigned n = wait->n_events;
	(void)pthread_mutex_unlock(&wait->lock);
	return n;
}

static bool wait_failed(struct wait *wait)
{
	(void)pthread_mutex_lock(&wait->lock);
	bool failed = wait->status == VIR_DOMAIN_BLOCK_JOB_FAILED;
	(void)pthread_mutex_unlock(&wait->lock);
	return failed;
}

enum job_state {
	JOB_NONE,    /* and the disk is on the file below */
	JOB_LAYERED, /* none, and the disk is on a layer */
	JOB_COPYING,
	JOB_READY,
};

/* 0 and *ret; what the running definition says is the truth, not the events. */
static int job_look(
        virDomainPtr domain, const char *target, const char *below, enum job_state *ret, struct err *err)
{
	CLEANUP_FREE char *text = virDomainGetXMLDesc(domain, 0);
	CLEANUP_XML_DOC xmlDoc *doc = NULL;

	if (!text)
		return virt_err(err, "definition of a domain");
	int r = xml_parse(text, strlen(text), &doc, err);
	if (r < 0)
		return r;
	const xmlNode *disk = xml_child(xml_child(xmlDocGetRootElement(doc), "devices"), "disk");
	while (disk && !xml_attr_is(xml_child(disk, "target"), "dev", target))
		disk = xml_next(disk, "disk");
	if (!disk)
		return err_set(err, -ENOENT, "the guest has no disk %s", target);
	const xmlNode *mirror = xml_child(disk, "mirror");
	if (mirror)
		*ret = xml_attr_is(mirror, "ready", "yes") ? JOB_READY : JOB_COPYING;
	else
		*ret = xml_attr_is(xml_child(disk, "source"), "file", below) ? JOB_NONE : JOB_LAYERED;
	return 0;
}

static int job_step(virDomainPtr domain, const char *target, const char *below, enum job_state state,
        struct wait *wait, unsigned n_seen, bool *begun, struct err *err)
{
	switch (state) {
	case JOB_NONE:
		return 0;
	case JOB_LAYERED:
		if (*begun) {
			/* a pivot under way, or a job that failed: the next event or look tells */
			if (wait_failed(wait))
				return err_set(err, -EIO, "committing the layer of disk %s failed", target);
			wait_event(wait, n_seen);
			return 0;
		}
		if (virDomainBlockCommit(domain, target, below, NULL, 0, VIR_DOMAIN_BLOCK_COMMIT_ACTIVE) < 0)
			return virt_err(err, "commit of a layer");
		*begun = true;
		return 0;
	case JOB_COPYING:
		*begun = true;
		wait_event(wait, n_seen);
		return 0;
	case JOB_READY:
		*begun = true;
		if (virDomainBlockJobAbort(domain, target, VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT) < 0)
			return virt_err(err, "end of a layer");
		return 0;
	}
	return -EINVAL;
}

static int job_run(virDomainPtr domain, const char *target, const char *below, struct wait *wait,
        uint64_t deadline_usec, const struct ending *ending, struct err *err)
{
	enum job_state state = JOB_LAYERED;
	bool begun = false;

	for (;;) {
		unsigned n_seen = wait_seen(wait);
		int r = virDomainIsActive(domain);
		if (r <= 0)
			return r < 0 ? virt_err(err, "state of a domain")
			             : err_set(err, -EPIPE, "the guest ended before its layer was committed");
		r = job_look(domain, target, below, &state, err);
		if (r == 0 && state == JOB_NONE)
			return 0;
		if (r == 0 && ending_begun(ending))
			return ending_refuse(err, "the commit of a layer");
		if (r == 0 && clock_monotonic_usec() >= deadline_usec)
			return err_set(
			        err, -ETIMEDOUT, "the layer of disk %s is still being committed", target);
		if (r == 0)
			r = job_step(domain, target, below, state, wait, n_seen, &begun, err);
		if (r < 0)
			return r;
	}
}

int block_commit_active(virConnectPtr conn, virDomainPtr domain, const char *target, const char *below,
        uint64_t timeout_usec, const struct ending *ending, struct err *err)
{
	__attribute__((cleanup(cleanup_wait))) struct wait *wait = wait_new();

	if (!wait)
		return -ENOMEM;
	wait->n_refs++;
	TSAN_RELEASE(wait); /* to libvirt's thread, by libvirt's locks */
	int id = virConnectDomainEventRegisterAny(conn, domain, VIR_DOMAIN_EVENT_ID_BLOCK_JOB_2,
	        VIR_DOMAIN_EVENT_CALLBACK(on_block_job), wait, wait_unref);
	if (id < 0) {
		int r = virt_err(err, "events of a disk");
		wait_unref(wait);
		return r;
	}
	int r = job_run(domain, target, below, wait, clock_monotonic_usec() + timeout_usec, ending, err);
	(void)virConnectDomainEventDeregisterAny(conn, id);
	return r;
}
