/* Records: deep copies and small questions. */
#pragma once

#include "fake.pb-c.h"
#include "lib/base/cleanup.h"
#include "lib/rpc/message.h"

#include <stdbool.h>

typedef Bc__Fake__Record record;

/* NULL without memory. */
record *record_copy(const record *from);
/* Accepts NULL; returns NULL. */
record *record_free(record *r);
static inline const char *record_id(const record *r)
{
	return r->domain->id;
}

/* Running, paused or on its way down: it holds memory, CPUs and volumes. */
bool record_is_active(const record *r);

static inline void cleanup_record(record **r)
{
	(void)record_free(*r);
}
#define CLEANUP_RECORD __attribute__((cleanup(cleanup_record)))
