/* The one connection to libvirt, kept: opened, watched over, and opened anew with every callback registered again.
 *
 * libvirt's calls block, so they are made by jobs, which borrow the connection with virt_ref(). Its event loop runs for
 * ever on a thread of its own, "bc-virt-ev", and its callbacks do nothing but post to the loop. */
#pragma once

#include "lib/base/ids.h"
#include "lib/loop/job.h"
#include "svc-runtime-libvirt/domain_look.h"

#include <libvirt/libvirt.h>

struct virt;

enum virt_event_kind {
	VIRT_EVENT_LIFECYCLE,
	VIRT_EVENT_REBOOT,
	VIRT_EVENT_DEFINITION,     /* metadata or a device changed: read the XML again */
	VIRT_EVENT_DEVICE_REMOVED, /* as above, and device says which */
	VIRT_EVENT_STATE,          /* something else worth a look: an I/O error, the watchdog */
};

struct virt_event {
	enum virt_event_kind kind;
	char uuid[UUID_TEXT_MAX];
	int event; /* virDomainEventType, of VIRT_EVENT_LIFECYCLE */
	int detail;
	char device[64]; /* alias, of VIRT_EVENT_DEVICE_REMOVED */
};

/* All on the loop thread. */
struct virt_handlers {
	/* The connection is there, its events are on, and this is all it has. */
	void (*on_open)(struct domain_look *looks, size_t n_looks, void *userdata);
	void (*on_event)(const struct virt_event *event, void *userdata);
	/* It is gone; it is being opened again. why says what happened. */
	void (*on_lost)(const struct err *why, void *userdata);
};

/* Once per process, before the first connection, with every signal blocked: libvirt knows one event loop. */
int virt_start_events(void);

/* uri must outlive it. Opens at once, in pool, which jobs of the caller may share. */
int virt_new(struct loop *loop, struct job_pool *pool, const char *uri, const struct look_paths *paths,
        const struct virt_handlers *handlers, void *userdata, struct virt **ret);

/* The connection, referenced: the caller ends it with virConnectClose(). NULL while there is none. Loop thread. */
virConnectPtr virt_ref(struct virt *virt);
/* A call came back with -ENOTCONN: the connection is looked after. Loop thread. */
void virt_suspect(struct virt *virt, const struct err *why);
/* It could not be opened, or was lost; false before the first try has ended. */
bool virt_failed(const struct virt *virt);
/* Why there is no connection, naming it; "" while there is one. */
const char *virt_trouble(const struct virt *virt);
/* No callback and no handler runs after this. What libvirt itself holds stays: its threads cannot be ended. */
void virt_stop(struct virt *virt);
/* After virt_stop(), with no job of its own under way. Accepts NULL. */
struct virt *virt_free(struct virt *virt);
