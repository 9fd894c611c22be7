/* rpc_bench PATH-OF-ECHO_SERVER [ROUNDS]: a 100-byte echo over lib/rpc against a raw Unix-socket ping-pong of the same
 * bytes, interleaved. Ends with "unary_ratio= stream_ratio= raw_share_64=": medians over the rounds of
 *   unary_ratio   median unary call over median raw ping-pong, client and server on one CPU
 *   stream_ratio  the same for one message each way on an open bidi stream
 *   raw_share_64  calls/s with 64 in flight over one connection, as a share of what 64 threads with a raw connection
 *                 each get from a raw server with one epoll thread; on every CPU there is
 * rpc_bench --raw SOCKET, --raw-many SOCKET: serve the raw side, one blocking connection or many with epoll. */
#include "lib/rpc/client.h"
#include "lib/rpc/test/echo_service.h"
#include "tests/bench/measure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	PAYLOAD = 100,
	IN_FLIGHT = 64,
	ROUNDS_DEFAULT = 15,
	ROUNDS_MAX = 1000,
	PINGS = 3000,       /* a round */
	PINGS_MANY = 40000, /* a round, all of the 64 together */
};
#define ECHO(member) RPC_METHOD(Bc__Test__Echo_Service, bc__test__echo__descriptor, member)

static const uint64_t TIMEOUT_USEC = UINT64_C(60000000);

_Noreturn static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int raw_socket(const char *path, struct sockaddr_un *ret_address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "%s", path);
	if (fd < 0)
		die("socket");
	return fd;
}

static void raw_accept(int epoll_fd, int listen_fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	e.data.fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (e.data.fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, e.data.fd, &e) < 0)
		die("accept");
}

static void raw_echo(int fd)
{
	char bytes[PAYLOAD];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	if (n <= 0 || write(fd, bytes, (size_t)n) != n)
		(void)close(fd);
}

static int raw_listen(const char *path)
{
	struct sockaddr_un address;
	int fd = raw_socket(path, &address);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 2 * IN_FLIGHT) < 0)
		die(path);
	(void)puts("ready");
	(void)fflush(stdout);
	return fd;
}

static int raw_serve(const char *path)
{
	char bytes[PAYLOAD];
	int fd = accept4(raw_listen(path), NULL, NULL, SOCK_CLOEXEC);

	for (;;) {
		ssize_t n = read(fd, bytes, sizeof(bytes));
		if (n <= 0 || write(fd, bytes, (size_t)n) != n)
			return 0;
	}
}

_Noreturn static void raw_serve_many(const char *path)
{
	int fd = raw_listen(path);
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
	struct epoll_event ready[IN_FLIGHT];

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		die(path);
	for (;;) {
		int n = epoll_wait(epoll_fd, ready, IN_FLIGHT, -1);
		for (int i = 0; i < n; i++) {
			if (ready[i].data.fd == fd)
				raw_accept(epoll_fd, fd);
			else
				raw_echo(ready[i].data.fd);
		}
	}
}

static int raw_connect(const char *path)
{
	struct sockaddr_un address;
	int fd = raw_socket(path, &address);

	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		die(path);
	return fd;
}

static void raw_ping(int fd)
{
	char bytes[PAYLOAD];

	memset(bytes, 'x', sizeof(bytes));
	if (write(fd, bytes, sizeof(bytes)) != PAYLOAD || read(fd, bytes, sizeof(bytes)) != PAYLOAD)
		die("raw ping");
}

static double raw_latency(int fd)
{
	static double usec[PINGS];

	for (int i = 0; i < PINGS; i++) {
		double start = measure_now_usec();
		raw_ping(fd);
		usec[i] = measure_now_usec() - start;
	}
	return measure_median(usec, PINGS);
}

static void *raw_thread(void *userdata)
{
	for (int i = 0; i < PINGS_MANY / IN_FLIGHT; i++)
		raw_ping(*(int *)userdata);
	return NULL;
}

static double raw_rate(int fds[static IN_FLIGHT])
{
	pthread_t threads[IN_FLIGHT];
	double start = measure_now_usec();

	for (int i = 0; i < IN_FLIGHT; i++)
		if (pthread_create(&threads[i], NULL, raw_thread, &fds[i]) != 0)
			die("thread");
	for (int i = 0; i < IN_FLIGHT; i++)
		(void)pthread_join(threads[i], NULL);
	return PINGS_MANY / (measure_now_usec() - start) * 1e6;
}

struct bench {
	struct loop *loop;
	struct rpc_channel *channel;
	Bc__Test__EchoMessage message;
	struct rpc_request *stream;
	int n_to_start, n_done, n_total;
	double started_usec;
	double usec[PINGS_MANY];
};

static void unary_start(struct bench *b);

static void on_reply(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct bench *b = userdata;
	const Bc__Test__EchoMessage *m = (const Bc__Test__EchoMessage *)reply;

	if (!reply || m->payload.len != PAYLOAD) {
		(void)fprintf(stderr, "bad answer: %s\n", status->message);
		exit(1);
	}
	b->usec[b->n_done++] = measure_now_usec() - b->started_usec;
	if (b->n_done == b->n_total)
		loop_exit(b->loop, 0);
	else if (b->n_to_start > 0)
		unary_start(b);
}

static void unary_start(struct bench *b)
{
	b->n_to_start--;
	b->started_usec = measure_now_usec();
	rpc_unary(b->channel, ECHO(unary), &b->message.base, TIMEOUT_USEC, on_reply, b);
}

static double unary_latency(struct bench *b)
{
	b->n_done = 0;
	b->n_to_start = b->n_total = PINGS;
	unary_start(b);
	(void)loop_run(b->loop);
	return measure_median(b->usec, PINGS);
}

static double unary_rate(struct bench *b)
{
	double start = measure_now_usec();

	b->n_done = 0;
	b->n_to_start = b->n_total = PINGS_MANY;
	for (int i = 0; i < IN_FLIGHT; i++)
		unary_start(b);
	(void)loop_run(b->loop);
	return PINGS_MANY / (measure_now_usec() - start) * 1e6;
}

static void stream_ping(struct bench *b)
{
	b->started_usec = measure_now_usec();
	rpc_request_read(b->stream);
	if (rpc_request_send(b->stream, &b->message.base) < 0)
		die("send");
}

static void on_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct bench *b = userdata;

	(void)stream;
	if (((const Bc__Test__EchoMessage *)message)->payload.len != PAYLOAD)
		die("bad message");
	b->usec[b->n_done++] = measure_now_usec() - b->started_usec;
	if (b->n_done == b->n_total)
		loop_exit(b->loop, 0);
	else
		stream_ping(b);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct bench *b = userdata;

	if (status->code != GRPC_STATUS_OK)
		(void)fprintf(stderr, "stream ended: %s\n", status->message);
	loop_exit(b->loop, 0);
}

static double stream_latency(struct bench *b)
{
	const struct rpc_stream_handlers handlers = { .on_message = on_message, .on_end = on_end };

	b->n_done = 0;
	b->n_total = PINGS;
	b->stream = rpc_stream(b->channel, ECHO(both), NULL, UINT64_MAX, &handlers, b);
	stream_ping(b);
	(void)loop_run(b->loop);
	rpc_request_read(b->stream);
	rpc_request_close_send(b->stream);
	(void)loop_run(b->loop);
	return measure_median(b->usec, PINGS);
}

struct result {
	double raw[ROUNDS_MAX], unary[ROUNDS_MAX], stream[ROUNDS_MAX], raw_rate[ROUNDS_MAX], rate[ROUNDS_MAX];
	double unary_ratio[ROUNDS_MAX], stream_ratio[ROUNDS_MAX], share[ROUNDS_MAX];
};

enum { RAW, RAW_MANY, ECHO_SERVER, CHILDREN };

static void pin_all(const pid_t children[static CHILDREN], int one_cpu)
{
	measure_pin(0, one_cpu);
	for (int i = 0; i < CHILDREN; i++)
		measure_pin(children[i], one_cpu);
}

static void round_run(struct bench *b, int raw_fd, int raw_fds[static IN_FLIGHT],
        const pid_t children[static CHILDREN], struct result *r, int i)
{
	pin_all(children, 1);
	r->raw[i] = raw_latency(raw_fd);
	r->unary[i] = unary_latency(b);
	r->stream[i] = stream_latency(b);
	pin_all(children, 0);
	r->raw_rate[i] = raw_rate(raw_fds);
	r->rate[i] = unary_rate(b);
	r->unary_ratio[i] = r->unary[i] / r->raw[i];
	r->stream_ratio[i] = r->stream[i] / r->raw[i];
	r->share[i] = r->rate[i] / r->raw_rate[i];
}

static void bench_open(struct bench *b, const char *path)
{
	static uint8_t payload[PAYLOAD];

	memset(payload, 'x', sizeof(payload));
	bc__test__echo_message__init(&b->message);
	b->message.payload.data = payload;
	b->message.payload.len = PAYLOAD;
	if (loop_new(&b->loop) < 0 || rpc_channel_new_unix(b->loop, path, &b->channel) < 0)
		die(path);
}

static void bench_close(struct bench *b)
{
	rpc_channel_free(b->channel);
	loop_free(b->loop);
}

int main(int argc, char **argv)
{
	static struct bench b;
	static struct result r;
	char dir[] = "/tmp/rpc-bench-XXXXXX", raw_path[64], many_path[64], path[64];
	int fds[IN_FLIGHT];
	int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS_DEFAULT; // NOLINT: a bad one is 0, and refused below

	if (argc == 3 && strcmp(argv[1], "--raw") == 0)
		return raw_serve(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--raw-many") == 0)
		raw_serve_many(argv[2]);
	if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX) {
		(void)fprintf(stderr, "usage: rpc_bench PATH-OF-ECHO_SERVER [ROUNDS]\n");
		return 64;
	}
	if (!mkdtemp(dir))
		die(dir);
	(void)snprintf(raw_path, sizeof(raw_path), "%s/raw.sock", dir);
	(void)snprintf(path, sizeof(path), "%s/rpc.sock", dir);
	(void)snprintf(many_path, sizeof(many_path), "%s/many.sock", dir);
	const char *const raw_argv[] = { "/proc/self/exe", "--raw", raw_path, NULL };
	const char *const many_argv[] = { "/proc/self/exe", "--raw-many", many_path, NULL };
	const char *const echo_argv[] = { argv[1], path, NULL };
	pid_t children[CHILDREN] = { measure_child(raw_argv), measure_child(many_argv),
		measure_child(echo_argv) };
	int raw_fd = raw_connect(raw_path);

	for (int i = 0; i < IN_FLIGHT; i++)
		fds[i] = raw_connect(many_path);
	bench_open(&b, path);
	round_run(&b, raw_fd, fds, children, &r, 0); /* warms up, and is overwritten */
	for (int i = 0; i < rounds; i++)
		round_run(&b, raw_fd, fds, children, &r, i);
	bench_close(&b);
	for (int i = 0; i < CHILDREN; i++)
		measure_child_stop(children[i]);
	(void)unlink(raw_path);
	(void)unlink(many_path);
	(void)rmdir(dir);

	size_t n = (size_t)rounds;
	(void)printf("on one CPU, median of %d rounds: raw %.1f us, unary %.1f us, stream %.1f us\n", rounds,
	        measure_median(r.raw, n), measure_median(r.unary, n), measure_median(r.stream, n));
	(void)printf("64 in flight: raw %.0f/s, unary %.0f/s\n", measure_median(r.raw_rate, n),
	        measure_median(r.rate, n));
	(void)printf("unary_ratio=%.2f stream_ratio=%.2f raw_share_64=%.2f\n",
	        measure_median(r.unary_ratio, n), measure_median(r.stream_ratio, n),
	        measure_median(r.share, n));
	return 0;
}
