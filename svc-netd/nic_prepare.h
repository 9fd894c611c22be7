/* How a NIC is made: a table of steps, each undone when a later one fails. What both kinds have in common. */
#pragma once

#include "svc-netd/nics_private.h"

/* One NIC being made. */
struct prepare {
	struct nics *nics;                 /* weak */
	const struct nic_request *request; /* weak */
	struct netlink *nl;                /* owned */
	char ifname[IFNAME_MAX];
	char alias[OWNER_TEXT_MAX];
	struct mac mac; /* of the host's side */
	struct link master;
	struct nic *nic; /* owned: what it will be */
	struct nic *old; /* owned: what the table had, or NULL */
	struct link leftover;
	bool has_leftover, leftover_gone;
	bool keep; /* it is in use and is already what it should be: only its rules may differ */
	int fd;    /* owned: the TAP, which goes with it until it is persistent */
	int ifindex;
};

/* A step that failed undid itself; those before it are undone in reverse. */
struct step {
	const char *name;
	int (*run)(struct prepare *p, struct err *err);
	void (*undo)(struct prepare *p);
	bool makes; /* the interface: not for one that is kept */
};

/* Runs the steps and puts the NIC in the table as ready. */
int prepare_run(struct nics *nics, const struct nic_request *request, enum nic_kind kind,
        const struct step *steps, size_t n_steps, struct nic **ret, struct err *err);

/* In the kernel's words. */
int prepare_failed(struct prepare *p, int r, const char *what, struct err *err);

/* --- steps of both --- */

/* The bridge or the parent: there, and what it is said to be. */
int prepare_find_master(struct prepare *p, bool bridge, struct err *err);
/* Nothing has the name, or a leftover of this very NIC. */
int prepare_check_name(struct prepare *p, struct err *err);
/* In the table: its name and its ports are nobody else's from now on. */
int prepare_hold(struct prepare *p, struct err *err);
void prepare_release(struct prepare *p);
int prepare_put_leftover_aside(struct prepare *p, struct err *err);
int prepare_raise(struct prepare *p, struct err *err);
