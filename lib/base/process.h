/* Child processes, by posix_spawn: a gRPC process must not fork, its locks would be copied without their
 * threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* from of the parent is to in the child. */
struct process_fd {
	int from; /* weak */
	int to;
};

struct process_options {
	const char *const
	        *argv; /* NULL-terminated; argv[0] is the program, sought on PATH when it has no '/' */
	const char *const *env; /* NULL-terminated "NAME=value", added to what is inherited; NULL for none */
	const struct process_fd
	        *fds; /* all that is open in the child; 0, 1 and 2 are /dev/null unless given */
	size_t n_fds;
	const char *cwd; /* NULL: inherited */
	bool own_group;  /* in a process group of its own, so that it can be killed with its children */
	/* Of process_capture() alone: once it is readable the program is killed. Weak; NULL: none. */
	const int *cancel_fd;
};

/* Starts a program with default signal handlers, nothing blocked, only the given descriptors, and the
 * environment without what systemd meant for us alone (LISTEN_*, NOTIFY_SOCKET, WATCHDOG_*,
 * JOURNAL_STREAM, …). A program that cannot be executed is -errno here, not an exit status. *ret_pidfd is
 * owned by the caller, who must reap it: with sd_event_add_child_pidfd, process_wait or waitid(P_PIDFD). */
int process_spawn(const struct process_options *options, pid_t *ret_pid, int *ret_pidfd);

/* Waits and reaps. *ret_status is as of wait(2): WIFEXITED etc. -ETIMEDOUT leaves it running.
 * timeout_usec UINT64_MAX: none. Blocks: for pool threads and tools, never for the loop thread. */
int process_wait(int pidfd, uint64_t timeout_usec, int *ret_status);

struct process_output {
	int status; /* as of wait(2) */
	char *text; /* owned: stdout and stderr together, NUL-terminated */
	size_t n_text;
	bool cut; /* there was more */
};

/* Runs a program to its end with stdin /dev/null and keeps its first n_max bytes of output. After timeout_usec it and its
 * process group are killed: -ETIMEDOUT; by cancel_fd: -ECANCELED. Blocks. options' descriptors 1 and 2 and own_group are
 * ignored. */
int process_capture(const struct process_options *options, size_t n_max, uint64_t timeout_usec,
        struct process_output *ret);
void process_output_done(struct process_output *output);

/* "exited with status 3", "was killed by signal 9 (Killed)". Returns buf. */
char *process_status_text(int status, char *buf, size_t size);
