/* Every domain the fake has, what the active ones use, and the order in which they last changed. */
#pragma once

#include "svc-runtime-fake/record.h"
#include "svc-runtime-fake/state_file.h"

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct domains;

/* What the active managed domains use together. */
struct usage {
	uint64_t vcpus;
	uint64_t memory_bytes;
};

/* Reads the state file. When boot_id is not the one it was written on, every domain is stopped: that is
 * what a reboot does to VMs. */
int domains_open(const char *path, const char *boot_id, struct domains **ret, struct err *err);
struct domains *domains_close(struct domains *domains);

const record *domains_get(const struct domains *domains, const char *id); /* NULL when there is none */
size_t domains_count(const struct domains *domains);
struct usage domains_usage(const struct domains *domains);
/* The id of an active domain other than except that has the volume open for writing; NULL when there is
 * none. */
const char *domains_writer_of(const struct domains *domains, const char *volume_id, const char *except);

/* Both write the state file first; on failure nothing has changed. put takes r in either case. */
int domains_put(struct domains *domains, record *r_consume, struct err *err);
int domains_remove(struct domains *domains, const char *id, struct err *err);

/* --- the order of changes: each domain is in it once, at its last change; a removed one stays as a
 * gravestone --- */

/* A reader of it. One that is behind sees the newest state of each domain, not every step there. */
struct change_cursor {
	struct change *next; /* weak; NULL: nothing new */
	uint64_t born;       /* gravestones older than the cursor are none of its business */
	struct change_cursor *others;
	struct domains *domains; /* weak */
};

void change_cursor_init(struct change_cursor *cursor, struct domains *domains); /* at the very first */
void change_cursor_done(struct change_cursor *cursor);
/* The next domain that changed: its record, or NULL in *ret_record for one that is gone. False: nothing
 * new. */
bool change_cursor_next(struct change_cursor *cursor, const char **ret_id, const record **ret_record);
/* fn runs after every put and remove. */
void domains_on_change(struct domains *domains, void (*fn)(void *userdata), void *userdata);
/* Gravestones that wait for a slow cursor. */
size_t domains_gravestones(const struct domains *domains);
