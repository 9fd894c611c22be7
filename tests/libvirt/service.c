#include "tests/libvirt/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

void service_prepare(struct contract *c)
{
	struct root *root = calloc(1, sizeof(*root));

	assert_non_null(root);
	root_make(root);
	c->userdata = root;
	contract_configure(c,
	        "[service]\nlog_level=warning\n[libvirt]\nuri=%s\n[instances]\ndir=%s\nstop_grace=1ms\n",
	        root->uri, root->instances);
}

void service_adapt(const struct contract *c, Bc__V1__EnsureRequest *request)
{
	char path[512];

	(void)c;
	(void)snprintf(path, sizeof(path), "%s/smallest.elf", getenv("BC_GUEST_DIR"));
	text_replace(&request->spec->boot->kernel->kernel, path);
}

/* What a test that failed left running ends with the process namespace: see in-pidns. */
void service_cleanup(struct contract *c)
{
	root_remove(c->userdata);
	free(c->userdata);
}

const struct contract_runtime libvirt_service = {
	.program = BC_RUNTIME,
	.prepare = service_prepare,
	.adapt = service_adapt,
	.cleanup = service_cleanup,
};

const struct root *service_root(const struct contract *c)
{
	return c->userdata;
}

pid_t service_qemu(struct contract *c, const char *id)
{
	Bc__V1__RuntimeGetRequest request = BC__V1__RUNTIME_GET_REQUEST__INIT;

	request.id = (char *)(uintptr_t)id;
	Bc__V1__Domain *domain = contract_call(c, RUNTIME(get), &request, NULL);
	assert_int_equal(domain->n_vmm_pids, 1);
	pid_t pid = (pid_t)domain->vmm_pids[0];
	bc__v1__domain__free_unpacked(domain, NULL);
	return pid;
}

struct rpc_status service_ask_qemu(struct contract *c, const char *id, uint64_t timeout_usec)
{
	Bc__V1__BalloonRequest request = BC__V1__BALLOON_REQUEST__INIT;
	struct rpc_status status;

	request.id = (char *)(uintptr_t)id;
	Bc__V1__BalloonReply *reply =
	        contract_call_for(c, RUNTIME(get_balloon), &request, timeout_usec, &status);
	if (reply)
		bc__v1__balloon_reply__free_unpacked(reply, NULL);
	return status;
}
