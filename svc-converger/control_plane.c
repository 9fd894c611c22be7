#include "svc-converger/control_plane.h"

#include "lib/base/atomic_file.h"
#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "lib/rpc/client.h"
#include "svc-converger/reconciler.h"
#include "svc-converger/session.h"
#include "svc-converger/text_hash.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { PEM_MAX = 1 << 20, SENT_MAX = 16, TOLD_MAX = 8 };

/* One try, from dialling to its end; it may outlive the control plane that began it. */
struct dial {
	struct control_plane *cp;    /* weak; NULL: nobody is interested any more */
	struct rpc_channel *channel; /* owned */
	struct rpc_request *stream;  /* weak */
	struct session *session;     /* owned */
	unsigned n_sent;             /* since the stream was last empty */
};

struct control_plane {
	struct converger *c;                  /* weak */
	struct control_plane_options options; /* texts owned */
	struct rpc_backoff backoff;
	sd_event_source *timer; /* owned */
	struct dial *dial;      /* owned until its stream ends; NULL between tries */
	uint64_t dialled_usec;
	uint64_t event_seen;
	uint64_t told[TOLD_MAX]; /* hashes of what was told since it answered last */
	size_t n_told;
};

static void cp_try_later(struct control_plane *cp)
{
	(void)sd_event_source_set_time_relative(cp->timer, rpc_backoff_next(&cp->backoff));
	(void)sd_event_source_set_enabled(cp->timer, SD_EVENT_ONESHOT);
}

/* Whether a failure is news. gRPC has more than one text for the same one, in any order, for as long as it lasts. */
static bool cp_is_news(struct control_plane *cp, const char *words)
{
	uint64_t hash = text_hash(words);

	for (size_t i = 0; i < cp->n_told; i++)
		if (cp->told[i] == hash)
			return false;
	if (cp->n_told == TOLD_MAX)
		return false;
	cp->told[cp->n_told++] = hash;
	return true;
}

static void cp_failed(struct control_plane *cp, const char *message)
{
	struct dialled *dialled = &cp->c->dialled;
	char words[sizeof(dialled->message)];

	quote_text(message, words, sizeof(words));
	if (cp_is_news(cp, words) || dialled->is_connected)
		converger_event(cp->c, EVENT_WARNING, "", "ControlPlaneLost", "%s: %.200s",
		        cp->options.endpoint, words);
	if (strcmp(dialled->message, words) != 0) {
		strcpy(dialled->message, words);
		dialled->is_connected = false;
		reconciler_drivers_changed(cp->c);
	}
	cp_try_later(cp);
}

static void cp_answered(struct control_plane *cp)
{
	struct dialled *dialled = &cp->c->dialled;

	if (dialled->is_connected)
		return;
	dialled->is_connected = true;
	dialled->message[0] = 0;
	cp->n_told = 0;
	reconciler_drivers_changed(cp->c);
	converger_event(cp->c, EVENT_INFO, "", "ControlPlaneConnected", "%s", cp->options.endpoint);
}

/* --- the stream --- */

static int dial_send(const Bc__V1__NodeMessage *message, void *userdata)
{
	struct dial *dial = userdata;
	int r = rpc_request_send(dial->stream, &message->base);

	dial->n_sent++;
	if (r < 0)
		rpc_cancel(dial->stream);
	return r;
}

static bool dial_has_room(void *userdata)
{
	struct dial *dial = userdata;

	return dial->n_sent < SENT_MAX;
}

static void dial_read(void *userdata)
{
	struct dial *dial = userdata;

	rpc_request_read(dial->stream);
}

static void dial_fail(grpc_status_code code, const char *message, void *userdata)
{
	struct dial *dial = userdata;

	(void)code;
	(void)message;
	rpc_cancel(dial->stream);
}

static const struct session_transport dial_transport = {
	.send = dial_send,
	.has_room = dial_has_room,
	.read = dial_read,
	.fail = dial_fail,
};

static void on_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct dial *dial = userdata;

	(void)stream;
	if (!dial->session)
		return;
	cp_answered(dial->cp);
	session_receive(dial->session, (Bc__V1__ControlMessage *)message);
}

static void on_writable(struct rpc_request *stream, void *userdata)
{
	struct dial *dial = userdata;

	(void)stream;
	dial->n_sent = 0;
	if (dial->session)
		session_writable(dial->session);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct dial *dial = userdata;
	struct control_plane *cp = dial->cp;

	session_free(dial->session);
	rpc_channel_free(dial->channel);
	free(dial);
	if (!cp)
		return;
	cp->dial = NULL;
	if (clock_monotonic_usec() - cp->dialled_usec >= cp->options.stable_usec)
		rpc_backoff_reset(&cp->backoff);
	cp_failed(cp, *status->message ? status->message : "it ended the session");
}

static int read_pem(const char *path, char **ret, struct err *err)
{
	int r = file_read(AT_FDCWD, path, PEM_MAX, ret, NULL);

	return r < 0 ? err_set(err, r, "cannot read %s: %s", path, strerror(-r)) : 0;
}

static int dial_connect(struct control_plane *cp, struct dial *dial, struct err *err)
{
	CLEANUP_FREE char *ca = NULL;
	CLEANUP_FREE char *certificate = NULL;
	CLEANUP_FREE char *key = NULL;
	struct rpc_tls tls;
	int r = read_pem(cp->options.ca_path, &ca, err);

	if (r == 0)
		r = read_pem(cp->options.certificate_path, &certificate, err);
	if (r == 0)
		r = read_pem(cp->options.key_path, &key, err);
	if (r == 0) {
		tls = (struct rpc_tls){ .ca_pem = ca,
			.cert_pem = certificate,
			.key_pem = key,
			.ping_usec = cp->options.ping_usec };
		r = rpc_channel_new_tls(cp->c->loop, cp->options.endpoint, &tls, &dial->channel, err);
	}
	if (key)
		explicit_bzero(key, strlen(key));
	return r;
}

static int cp_dial(struct control_plane *cp, struct err *err)
{
	static const struct rpc_stream_handlers handlers = {
		.on_message = on_message,
		.on_writable = on_writable,
		.on_end = on_end,
	};
	struct dial *dial = calloc(1, sizeof(*dial));
	int r;

	if (!dial)
		return -ENOMEM;
	r = dial_connect(cp, dial, err);
	if (r < 0) {
		free(dial);
		return r;
	}
	dial->cp = cp;
	dial->stream = rpc_stream(dial->channel,
	        RPC_METHOD(Bc__V1__ControlPlane_Service, bc__v1__control_plane__descriptor, session), NULL,
	        UINT64_MAX, &handlers, dial);
	cp->dial = dial;
	cp->dialled_usec = clock_monotonic_usec();
	r = session_new(cp->c, &dial_transport, dial, &cp->event_seen, &dial->session);
	if (r < 0)
		rpc_cancel(dial->stream); /* its end tries again */
	else
		rpc_request_read(dial->stream);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct control_plane *cp = userdata;
	struct err err = { 0 };
	int r;

	(void)source;
	(void)usec;
	r = cp_dial(cp, &err);
	if (r < 0)
		cp_failed(cp, err_text(&err, r));
	return 0;
}

int control_plane_new(
        struct converger *c, const struct control_plane_options *options, struct control_plane **ret)
{
	struct control_plane *cp = calloc(1, sizeof(*cp));
	struct control_plane_options *o;
	int r;

	if (!cp)
		return -ENOMEM;
	cp->c = c;
	o = &cp->options;
	*o = *options;
	o->endpoint = strdup(options->endpoint);
	o->ca_path = strdup(options->ca_path);
	o->certificate_path = strdup(options->certificate_path);
	o->key_path = strdup(options->key_path);
	o->stable_usec = o->stable_usec ? o->stable_usec : 30 * USEC_PER_SEC;
	cp->backoff = (struct rpc_backoff){
		.min_usec = o->retry_min_usec ? o->retry_min_usec : USEC_PER_SEC,
		.max_usec = o->retry_max_usec ? o->retry_max_usec : 60 * USEC_PER_SEC,
	};
	r = o->endpoint && o->ca_path && o->certificate_path && o->key_path ? 0 : -ENOMEM;
	if (r == 0)
		r = sd_event_add_time_relative(
		        loop_event(c->loop), &cp->timer, CLOCK_MONOTONIC, 0, 1, on_timer, cp);
	if (r < 0) {
		control_plane_free(cp);
		return r;
	}
	(void)sd_event_source_set_description(cp->timer, "control-plane");
	c->dialled.endpoint = o->endpoint;
	*ret = cp;
	return 0;
}

struct control_plane *control_plane_free(struct control_plane *cp)
{
	if (!cp)
		return NULL;
	sd_event_source_disable_unref(cp->timer);
	cp->c->dialled = (struct dialled){ 0 };
	if (cp->dial) {
		cp->dial->cp = NULL;
		cp->dial->session = session_free(cp->dial->session);
		rpc_cancel(cp->dial->stream);
	}
	free((char *)cp->options.endpoint);
	free((char *)cp->options.ca_path);
	free((char *)cp->options.certificate_path);
	free((char *)cp->options.key_path);
	free(cp);
	return NULL;
}
