/* What is said of the node beside its instances: services, memory, volumes, what the host is. */
#pragma once

#include "svc-converger/converger.h"
#include "svc-converger/runtimes.h"

#include "bc/v1/converger.pb-c.h"
#include "bc/v1/status.pb-c.h"

enum { DRIVERS_MAX = RUNTIMES_MAX + 3 }; /* netd, intelligence, a control plane */

struct driver_reports {
	Bc__V1__DriverStatus items[DRIVERS_MAX];
	Bc__V1__DriverStatus *pointers[DRIVERS_MAX];
	size_t n;
};
/* Texts are weak: valid until control returns to the loop. */
void driver_reports_init(const struct converger *converger, struct driver_reports *ret);

struct volume_reports {
	Bc__V1__VolumeStatus **pointers;
	size_t n, n_max;
};
/* One volume, or every one where id is "". -ENOMEM. */
int volume_reports_init(struct converger *converger, const char *id, struct volume_reports *ret);
void volume_reports_done(struct volume_reports *reports);

void capacity_report(const struct converger *converger, Bc__V1__Capacity *ret);
/* Of the whole instances section: NoInstanceRuntime, or "". */
const char *node_reason(const struct converger *converger, const char **ret_message);

enum { NODE_FEATURES_MAX = 16 };
/* What this node can do, as Hello says it; static texts. Returns how many. */
size_t node_features(const struct converger *converger, char *ret[static NODE_FEATURES_MAX]);

struct node_inventory {
	Bc__V1__NodeInventory message;
	uint32_t numa_nodes[HOST_NODES_MAX];
	char cpu_model[128], kernel[80], hostname[80];
	Bc__V1__NodeSpec *node; /* owned; for the GPUs */
};
void node_inventory_init(struct converger *converger, struct node_inventory *ret);
void node_inventory_done(struct node_inventory *inventory);
