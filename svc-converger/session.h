/* A control plane's session, whichever side dialled: the node speaks first (Hello), then specs, secrets, snapshot
 * commands and console input come in, and answers, statuses, questions and output go out.
 *
 * Nothing piles up in it. Statuses wait on the board, once per instance; events wait in their ring; what is asked
 * of secrets waits there. A new session begins from what is true then, so a drop neither loses nor repeats. */
#pragma once

#include "lib/rpc/status.h"
#include "svc-converger/converger.h"

#include "bc/v1/converger.pb-c.h"

struct session;

enum { SESSION_TUNNELS_MAX = 32 };

/* The stream under it; userdata is the owner's. */
struct session_transport {
	int (*send)(const Bc__V1__NodeMessage *message,
	        void *userdata);          /* serialised at once; -errno: it is over */
	bool (*has_room)(void *userdata); /* for a message that can wait */
	void (*read)(void *userdata);     /* the next message may come */
	/* It cannot go on; the owner ends the stream and frees the session later, not from inside this. */
	void (*fail)(grpc_status_code code, const char *message, void *userdata);
};

/* Says Hello. *event_seen: the last event the peer was told; kept up to date, it may outlive the session. */
int session_new(struct converger *converger, const struct session_transport *transport, void *userdata,
        uint64_t *event_seen, struct session **ret);
struct session *session_free(struct session *session); /* accepts NULL */

/* A message came; read is called once the next one may. Secrets in it are wiped. */
void session_receive(struct session *session, Bc__V1__ControlMessage *message);
void session_writable(struct session *session); /* there is room again */
