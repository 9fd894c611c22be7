/* bc.v1.Netd: each request is checked on the loop, done by a job in its instance's lane, and answered on
 * the loop. */
#include "svc-netd/link.h"
#include "svc-netd/netd.h"
#include "svc-netd/nic_message.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/quote.h"
#include "lib/base/tap_name.h"
#include "lib/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SYS_FILE_MAX = 8192, /* /proc and /sys call their files up to 4 KiB long */
	HELLO_LINES_MAX = 12,
};

/* One operation. run() sees only what is its own here, and struct nics, which any thread may use. */
struct op {
	struct job job;
	struct netd *netd;     /* weak */
	struct rpc_call *call; /* referenced */
	int (*work)(struct op *op, struct nics *nics);
	void (*after)(struct op *op); /* on the loop, when there is an answer; may be NULL */
	char instance_id[UUID_TEXT_MAX];
	unsigned index;
	char interface[IFNAME_MAX];
	struct nic_request request; /* owned */
	struct nic_filter filter;
	struct nic_removal removal; /* owned: also of one that failed in the end */
	ProtobufCMessage *answer;   /* owned */
	int result;
	struct err err;
};

static struct netd *netd_of(Bc__V1__Netd_Service *service)
{
	return CONTAINER_OF(service, struct netd, service);
}

static void op_free(struct op *op)
{
	nic_request_done(&op->request);
	nic_removal_done(&op->removal);
	if (op->answer)
		protobuf_c_message_free_unpacked(op->answer, NULL);
	rpc_call_unref(op->call);
	free(op);
}

static void op_run(struct job *job)
{
	struct op *op = CONTAINER_OF(job, struct op, job);

	op->result = op->work(op, op->netd->nics);
	if (op->result == 0 && !op->answer)
		op->result = -ENOMEM;
}

/* Once for each way it goes wrong. */
static void records_tell(struct netd *netd)
{
	int r = nics_record_error(netd->nics);

	if (r < 0 && r != netd->record_error)
		(void)log_err(r, "cannot write records of NICs: %m");
	netd->record_error = r;
}

static void op_done(struct job *job)
{
	struct op *op = CONTAINER_OF(job, struct op, job);

	if (op->answer && op->after)
		op->after(op);
	if (op->result < 0)
		rpc_fail_err(op->call, op->result, &op->err);
	else
		rpc_reply(op->call, op->answer);
	records_tell(op->netd);
	netd_reap(op->netd); /* also after a failure: what was rolled back waits for it */
	op_free(op);
}

static struct op *op_new(struct netd *netd, void *closure_data, int (*work)(struct op *, struct nics *))
{
	struct op *op = calloc(1, sizeof(*op));

	if (!op) {
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return NULL;
	}
	op->netd = netd;
	op->call = rpc_call_ref(rpc_call_of(closure_data));
	op->work = work;
	op->job.run = op_run;
	op->job.done = op_done;
	return op;
}

static int work_list(struct op *op, struct nics *nics);

static void op_choose_lane(struct op *op)
{
	char ifname[IFNAME_MAX];

	if (tap_name(op->instance_id, 0, ifname) == 0)
		netd_lane(ifname, op->job.key);
	else
		netd_lane(op->interface, op->job.key);
}

/* r < 0: op->err says why it is not even begun. */
static void op_start(struct op *op, int r)
{
	if (r == 0) {
		rpc_call_set_subject(op->call, op->instance_id[0] ? op->instance_id : op->interface);
		/* whoever only looks waits for nobody */
		if (op->work != work_list)
			op_choose_lane(op);
		r = job_submit(op->netd->jobs, &op->job);
		if (r == 0)
			return;
		(void)err_set(&op->err, r, "too many operations wait already: retry later");
	}
	rpc_fail_err(op->call, r, &op->err);
	op_free(op);
}

static void op_tell(struct op *op, Bc__V1__NetdEvent__Type type, const char *interface)
{
	Bc__V1__NetdEvent event = BC__V1__NETD_EVENT__INIT;

	event.type = type;
	event.interface = (char *)interface;
	event.instance_id = op->instance_id;
	event.index = op->index;
	watch_tell(op->netd->watch, &event);
}

/* --- what jobs do --- */

static int answer_nic(struct op *op, struct nic *nic_consume)
{
	Bc__V1__PreparedNic *answer = nic_to_message(nic_consume);

	nic_free(nic_consume);
	op->answer = answer ? &answer->base : NULL;
	return 0;
}

static int work_prepare_bridge(struct op *op, struct nics *nics)
{
	struct nic *nic = NULL;
	int r = nic_prepare_bridge(nics, &op->request, &nic, &op->err);

	return r < 0 ? r : answer_nic(op, nic);
}

static int work_prepare_macvtap(struct op *op, struct nics *nics)
{
	struct nic *nic = NULL;
	int r = nic_prepare_macvtap(nics, &op->request, &nic, &op->err);

	return r < 0 ? r : answer_nic(op, nic);
}

static int work_check(struct op *op, struct nics *nics)
{
	struct nic *nic = NULL;
	int r = nic_check(nics, op->instance_id, op->index, &nic, &op->err);

	return r < 0 ? r : answer_nic(op, nic);
}

static int work_set_policy(struct op *op, struct nics *nics)
{
	struct nic *nic = NULL;
	int r = nic_set_filter(nics, op->instance_id, op->index, &op->filter, &nic, &op->err);

	return r < 0 ? r : answer_nic(op, nic);
}

/* What was removed is answered, and told, even when something else was not. */
static int answer_removal(struct op *op, int r)
{
	Bc__V1__RemoveReply *answer = nic_removal_to_message(&op->removal);

	op->answer = answer ? &answer->base : NULL;
	return r;
}

static int work_remove(struct op *op, struct nics *nics)
{
	return answer_removal(op, nic_remove(nics, op->instance_id, op->index, &op->removal, &op->err));
}

static int work_remove_instance(struct op *op, struct nics *nics)
{
	return answer_removal(op, nic_remove_instance(nics, op->instance_id, &op->removal, &op->err));
}

static int work_remove_interface(struct op *op, struct nics *nics)
{
	return answer_removal(op, nic_remove_interface(nics, op->interface, &op->removal, &op->err));
}

static int work_list(struct op *op, struct nics *nics)
{
	struct nic_view *views = NULL;
	size_t n = 0;
	int r = nics_list(nics, &views, &n, &op->err);

	if (r < 0)
		return r;
	Bc__V1__NetdListReply *answer = nic_views_to_message(views, n, op->instance_id);
	nic_views_free(views, n);
	op->answer = answer ? &answer->base : NULL;
	return 0;
}

/* --- what follows on the loop --- */

static void after_prepare(struct op *op)
{
	op_tell(op, BC__V1__NETD_EVENT__TYPE__PREPARED, ((Bc__V1__PreparedNic *)op->answer)->interface);
}

static void after_set_policy(struct op *op)
{
	op_tell(op, BC__V1__NETD_EVENT__TYPE__POLICY_CHANGED, ((Bc__V1__PreparedNic *)op->answer)->interface);
}

static void after_removal(struct op *op)
{
	Bc__V1__NetdEvent event = BC__V1__NETD_EVENT__INIT;

	for (size_t i = 0; i < op->removal.n_interfaces; i++) {
		struct nic_removed *removed = &op->removal.interfaces[i];
		unsigned index = 0;

		(void)tap_name_parse(removed->ifname, NULL, &index);
		event.type = BC__V1__NETD_EVENT__TYPE__REMOVED;
		event.interface = removed->ifname;
		event.instance_id = removed->instance_id[0] ? removed->instance_id : op->instance_id;
		event.index = index;
		watch_tell(op->netd->watch, &event);
	}
}

/* --- the handlers --- */

static bool file_says_yes(const char *path)
{
	CLEANUP_FREE char *text = NULL;

	return file_read(AT_FDCWD, path, SYS_FILE_MAX, &text, NULL) == 0 && text[0] != '0';
}

/* Both lists of an answer to Hello; texts are its own. */
struct hello {
	char *features[HELLO_LINES_MAX], *missing[HELLO_LINES_MAX];
	size_t n_features, n_missing;
	char words[HELLO_LINES_MAX][ERR_TEXT_MAX + 32];
};

static void hello_add(struct hello *hello, const char *feature, bool there, const char *why_not)
{
	char *line = hello->words[hello->n_missing];

	if (there) {
		hello->features[hello->n_features++] = (char *)feature;
		return;
	}
	(void)snprintf(line, sizeof(hello->words[0]), "%s: %s", feature, why_not);
	hello->missing[hello->n_missing++] = line;
}

static void hello_fill(struct hello *hello, const struct netd *netd)
{
	const struct rules *rules = nics_rules(netd->nics);
	struct err no_filter, no_publish, no_record = { 0 };

	rules_missing_filter(rules, &no_filter);
	rules_missing_publish(rules, &no_publish);
	hello_add(hello, "macvtap", true, "");
	hello_add(hello, "filter", rules_can_filter(rules), err_text(&no_filter, -EOPNOTSUPP));
	hello_add(hello, "filter.persist", rules_kept(rules) == RULES_KEEP_PERSIST,
	        rules_kept(rules) == RULES_KEEP_OWNER
	                ? "owned, and kept while netd is down by systemd's store only"
	                : "the kernel is older than 6.9: what is flushed is put back");
	if (nics_record_error(netd->nics) < 0) {
		(void)err_set(&no_record, nics_record_error(netd->nics),
		        "%s: what is flushed while netd is down is not put back",
		        strerror(-nics_record_error(netd->nics)));
		hello_add(hello, "records", false, no_record.text);
	}
	hello_add(hello, "publish", rules_can_publish(rules), err_text(&no_publish, -EOPNOTSUPP));
	hello_add(hello, "publish.listeners", netd->knows_listeners,
	        "the kernel has no sock_diag: a port that a process of the host listens at is published all the same");
	hello_add(hello, "publish.outside4", file_says_yes("/proc/sys/net/ipv4/ip_forward"),
	        "net.ipv4.ip_forward is 0: published ports lead to guests from this host only");
	hello_add(hello, "publish.outside6", file_says_yes("/proc/sys/net/ipv6/conf/all/forwarding"),
	        "net.ipv6.conf.all.forwarding is 0: published ports lead to guests from this host only");
	hello_add(hello, "vhost", netd_policy(netd).vhost_possible, "/dev/vhost-net is not there");
}

static void netd__hello(Bc__V1__Netd_Service *service, const Bc__V1__NetdHelloRequest *req,
        Bc__V1__NetdHelloReply_Closure reply, void *closure_data)
{
	struct netd *netd = netd_of(service);
	Bc__V1__NetdHelloReply answer = BC__V1__NETD_HELLO_REPLY__INIT;
	struct hello hello = { .n_features = 0 };

	(void)req;
	hello_fill(&hello, netd);
	answer.features = hello.features;
	answer.n_features = hello.n_features;
	answer.missing = hello.missing;
	answer.n_missing = hello.n_missing;
	answer.version = (char *)BC_VERSION;
	answer.max_queues = (uint32_t)netd->conf.max_queues;
	answer.default_vhost = netd->conf.default_vhost;
	answer.allowed_bridges = netd->conf.allowed_bridges.items;
	answer.n_allowed_bridges = netd->conf.allowed_bridges.n;
	answer.bridge_ports_max = BRIDGE_PORTS_MAX;
	reply(&answer, closure_data);
}

static void op_take_owner(struct op *op)
{
	(void)snprintf(op->instance_id, sizeof(op->instance_id), "%s", op->request.owner.instance_id);
	op->index = op->request.owner.index;
}

static void netd__prepare_bridge(Bc__V1__Netd_Service *service, const Bc__V1__PrepareBridgeRequest *req,
        Bc__V1__PreparedNic_Closure reply, void *closure_data)
{
	struct netd *netd = netd_of(service);
	struct request_policy policy = netd_policy(netd);
	struct op *op = op_new(netd, closure_data, work_prepare_bridge);

	(void)reply;
	if (!op)
		return;
	op->after = after_prepare;
	int r = request_bridge(req, &policy, &op->request, &op->err);
	if (r == 0 && !rules_can_filter(nics_rules(netd->nics))) {
		r = -EOPNOTSUPP;
		rules_missing_filter(nics_rules(netd->nics), &op->err);
	}
	op_take_owner(op);
	op_start(op, r);
}

static void netd__prepare_macvtap(Bc__V1__Netd_Service *service, const Bc__V1__PrepareMacvtapRequest *req,
        Bc__V1__PreparedNic_Closure reply, void *closure_data)
{
	struct netd *netd = netd_of(service);
	struct request_policy policy = netd_policy(netd);
	struct op *op = op_new(netd, closure_data, work_prepare_macvtap);

	(void)reply;
	if (!op)
		return;
	op->after = after_prepare;
	int r = request_macvtap(req, &policy, &op->request, &op->err);
	op_take_owner(op);
	op_start(op, r);
}

/* Takes who it is about from a request that names a NIC. */
static int op_take_ref(struct op *op, const Bc__V1__NicRef *ref)
{
	int r;

	if (!ref)
		return err_set(&op->err, -EINVAL, "nic: missing; it says which NIC is meant");
	r = request_instance(ref->instance_id, &op->err);
	if (r == 0)
		r = request_index(ref->index, &op->err);
	if (r < 0)
		return r;
	(void)snprintf(op->instance_id, sizeof(op->instance_id), "%s", ref->instance_id);
	op->index = ref->index;
	return 0;
}

static void netd__check(Bc__V1__Netd_Service *service, const Bc__V1__NicRef *req,
        Bc__V1__PreparedNic_Closure reply, void *closure_data)
{
	struct op *op = op_new(netd_of(service), closure_data, work_check);

	(void)reply;
	if (op)
		op_start(op, op_take_ref(op, req));
}

static void netd__remove(Bc__V1__Netd_Service *service, const Bc__V1__NicRef *req,
        Bc__V1__RemoveReply_Closure reply, void *closure_data)
{
	struct op *op = op_new(netd_of(service), closure_data, work_remove);

	(void)reply;
	if (!op)
		return;
	op->after = after_removal;
	op_start(op, op_take_ref(op, req));
}

static void netd__remove_instance(Bc__V1__Netd_Service *service, const Bc__V1__RemoveInstanceRequest *req,
        Bc__V1__RemoveReply_Closure reply, void *closure_data)
{
	struct op *op = op_new(netd_of(service), closure_data, work_remove_instance);

	(void)reply;
	if (!op)
		return;
	op->after = after_removal;
	int r = request_instance(req->instance_id, &op->err);
	if (r == 0)
		(void)snprintf(op->instance_id, sizeof(op->instance_id), "%s", req->instance_id);
	op_start(op, r);
}

static void netd__remove_interface(Bc__V1__Netd_Service *service, const Bc__V1__RemoveInterfaceRequest *req,
        Bc__V1__RemoveReply_Closure reply, void *closure_data)
{
	struct op *op = op_new(netd_of(service), closure_data, work_remove_interface);

	(void)reply;
	if (!op)
		return;
	op->after = after_removal;
	int r = ifname_is_valid(req->interface)
	        ? 0
	        : err_set(&op->err, -EINVAL, "'%s' is no interface name", QUOTED(req->interface));
	if (r == 0)
		(void)snprintf(op->interface, sizeof(op->interface), "%s", req->interface);
	op_start(op, r);
}

static void netd__list(Bc__V1__Netd_Service *service, const Bc__V1__NetdListRequest *req,
        Bc__V1__NetdListReply_Closure reply, void *closure_data)
{
	struct op *op = op_new(netd_of(service), closure_data, work_list);

	(void)reply;
	if (!op)
		return;
	int r = req->instance_id[0] ? request_instance(req->instance_id, &op->err) : 0;
	if (r == 0)
		(void)snprintf(op->instance_id, sizeof(op->instance_id), "%s", req->instance_id);
	op_start(op, r);
}

static void netd__watch(Bc__V1__Netd_Service *service, const Bc__V1__NetdWatchRequest *req,
        Bc__V1__NetdEvent_Closure reply, void *closure_data)
{
	(void)req;
	(void)reply;
	watch_add(netd_of(service)->watch, rpc_call_of(closure_data));
}

static void netd__set_policy(Bc__V1__Netd_Service *service, const Bc__V1__SetPolicyRequest *req,
        Bc__V1__PreparedNic_Closure reply, void *closure_data)
{
	struct op *op = op_new(netd_of(service), closure_data, work_set_policy);

	(void)reply;
	if (!op)
		return;
	op->after = after_set_policy;
	int r = op_take_ref(op, req->nic);
	if (r == 0 && !req->filter)
		r = err_set(&op->err, -EINVAL, "filter: missing; it says what may pass");
	if (r == 0)
		r = request_filter(req->filter, &op->filter, &op->err);
	op_start(op, r);
}

void netd_edge_init(struct netd *netd)
{
	netd->service = (Bc__V1__Netd_Service)BC__V1__NETD__INIT(netd__);
}
