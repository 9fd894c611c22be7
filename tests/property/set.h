/* The services under test, as processes of this one: started, killed, stopped and continued at will. Everything they
 * keep is below one directory; the network is the caller's namespace. */
#pragma once

#include "lib/rpc/client.h"

#include <stdbool.h>
#include <sys/types.h>

enum set_service {
	SET_CONVERGER,
	SET_NETD,
	SET_FAKE,
	SET_FAKE_TWO,
	SET_SERVICES,
};

enum { SET_FAULTS_MAX = 2048, SET_DIED = 2 };

struct set_options {
	const char *bin_dir; /* weak */
	bool trusts_converger; /* the fakes let a volume have a second writer, so that it is the converger's not to make one */
	unsigned max_vcpus; /* of the first fake */
};

struct set {
	struct loop *loop; /* owned */
	struct set_options options;
	char dir[64];
	struct {
		pid_t pid;
		int pidfd; /* owned; -EBADF while it is down */
		bool is_frozen;
	} processes[SET_SERVICES];
	struct rpc_channel *channels[SET_SERVICES]; /* owned */
	char faults[2][SET_FAULTS_MAX];             /* of each fake, as its control file has them */
	unsigned n_boots;
};

const char *set_name(enum set_service service);

/* Makes the directory and the configuration; nothing runs yet. Ends the test when it cannot, as all of these. */
void set_open(struct set *set, const struct set_options *options);
void set_start(struct set *set, enum set_service service); /* nothing when it runs */
void set_kill(struct set *set, enum set_service service);  /* -9; nothing when it is down */
/* Asks it to end; its exit status must be 0. One that may be young may also die of being asked. */
void set_end(struct set *set, enum set_service service, bool may_be_young);
void set_freeze(struct set *set, enum set_service service, bool is_frozen);
bool set_is_up(const struct set *set, enum set_service service);
/* One that ended by itself; SET_SERVICES for none. */
enum set_service set_crashed(const struct set *set);
/* What the kernel says after a reboot: another boot id. */
void set_boot_id(struct set *set);
/* The last lines, on standard error. */
void set_print_log(const struct set *set, enum set_service service, unsigned n_lines);
/* All that run are killed. Of a run that failed the directory is kept. */
void set_close(struct set *set, bool is_failed);

/* dir/FORMAT, in the caller's buffer. */
char *set_path(const struct set *set, char *buf, size_t size, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
/* Replaces a file by renaming. */
void set_write(const struct set *set, const char *name, const char *text);

/* Runs a program to its end; its output, owned by the caller, or NULL when it failed. */
char *set_output(const char *const *argv);
void set_shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Ends the test with status SET_DIED: what it needs cannot be had. */
void set_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
