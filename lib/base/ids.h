/* The identifiers of the data model, validated once, where they enter a service. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>

enum {
	UUID_TEXT_MAX = 37, /* bytes with the NUL, as all of these */
	VOLUME_ID_MAX = 65,
	SERIAL_MAX = 21, /* what a virtio disk has room for */
	IFNAME_MAX = 16, /* IFNAMSIZ */
};

/* All accept NULL, which is not valid. */
bool uuid_is_valid(const char *s);      /* canonical: 8-4-4-4-12 lower-case hex digits */
bool digest_is_valid(const char *s);    /* sha256: and 64 lower-case hex digits */
bool volume_id_is_valid(const char *s); /* [a-z0-9-]{1,64} */
bool serial_is_valid(const char *s);    /* [A-Za-z0-9._-]{1,20} */
/* An interface name the kernel would take as it stands: 1…15 bytes, no '/', ':', '%', space or control
 * character, not "." or "..". */
bool ifname_is_valid(const char *s);

/* The same with words: 0, or -EINVAL and "what: 'value' is not …; write …" where what is the field's path. */
int uuid_check(const char *what, const char *s, struct err *err);
int digest_check(const char *what, const char *s, struct err *err);
int volume_id_check(const char *what, const char *s, struct err *err);
int serial_check(const char *what, const char *s, struct err *err);
int ifname_check(const char *what, const char *s, struct err *err);
