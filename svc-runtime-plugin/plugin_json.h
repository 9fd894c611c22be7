/* The JSON that Plugin.Invoke carries (bc/v1/plugin.proto): arguments out, results in. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/secret.h"

#include "bc/v1/plugin.pb-c.h"

enum {
	PLUGIN_ARGUMENTS_MAX = 1 << 20, /* bytes */
	PLUGIN_DOMAINS_MAX = 10000,
	PLUGIN_TAPS_MAX = 100, /* of one domain */
	PLUGIN_PIDS_MAX = 64,
};

/* "RUNNING", "STOPPED", "PAUSED"; NULL for what is no wish. */
const char *plugin_state_word(Bc__V1__InstanceSpec__DesiredState state);

/* *ret is the instance as a plugin sees it, for people too; owned by the caller. -ENOMEM. */
int plugin_instance_text(const Bc__V1__EnsureRequest *record, char **ret);
/* What apply takes. user_data and restore_path are NULL but for the first one. *ret holds text that may be secret.
 * -EFBIG: over PLUGIN_ARGUMENTS_MAX. */
int plugin_apply_arguments(const Bc__V1__EnsureRequest *record, Bc__V1__InstanceSpec__DesiredState state,
        struct secret *user_data, const char *restore_path, struct secret **ret, struct err *err);

/* -EBADMSG with words for what is no such result. All are freed by the caller. */
int plugin_read_domain(const char *text, Bc__V1__PluginDomain **ret, struct err *err);
/* Ids are canonical UUIDs, and unique. */
int plugin_read_domains(const char *text, Bc__V1__PluginDomain ***ret, size_t *ret_n, struct err *err);
void plugin_domains_free(Bc__V1__PluginDomain **domains, size_t n);
