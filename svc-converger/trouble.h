/* Why the last try of an instance failed, and when the next is due: in pauses that double, each ±25 %. */
#pragma once

#include "svc-converger/converger.h"

enum trouble_kind {
	TROUBLE_RETRIED,
	TROUBLE_CAPACITY, /* retried; not a fault: the host is full */
	TROUBLE_TERMINAL,
};

struct trouble {
	enum trouble_kind kind;
	sd_event_source *timer; /* owned; NULL when terminal */
	uint32_t failures;      /* in a row */
	uint64_t retry_usec;    /* realtime, for people; 0: terminal */
	bool is_due;
	char reason[40];
	char *message; /* owned; may be NULL */
};

struct trouble *trouble_free(struct trouble *trouble); /* accepts NULL, returns NULL */
/* The next try is due now. */
void trouble_end_pause(struct trouble *trouble);

/* A try failed, failures of them in a row now; 0: one more than so far. reason is CamelCase. Without memory it is tried
 * again without a pause. */
void instance_fail(struct converger *converger, struct instance *instance, enum trouble_kind kind,
        uint32_t failures, const char *reason, const char *message);
