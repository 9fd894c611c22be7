/* What a caller asks for, checked and put into netd's own words. */
#pragma once

#include "svc-netd/nics.h"

#include <bc/v1/netd.pb-c.h>

/* What this netd allows and presumes. */
struct request_policy {
	char *const *bridges; /* weak; allowed bridges and macvtap parents */
	size_t n_bridges;
	uint32_t queues_max; /* for a default count; an explicit one goes up to QUEUES_MAX */
	bool default_vhost;
	bool vhost_possible; /* /dev/vhost-net is there */
};

/* Each: 0, or -EINVAL, -EACCES or -EOPNOTSUPP with words that name the field. *ret is the caller's to
 * release with nic_request_done(). */
int request_bridge(const Bc__V1__PrepareBridgeRequest *message, const struct request_policy *policy,
        struct nic_request *ret, struct err *err);
int request_macvtap(const Bc__V1__PrepareMacvtapRequest *message, const struct request_policy *policy,
        struct nic_request *ret, struct err *err);
int request_filter(const Bc__V1__NicFilter *message, struct nic_filter *ret, struct err *err);
int request_instance(const char *instance_id, struct err *err);
int request_index(uint32_t index, struct err *err);
