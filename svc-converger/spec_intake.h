/* A NodeSpec comes in as bytes. Instances that stand there just as they were accepted are told by their bytes, and
 * neither scanned nor unpacked: one change among a thousand costs one. Everything else goes through
 * lib/rpc/intake.h. */
#pragma once

#include "svc-converger/id_map.h"

#include "bc/v1/node.pb-c.h"

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum spec_form {
	SPEC_NODE,  /* a NodeSpec */
	SPEC_APPLY, /* an ApplyRequest with one */
};

struct spec_bytes {
	const void *data; /* weak */
	size_t size;
	enum spec_form form;
};

struct spec_intake {
	Bc__V1__NodeSpec *spec; /* weak, into what is below; never NULL */
	/* Of each of its instances: it was accepted as it stands, and nothing but its id need be there; the whole of
	 * it is when it publishes ports, chooses MACs, or attaches volumes beside some that the spec destroys. */
	bool *is_known; /* owned */
	bool is_dry_run;

	ProtobufCMessage *message;    /* owned; what was unpacked */
	Bc__V1__Instances *parsed;    /* weak, in message */
	Bc__V1__Instances instances;  /* those and the known ones */
	Bc__V1__InstanceSpec *shells; /* owned; of known ones */
	size_t n_wholes;
	Bc__V1__InstanceSpec **wholes; /* owned; of known ones */
};

/* instances: the converger's, of struct instance. Refuses as rpc_message_parse() does, and with -EINVAL when there is no
 * spec at all. Neither the bytes nor accepted instances may change while the intake is read from. On failure there is
 * nothing to free. */
int spec_intake_read(const struct spec_bytes *bytes, const struct id_map *instances, struct spec_intake *ret,
        struct err *err);
void spec_intake_done(struct spec_intake *intake); /* a zeroed one as well */
