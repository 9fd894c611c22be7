/* The configuration of bc-converger: /etc/bc/converger.conf. */
#pragma once

#include "lib/conf/conf.h"
#include "svc-converger/control_plane.h"
#include "svc-converger/converger.h"
#include "svc-converger/transfer.h"

struct converger_conf {
	char *node_id; /* owned, as all texts */
	char *run_dir;
	char *netd_socket;
	char *intelligence_socket;
	char *instances_dir;
	char *boot_id_file;
	uint64_t resync_usec;
	uint64_t retry_min_usec, retry_max_usec;
	uint64_t link_retry_min_usec, link_retry_max_usec;
	uint64_t call_timeout_usec, change_timeout_usec, snapshot_timeout_usec, stop_grace_usec, stable_usec;
	uint64_t image_keep_usec;
	uint64_t n_parallel;
	char *control_plane, *control_plane_ca, *control_plane_certificate, *control_plane_key;
	uint64_t control_plane_retry_min_usec, control_plane_retry_max_usec;
	char *transfer_ca;
	uint64_t transfer_stall_usec;
	struct transfer_config transfer; /* as converger_conf_options() made it of the two */
};

extern const struct conf_key converger_conf_keys[];
extern const size_t n_converger_conf_keys;

/* Options that point into conf. node_id is filled with fallback where the configuration leaves it empty. */
struct converger_options converger_conf_options(
        struct converger_conf *conf, const char *data_dir, const char *node_id_fallback);
/* The control plane to dial; false: none is configured. */
bool converger_conf_control_plane(const struct converger_conf *conf, struct control_plane_options *ret);
/* -EINVAL with words when what is there of the control plane is not enough to dial it. */
int converger_conf_check(const struct converger_conf *conf, struct err *err);
/* This machine's id for nodes that were given none: 32 hex digits, or the host name where there is no machine-id. */
void node_id_default(char ret[static 65]);
