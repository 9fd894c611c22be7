#include "svc-runtime-fake/fake.h"

#include "svc-runtime-fake/console.h"
#include "svc-runtime-fake/watch.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "lib/base/tree.h"
#include "lib/log/log.h"

#include <limits.h>
#include <string.h>

enum { N_JOB_THREADS = 2, N_JOBS_MAX = 1024 };

#define KEY(type_, name_, member_)                                                                           \
	.section = "fake", .name = (name_), .type = (type_), .offset = offsetof(struct fake_conf, member_)

const struct conf_key fake_keys[] = {
	{ KEY(CONF_STRING, "id", id), .preset = "fake", .max = 32, .help = "the runtime id it goes by" },
	{ KEY(CONF_STRING, "cpu_model", cpu_model), .preset = "fake-cpu-1", .max = 64,
	        .help = "memory snapshots restore on it only" },
	{ KEY(CONF_PATH, "boot_id_path", boot_id_path), .preset = BOOT_ID_PATH,
	        .help = "what tells that the host was rebooted" },
	{ KEY(CONF_PATH, "control", control_path),
	        .help = "file that makes it misbehave; empty: control.yaml beside its state" },
	{ KEY(CONF_UINT, "max_vcpus", vcpus_max), .preset = "0",
	        .help = "vCPUs of all running domains together; 0: no limit" },
	{ KEY(CONF_SIZE, "max_memory", memory_bytes_max), .preset = "0",
	        .help = "memory of all running domains together; 0: no limit" },
	{ KEY(CONF_BOOL, "self_admitting", self_admitting), .preset = "yes",
	        .help = "say that it checks capacity itself, so that the converger does not" },
	{ KEY(CONF_BOOL, "one_writer", one_writer), .preset = "yes",
	        .help = "refuse a volume's second writer; no: only the converger's own accounting is in its way" },
	{ KEY(CONF_DURATION, "start_time", start_usec), .preset = "0s", .max = 3600 * USEC_PER_SEC,
	        .help = "what a start takes" },
	{ KEY(CONF_DURATION, "stop_time", stop_usec), .preset = "0s", .max = 3600 * USEC_PER_SEC,
	        .help = "what a stop takes" },
};
const size_t n_fake_keys = ARRAY_SIZE(fake_keys);

struct rules fake_rules(const struct fake *fake)
{
	return (struct rules){ .runtime_id = fake->conf.id,
		.cpu_model = fake->conf.cpu_model,
		.vcpus_max = fake->conf.vcpus_max,
		.memory_bytes_max = fake->conf.memory_bytes_max,
		.one_writer = fake->conf.one_writer,
		.now_usec = clock_realtime_usec() };
}

int fake_put(struct fake *fake, record *r_consume, struct err *err)
{
	char id[256];

	(void)snprintf(id, sizeof(id), "%s", record_id(r_consume));
	int r = domains_put(fake->domains, r_consume, err);
	if (r == 0)
		consoles_domain_changed(fake->consoles, id, domains_get(fake->domains, id));
	return r;
}

int fake_remove(struct fake *fake, const char *id, struct err *err)
{
	int r = domains_remove(fake->domains, id, err);

	if (r == 0)
		consoles_domain_changed(fake->consoles, id, NULL);
	return r;
}

static void state_belie(Bc__V1__Domain *domain)
{
	bool down = domain->state == BC__V1__DOMAIN__STATE__STOPPED ||
	        domain->state == BC__V1__DOMAIN__STATE__CRASHED;

	domain->state = down ? BC__V1__DOMAIN__STATE__RUNNING : BC__V1__DOMAIN__STATE__STOPPED;
}

int fake_tell(struct fake *fake, const char *where, const record *r, Bc__V1__Domain **ret)
{
	struct fault fault = { .action = BC__FAKE__FAULT__ACTION__ACTION_UNSPECIFIED };

	if (control_concerns(fake->control, where))
		fault = control_judge(fake->control, where, record_id(r));
	*ret = NULL;
	if (fault.action == BC__FAKE__FAULT__ACTION__LOSE)
		return 0;
	*ret = (Bc__V1__Domain *)message_copy(&r->domain->base);
	if (*ret && fault.action == BC__FAKE__FAULT__ACTION__LIE)
		state_belie(*ret);
	return *ret ? 0 : -ENOMEM;
}

/* --- the control file --- */

static void on_event(const Bc__Fake__Event *event, void *userdata)
{
	struct fake *fake = userdata;
	struct rules rules = fake_rules(fake);
	struct err err = { 0 };
	record *next = NULL;

	if (event->type == BC__FAKE__EVENT__TYPE__DROP_WATCHERS) {
		watchers_drop(fake->watchers, event->message[0] ? event->message : "dropped as told");
		return;
	}
	int r = rules_event(&rules, domains_get(fake->domains, event->id), event, &next, &err);
	if (r == 0)
		r = next ? fake_put(fake, next, &err) : fake_remove(fake, event->id, &err);
	if (r < 0)
		(void)log_warning(0, "event for '%s': %s", QUOTED(event->id), err_text(&err, r));
}

static void on_problem(const char *problem, void *userdata)
{
	(void)userdata;
	(void)log_err(0, "%s", problem);
}

/* --- begin and end --- */

static void on_change(void *userdata)
{
	struct fake *fake = userdata;

	watchers_pump(fake->watchers);
}

static int state_open(struct fake *fake, const char *dir, struct err *err)
{
	char path[PATH_MAX], boot_id[UUID_TEXT_MAX];

	int r = mkdir_p(dir, 0700);
	if (r < 0)
		return err_set(err, r, "%s: cannot be made: %s", dir, strerror(-r));
	r = boot_id_read(fake->conf.boot_id_path, boot_id);
	if (r < 0)
		return err_set(err, r, "%s: holds no boot id: %s", fake->conf.boot_id_path, strerror(-r));
	if (snprintf(path, sizeof(path), "%s/domains.json", dir) >= (int)sizeof(path))
		return err_set(err, -ENAMETOOLONG, "%s: the path is too long", dir);
	return domains_open(path, boot_id, &fake->domains, err);
}

static int control_start(struct fake *fake, const char *dir, struct err *err)
{
	const struct control_handlers handlers = {
		.on_event = on_event, .on_problem = on_problem, .userdata = fake
	};
	char path[PATH_MAX];
	int n = fake->conf.control_path[0] ? snprintf(path, sizeof(path), "%s", fake->conf.control_path)
	                                   : snprintf(path, sizeof(path), "%s/control.yaml", dir);

	if (n >= (int)sizeof(path))
		return err_set(err, -ENAMETOOLONG, "%s: the path is too long", dir);
	return control_open(loop_event(fake->loop), path, &handlers, &fake->control, err);
}

int fake_start(struct service *service, void *userdata, struct err *err)
{
	struct fake *fake = userdata;
	char dir[PATH_MAX];

	fake->loop = service_loop(service);
	if (snprintf(dir, sizeof(dir), "%s/fake", service_data_dir(service)) >= (int)sizeof(dir))
		return err_set(err, -ENAMETOOLONG, "%s: the path is too long", service_data_dir(service));
	int r = consoles_new(fake, &fake->consoles);
	if (r == 0)
		r = watchers_new(fake, &fake->watchers);
	if (r == 0)
		r = job_pool_new(fake->loop, "bc-fake", N_JOB_THREADS, N_JOBS_MAX, &fake->jobs);
	if (r == 0)
		r = state_open(fake, dir, err);
	if (r == 0)
		r = control_start(fake, dir, err);
	if (r < 0)
		return r;
	domains_on_change(fake->domains, on_change, fake);
	fake_service_init(fake);
	return rpc_server_add(service_server(service), &fake->service.base);
}

void fake_drain(struct service *service, void *userdata)
{
	struct fake *fake = userdata;

	(void)service;
	watchers_drop(fake->watchers, "the runtime is ending; call again");
	consoles_drain(fake->consoles);
}

bool fake_stop(struct service *service, void *userdata)
{
	struct fake *fake = userdata;

	(void)service;
	/* Every held call and every job holds a live call, and those are over. */
	fake->jobs = job_pool_free(fake->jobs);
	fake->control = control_close(fake->control);
	fake->domains = domains_close(fake->domains);
	fake->watchers = watchers_free(fake->watchers);
	fake->consoles = consoles_free(fake->consoles);
	return true;
}
