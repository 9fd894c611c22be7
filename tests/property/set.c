#include "tests/property/set.h"

#include "tests/property/wish.h"

#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/base/tree.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

const char *set_name(enum set_service service)
{
	static const char *const NAMES[SET_SERVICES] = {
		[SET_CONVERGER] = "converger",
		[SET_NETD] = "netd",
		[SET_FAKE] = "runtime-fake",
		[SET_FAKE_TWO] = "runtime-fake-two",
	};

	return NAMES[service];
}

void set_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	exit(SET_DIED);
}

char *set_path(const struct set *set, char *buf, size_t size, const char *fmt, ...)
{
	int n = snprintf(buf, size, "%s/", set->dir);
	va_list ap;

	va_start(ap, fmt);
	n += vsnprintf(buf + n, size - (size_t)n, fmt, ap);
	va_end(ap);
	if ((size_t)n >= size)
		set_die("a path is too long: %s", buf);
	return buf;
}

void set_write(const struct set *set, const char *name, const char *text)
{
	char path[256], temporary[256];
	FILE *f = fopen(set_path(set, temporary, sizeof(temporary), "%s.new", name), "we");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0 ||
	        rename(temporary, set_path(set, path, sizeof(path), "%s", name)) < 0)
		set_die("cannot write %s/%s: %s", set->dir, name, strerror(errno));
}

char *set_output(const char *const *argv)
{
	struct process_output output;
	const struct process_options options = { .argv = argv };
	int r = process_capture(&options, 64 << 20, test_timeout_usec(TEST_SERVICE_SEC), &output);

	if (r < 0)
		set_die("%s: %s", argv[0], strerror(-r));
	if (output.status == 0)
		return output.text;
	process_output_done(&output);
	return NULL;
}

void set_shell(const char *fmt, ...)
{
	char line[1024];
	const char *argv[] = { "sh", "-c", line, NULL };
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	char *output = set_output(argv);
	if (!output)
		set_die("failed: %s", line);
	free(output);
}

static void __attribute__((format(printf, 4, 5)))
configure(struct set *set, enum set_service service, const char *data, const char *fmt, ...)
{
	char name[64], text[2048];
	va_list ap;
	int n = snprintf(text, sizeof(text),
	        "[service]\nsocket=%s/run/%s.sock\ndata_dir=%s/%s\nlog_level=debug\n", set->dir,
	        set_name(service), set->dir, data);

	va_start(ap, fmt);
	(void)vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	(void)snprintf(name, sizeof(name), "etc/%s.conf", set_name(service));
	set_write(set, name, text);
}

static void configure_all(struct set *set)
{
	const char *d = set->dir;

	/* All pauses are short: what takes a minute on a host takes a moment here. */
	configure(set, SET_CONVERGER, "data",
	        "[node]\nid=property\nrun_dir=%s/run\nnetd_socket=%s/run/netd.sock\n"
	        "intelligence_socket=%s/run/intelligence.sock\ninstances_dir=%s/data/instances\nboot_id_file=%s/boot_id\n"
	        "[reconciler]\nresync=500ms\nretry_min=20ms\nretry_max=500ms\nstable=200ms\ncall_timeout=1s\n"
	        "change_timeout=1500ms\nsnapshot_timeout=3s\nconnect_retry_min=10ms\nconnect_retry_max=200ms\n",
	        d, d, d, d, d);
	configure(
	        set, SET_NETD, "netd", "[netd]\nallowed_bridges=%s\nrecord_dir=%s/record\n", WISH_BRIDGE, d);
	configure(set, SET_FAKE, "fake", "[fake]\nboot_id_path=%s/boot_id\nmax_vcpus=%u\none_writer=%s\n", d,
	        set->options.max_vcpus, set->options.trusts_converger ? "no" : "yes");
	configure(set, SET_FAKE_TWO, "fake-two",
	        "[fake]\nid=fake-two\nboot_id_path=%s/boot_id\nself_admitting=no\none_writer=%s\nstart_time=3ms\n"
	        "stop_time=3ms\n",
	        d, set->options.trusts_converger ? "no" : "yes");
}

void set_open(struct set *set, const struct set_options *options)
{
	static const char *const DIRS[] = { "etc", "run", "data/instances", "data/volumes", "log", "netd",
		"record", "fake/fake", "fake-two/fake", "sources", "uploads" };
	char path[256];

	*set = (struct set){ .options = *options };
	(void)snprintf(set->dir, sizeof(set->dir), "/tmp/bc-property-XXXXXX");
	if (!mkdtemp(set->dir) || loop_new(&set->loop) < 0)
		set_die("cannot make a directory: %s", strerror(errno));
	for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++)
		if (mkdir_p(set_path(set, path, sizeof(path), "%s", DIRS[i]), 0700) < 0)
			set_die("cannot make %s", path);
	set_boot_id(set);
	configure_all(set);
	for (enum set_service s = 0; s < SET_SERVICES; s++) {
		set->processes[s].pidfd = -EBADF;
		if (rpc_channel_new_unix(set->loop,
		            set_path(set, path, sizeof(path), "run/%s.sock", set_name(s)),
		            &set->channels[s]) < 0)
			set_die("cannot make a channel");
	}
}

void set_boot_id(struct set *set)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "00000000-0000-4000-8000-%012u\n", ++set->n_boots);
	set_write(set, "boot_id", text);
}

bool set_is_up(const struct set *set, enum set_service service)
{
	return set->processes[service].pidfd >= 0;
}

void set_start(struct set *set, enum set_service service)
{
	static const char *const PROGRAMS[SET_SERVICES] = {
		[SET_CONVERGER] = "bc-converger",
		[SET_NETD] = "bc-netd",
		[SET_FAKE] = "bc-runtime-fake",
		[SET_FAKE_TWO] = "bc-runtime-fake",
	};
	char program[512], conf[256], log[256];
	/* A test that ends before its time leaves no service. */
	const char *argv[] = { "setpriv", "--pdeathsig", "KILL", program, "--config", conf, NULL };

	if (set_is_up(set, service))
		return;
	(void)snprintf(program, sizeof(program), "%s/%s", set->options.bin_dir, PROGRAMS[service]);
	(void)set_path(set, conf, sizeof(conf), "etc/%s.conf", set_name(service));
	(void)set_path(set, log, sizeof(log), "log/%s.log", set_name(service));
	CLEANUP_CLOSE int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	const struct process_fd fds[] = { { fd, 1 }, { fd, 2 } };
	const struct process_options options = { .argv = argv, .fds = fds, .n_fds = ARRAY_SIZE(fds) };
	if (fd < 0 ||
	        process_spawn(&options, &set->processes[service].pid, &set->processes[service].pidfd) < 0)
		set_die("cannot start %s", program);
}

static int reap(struct set *set, enum set_service service)
{
	int status;

	if (process_wait(set->processes[service].pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status) < 0)
		set_die("bc-%s does not end", set_name(service));
	(void)close(set->processes[service].pidfd);
	set->processes[service].pidfd = -EBADF;
	set->processes[service].is_frozen = false;
	return status;
}

void set_kill(struct set *set, enum set_service service)
{
	if (!set_is_up(set, service))
		return;
	(void)kill(set->processes[service].pid, SIGKILL);
	(void)reap(set, service);
}

void set_end(struct set *set, enum set_service service, bool may_be_young)
{
	char words[128];

	if (!set_is_up(set, service))
		return;
	set_freeze(set, service, false);
	(void)kill(set->processes[service].pid, SIGTERM);
	int status = reap(set, service);
	/* One that has only just begun may not have come to listen yet. */
	if (may_be_young && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
		return;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		set_die("bc-%s did not end well: it %s; its log is %s/log/%s.log", set_name(service),
		        process_status_text(status, words, sizeof(words)), set->dir, set_name(service));
}

void set_freeze(struct set *set, enum set_service service, bool is_frozen)
{
	if (!set_is_up(set, service) || set->processes[service].is_frozen == is_frozen)
		return;
	(void)kill(set->processes[service].pid, is_frozen ? SIGSTOP : SIGCONT);
	set->processes[service].is_frozen = is_frozen;
}

enum set_service set_crashed(const struct set *set)
{
	for (enum set_service s = 0; s < SET_SERVICES; s++) {
		struct pollfd p = { .fd = set->processes[s].pidfd, .events = POLLIN };

		if (set_is_up(set, s) && poll(&p, 1, 0) > 0)
			return s;
	}
	return SET_SERVICES;
}

void set_print_log(const struct set *set, enum set_service service, unsigned n_lines)
{
	char path[256], n[16];
	/* The calls that only look are most of it. */
	const char *argv[] = { "sh", "-c", "grep -v ' DEBUG ' \"$1\" | tail -n \"$2\"", "sh", path, n, NULL };

	(void)snprintf(n, sizeof(n), "%u", n_lines);
	(void)set_path(set, path, sizeof(path), "log/%s.log", set_name(service));
	CLEANUP_FREE char *text = set_output(argv);
	(void)fputs(text ?: "", stderr);
}

void set_close(struct set *set, bool is_failed)
{
	for (enum set_service s = 0; s < SET_SERVICES; s++)
		set_kill(set, s);
	if (is_failed)
		return; /* calls may be in flight */
	for (enum set_service s = 0; s < SET_SERVICES; s++)
		set->channels[s] = rpc_channel_free(set->channels[s]);
	set->loop = loop_free(set->loop);
	if (remove_tree(AT_FDCWD, set->dir) < 0)
		(void)fprintf(stderr, "cannot remove %s\n", set->dir);
}
