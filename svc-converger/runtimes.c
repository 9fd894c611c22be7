#include "svc-converger/runtimes.h"

#include "lib/base/cleanup.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

struct runtimes {
	struct loop *loop;                        /* weak */
	struct runtimes_options options;          /* run_dir owned */
	struct runtime_link_handlers handlers;    /* the owner's, with a look at ids in between */
	struct runtime_link *links[RUNTIMES_MAX]; /* owned */
	size_t n_links;
	sd_event_source *watch; /* owned */
};

static const char PATTERN[] = "runtime-*.sock";

/* Two sockets, one name: who stands has it. A lost one gives way to its successor. */
static void runtimes_judge(struct runtimes *runtimes, struct runtime_link *link)
{
	const char *id = runtime_link_id(link);

	for (size_t i = 0; *id && i < runtimes->n_links; i++) {
		struct runtime_link *other = runtimes->links[i];
		char why[256];

		if (other == link || strcmp(runtime_link_id(other), id) != 0 ||
		        runtime_link_is_refused(other))
			continue;
		if (runtime_link_is_known(other)) {
			(void)snprintf(why, sizeof(why), "it calls itself %s, as %s does already", id,
			        runtime_link_path(other));
			runtime_link_refuse(link, why);
			return;
		}
		(void)snprintf(why, sizeof(why), "%s is at %s now", id, runtime_link_path(link));
		runtime_link_refuse(other, why);
	}
}

static void on_state(struct runtime_link *link, void *userdata)
{
	struct runtimes *runtimes = userdata;

	if (runtime_link_state(link) == LINK_TRYING && !runtime_link_is_refused(link))
		runtimes_judge(runtimes, link);
	runtimes->options.link.handlers->on_state(link, runtimes->options.link.userdata);
}

static void on_domain(
        struct runtime_link *link, const struct domain *before, const struct domain *now, void *userdata)
{
	struct runtimes *runtimes = userdata;

	runtimes->options.link.handlers->on_domain(link, before, now, runtimes->options.link.userdata);
}

static struct runtime_link *runtimes_at(const struct runtimes *runtimes, const char *path)
{
	for (size_t i = 0; i < runtimes->n_links; i++)
		if (strcmp(runtime_link_path(runtimes->links[i]), path) == 0)
			return runtimes->links[i];
	return NULL;
}

static void runtimes_add(struct runtimes *runtimes, const char *path)
{
	struct runtime_link_options options = runtimes->options.link;

	if (runtimes->n_links == RUNTIMES_MAX)
		return;
	options.link.path = path;
	options.index = (unsigned)runtimes->n_links;
	options.handlers = &runtimes->handlers;
	options.userdata = runtimes;
	if (runtime_link_new(runtimes->loop, &options, &runtimes->links[runtimes->n_links]) == 0)
		runtimes->n_links++;
}

/* A socket of this name is there or has come back; or is_gone. */
static void runtimes_notice(struct runtimes *runtimes, const char *name, bool is_gone)
{
	char path[512];
	struct runtime_link *link;

	if (fnmatch(PATTERN, name, 0) != 0)
		return;
	(void)snprintf(path, sizeof(path), "%s/%s", runtimes->options.run_dir, name);
	link = runtimes_at(runtimes, path);
	if (!link)
		runtimes_add(runtimes, path);
	else if (is_gone)
		on_state(link, runtimes);
	else
		runtime_link_poke(link);
}

static void runtimes_scan(struct runtimes *runtimes)
{
	CLEANUP_CLOSEDIR DIR *dir = opendir(runtimes->options.run_dir);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		runtimes_notice(runtimes, entry->d_name, false);
}

static int on_inotify(sd_event_source *source, const struct inotify_event *event, void *userdata)
{
	struct runtimes *runtimes = userdata;

	(void)source;
	if (event->mask & IN_Q_OVERFLOW)
		runtimes_scan(runtimes);
	else if (event->len) {
		bool is_gone = event->mask & (IN_DELETE | IN_MOVED_FROM);

		runtimes_notice(runtimes, event->name, is_gone);
		if (runtimes->options.on_other && !is_gone)
			runtimes->options.on_other(event->name, runtimes->options.link.userdata);
	}
	return 0;
}

int runtimes_new(
        struct loop *loop, const struct runtimes_options *options, struct runtimes **ret, struct err *err)
{
	struct runtimes *runtimes = calloc(1, sizeof(*runtimes));
	int r;

	if (!runtimes)
		return -ENOMEM;
	runtimes->loop = loop;
	runtimes->options = *options;
	runtimes->options.run_dir = strdup(options->run_dir);
	runtimes->handlers = (struct runtime_link_handlers){ .on_domain = on_domain, .on_state = on_state };
	r = runtimes->options.run_dir ? 0 : -ENOMEM;
	/* IN_ATTRIB: a socket is often made first and opened to us second. */
	if (r == 0)
		r = sd_event_add_inotify(loop_event(loop), &runtimes->watch, options->run_dir,
		        IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR,
		        on_inotify, runtimes);
	if (r < 0) {
		err_set(err, r, "cannot watch the run directory %s for runtimes: %s", options->run_dir,
		        strerror(-r));
		runtimes_free(runtimes);
		return r;
	}
	(void)sd_event_source_set_description(runtimes->watch, "runtime-sockets");
	runtimes_scan(runtimes);
	*ret = runtimes;
	return 0;
}

struct runtimes *runtimes_free(struct runtimes *runtimes)
{
	if (!runtimes)
		return NULL;
	sd_event_source_disable_unref(runtimes->watch);
	for (size_t i = 0; i < runtimes->n_links; i++)
		runtime_link_free(runtimes->links[i]);
	free((char *)runtimes->options.run_dir);
	free(runtimes);
	return NULL;
}

struct runtime_link *runtimes_find(const struct runtimes *runtimes, const char *id)
{
	for (size_t i = 0; i < runtimes->n_links; i++)
		if (strcmp(runtime_link_id(runtimes->links[i]), id) == 0 &&
		        !runtime_link_is_refused(runtimes->links[i]))
			return runtimes->links[i];
	return NULL;
}

struct runtime_link *runtimes_next(const struct runtimes *runtimes, size_t *cursor)
{
	return *cursor < runtimes->n_links ? runtimes->links[(*cursor)++] : NULL;
}

size_t runtimes_count_named(const struct runtimes *runtimes)
{
	size_t n = 0;

	for (size_t i = 0; i < runtimes->n_links; i++)
		n += *runtime_link_id(runtimes->links[i]) != 0;
	return n;
}

const struct runtime_link *runtimes_nameless(const struct runtimes *runtimes)
{
	for (size_t i = 0; i < runtimes->n_links; i++)
		if (!*runtime_link_id(runtimes->links[i]) && !runtime_link_is_none(runtimes->links[i]) &&
		        access(runtime_link_path(runtimes->links[i]), F_OK) == 0)
			return runtimes->links[i];
	return NULL;
}

void runtimes_resync(struct runtimes *runtimes)
{
	for (size_t i = 0; i < runtimes->n_links; i++)
		runtime_link_resync(runtimes->links[i]);
}
