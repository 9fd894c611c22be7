/* The types a configuration key can have: their text, and what is accepted. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum conf_type {
	CONF_STRING,   /* char *, owned by the target; never NULL once loaded */
	CONF_PATH,     /* char *, absolute; "" when it has no default and is not given */
	CONF_BOOL,     /* bool: yes, no, true, false, on, off, 1, 0 */
	CONF_UINT,     /* uint64_t within min…max */
	CONF_SIZE,     /* uint64_t, bytes within min…max: 512M, 2G, 1024 */
	CONF_DURATION, /* uint64_t, microseconds within min…max: 5s, 2min 30s; a bare number is seconds */
	CONF_ENUM,     /* int: one of choices */
	CONF_LIST,     /* struct conf_list: items apart by spaces or commas; lines append, "" clears */
	CONF_UIDS,     /* struct conf_uids: user names and numbers, otherwise as a list */
};

enum { CONF_LIST_MAX = 1024 };

struct conf_list {
	char **items; /* owned */
	size_t n;
};

struct conf_uids {
	uid_t *items; /* owned */
	size_t n;
};

struct conf_choice {
	const char *name;
	int value;
};

struct conf_key {
	const char *section, *name;
	enum conf_type type;
	size_t offset;      /* of the member in the target struct */
	const char *preset; /* as it would be written; NULL for 0, "" or nothing */
	uint64_t min,
	        max; /* numbers; max 0: no bound. Texts and paths: max bytes, 0: 4095. Lists: max items */
	const struct conf_choice *choices; /* CONF_ENUM; ends with a NULL name */
	const char *help;                  /* one line for people */
};

/* Puts text into slot, releasing what was there; lists are appended to, "" clears them. -EINVAL with words
 * that say what is accepted, slot unchanged then; -ENOMEM. */
int conf_value_parse(const struct conf_key *key, const char *text, void *slot, struct err *err);
void conf_value_clear(const struct conf_key *key, void *slot);
/* "a whole number from 1 to 64". Returns buf. */
char *conf_value_accepted(const struct conf_key *key, char *buf, size_t size);
/* In a form that is read back as the same. */
void conf_value_print(const struct conf_key *key, const void *slot, FILE *f);
