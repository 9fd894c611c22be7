/* What libvirt says of a domain's state, in the words of bc.v1.Domain. Pure. */
#pragma once

#include <stdbool.h>

enum domain_state {
	DOMAIN_STOPPED,
	DOMAIN_RUNNING,
	DOMAIN_PAUSED,
	DOMAIN_STOPPING,
	DOMAIN_CRASHED, /* stopped, and not because anybody asked */
};

struct domain_condition {
	enum domain_state state;
	const char *reason;  /* CamelCase, "" when all is well; static */
	const char *message; /* for a person; static */
};

/* virt_state and virt_reason are virDomainState and its reason; asked: we told it to stop; panicked: a panic event came
 * since it was started, which the state alone cannot tell from a killed QEMU. */
struct domain_condition domain_condition_from_virt(
        int virt_state, int virt_reason, bool asked, bool panicked);

/* A QEMU process is there. */
bool domain_state_is_active(enum domain_state state);
const char *domain_state_to_string(enum domain_state state);
