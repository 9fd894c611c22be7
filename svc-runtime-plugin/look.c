/* What the plugin has: list, at a pace, and what follows from it. */
#include "svc-runtime-plugin/plugin.h"
#include "svc-runtime-plugin/plugin_json.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "lib/log/log.h"

#include <string.h>

enum { PARKED_MAX = 1024 };
static const uint64_t LIST_TIMEOUT_USEC = 10 * USEC_PER_SEC;

/* --- calls that came before the first answer --- */

static void parked_serve(struct plugin *plugin)
{
	struct parked *parked;

	while (plugin->is_settled && (parked = TAILQ_FIRST(&plugin->parked))) {
		TAILQ_REMOVE(&plugin->parked, parked, link);
		plugin->n_parked--;
		if (!rpc_call_is_cancelled(parked->call))
			parked->fn(plugin, parked->call, parked->request);
		(void)rpc_call_unref(parked->call);
		free(parked);
	}
}

void look_when_settled(struct plugin *plugin, struct rpc_call *call,
        void (*fn)(struct plugin *plugin, struct rpc_call *call, const void *request), const void *request)
{
	struct parked *parked;

	if (plugin->is_settled) {
		fn(plugin, call, request);
		return;
	}
	parked = plugin->n_parked < PARKED_MAX ? calloc(1, sizeof(*parked)) : NULL;
	if (!parked) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED,
		        "too many calls wait for the plugin's first answer");
		return;
	}
	*parked = (struct parked){ .call = rpc_call_ref(call), .fn = fn, .request = request };
	TAILQ_INSERT_TAIL(&plugin->parked, parked, link);
	plugin->n_parked++;
}

static void settle(struct plugin *plugin)
{
	plugin->is_settled = true;
	parked_serve(plugin);
}

/* --- what a list says --- */

/* A domain that is up must keep to its interfaces. */
static void guest_judge(struct plugin *plugin, struct guest *guest)
{
	struct err err = { 0 };
	const char *reason = NULL;

	if (guest->op || !guest_is_up(guest) ||
	        tap_check(plugin->conf.id, guest->record, guest->seen, plugin->tap_use, &reason, &err) == 0)
		return;
	(void)log_warning(0, "instance %s is stopped: %s", guest->id, err.text);
	(void)snprintf(guest->verdict, sizeof(guest->verdict), "%s", err.text);
	guest->verdict_reason = reason;
	guest_touch(&plugin->guests, guest);
	op_halt(plugin, guest);
}

static void list_put(struct plugin *plugin, Bc__V1__PluginDomain *seen)
{
	struct guest *guest = guests_find(&plugin->guests, seen->id);

	if (guest && (guest->op || guest->answered > plugin->list_began)) {
		/* an answer of ours is newer, or will be */
		bc__v1__plugin_domain__free_unpacked(seen, NULL);
		return;
	}
	if (!guest)
		guest = guests_add(&plugin->guests, seen->id);
	if (!guest) {
		bc__v1__plugin_domain__free_unpacked(seen, NULL);
		return;
	}
	guest->answered = ++plugin->guests.clock;
	guest->is_doubtful = false;
	if (guest_see(guest, seen))
		guest_touch(&plugin->guests, guest);
	guest_judge(plugin, guest);
}

/* What was not listed: gone where it was there before. A definition of an earlier run whose secrets or snapshot went
 * with that run is none. */
static void list_miss(struct plugin *plugin, struct guest *guest)
{
	bool is_lost = guest->seen ||
	        (guest->is_loaded && (*guest->record->spec->user_data_ref || *guest->record->restore_path));

	guest->is_loaded = guest->is_doubtful = false;
	if (!is_lost) {
		if (!guest->version)
			guest_touch(&plugin->guests, guest);
		return;
	}
	if (guest->record)
		op_forget(plugin, guest->id);
	guests_drop(&plugin->guests, guest);
}

static void list_take(struct plugin *plugin, Bc__V1__PluginDomain **domains, size_t n)
{
	struct guest *guest, *next;

	for (size_t i = 0; i < n; i++)
		list_put(plugin, domains[i]);
	free(domains);
	for (guest = TAILQ_FIRST(&plugin->guests.list); guest; guest = next) {
		next = TAILQ_NEXT(guest, link);
		if (!guest->is_gone && !guest->op && guest->answered <= plugin->list_began)
			list_miss(plugin, guest);
	}
}

/* --- asking --- */

static void look_again(struct plugin *plugin, uint64_t usec)
{
	(void)sd_event_source_set_time_relative(plugin->look_timer, usec);
	(void)sd_event_source_set_enabled(plugin->look_timer, SD_EVENT_ONESHOT);
}

void look_lost(struct plugin *plugin, const char *why)
{
	bool is_news = plugin->is_known || !plugin->is_settled || strcmp(plugin->why, why) != 0;

	(void)snprintf(plugin->why, sizeof(plugin->why), "%s", why);
	plugin->is_known = false;
	rpc_server_set_serving(plugin->server, "bc.v1.Runtime", false);
	watches_drop(plugin, why);
	/* Silence at the start is starting up. */
	if (!plugin->is_settled && plugin->child && clock_monotonic_usec() < plugin->settle_usec)
		return;
	if (is_news && !plugin->is_draining)
		(void)log_warning(0, "%s", why);
	service_status(plugin->daemon, "%s", why);
	settle(plugin);
}

static void look_known(struct plugin *plugin)
{
	rpc_backoff_reset(&plugin->backoff);
	if (plugin->is_known)
		return;
	plugin->is_known = true;
	plugin->why[0] = 0;
	rpc_server_set_serving(plugin->server, "bc.v1.Runtime", true);
	service_status(plugin->daemon, "Ready: %s", plugin->conf.id);
	settle(plugin);
}

static int result_take(struct plugin *plugin, const struct rpc_status *status, const ProtobufCMessage *reply,
        char *why, size_t size)
{
	const Bc__V1__InvokeReply *answer = (const Bc__V1__InvokeReply *)reply;
	Bc__V1__PluginDomain **domains = NULL;
	struct err err = { 0 };
	size_t n = 0;
	int r;

	if (status->code != GRPC_STATUS_OK) {
		(void)snprintf(why, size, "the plugin %s cannot say what it has: %s", plugin->conf.id,
		        *status->message ? status->message : rpc_code_to_string(status->code));
		return -EAGAIN;
	}
	r = plugin_read_domains(answer->result, &domains, &n, &err);
	if (r < 0) {
		(void)snprintf(why, size, "the plugin %s answers list with what is none: %s", plugin->conf.id,
		        err_text(&err, r));
		return r;
	}
	list_take(plugin, domains, n);
	return 0;
}

static void on_list(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct plugin *plugin = userdata;
	char why[512];

	plugin->list = NULL;
	plugin->n_calls--;
	watches_bury(plugin);
	if (plugin->is_stopping) {
		plugin_check_stopped(plugin);
		return;
	}
	if (result_take(plugin, status, reply, why, sizeof(why)) == 0) {
		look_known(plugin);
		look_again(plugin, plugin->is_look_due ? 0 : plugin->conf.poll_usec);
	} else {
		/* Of a child that is gone its end has been told, which says more. */
		if (!rpc_status_absent(status) || !plugin->child || !plugin->is_settled || !plugin->why[0])
			look_lost(plugin, why);
		look_again(plugin, rpc_backoff_next(&plugin->backoff));
	}
}

void look_now(struct plugin *plugin)
{
	Bc__V1__InvokeRequest request = BC__V1__INVOKE_REQUEST__INIT;
	uint64_t timeout =
	        plugin->conf.timeout_usec < LIST_TIMEOUT_USEC ? plugin->conf.timeout_usec : LIST_TIMEOUT_USEC;

	if (plugin->is_stopping)
		return;
	plugin->is_look_due = plugin->list != NULL;
	if (plugin->list)
		return;
	request.method = (char[]){ "list" };
	request.arguments = (char[]){ "[]" };
	plugin->list_began = ++plugin->guests.clock;
	plugin->list = rpc_unary(plugin->channel, PLUGIN_INVOKE, &request.base, timeout, on_list, plugin);
	if (plugin->list)
		plugin->n_calls++;
	else
		look_again(plugin, rpc_backoff_next(&plugin->backoff));
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	look_now(userdata);
	return 0;
}

int look_start(struct plugin *plugin)
{
	TAILQ_INIT(&plugin->parked);
	plugin->backoff = (struct rpc_backoff){ .min_usec = USEC_PER_SEC / 20, .max_usec = 5 * USEC_PER_SEC };
	plugin->settle_usec = clock_monotonic_usec() + plugin->conf.start_timeout_usec;
	return sd_event_add_time_relative(
	        loop_event(plugin->loop), &plugin->look_timer, CLOCK_MONOTONIC, 0, 1, on_time, plugin);
}

void look_stop(struct plugin *plugin)
{
	plugin->look_timer = sd_event_source_disable_unref(plugin->look_timer);
	rpc_cancel(plugin->list);
}
