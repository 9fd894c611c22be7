#include "svc-runtime-fake/control.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/rpc/status.h"
#include "lib/text/proto_read.h"

#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

enum { ENTRIES_MAX = 1000 };

/* What a fault has seen so far. */
struct tally {
	uint64_t n_fitting, n_applied;
	uint64_t random;
	grpc_status_code code;
};

struct control {
	char *path; /* owned */
	struct control_handlers handlers;
	sd_event_source *watch;     /* owned */
	Bc__Fake__Control *content; /* owned; never NULL */
	struct tally *tallies;      /* owned; one for each fault */
	/* of the file as it was read last */
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

static int content_check(const Bc__Fake__Control *content, struct tally *tallies, struct problems *problems)
{
	if (content->n_faults > ENTRIES_MAX || content->n_events > ENTRIES_MAX)
		problems_add(problems, 0, 0, "more than %d faults or events; split them", ENTRIES_MAX);
	for (size_t i = 0; i < content->n_faults; i++) {
		const Bc__Fake__Fault *fault = content->faults[i];

		tallies[i] = (struct tally){ .random = fault->seed, .code = GRPC_STATUS_UNAVAILABLE };
		if (fault->action == BC__FAKE__FAULT__ACTION__ACTION_UNSPECIFIED)
			problems_add(problems, 0, 0, "faults[%zu].action: is missing", i);
		if (fault->percent > 100)
			problems_add(
			        problems, 0, 0, "faults[%zu].percent: %u is over 100", i, fault->percent);
		int code;
		for (code = 0; fault->code[0] && code <= GRPC_STATUS_UNAUTHENTICATED; code++)
			if (strcmp(rpc_code_to_string(code), fault->code) == 0)
				break;
		if (code > GRPC_STATUS_UNAUTHENTICATED)
			problems_add(problems, 0, 0,
			        "faults[%zu].code: '%s' is no gRPC code; write one such as UNAVAILABLE", i,
			        fault->code);
		else if (fault->code[0])
			tallies[i].code = (grpc_status_code)code;
	}
	for (size_t i = 0; i < content->n_events; i++)
		if (content->events[i]->type == BC__FAKE__EVENT__TYPE__TYPE_UNSPECIFIED)
			problems_add(problems, 0, 0, "events[%zu].type: is missing", i);
	return problems->n ? -EINVAL : 0;
}

static void content_take(struct control *control, Bc__Fake__Control *content, struct tally *tallies)
{
	if (control->content)
		bc__fake__control__free_unpacked(control->content, NULL);
	free(control->tallies);
	control->content = content;
	control->tallies = tallies;
}

/* Replaces the content by that of a text; "" is an empty one. */
static int text_take(struct control *control, const char *text, size_t n_text, struct problems *problems)
{
	ProtobufCMessage *message = NULL;

	if (n_text == 0) {
		text = "{}";
		n_text = 2;
	}
	int r = proto_read(text, n_text, &bc__fake__control__descriptor, &message, problems);
	if (r < 0)
		return r;
	Bc__Fake__Control *content = (Bc__Fake__Control *)message;
	struct tally *tallies = calloc(content->n_faults + 1, sizeof(*tallies));
	r = tallies ? content_check(content, tallies, problems) : -ENOMEM;
	if (r < 0) {
		free(tallies);
		bc__fake__control__free_unpacked(content, NULL);
		return r;
	}
	content_take(control, content, tallies);
	return 0;
}

static int file_take(struct control *control, struct err *err)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = control->path };
	CLEANUP_FREE char *text = NULL;
	size_t n_text = 0;

	int r = file_read(AT_FDCWD, control->path, TEXT_SIZE_MAX, &text, &n_text);
	if (r < 0 && r != -ENOENT)
		return err_set(err, r, "%s: cannot be read: %s", control->path, strerror(-r));
	r = text_take(control, text ? text : "", n_text, &problems);
	if (r == -EINVAL)
		(void)problems_to_err(&problems, err);
	return r;
}

/* True when the file is another one than was read last, and remembers it. */
static bool file_changed(struct control *control)
{
	struct stat st;

	if (stat(control->path, &st) < 0)
		st = (struct stat){ 0 };
	if (st.st_dev == control->dev && st.st_ino == control->ino && st.st_size == control->size &&
	        st.st_mtim.tv_sec == control->changed.tv_sec &&
	        st.st_mtim.tv_nsec == control->changed.tv_nsec)
		return false;
	control->dev = st.st_dev;
	control->ino = st.st_ino;
	control->size = st.st_size;
	control->changed = st.st_mtim;
	return true;
}

void control_refresh(struct control *control)
{
	struct err err = { 0 };

	if (!file_changed(control))
		return;
	int r = file_take(control, &err);
	if (r < 0) {
		control->handlers.on_problem(err_text(&err, r), control->handlers.userdata);
		return;
	}
	for (size_t i = 0; i < control->content->n_events; i++)
		control->handlers.on_event(control->content->events[i], control->handlers.userdata);
}

static int on_directory_event(sd_event_source *source, const struct inotify_event *event, void *userdata)
{
	(void)source;
	(void)event;
	control_refresh(userdata);
	return 0;
}

static int directory_watch(struct control *control, sd_event *event)
{
	CLEANUP_FREE char *dir = strdup(control->path);

	if (!dir)
		return -ENOMEM;
	char *slash = strrchr(dir, '/');
	if (!slash)
		return -EINVAL;
	slash[slash == dir] = '\0';
	/* The directory: a file that is replaced by renaming has no watch of its own. */
	return sd_event_add_inotify(event, &control->watch, dir,
	        IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM, on_directory_event, control);
}

int control_open(sd_event *event, const char *path, const struct control_handlers *handlers,
        struct control **ret, struct err *err)
{
	struct control *control = calloc(1, sizeof(*control));

	if (!control)
		return -ENOMEM;
	control->handlers = *handlers;
	control->path = strdup(path);
	int r = control->path ? directory_watch(control, event) : -ENOMEM;
	if (r < 0)
		(void)err_set(err, r, "%s: its directory cannot be watched: %s", path, strerror(-r));
	if (r >= 0) {
		/* Its events are for a fake that runs. */
		(void)file_changed(control);
		r = file_take(control, err);
	}
	if (r < 0) {
		(void)control_close(control);
		return r;
	}
	*ret = control;
	return 0;
}

struct control *control_close(struct control *control)
{
	if (!control)
		return NULL;
	(void)sd_event_source_disable_unref(control->watch);
	content_take(control, NULL, NULL);
	free(control->path);
	free(control);
	return NULL;
}

/* --- judging --- */

static uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A fault of any method is one of calls; what calls tell of a domain ("List.domain") is named. */
static bool fits_method(const Bc__Fake__Fault *fault, const char *method)
{
	return fault->method[0] ? strcmp(fault->method, method) == 0 : !strchr(method, '.');
}

static bool fits(const Bc__Fake__Fault *fault, const char *method, const char *id)
{
	return fits_method(fault, method) && (!fault->id[0] || strcmp(fault->id, id) == 0);
}

static bool applies(const Bc__Fake__Fault *fault, struct tally *tally)
{
	if (tally->n_fitting++ < fault->skip || (fault->count && tally->n_applied >= fault->count))
		return false;
	if (fault->percent && random_next(&tally->random) % 100 >= fault->percent)
		return false;
	tally->n_applied++;
	return true;
}

static struct fault fault_of(const Bc__Fake__Fault *fault, const struct tally *tally)
{
	struct fault found = { .action = fault->action,
		.code = tally->code,
		.stall_usec = fault->stall_ms ? fault->stall_ms * USEC_PER_MSEC : UINT64_MAX };

	(void)snprintf(found.message, sizeof(found.message), "%s",
	        fault->message[0] ? fault->message : "injected fault");
	return found;
}

struct fault control_judge(struct control *control, const char *method, const char *id)
{
	control_refresh(control);
	for (size_t i = 0; i < control->content->n_faults; i++) {
		const Bc__Fake__Fault *fault = control->content->faults[i];
		struct tally *tally = &control->tallies[i];

		if (fits(fault, method, id) && applies(fault, tally))
			return fault_of(fault, tally);
	}
	return (struct fault){ .action = BC__FAKE__FAULT__ACTION__ACTION_UNSPECIFIED };
}

bool control_concerns(const struct control *control, const char *method)
{
	for (size_t i = 0; i < control->content->n_faults; i++)
		if (fits_method(control->content->faults[i], method))
			return true;
	return false;
}
