/* What an Ensure must say before a plugin is bothered with it. */
#pragma once

#include "lib/base/err.h"

#include "bc/v1/runtime.pb-c.h"

enum { USER_DATA_MAX = 64 * 1024 };

/* -EINVAL with words; current is the record of the same instance, or NULL: -EBUSY for what may not follow it. */
int ensure_check(const Bc__V1__EnsureRequest *request, const Bc__V1__EnsureRequest *current, struct err *err);
/* "instance:<id>:<what>" or nothing. */
int key_check(const char *id, const char *key, const char *what, struct err *err);
