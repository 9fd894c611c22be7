/* bc-runtime-libvirt as a process of its own on the embedded driver, for tests over its socket. An instance boots the
 * smallest of guests, which does not hear the power button. */
#pragma once

#include "tests/contract/contract.h"
#include "tests/libvirt/root.h"

extern const struct contract_runtime libvirt_service;

/* What libvirt_service is made of, for a runtime that differs in a detail. */
void service_prepare(struct contract *c);
void service_adapt(const struct contract *c, Bc__V1__EnsureRequest *request);
void service_cleanup(struct contract *c);

/* The root that it has. */
const struct root *service_root(const struct contract *c);

/* The process of an instance that runs. */
pid_t service_qemu(struct contract *c, const char *id);
/* A call that has to ask QEMU something. */
struct rpc_status service_ask_qemu(struct contract *c, const char *id, uint64_t timeout_usec);
