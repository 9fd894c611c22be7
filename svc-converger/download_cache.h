/* Files fetched from file: and https: sources, kept under their SHA-256: one download per digest however many
 * want it, resumed where it broke off, verified while it is written, and in the directory under its name only when
 * it is whole. The image store and the restores of the snapshot store are each one of these.
 *
 * Level-triggered: a wish is stated as often as one likes; on_change brings the asker back. Fetching is done by
 * a child process (transfer.h), so nothing here blocks for longer than a rename takes. Loop thread only. */
#pragma once

#include "lib/base/cleanup.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct download_cache;
struct transfer_config;

enum download_state {
	DOWNLOAD_ABSENT,  /* nobody asked */
	DOWNLOAD_WAITING, /* for a free slot, or for the next attempt after a failure */
	DOWNLOAD_RUNNING,
	DOWNLOAD_READY,
};

struct download_status {
	enum download_state state;
	char path[512];                   /* when READY */
	uint64_t size_bytes;              /* when READY */
	uint64_t done_bytes, total_bytes; /* while RUNNING; total 0: unknown */
	/* of the last failure, while there is no success; text "" otherwise */
	struct err error;
	unsigned failures;          /* in a row */
	uint64_t next_attempt_usec; /* CLOCK_REALTIME; 0: not waiting for one */
};

struct download_source {
	const char *digest; /* "sha256:…" */
	const char *url;
	uint64_t size_bytes; /* 0: unknown; another size is refused */
};

struct download_cache_options {
	sd_event *event; /* weak */
	const char *dir; /* must exist; only "<64 hex>" and "<64 hex>.part" in it are ours */
	const struct transfer_config *transfer; /* copied */
	size_t n_parallel_max;                  /* 0: 4 */
	size_t n_wanted_max;                    /* 0: 16384; more wishes at once are -EAGAIN */
	uint64_t reserve_bytes; /* disk space that stays free; a download that would need it waits */
	mode_t file_mode;       /* 0: 0444 */
	uint64_t retry_min_usec, retry_max_usec; /* 0: 5 s, 10 min */
	/* A digest's state changed, or its progress moved on (at most 5 times a second). May be NULL. Never from inside a
	 * call into the cache, except download_cache_collect(). */
	void (*on_change)(const char *digest, void *userdata);
	void *userdata;
};

int download_cache_open(
        const struct download_cache_options *options, struct download_cache **ret, struct err *err);
struct download_cache *download_cache_free(struct download_cache *cache); /* kills what runs; parts stay */
CLEANUP_DEFINE(download_cache, download_cache_free)

/* States the wish. 0: ready, see *ret; -EINPROGRESS: *ret says how far it is or what went wrong last and when it is
 * tried again; -EAGAIN: too many wishes. ret may be NULL. Several wishes for a digest may name different sources: while
 * one fails the others are tried, a new one at once. */
int download_cache_want(
        struct download_cache *cache, const struct download_source *source, struct download_status *ret);
/* Without a wish. */
void download_cache_get(struct download_cache *cache, const char *digest, struct download_status *ret);
/* Forgets the pause after a failure. */
void download_cache_retry(struct download_cache *cache, const char *digest);

/* Something is wished for that is not there. */
bool download_cache_has_wishes(const struct download_cache *cache);
/* Ends what nobody wishes for any more; in_use() says who does. Parts stay for a later wish. */
void download_cache_end_unwanted(
        struct download_cache *cache, bool (*in_use)(const char *digest, void *userdata), void *userdata);

/* One look over the directory: what in_use() denies and has not been used for keep_usec is removed, parts too. What
 * is in use has its time of use written on it (its mtime), so that a restart forgets nothing. Call it only when every
 * user is known: an unreachable runtime's domains may rest on an image. Returns the bytes freed. */
uint64_t download_cache_collect(struct download_cache *cache, uint64_t keep_usec,
        bool (*in_use)(const char *digest, void *userdata), void *userdata);
