/* idle_bench BIN_DIR CONF_DIR NAME...: what each service costs that has nothing to do, one line a service, then
 * "rss_mib_max= anon_mib_max= ready_ms_max=". Each is started STARTS times; ready is the median from exec to READY=1,
 * memory what smaps_rollup says of the last one once it has been idle for SETTLED_SEC. CONF_DIR/NAME.conf is its
 * configuration, and so is that of a name's variant: "runtime-libvirt@embedded" is bc-runtime-libvirt with
 * runtime-libvirt@embedded.conf; it is shown, but the last line is about the services themselves. */
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "tests/bench/measure.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { STARTS = 5, SETTLED_SEC = 9, READY_WITHIN_MSEC = 60000 };

struct idle {
	double ready_ms, rss_mib, anon_mib;
};

_Noreturn static void die(const char *what)
{
	(void)fprintf(stderr, "idle_bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int notify_socket(char env[static 128])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int n = snprintf(
	        address.sun_path + 1, sizeof(address.sun_path) - 1, "bc-idle-bench-%d", (int)getpid());

	if (fd < 0 ||
	        bind(fd, (struct sockaddr *)&address,
	                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0)
		die("notify socket");
	(void)snprintf(env, 128, "NOTIFY_SOCKET=@%s", address.sun_path + 1);
	return fd;
}

static void ready_await(int notify_fd, const char *name)
{
	char text[1024];
	struct pollfd p = { .fd = notify_fd, .events = POLLIN };

	do {
		if (poll(&p, 1, READY_WITHIN_MSEC) <= 0)
			die(name);
		ssize_t n = recv(notify_fd, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
	} while (!strstr(text, "READY=1"));
}

static struct idle service_measure(
        const char *bin_dir, const char *conf_dir, const char *name, time_t settled_sec)
{
	char program[512], conf[512], env_text[128];
	const char *argv[] = { program, "--config", conf, NULL };
	const char *env[] = { env_text, NULL };
	CLEANUP_CLOSE int notify_fd = notify_socket(env_text);
	struct process_fd fds[] = { { 2, 2 } };
	struct process_options options = { .argv = argv, .env = env, .fds = fds, .n_fds = 1 };
	struct timespec settle = { .tv_sec = settled_sec };
	CLEANUP_CLOSE int pidfd = -EBADF;
	struct idle idle;
	int status;
	pid_t pid;

	(void)snprintf(program, sizeof(program), "%s/bc-%.*s", bin_dir, (int)strcspn(name, "@"), name);
	(void)snprintf(conf, sizeof(conf), "%s/%s.conf", conf_dir, name);
	double start = measure_now_usec();
	if (process_spawn(&options, &pid, &pidfd) < 0)
		die(program);
	ready_await(notify_fd, name);
	idle.ready_ms = (measure_now_usec() - start) / 1000;
	(void)nanosleep(&settle, NULL);
	idle.rss_mib = measure_rss_mib(pid);
	idle.anon_mib = measure_anon_mib(pid);
	(void)kill(pid, SIGTERM);
	if (process_wait(pidfd, 60 * USEC_PER_SEC, &status) < 0 || status != 0)
		die(name);
	return idle;
}

static struct idle service_median(const char *bin_dir, const char *conf_dir, const char *name)
{
	struct idle last = { 0 };
	double ready_ms[STARTS];

	for (int i = 0; i < STARTS; i++) {
		last = service_measure(bin_dir, conf_dir, name, i == STARTS - 1 ? SETTLED_SEC : 0);
		ready_ms[i] = last.ready_ms;
	}
	last.ready_ms = measure_median(ready_ms, STARTS);
	return last;
}

int main(int argc, char **argv)
{
	struct idle max = { 0 };

	if (argc < 4) {
		(void)fprintf(stderr, "usage: idle_bench BIN_DIR CONF_DIR NAME...\n");
		return 64;
	}
	for (int i = 3; i < argc; i++) {
		struct idle idle = service_median(argv[1], argv[2], argv[i]);
		(void)printf("%-24s rss_mib=%.1f anon_mib=%.1f ready_ms=%.1f\n", argv[i], idle.rss_mib,
		        idle.anon_mib, idle.ready_ms);
		(void)fflush(stdout);
		if (strchr(argv[i], '@'))
			continue; /* a variant is shown, not counted */
		max.rss_mib = idle.rss_mib > max.rss_mib ? idle.rss_mib : max.rss_mib;
		max.anon_mib = idle.anon_mib > max.anon_mib ? idle.anon_mib : max.anon_mib;
		max.ready_ms = idle.ready_ms > max.ready_ms ? idle.ready_ms : max.ready_ms;
	}
	(void)printf("rss_mib_max=%.1f anon_mib_max=%.1f ready_ms_max=%.1f\n", max.rss_mib, max.anon_mib,
	        max.ready_ms);
	return 0;
}
