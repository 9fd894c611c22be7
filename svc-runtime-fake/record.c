#include "svc-runtime-fake/record.h"

#include "lib/domain/state.h"

#include <string.h>

record *record_copy(const record *from)
{
	return (record *)message_copy(&from->base);
}

record *record_free(record *r)
{
	if (r)
		bc__fake__record__free_unpacked(r, NULL);
	return NULL;
}

bool record_is_active(const record *r)
{
	return domain_state_is_up(r->domain->state);
}
