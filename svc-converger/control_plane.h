/* The session the node dials itself: bc.v1.ControlPlane.Session over mutual TLS, for ever, with pauses that grow
 * and jitter. The certificates are read anew for each try, so that they can be renewed under it. */
#pragma once

#include "svc-converger/converger.h"

struct control_plane;

struct control_plane_options {
	const char *endpoint; /* host:port, which the certificate must be for; all weak, copied */
	const char *ca_path, *certificate_path, *key_path; /* PEM */
	uint64_t retry_min_usec, retry_max_usec;           /* 0: 1 s, 60 s */
	uint64_t stable_usec; /* a session that lasted so long makes the next pause short again; 0: 30 s */
	uint64_t ping_usec;   /* of silence, then it is asked whether it is there; 0: RPC_PING_MSEC */
};

int control_plane_new(
        struct converger *converger, const struct control_plane_options *options, struct control_plane **ret);
/* Ends the session. Accepts NULL. */
struct control_plane *control_plane_free(struct control_plane *control_plane);
