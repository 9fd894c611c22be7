/* The interfaces of a plugin's domain: only those that netd prepared for its instance, and where rules guard it, really
 * those. */
#pragma once

#include "lib/base/err.h"

#include "bc/v1/plugin.pb-c.h"

#include <stdbool.h>

enum tap_use { TAP_ABSENT, TAP_IDLE, TAP_USED };

/* How an interface of this host is used: a TAP that no VMM has open carries nothing. */
typedef enum tap_use (*tap_use_fn)(const char *name);
enum tap_use tap_use(const char *name);

/* Rules guard it: what does not go through its TAPs would go round them. */
bool tap_is_guarded(const Bc__V1__InstanceSpec *spec);

/* For a domain that is up. record is NULL when nothing is known of the instance here: any TAP is one too many then.
 * -EPERM with words, and the reason as a status has it (static). */
int tap_check(const char *runtime, const Bc__V1__EnsureRequest *record, const Bc__V1__PluginDomain *domain,
        tap_use_fn use, const char **ret_reason, struct err *err);
