#include "tests/property/history.h"

#include "tests/property/wish.h"

#include "lib/base/atomic_file.h"
#include "lib/text/proto_read.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DOMAINS_MAX = 4096, FILE_MAX = 256 << 20 };

/* A volume in the hands of a domain that is up. */
struct hold {
	char volume[64], id[UUID_TEXT_MAX];
	unsigned runtime;
	bool read_only;
	uint64_t from_usec, to_usec; /* UINT64_MAX: still */
};

struct history {
	const struct set *set; /* weak */
	struct {
		Bc__Fake__StateLine *domains[DOMAINS_MAX]; /* owned; one line for each domain there is */
		size_t n_domains;
		uint64_t inode;
		size_t n_read; /* bytes */
	} files[WISH_RUNTIMES];
	struct hold *holds; /* owned */
	size_t n_holds;
	bool starts_are_forbidden;
	char start_words[256];
	char words[512];
};

struct history *history_new(const struct set *set)
{
	struct history *history = calloc(1, sizeof(*history));

	if (!history)
		set_die("no memory");
	history->set = set;
	return history;
}

struct history *history_free(struct history *history)
{
	for (unsigned r = 0; history && r < WISH_RUNTIMES; r++)
		for (size_t i = 0; i < history->files[r].n_domains; i++)
			bc__fake__state_line__free_unpacked(history->files[r].domains[i], NULL);
	if (history)
		free(history->holds);
	free(history);
	return NULL;
}

bool history_is_up(const Bc__Fake__Record *record)
{
	switch (record->domain->state) {
	case BC__V1__DOMAIN__STATE__RUNNING:
	case BC__V1__DOMAIN__STATE__PAUSED:
	case BC__V1__DOMAIN__STATE__STOPPING:
		return true;
	default:
		return false;
	}
}

/* --- who has what open --- */

static void holds_end(struct history *history, unsigned runtime, const char *id, uint64_t usec)
{
	for (size_t i = 0; i < history->n_holds; i++) {
		struct hold *hold = &history->holds[i];

		if (hold->to_usec == UINT64_MAX && hold->runtime == runtime && strcmp(hold->id, id) == 0)
			hold->to_usec = usec;
	}
}

static void hold_begin(struct history *history, unsigned runtime, const char *id,
        const Bc__V1__VolumePath *volume, uint64_t usec)
{
	history->holds = reallocarray(history->holds, history->n_holds + 1, sizeof(struct hold));
	if (!history->holds)
		set_die("no memory");
	struct hold *hold = &history->holds[history->n_holds++];
	*hold = (struct hold){
		.runtime = runtime, .read_only = volume->read_only, .from_usec = usec, .to_usec = UINT64_MAX
	};
	(void)snprintf(hold->volume, sizeof(hold->volume), "%s", volume->volume_id);
	(void)snprintf(hold->id, sizeof(hold->id), "%s", id);
}

static void holds_change(struct history *history, unsigned runtime, const char *id,
        const Bc__Fake__Record *before, const Bc__Fake__Record *now, uint64_t usec)
{
	bool was_up = before && history_is_up(before), is_up = now && history_is_up(now);

	if (was_up && !is_up)
		holds_end(history, runtime, id, usec);
	for (size_t i = 0; !was_up && is_up && i < now->domain->n_volumes; i++)
		hold_begin(history, runtime, id, now->domain->volumes[i], usec);
}

const char *history_double_writer(struct history *history)
{
	for (size_t i = 0; i < history->n_holds; i++) {
		for (size_t k = 0; k < i; k++) {
			const struct hold *a = &history->holds[i], *b = &history->holds[k];

			if (strcmp(a->volume, b->volume) != 0 || (a->read_only && b->read_only) ||
			        a->from_usec >= b->to_usec || b->from_usec >= a->to_usec)
				continue;
			(void)snprintf(history->words, sizeof(history->words),
			        "volume %s was open in %s of %s (%s, from %" PRIu64
			        ") and in %s of %s (%s, from %" PRIu64 ") at the same time",
			        a->volume, a->id, wish_runtime(a->runtime),
			        a->read_only ? "reading" : "writing", a->from_usec, b->id,
			        wish_runtime(b->runtime), b->read_only ? "reading" : "writing", b->from_usec);
			return history->words;
		}
	}
	/* What has ended and met nobody meets nobody that begins later. */
	size_t n = 0;
	for (size_t i = 0; i < history->n_holds; i++)
		if (history->holds[i].to_usec == UINT64_MAX)
			history->holds[n++] = history->holds[i];
	history->n_holds = n;
	return NULL;
}

/* --- who starts --- */

void history_forbid_starts(struct history *history, bool are_forbidden)
{
	history_read(history);
	history->starts_are_forbidden = are_forbidden;
	history->start_words[0] = 0;
}

const char *history_forbidden_start(const struct history *history)
{
	return history->start_words[0] ? history->start_words : NULL;
}

static void start_judge(struct history *history, unsigned runtime, const Bc__Fake__Record *before,
        const Bc__Fake__Record *now, uint64_t usec)
{
	if (history->starts_are_forbidden && now && now->domain->managed && history_is_up(now) &&
	        !(before && history_is_up(before)))
		(void)snprintf(history->start_words, sizeof(history->start_words),
		        "domain %s of %s was started (at %" PRIu64 "), though the node is drained",
		        now->domain->id, wish_runtime(runtime), usec);
}

/* --- reading --- */

static size_t domain_find(const struct history *history, unsigned runtime, const char *id)
{
	size_t i = 0;

	while (i < history->files[runtime].n_domains &&
	        strcmp(history->files[runtime].domains[i]->record->domain->id, id) != 0)
		i++;
	return i;
}

/* Takes the line. */
static void line_take(struct history *history, unsigned runtime, Bc__Fake__StateLine *line)
{
	const Bc__Fake__Record *now =
	        line->line_case == BC__FAKE__STATE_LINE__LINE_RECORD ? line->record : NULL;
	const char *id = now                                            ? now->domain->id
	        : line->line_case == BC__FAKE__STATE_LINE__LINE_REMOVED ? line->removed
	                                                                : "";
	size_t at = domain_find(history, runtime, id);
	bool is_known = at < history->files[runtime].n_domains;
	Bc__Fake__StateLine *before = is_known ? history->files[runtime].domains[at] : NULL;

	holds_change(history, runtime, id, before ? before->record : NULL, now, line->time_usec);
	start_judge(history, runtime, before ? before->record : NULL, now, line->time_usec);
	if (now && !is_known && at == DOMAINS_MAX)
		set_die("too many domains");
	if (now) {
		history->files[runtime].domains[at] = line;
		history->files[runtime].n_domains += !is_known;
	} else if (is_known) {
		history->files[runtime].domains[at] =
		        history->files[runtime].domains[--history->files[runtime].n_domains];
	}
	if (before)
		bc__fake__state_line__free_unpacked(before, NULL);
	if (!now)
		bc__fake__state_line__free_unpacked(line, NULL);
}

static void file_read_new(struct history *history, unsigned runtime)
{
	CLEANUP_FREE char *text = NULL;
	char path[256];
	struct stat st;
	size_t n_text, at;

	(void)set_path(
	        history->set, path, sizeof(path), "%s/fake/domains.json", runtime ? "fake-two" : "fake");
	if (stat(path, &st) < 0)
		return;
	if (st.st_ino != history->files[runtime].inode || (size_t)st.st_size < history->files[runtime].n_read)
		history->files[runtime].n_read = 0;
	history->files[runtime].inode = st.st_ino;
	if ((size_t)st.st_size == history->files[runtime].n_read)
		return;
	if (file_read(AT_FDCWD, path, FILE_MAX, &text, &n_text) < 0)
		set_die("cannot read %s", path);
	for (at = history->files[runtime].n_read; at < n_text;) {
		CLEANUP_PROBLEMS struct problems problems = { .file = path };
		const char *newline = memchr(text + at, '\n', n_text - at);
		ProtobufCMessage *line = NULL;

		if (!newline)
			break; /* being written, or torn by a kill */
		if (proto_read(text + at, (size_t)(newline - (text + at)), &bc__fake__state_line__descriptor,
		            &line, &problems) < 0)
			set_die("%s: a line is none of a fake's state: %.*s", path,
			        (int)(newline - (text + at)), text + at);
		line_take(history, runtime, (Bc__Fake__StateLine *)line);
		at = (size_t)(newline - text) + 1;
	}
	history->files[runtime].n_read = at;
}

void history_read(struct history *history)
{
	for (unsigned r = 0; r < WISH_RUNTIMES; r++)
		file_read_new(history, r);
}

const Bc__Fake__Record *history_domain(const struct history *history, unsigned runtime, const char *id)
{
	size_t at = domain_find(history, runtime, id);

	return at < history->files[runtime].n_domains ? history->files[runtime].domains[at]->record : NULL;
}

const Bc__Fake__Record *history_next(const struct history *history, unsigned runtime, size_t *cursor)
{
	return *cursor < history->files[runtime].n_domains
	        ? history->files[runtime].domains[(*cursor)++]->record
	        : NULL;
}
