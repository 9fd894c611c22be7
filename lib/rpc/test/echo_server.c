/* echo_server PATH: serves bc.test.Echo until SIGTERM, then drains. Says "ready" on stdout. For benchmarks, and for
 * tests that need a server in a process of its own. */
#include "lib/rpc/server.h"
#include "lib/rpc/test/echo_service.h"

#include "lib/base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct echo_server {
	struct loop *loop;
	struct rpc_server *server;
	struct echo_service echo;
};

static void on_drained(struct rpc_server *server, void *userdata)
{
	(void)server;
	loop_exit(((struct echo_server *)userdata)->loop, 0);
}

static int on_sigterm(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct echo_server *s = userdata;

	(void)source;
	(void)info;
	rpc_server_drain(s->server, USEC_PER_SEC / 10, on_drained, s);
	return 0;
}

static int serve(struct echo_server *s, const char *path, struct err *err)
{
	const struct rpc_server_options options = { .path = path,
		.listen_fd = -EBADF,
		.descriptor_set = echo_descriptor_set,
		.n_descriptor_set = echo_descriptor_set_size };
	int r = loop_new(&s->loop);

	if (r == 0)
		r = rpc_server_new(s->loop, &options, &s->server, err);
	if (r == 0)
		r = rpc_server_add(s->server, &s->echo.service.base);
	if (r == 0)
		r = rpc_server_start(s->server, err);
	if (r == 0)
		r = sd_event_add_signal(loop_event(s->loop), NULL, SIGTERM, on_sigterm, s);
	if (r < 0)
		return r;
	(void)puts("ready");
	(void)fflush(stdout);
	return loop_run(s->loop);
}

int main(int argc, char **argv)
{
	struct echo_server s = { 0 };
	struct err err = { 0 };
	sigset_t blocked;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: echo_server PATH\n");
		return 64;
	}
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGTERM);
	(void)sigaddset(&blocked, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &blocked, NULL);
	echo_service_init(&s.echo);
	int r = serve(&s, argv[1], &err);
	if (r < 0)
		(void)fprintf(stderr, "echo_server: %s\n", err_text(&err, r));
	else {
		rpc_server_free(s.server);
		loop_free(s.loop);
	}
	return r < 0 ? 1 : 0;
}
