/* All of it is the loop thread's. */
#include "lib/service/service.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/std_fds.h"
#include "lib/log/log.h"
#include "lib/service/args.h"
#include "lib/service/audit.h"
#include "lib/service/passed_fds.h"

#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

enum {
	TABLES_MAX = 8,
	N_COMMON_KEYS = 9,
	SETTLE_USEC = 2 * 1000 * 1000, /* between looks whether the start is over */
	SETTLED_CPU_USEC = 5 * 1000,   /* less in that time is idle */
	SETTLES_MAX = 10,
	/* for what is left after the drain: as long as that, within these bounds; with its default both together are
	 * less than TimeoutStopSec= of the units */
	LAST_WORK_MIN_USEC = 1000 * 1000,
	LAST_WORK_MAX_USEC = 10 * 1000 * 1000,
};

/* The keys of [service]. */
struct common_conf {
	char *socket;
	char *data_dir;
	uint64_t socket_mode;
	struct conf_uids allowed_uids;
	bool any_uid;
	uint64_t connections_max, calls_max;
	int log_level;
	uint64_t drain_timeout_usec;
};

struct service {
	const struct service_options *options; /* weak */
	struct service_args args;
	char id[64];                  /* "bc-netd" */
	char config_path[PATH_MAX];   /* the file that was read */
	char preset_socket[PATH_MAX]; /* "/run/bc/netd.sock" */
	struct conf_key keys[N_COMMON_KEYS];
	struct conf_table tables[TABLES_MAX]; /* [service], then the service's own */
	size_t n_tables;
	struct common_conf conf;
	mode_t socket_mode;
	struct passed_fds passed;
	struct loop *loop;         /* owned */
	struct rpc_server *server; /* owned */
	struct audit_refusals refusals;
	sd_event_source *signals[3]; /* owned */
	sd_event_source *settle;     /* owned */
	sd_event_source *patience;   /* owned; with the end */
	uint64_t settle_cpu_usec;    /* CPU time at the last look */
	unsigned n_settles;
	bool ending;
	int exit_status;
};

/* --- configuration --- */

static const struct conf_choice LOG_LEVELS[] = { { "error", LOG_ERR }, { "warning", LOG_WARNING },
	{ "notice", LOG_NOTICE }, { "info", LOG_INFO }, { "debug", LOG_DEBUG }, { 0 } };

static void tables_fill(struct service *s)
{
	const struct conf_key keys[N_COMMON_KEYS] = {
		{ .section = "service",
		        .name = "socket",
		        .type = CONF_PATH,
		        .offset = offsetof(struct common_conf, socket),
		        .preset = s->preset_socket,
		        .max = SERVICE_SOCKET_MAX,
		        .help = "where it listens, unless systemd passes a socket" },
		{ .section = "service",
		        .name = "socket_mode",
		        .type = CONF_UINT,
		        .offset = offsetof(struct common_conf, socket_mode),
		        .preset = "660",
		        .max = 777,
		        .help = "mode of a socket it makes itself, as chmod takes it" },
		{ .section = "service",
		        .name = "allowed_uids",
		        .type = CONF_UIDS,
		        .offset = offsetof(struct common_conf, allowed_uids),
		        .help = "users that may connect, beside root and the service's own" },
		{ .section = "service",
		        .name = "any_uid",
		        .type = CONF_BOOL,
		        .offset = offsetof(struct common_conf, any_uid),
		        .preset = "no",
		        .help = "let every user connect whom the socket's mode lets" },
		{ .section = "service",
		        .name = "max_connections",
		        .type = CONF_UINT,
		        .offset = offsetof(struct common_conf, connections_max),
		        .preset = "256",
		        .min = 1,
		        .max = 65536,
		        .help = "connections at a time" },
		{ .section = "service",
		        .name = "max_calls",
		        .type = CONF_UINT,
		        .offset = offsetof(struct common_conf, calls_max),
		        .preset = "4096",
		        .min = 1,
		        .max = 1048576,
		        .help = "calls at a time; more are refused" },
		{ .section = "service",
		        .name = "data_dir",
		        .type = CONF_PATH,
		        .offset = offsetof(struct common_conf, data_dir),
		        .preset = "/var/lib/bc",
		        .max = SERVICE_DIR_MAX,
		        .help = "where it keeps what must last" },
		{ .section = "service",
		        .name = "log_level",
		        .type = CONF_ENUM,
		        .offset = offsetof(struct common_conf, log_level),
		        .preset = "info",
		        .choices = LOG_LEVELS,
		        .help = "least level that is logged; SIGHUP reads it again" },
		{ .section = "service",
		        .name = "drain_timeout",
		        .type = CONF_DURATION,
		        .offset = offsetof(struct common_conf, drain_timeout_usec),
		        .preset = "20s",
		        .max = 3600 * USEC_PER_SEC,
		        .help = "how long calls may go on after SIGTERM; what still runs has as long again, 1s to 10s" },
	};

	memcpy(s->keys, keys, sizeof(keys));
	s->tables[0] = (struct conf_table){ .keys = s->keys, .n_keys = N_COMMON_KEYS, .target = &s->conf };
	memcpy(&s->tables[1], s->options->tables, s->options->n_tables * sizeof(s->tables[0]));
	s->n_tables = 1 + s->options->n_tables;
}

static void on_conf_warning(const char *warning, void *userdata)
{
	(void)userdata;
	(void)log_warning(0, "%s", warning);
}

static int text_override(char **slot, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (!text)
		return 0;
	if (!copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

/* "660" was read as decimal digits: each is an octal one. */
static int mode_of(uint64_t digits, mode_t *ret)
{
	mode_t mode = 0;

	for (unsigned shift = 0; digits > 0; digits /= 10, shift += 3) {
		if (digits % 10 > 7)
			return -EINVAL;
		mode |= (mode_t)(digits % 10) << shift;
	}
	*ret = mode;
	return 0;
}

static int service_configure(struct service *s, struct err *err)
{
	tables_fill(s);
	int r = conf_load(
	        s->config_path, s->args.config != NULL, s->tables, s->n_tables, on_conf_warning, s, err);
	if (r == 0)
		r = text_override(&s->conf.socket, s->args.socket);
	if (r == 0)
		r = text_override(&s->conf.data_dir, s->args.data_dir);
	if (r == 0 && mode_of(s->conf.socket_mode, &s->socket_mode) < 0)
		r = err_set(err, -EINVAL, "[service] socket_mode=%u: write octal digits such as 660",
		        (unsigned)s->conf.socket_mode);
	if (r == 0 && s->options->check)
		r = s->options->check(s, s->options->userdata, err);
	return r;
}

/* --- the process --- */

static void limits_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Before gRPC makes threads: all of them inherit the mask, and signals reach sd-event only. */
static void signals_block(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
}

static void process_prepare(void)
{
	limits_raise();
	signals_block();
	/* One loop thread does nearly all the allocating: an arena for each of gRPC's threads only wastes
	 * memory. */
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_TRIM_THRESHOLD, 128 * 1024);
	/* gRPC honours a proxy even for Unix sockets. */
	(void)unsetenv("http_proxy");
	(void)unsetenv("https_proxy");
}

/* --- the end --- */

static void service_leave(struct service *s)
{
	loop_exit(s->loop, s->exit_status);
}

static void on_drained(struct rpc_server *server, void *userdata)
{
	struct service *s = userdata;

	(void)server;
	if (!s->options->stop || s->options->stop(s, s->options->userdata))
		service_leave(s);
}

void service_stopped(struct service *service)
{
	service_leave(service);
}

/* A call of a library that waits for something outside has no end that we could make, and nobody waits for ever: neither an
 * operator nor systemd. The next service finds what it was at as after a kill. */
static int on_patience_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service *s = userdata;

	(void)source;
	(void)usec;
	(void)log_warning(0, "some work does not end (%zu calls wait for it): it is left behind",
	        rpc_server_live_calls(s->server));
	_exit(s->exit_status);
}

static void patience_begin(struct service *s)
{
	uint64_t last_usec = s->conf.drain_timeout_usec, usec;

	if (last_usec < LAST_WORK_MIN_USEC)
		last_usec = LAST_WORK_MIN_USEC;
	if (last_usec > LAST_WORK_MAX_USEC)
		last_usec = LAST_WORK_MAX_USEC;
	if (__builtin_add_overflow(s->conf.drain_timeout_usec, last_usec, &usec))
		return;
	int r = sd_event_add_time_relative(
	        loop_event(s->loop), &s->patience, CLOCK_MONOTONIC, usec, 0, on_patience_over, s);
	if (r < 0)
		(void)log_warning(r, "work that does not end is waited for: %m");
}

void service_end(struct service *service, int exit_status)
{
	if (service->ending)
		return;
	service->ending = true;
	service->exit_status = exit_status;
	(void)sd_notify(0, "STOPPING=1\nSTATUS=Finishing calls");
	if (service->options->drain)
		service->options->drain(service, service->options->userdata);
	patience_begin(service);
	rpc_server_drain(service->server, service->conf.drain_timeout_usec, on_drained, service);
}

static int on_end_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct service *s = userdata;

	(void)source;
	if (!s->ending)
		log_info("%s: finishing %zu calls", info->ssi_signo == SIGINT ? "SIGINT" : "SIGTERM",
		        rpc_server_live_calls(s->server));
	service_end(s, EXIT_SUCCESS);
	return 0;
}

/* Only the log level: everything else is fixed for the life of the process. */
static int on_reload_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct service *s = userdata;
	struct common_conf conf = { 0 };
	const struct conf_table table = { .keys = s->keys, .n_keys = N_COMMON_KEYS, .target = &conf };
	struct err err = { 0 };

	(void)source;
	(void)info;
	int r = conf_load(s->config_path, false, &table, 1, NULL, NULL, &err);
	if (r < 0)
		(void)log_err(r, "the log level stays: %s", err_text(&err, r));
	else
		log_configure(conf.log_level);
	conf_done(&table, 1);
	return 0;
}

/* --- the beginning --- */

static int signals_watch(struct service *s)
{
	static const struct {
		int number;
		sd_event_signal_handler_t fn;
	} SIGNALS[] = { { SIGTERM, on_end_signal }, { SIGINT, on_end_signal }, { SIGHUP, on_reload_signal } };

	for (size_t i = 0; i < ARRAY_SIZE(SIGNALS); i++) {
		int r = sd_event_add_signal(
		        loop_event(s->loop), &s->signals[i], SIGNALS[i].number, SIGNALS[i].fn, s);

		if (r < 0)
			return r;
	}
	return 0;
}

static void on_refuse(const struct rpc_peer *peer, const char *why, void *userdata)
{
	struct service *s = userdata;

	audit_refuse(&s->refusals, peer, why);
}

static int server_make(struct service *s, struct err *err)
{
	int listen_fd = passed_fds_listener(&s->passed);
	const struct rpc_server_options options = {
		.path = s->conf.socket,
		.listen_fd = listen_fd >= 0 ? listen_fd : -EBADF,
		.mode = s->socket_mode,
		.allowed_uids = s->conf.allowed_uids.items,
		.n_allowed_uids = s->conf.allowed_uids.n,
		.any_uid = s->conf.any_uid,
		.n_connections_max = s->conf.connections_max,
		.n_calls_max = s->conf.calls_max,
		.on_call_end = audit_call_end,
		.on_refuse = on_refuse,
		.userdata = s,
	};
	return rpc_server_new(s->loop, &options, &s->server, err);
}

static int service_build(struct service *s, struct err *err)
{
	int r = passed_fds_take(&s->passed, err);

	if (r == 0)
		r = loop_new(&s->loop);
	if (r == 0)
		r = signals_watch(s);
	if (r == 0)
		r = server_make(s, err);
	if (r < 0)
		return r;
	r = s->options->start(s, s->options->userdata, err);
	/* What nobody took would only be leaked into children. */
	passed_fds_done(&s->passed);
	if (r == 0)
		r = rpc_server_start(s->server, err);
	if (r < 0 && s->options->stop)
		(void)s->options->stop(s, s->options->userdata);
	return r;
}

/* Only segments that nobody may write: what the linker relocated would not come back. */
static int object_trim(struct dl_phdr_info *object, size_t size, void *userdata)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size;
	(void)userdata;
	if (object->dlpi_name[0] && object->dlpi_name[0] != '/')
		return 0; /* the kernel's vDSO */
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		uintptr_t start = (object->dlpi_addr + segment->p_vaddr) & ~(page - 1);
		uintptr_t end = object->dlpi_addr + segment->p_vaddr + segment->p_filesz;

		if (segment->p_type == PT_LOAD && !(segment->p_flags & PF_W))
			(void)madvise((void *)start, end - start, MADV_DONTNEED);
	}
	return 0;
}

/* Start-up took memory, and ran through library code and tables, that running does not need again. The pages of files
 * are clean copies: giving them back costs a soft fault where one is needed after all. */
static void memory_trim(void)
{
	(void)malloc_trim(0);
	(void)dl_iterate_phdr(object_trim, NULL);
}

static uint64_t cpu_usec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * USEC_PER_SEC + (uint64_t)t.tv_nsec / NSEC_PER_USEC;
}

/* Much of a start happens after READY=1: peers are connected to, jobs look at what is there. So again, until nothing
 * has happened meanwhile. */
static int on_settle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service *s = userdata;
	uint64_t now_cpu_usec = cpu_usec();

	(void)usec;
	memory_trim();
	if (now_cpu_usec - s->settle_cpu_usec < SETTLED_CPU_USEC || ++s->n_settles == SETTLES_MAX)
		return 0;
	s->settle_cpu_usec = now_cpu_usec;
	if (sd_event_source_set_time_relative(source, SETTLE_USEC) >= 0)
		(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

static int service_run(struct service *s)
{
	/* sd-event pings between its rounds, so only while the loop really turns. */
	int r = sd_event_set_watchdog(loop_event(s->loop), 1);
	if (r < 0)
		(void)log_warning(r, "no watchdog: %m");
	log_info("ready on %s", s->conf.socket);
	(void)sd_notify(0, "READY=1\nSTATUS=Ready");
	memory_trim();
	s->settle_cpu_usec = cpu_usec();
	r = sd_event_add_time_relative(
	        loop_event(s->loop), &s->settle, CLOCK_MONOTONIC, SETTLE_USEC, 0, on_settle, s);
	if (r < 0)
		(void)log_warning(r, "no second look at memory: %m");
	return loop_run(s->loop);
}

static void service_done(struct service *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->signals); i++)
		s->signals[i] = sd_event_source_disable_unref(s->signals[i]);
	s->settle = sd_event_source_disable_unref(s->settle);
	s->patience = sd_event_source_disable_unref(s->patience);
	s->server = rpc_server_free(s->server);
	s->loop = loop_free(s->loop);
	passed_fds_done(&s->passed);
	conf_done(s->tables, s->n_tables);
}

static int service_live(struct service *s)
{
	struct err err = { 0 };
	int r = service_configure(s, &err);

	if (r == 0 && s->args.print_config) {
		conf_print(s->tables, s->n_tables, stdout);
		return EXIT_SUCCESS;
	}
	if (r < 0) {
		(void)log_err(r, "%s", err_text(&err, r));
		return EX_CONFIG;
	}
	log_configure(s->conf.log_level);
	process_prepare();
	r = service_build(s, &err);
	if (r < 0) {
		(void)log_err(r, "%s", err_text(&err, r));
		(void)sd_notifyf(0, "STATUS=%s\nERRNO=%d", err_text(&err, r), -r);
		return EXIT_FAILURE;
	}
	r = service_run(s);
	if (r < 0)
		(void)log_err(r, "the loop failed: %m");
	return r < 0 ? EXIT_FAILURE : r;
}

int service_main(int argc, char **argv, const struct service_options *options)
{
	struct service s = { .options = options };

	(void)std_fds_take();
	int r = service_args_parse(options->name, argc, argv, &s.args);
	if (r != 0)
		return r < 0 ? EX_USAGE : EXIT_SUCCESS;
	(void)snprintf(s.id, sizeof(s.id), "bc-%s", options->name);
	(void)snprintf(s.preset_socket, sizeof(s.preset_socket), "/run/bc/%s.sock", options->name);
	if (s.args.config)
		(void)snprintf(s.config_path, sizeof(s.config_path), "%s", s.args.config);
	else
		(void)snprintf(s.config_path, sizeof(s.config_path), "/etc/bc/%s.conf", options->name);
	log_open(s.id);
	r = service_live(&s);
	service_done(&s);
	return r;
}

struct loop *service_loop(struct service *service)
{
	return service->loop;
}

struct rpc_server *service_server(struct service *service)
{
	return service->server;
}

const char *service_data_dir(const struct service *service)
{
	return service->conf.data_dir;
}

int service_take_fd(struct service *service, const char *name)
{
	return passed_fds_named(&service->passed, name);
}

void service_status(struct service *service, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	(void)service;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)sd_notifyf(0, "STATUS=%s", text);
}
