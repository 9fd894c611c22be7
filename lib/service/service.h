/* What every daemon's main() shares: arguments, configuration, the socket, readiness, watchdog, draining.
 *
 *   int main(int argc, char **argv)
 *   {
 *           struct netd netd = { 0 };
 *           const struct conf_table table = {
 *                   .keys = netd_keys, .n_keys = N_NETD_KEYS, .target = &netd.conf };
 *
 *           return service_main(argc, argv, &(struct service_options){ .name = "netd", .tables = &table,
 *                   .n_tables = 1, .start = netd_start, .stop = netd_stop, .userdata = &netd });
 *   }
 *
 * A service called NAME reads /etc/bc/NAME.conf, listens on /run/bc/NAME.sock (or the socket systemd gives)
 * and logs as bc-NAME. Its common keys are those of [service]. It exits with 0 after SIGTERM or SIGINT and a drain
 * (what threads are still at when as long has passed again, 1 s to 10 s, is left behind, as a kill would leave it),
 * 64 for a bad command line, 78 for a bad configuration, 1 for every other failure. */
#pragma once

#include "lib/conf/conf.h"
#include "lib/loop/loop.h"
#include "lib/rpc/server.h"

struct service;

/* Bytes of the path of a directory of data, and of a socket, without the NUL. What is below that directory still fits
 * where its path goes: into buffers of the services, libvirt's definitions, headers of disks. */
enum { SERVICE_DIR_MAX = 256, SERVICE_SOCKET_MAX = 107 };

struct service_options {
	const char *name; /* weak, as all here */
	const struct conf_table *tables;
	size_t n_tables;
	/* What no single key can tell is wrong; a failure is one of the configuration. May be NULL. */
	int (*check)(const struct service *service, void *userdata, struct err *err);
	/* Builds everything and adds the RPC services; the socket answers afterwards. A failure ends the
	 * service; stop then runs too, on what was built. */
	int (*start)(struct service *service, void *userdata, struct err *err);
	/* The end begins: new calls are refused, streams should be finished. May be NULL. */
	void (*drain)(struct service *service, void *userdata);
	/* No call is live any more: releases what start built. False: not done yet (jobs run),
	 * service_stopped() follows from the loop. After a failed start there is no loop to wait for, and
	 * true is expected. */
	bool (*stop)(struct service *service, void *userdata);
	void *userdata;
};

int service_main(int argc, char **argv, const struct service_options *options);

struct loop *service_loop(struct service *service);
struct rpc_server *service_server(struct service *service);
const char *service_data_dir(const struct service *service);
/* A descriptor that systemd passed under that name: a second socket, or one of its store. Owned by the
 * caller; -ENOENT when there is none. In start only: what is not taken is closed after it. */
int service_take_fd(struct service *service, const char *name);
/* Shown by systemctl status. */
void service_status(struct service *service, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Ends the service as SIGTERM would, with that exit status. */
void service_end(struct service *service, int exit_status);
void service_stopped(struct service *service);
