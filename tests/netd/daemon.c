#include "tests/netd/daemon.h"

#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "tests/harness/timeout.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "%s\n", what);
	abort();
}

void daemon_init(struct daemon *d, const char *extra)
{
	FILE *f;

	memset(d, 0, sizeof(*d));
	d->pidfd = d->store_fd = d->notify_fd = -EBADF;
	d->program = NETD_PROGRAM;
	(void)snprintf(d->dir, sizeof(d->dir), "/tmp/bc-netd-XXXXXX");
	if (!mkdtemp(d->dir) || loop_new(&d->loop) < 0)
		die("cannot set up a daemon");
	(void)snprintf(d->config, sizeof(d->config), "%s/netd.conf", d->dir);
	(void)snprintf(d->socket, sizeof(d->socket), "%s/netd.sock", d->dir);
	f = fopen(d->config, "we");
	if (!f)
		die("cannot write a configuration");
	(void)fprintf(f,
	        "[service]\nsocket = %s\ndata_dir = %s\n[netd]\nallowed_bridges = " LAN_BRIDGE "\n%s\n",
	        d->socket, d->dir, extra);
	(void)fclose(f);
	if (rpc_channel_new_unix(d->loop, d->socket, &d->channel) < 0)
		die("cannot make a channel");
}

static void notify_open(struct daemon *d, char *env, size_t size)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/notify", d->dir);
	(void)unlink(at.sun_path);
	d->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (d->notify_fd < 0 || bind(d->notify_fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		die("cannot listen for notifications");
	(void)snprintf(env, size, "NOTIFY_SOCKET=%s", at.sun_path);
}

/* A shell puts in what the library takes out of an environment for good reason. */
void daemon_start(struct daemon *d)
{
	char notify[128] = "NOTIFY_SOCKET=", line[1024];
	const char *argv[] = { "sh", "-c", line, "sh", d->program, "--config", d->config, NULL };
	struct process_fd fds[] = { { 2, 1 }, { 2, 2 }, { d->store_fd, 3 } };
	Bc__V1__NetdHelloRequest hello = BC__V1__NETD_HELLO_REQUEST__INIT;
	struct process_options options = {
		.argv = argv, .env = d->env, .fds = fds, .n_fds = d->store_fd >= 0 ? 3 : 2
	};
	struct rpc_backoff backoff = { .min_usec = 5000, .max_usec = 50000 };
	uint64_t until = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);

	if (d->notify && d->notify_fd < 0)
		notify_open(d, notify, sizeof(notify));
	else if (d->notify)
		(void)snprintf(notify, sizeof(notify), "NOTIFY_SOCKET=%s/notify", d->dir);
	/* A test that ends before its time leaves no daemon. */
	(void)snprintf(line, sizeof(line), "%s %s exec %s \"$@\"", d->notify ? notify : "",
	        d->store_fd >= 0 ? "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=rules" : "",
	        d->launcher ? d->launcher : "setpriv --pdeathsig KILL");
	if (process_spawn(&options, &d->pid, &d->pidfd) < 0)
		die("cannot start the daemon");
	for (;;) {
		struct rpc_status status = { 0 };
		ProtobufCMessage *reply = NULL;

		if (rpc_call_sync(d->loop, d->channel, NETD(hello), &hello.base,
		            test_timeout_usec(TEST_SERVICE_SEC), &reply, &status) == 0) {
			protobuf_c_message_free_unpacked(reply, NULL);
			return;
		}
		/* Not there yet, or the end of an earlier life is heard of only now. */
		if (status.code != GRPC_STATUS_UNAVAILABLE || clock_monotonic_usec() > until) {
			fprintf(stderr, "%s\n", status.message);
			die("the daemon does not answer");
		}
		/* Nothing tells that a socket is there. */
		(void)usleep((useconds_t)rpc_backoff_next(&backoff)); /* runs out */
	}
}

void daemon_kill(struct daemon *d, int signal)
{
	int status;

	if (d->pidfd < 0)
		return;
	(void)kill(d->pid, signal);
	if (process_wait(d->pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status) < 0)
		die("the daemon does not end");
	(void)close(d->pidfd);
	d->pidfd = -EBADF;
	if (signal == SIGTERM && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
		fprintf(stderr, "status %x\n", (unsigned)status);
		die("the daemon did not end well");
	}
}

void daemon_done(struct daemon *d)
{
	if (d->watch)
		rpc_cancel(d->watch);
	daemon_kill(d, SIGTERM);
	rpc_channel_free(d->channel);
	loop_free(d->loop);
	if (d->notify_fd >= 0)
		(void)close(d->notify_fd);
	lan_run("rm -rf %s", d->dir);
}

grpc_status_code daemon_call(struct daemon *d, struct rpc_method method, const void *message,
        ProtobufCMessage **ret_reply, struct rpc_status *status)
{
	struct rpc_status own = { 0 };

	*ret_reply = NULL;
	status = status ?: &own;
	*status = (struct rpc_status){ 0 };
	(void)rpc_call_sync(
	        d->loop, d->channel, method, message, test_timeout_usec(TEST_SERVICE_SEC), ret_reply, status);
	return status->code;
}

void daemon_expect(struct daemon *d, struct rpc_method method, const void *message, grpc_status_code code,
        const char *words)
{
	ProtobufCMessage *reply;
	struct rpc_status status;
	grpc_status_code got = daemon_call(d, method, message, &reply, &status);

	if (reply)
		protobuf_c_message_free_unpacked(reply, NULL);
	if (got != code || !strstr(status.message, words)) {
		fprintf(stderr, "expected %s with '%s', got %s: %s\n", rpc_code_to_string(code), words,
		        rpc_code_to_string(got), status.message);
		abort();
	}
}

static void on_event(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	const Bc__V1__NetdEvent *event = (const Bc__V1__NetdEvent *)message;
	struct daemon *d = userdata;

	if (d->n_events < DAEMON_EVENTS_MAX) {
		struct daemon_event *e = &d->events[d->n_events++];

		*e = (struct daemon_event){ .type = event->type,
			.sequence = event->sequence,
			.gap_ns = event->gap_ns,
			.index = event->index };
		(void)snprintf(e->interface, sizeof(e->interface), "%s", event->interface);
		(void)snprintf(e->instance_id, sizeof(e->instance_id), "%s", event->instance_id);
		(void)snprintf(e->message, sizeof(e->message), "%s", event->message);
	}
	rpc_request_read(stream);
	/* A call that is waited for meanwhile ends the loop itself. */
	if (d->waits_for_event)
		loop_exit(d->loop, 0);
}

static void on_watch_end(const struct rpc_status *status, void *userdata)
{
	struct daemon *d = userdata;

	(void)status;
	d->watch = NULL;
}

void daemon_watch(struct daemon *d)
{
	static const struct rpc_stream_handlers handlers = { .on_message = on_event, .on_end = on_watch_end };
	Bc__V1__NetdWatchRequest request = BC__V1__NETD_WATCH_REQUEST__INIT;
	Bc__V1__NetdHelloRequest hello = BC__V1__NETD_HELLO_REQUEST__INIT;

	d->n_events = d->n_waited_for = 0;
	d->watch = rpc_stream(d->channel, NETD(watch), &request.base, UINT64_MAX, &handlers, d);
	rpc_request_read(d->watch);
	/* Calls of one connection are taken in order: when this is answered the watch is on. */
	daemon_expect(d, NETD(hello), &hello, GRPC_STATUS_OK, "");
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	loop_exit(userdata, -ETIMEDOUT);
	return 0;
}

const struct daemon_event *daemon_event(struct daemon *d, Bc__V1__NetdEvent__Type type)
{
	sd_event_source *timer = NULL;
	int r = 0;

	if (sd_event_add_time_relative(loop_event(d->loop), &timer, CLOCK_MONOTONIC,
	            test_timeout_usec(TEST_SERVICE_SEC), 1000, on_timeout, d->loop) < 0)
		die("no timer");
	for (;;) {
		while (d->n_waited_for < d->n_events) {
			if (d->events[d->n_waited_for++].type == type) {
				sd_event_source_disable_unref(timer);
				return &d->events[d->n_waited_for - 1];
			}
		}
		if (r < 0)
			die("an event did not come");
		d->waits_for_event = true;
		r = loop_run(d->loop);
		d->waits_for_event = false;
	}
}

void daemon_nic(struct daemon_nic *n, unsigned instance, unsigned index)
{
	n->request = (Bc__V1__PrepareBridgeRequest)BC__V1__PREPARE_BRIDGE_REQUEST__INIT;
	n->nic = (Bc__V1__NicIdentity)BC__V1__NIC_IDENTITY__INIT;
	n->filter = (Bc__V1__NicFilter)BC__V1__NIC_FILTER__INIT;
	n->mapping = (Bc__V1__PortMapping)BC__V1__PORT_MAPPING__INIT;
	n->request.nic = &n->nic;
	n->request.filter = &n->filter;
	n->request.bridge = (char *)LAN_BRIDGE;
	n->mappings[0] = &n->mapping;
	n->request.port_mappings = n->mappings;
	(void)snprintf(n->instance_id, sizeof(n->instance_id), "%s", lan_instance(instance));
	n->nic.instance_id = n->instance_id;
	n->nic.index = index;
	(void)snprintf(n->mac, sizeof(n->mac), "52:54:%02x:%02x:%02x:0a", (instance - 1) >> 8 & 255,
	        (instance - 1) & 255, index & 255);
	n->nic.mac = n->mac;
	n->nic.node_id = (char *)"node-1";
	n->addresses[0] = (char *)"10.0.0.10/24";
	n->filter.addresses = n->addresses;
	n->filter.n_addresses = 1;
}

void daemon_prepare(struct daemon *d, struct daemon_nic *n, char ret[static IFNAME_MAX])
{
	ProtobufCMessage *reply;
	struct rpc_status status;

	if (daemon_call(d, NETD(prepare_bridge), &n->request, &reply, &status) != GRPC_STATUS_OK) {
		fprintf(stderr, "%s\n", status.message);
		die("cannot prepare a NIC");
	}
	(void)snprintf(ret, IFNAME_MAX, "%s", ((Bc__V1__PreparedNic *)reply)->interface);
	protobuf_c_message_free_unpacked(reply, NULL);
}
