/* bc-netd as a process, in the test's own network namespace, spoken to over its socket. */
#pragma once

#include "tests/netd/lan.h"

#include "lib/loop/loop.h"
#include "lib/rpc/client.h"

#include <bc/v1/netd.pb-c.h>

#define NETD(member) RPC_METHOD(Bc__V1__Netd_Service, bc__v1__netd__descriptor, member)

enum { DAEMON_EVENTS_MAX = 256 };

struct daemon_event {
	Bc__V1__NetdEvent__Type type;
	uint64_t sequence, gap_ns;
	char interface[IFNAME_MAX], instance_id[UUID_TEXT_MAX], message[512];
	uint32_t index;
};

struct daemon {
	char dir[64]; /* its own */
	char config[96], socket[96];
	const char *program;    /* weak */
	const char *launcher;   /* weak: a command line that "$@" is put behind; NULL: none */
	const char *const *env; /* weak; may be NULL */
	int store_fd;           /* weak: what systemd kept of an earlier life; -EBADF */
	int notify_fd;          /* owned: NOTIFY_SOCKET's other end; -EBADF when it is not told of one */
	bool notify;
	pid_t pid;
	int pidfd; /* owned; -EBADF while it does not run */
	struct loop *loop;
	struct rpc_channel *channel;
	struct rpc_request *watch;
	struct daemon_event events[DAEMON_EVENTS_MAX];
	size_t n_events, n_waited_for;
	bool waits_for_event;
};

/* extra is put behind the configuration's [netd] section; may be "". */
void daemon_init(struct daemon *d, const char *extra);
void daemon_start(struct daemon *d);            /* and waits until it answers */
void daemon_kill(struct daemon *d, int signal); /* and waits for its end */
void daemon_done(struct daemon *d);

/* The answer's code; words in status->message. *ret_reply is the caller's to free. */
grpc_status_code daemon_call(struct daemon *d, struct rpc_method method, const void *message,
        ProtobufCMessage **ret_reply, struct rpc_status *status);
/* The same where only the code, which has to be that, is of interest; words must be part of the answer's. */
void daemon_expect(struct daemon *d, struct rpc_method method, const void *message, grpc_status_code code,
        const char *words);

void daemon_watch(struct daemon *d);
/* The next event of that type, skipping others; aborts when none comes for longer than anything takes. */
const struct daemon_event *daemon_event(struct daemon *d, Bc__V1__NetdEvent__Type type);

/* Requests of a fixed shape, changed at will before they are sent. */
struct daemon_nic {
	Bc__V1__PrepareBridgeRequest request;
	Bc__V1__NicIdentity nic;
	Bc__V1__NicFilter filter;
	char *addresses[16];
	Bc__V1__PortMapping mapping, *mappings[1];
	char instance_id[UUID_TEXT_MAX], mac[MAC_TEXT_MAX];
};
void daemon_nic(struct daemon_nic *n, unsigned instance, unsigned index);
/* Prepares it; the interface's name. */
void daemon_prepare(struct daemon *d, struct daemon_nic *n, char ret[static IFNAME_MAX]);
