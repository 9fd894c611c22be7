/* A control plane, as a test needs one: it keeps what the node said last, and answers what it is told to answer. */
#pragma once

#include "lib/rpc/client.h"

#include "bc/v1/converger.pb-c.h"

#include <stdbool.h>

struct control_peer {
	/* one of the two: it has dialled the node, or was dialled by it */
	struct rpc_request *request; /* weak; NULL once ended */
	struct rpc_call *call;       /* weak; NULL once ended */
	bool is_stalled;             /* reads nothing */
	bool is_ended;
	grpc_status_code ended_with;

	unsigned n_messages, n_hellos, n_deltas;
	uint64_t hello_revision;
	char node_id[65];
	char features[512]; /* apart by spaces */
	char drivers[512];
	bool is_synced;
	char statuses[16][96]; /* "ID STATE/reason", the newest of each */
	size_t n_statuses;
	unsigned n_results;
	uint64_t result_revision;
	bool result_accepted;
	char result_error[512];
	char secret_request[80], secret_ref[80], secret_allocation[80];
	unsigned n_secret_requests;
	char console[512];
	bool console_closed;
	char console_reason[256];
	char snapshot_error[256];
	unsigned n_snapshots_done;
	unsigned n_events;
	uint64_t event_last;
};

/* Dials the converger's Session. */
void control_peer_dial(struct control_peer *peer, struct rpc_channel *channel);
void control_peer_hang_up(struct control_peer *peer);
/* Takes one message of the node. */
void control_peer_take(struct control_peer *peer, const Bc__V1__NodeMessage *message);
void control_peer_send(struct control_peer *peer, const Bc__V1__ControlMessage *message);
void control_peer_send_secret(struct control_peer *peer, const char *request_id, const char *value);
void control_peer_refuse_secret(struct control_peer *peer, const char *request_id, const char *error);
/* "RUNNING"; "" when nothing was said of it. */
const char *control_peer_status(const struct control_peer *peer, const char *id);
