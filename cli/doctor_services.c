#include "cli/doctor_services.h"

#include "cli/door.h"
#include "cli/human.h"
#include "cli/run_dir.h"
#include "lib/base/cleanup.h"

#include "bc/v1/converger.pb-c.h"
#include "bc/v1/intelligence.pb-c.h"
#include "bc/v1/netd.pb-c.h"
#include "bc/v1/runtime.pb-c.h"

#include <errno.h>
#include <string.h>

#define ANSWER_USEC UINT64_C(5000000)

/* Asks one service; NULL with a finding when it does not answer. *ret_door stays open for its name. */
static ProtobufCMessage *ask(struct cli *cli, struct findings *findings, const char *name, const char *what,
        enum finding_level level, struct rpc_method method, const ProtobufCMessage *request)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	ProtobufCMessage *reply = NULL;
	struct rpc_status status = { 0 };
	char text[256], mend[128];

	if (door_open(cli, name, &door) != EXIT_OK)
		return NULL;
	if (door_try(&door, method, request, ANSWER_USEC, &reply, &status) == 0)
		return reply;
	if (status.errno_hint == -EACCES)
		(void)snprintf(
		        mend, sizeof(mend), "run this as root, or as a user that %s allows", door.service);
	else if (rpc_status_absent(&status))
		(void)snprintf(mend, sizeof(mend), "systemctl start %s", door.unit);
	else
		(void)snprintf(mend, sizeof(mend), "journalctl -u %s", door.unit);
	/* What we may not ask may still be well. */
	findings_add(findings, status.errno_hint == -EACCES ? FINDING_WARN : level, what, mend, "%s",
	        door_failure_text(&door, &status, text, sizeof(text)));
	return NULL;
}

static void converger_check(struct cli *cli, struct findings *findings)
{
	Bc__V1__GetNodeRequest request = BC__V1__GET_NODE_REQUEST__INIT;
	CLEANUP_MESSAGE ProtobufCMessage *reply = ask(cli, findings, "converger", "converger", FINDING_FAIL,
	        DOOR_METHOD(Converger, get_node), &request.base);
	const Bc__V1__GetNodeReply *node = (const Bc__V1__GetNodeReply *)reply;

	if (!node)
		return;
	findings_add(findings, FINDING_OK, "converger", NULL, "%s, node %s, revision %llu", node->version,
	        node->node_id, (unsigned long long)node->accepted_revision);
	for (size_t i = 0; i < node->n_drivers; i++) {
		const Bc__V1__DriverStatus *driver = node->drivers[i];
		const char *why = driver->message[0] ? driver->message : "no answer yet";

		if (driver->reachability == BC__V1__DRIVER_STATUS__REACHABILITY__READY ||
		        driver->reachability == BC__V1__DRIVER_STATUS__REACHABILITY__ABSENT)
			continue;
		if (strcmp(driver->kind, "control-plane") == 0)
			findings_add(findings, FINDING_WARN, "converger",
			        "see [control-plane] in /etc/bc/converger.conf, and 'bcctl events'",
			        "no session with the control plane at %s: %s", driver->id, why);
		else
			findings_add(findings, FINDING_WARN, "converger", "journalctl -u 'bc-*'",
			        "it cannot use %s: %s", driver->id, why);
	}
}

/* What gives netd a feature that it says is missing ("feature: why"). */
static const char *netd_mend(const char *missing)
{
	static const struct {
		const char *feature, *mend;
	} MENDS[] = {
		{ "publish.outside4:", "sysctl -w net.ipv4.ip_forward=1" },
		{ "publish.outside6:", "sysctl -w net.ipv6.conf.all.forwarding=1" },
		{ "vhost:", "modprobe vhost_net" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(MENDS); i++)
		if (strncmp(missing, MENDS[i].feature, strlen(MENDS[i].feature)) == 0)
			return MENDS[i].mend;
	return "journalctl -u bc-netd";
}

static void netd_check(struct cli *cli, struct findings *findings)
{
	Bc__V1__NetdHelloRequest request = BC__V1__NETD_HELLO_REQUEST__INIT;
	CLEANUP_MESSAGE ProtobufCMessage *reply =
	        ask(cli, findings, "netd", "netd", FINDING_WARN, DOOR_METHOD(Netd, hello), &request.base);
	const Bc__V1__NetdHelloReply *hello = (const Bc__V1__NetdHelloReply *)reply;
	char bridges[HUMAN_MAX];

	if (!hello)
		return;
	findings_add(findings, FINDING_OK, "netd", NULL, "%s, %s allowed", hello->version,
	        human_count(hello->n_allowed_bridges, "bridge", bridges));
	for (size_t i = 0; i < hello->n_missing; i++)
		findings_add(findings, FINDING_WARN, "netd", netd_mend(hello->missing[i]), "missing %s",
		        hello->missing[i]);
	if (hello->n_allowed_bridges == 0)
		findings_add(findings, FINDING_WARN, "netd",
		        "list bridges as allowed_bridges= in /etc/bc/netd.conf",
		        "no bridge is allowed: no NIC can be put on one");
}

/* A runtime may run and yet not know what it holds: its hypervisor, or its plugin, does not answer. */
static bool domains_count(
        struct cli *cli, struct findings *findings, const char *name, const char *id, size_t *ret)
{
	Bc__V1__RuntimeListRequest request = BC__V1__RUNTIME_LIST_REQUEST__INIT;
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	struct rpc_status status = { 0 };
	char text[256], mend[128];

	if (door_open(cli, name, &door) != EXIT_OK)
		return false;
	if (door_try(&door, DOOR_METHOD(Runtime, list), &request.base, ANSWER_USEC, &reply, &status) == 0) {
		*ret = ((const Bc__V1__RuntimeListReply *)reply)->n_domains;
		return true;
	}
	(void)snprintf(mend, sizeof(mend), "journalctl -u %s", door.unit);
	findings_add(findings, FINDING_WARN, "runtime", mend, "%s does not say what it holds: %s", id,
	        door_failure_text(&door, &status, text, sizeof(text)));
	return false;
}

static void runtime_check(struct cli *cli, struct findings *findings, const char *name)
{
	Bc__V1__DescribeRequest request = BC__V1__DESCRIBE_REQUEST__INIT;
	CLEANUP_MESSAGE ProtobufCMessage *reply = ask(
	        cli, findings, name, "runtime", FINDING_WARN, DOOR_METHOD(Runtime, describe), &request.base);
	const Bc__V1__DescribeReply *runtime = (const Bc__V1__DescribeReply *)reply;
	char domains[HUMAN_MAX];
	size_t n = 0;

	if (!runtime)
		return;
	if (domains_count(cli, findings, name, runtime->id, &n))
		findings_add(findings, FINDING_OK, "runtime", NULL, "%s %s%s%s, %s", runtime->id,
		        runtime->version, runtime->accel[0] ? ", accel " : "", runtime->accel,
		        human_count(n, "domain", domains));
}

static void runtimes_check(struct cli *cli, struct findings *findings, struct doctor_services *ret)
{
	char names[RUNTIMES_MAX][SOCKET_NAME_MAX];
	int n = run_dir_list(cli, "runtime-", names);

	for (int i = 0; i < n; i++) {
		ret->has_libvirt |= strcmp(names[i], "runtime-libvirt") == 0;
		ret->has_ch |= strcmp(names[i], "runtime-ch") == 0;
		runtime_check(cli, findings, names[i]);
	}
	if (n <= 0)
		findings_add(findings, FINDING_FAIL, "runtime", "systemctl start bc-runtime-libvirt",
		        "no runtime has a socket in %s: no VM can run", cli->run_dir);
}

static void intelligence_check(struct cli *cli, struct findings *findings)
{
	Bc__V1__IntelligenceStatusRequest request = BC__V1__INTELLIGENCE_STATUS_REQUEST__INIT;
	CLEANUP_MESSAGE ProtobufCMessage *reply = ask(cli, findings, "intelligence", "intelligence",
	        FINDING_WARN, DOOR_METHOD(Intelligence, status), &request.base);
	const Bc__V1__IntelligenceStatus *status = (const Bc__V1__IntelligenceStatus *)reply;
	char vms[HUMAN_MAX];

	if (!status)
		return;
	findings_add(findings, FINDING_OK, "intelligence", NULL, "%s, BPF %s, %s", status->version,
	        status->bpf_loaded ? "loaded" : "not loaded", human_count(status->registered_vms, "VM", vms));
	for (size_t i = 0; i < status->n_missing; i++)
		findings_add(findings, FINDING_WARN, "intelligence",
		        "telemetry without it is absent, not wrong", "missing %s", status->missing[i]);
}

void doctor_services_check(struct cli *cli, struct findings *findings, struct doctor_services *ret)
{
	*ret = (struct doctor_services){ 0 };
	converger_check(cli, findings);
	netd_check(cli, findings);
	runtimes_check(cli, findings, ret);
	intelligence_check(cli, findings);
}
