#include "lib/log/log.h"
#include "lib/service/service.h"
#include "svc-converger/control_plane.h"
#include "svc-converger/converger.h"
#include "svc-converger/converger_conf.h"
#include "svc-converger/edge.h"

struct daemon {
	struct converger_conf conf;
	struct service *service;             /* weak */
	struct converger *converger;         /* owned */
	struct edge *edge;                   /* owned */
	struct control_plane *control_plane; /* owned; NULL: none is configured */
	struct event_follower follower;
	uint64_t logged; /* the last event that is in the log */
};

static void on_event(void *userdata)
{
	static const int levels[] = {
		[EVENT_INFO] = LOG_INFO, [EVENT_WARNING] = LOG_WARNING, [EVENT_ERROR] = LOG_ERR
	};
	struct daemon *d = userdata;
	const struct event *event = events_next(d->converger->events, d->logged, "");

	if (!event)
		return;
	d->logged = event->sequence;
	log_with(levels[event->severity], 0,
	        LOG_FIELDS({ "BC_INSTANCE", *event->instance_id ? event->instance_id : NULL },
	                { "BC_REASON", event->reason }),
	        "%s%s%s: %s", event->instance_id, *event->instance_id ? ": " : "", event->reason,
	        event->message ? event->message : "");
}

static int daemon_check(const struct service *service, void *userdata, struct err *err)
{
	struct daemon *d = userdata;

	(void)service;
	return converger_conf_check(&d->conf, err);
}

static int daemon_start(struct service *service, void *userdata, struct err *err)
{
	struct daemon *d = userdata;
	struct control_plane_options control_plane;
	char node_id[65];
	struct converger_options options;
	int r;

	d->service = service;
	node_id_default(node_id);
	options = converger_conf_options(&d->conf, service_data_dir(service), node_id);
	r = converger_new(service_loop(service), &options, &d->converger, err);
	if (r < 0)
		return r;
	d->follower = (struct event_follower){ .on_event = on_event, .userdata = d };
	events_follow(d->converger->events, &d->follower);
	r = edge_new(d->converger, service_server(service), &d->edge);
	if (r < 0) {
		d->converger = converger_free(d->converger);
		return err_set(err, r, "cannot serve bc.v1.Converger");
	}
	if (converger_conf_control_plane(&d->conf, &control_plane))
		r = control_plane_new(d->converger, &control_plane, &d->control_plane);
	return r < 0 ? err_set(err, r, "cannot dial the control plane") : 0;
}

static void daemon_drain(struct service *service, void *userdata)
{
	struct daemon *d = userdata;

	(void)service;
	d->control_plane = control_plane_free(d->control_plane);
	edge_drain(d->edge);
}

static void on_idle(void *userdata)
{
	struct daemon *d = userdata;

	d->edge = edge_free(d->edge);
	d->converger = converger_free(d->converger);
	service_stopped(d->service);
}

static bool daemon_stop(struct service *service, void *userdata)
{
	struct daemon *d = userdata;

	(void)service;
	if (!d->converger)
		return true;
	converger_stop(d->converger, on_idle, d);
	return false;
}

int main(int argc, char **argv)
{
	struct daemon d = { 0 };
	const struct conf_table table = {
		.keys = converger_conf_keys,
		.n_keys = n_converger_conf_keys,
		.target = &d.conf,
	};

	return service_main(argc, argv,
	        &(struct service_options){
	                .name = "converger",
	                .tables = &table,
	                .n_tables = 1,
	                .check = daemon_check,
	                .start = daemon_start,
	                .drain = daemon_drain,
	                .stop = daemon_stop,
	                .userdata = &d,
	        });
}
