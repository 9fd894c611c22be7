/* The service's one loop: a gRPC completion queue that also runs sd-event.
 *
 * Every object of a service lives on the thread that calls loop_run(). The completion queue cannot be polled
 * from outside, so the loop waits in it, and two things are brought to it: sd-event (timers, signals, netlink,
 * children) through a small thread "bc-wake" that only waits for the event fd, and work finished on other
 * threads through loop_post(). Both arrive as tags of empty batches, which gRPC core puts in the queue at once. */
#pragma once

#include <grpc/grpc.h>
#include <stdbool.h>
#include <systemd/sd-event.h>

struct loop;

/* One completion. on_done runs on the loop thread, exactly once per started batch or post; ok is gRPC's
 * success flag (true for posts). on_done may free the tag. */
struct loop_tag {
	void (*on_done)(struct loop_tag *tag, bool ok);
};

/* Initialises gRPC core; SIGTERM, SIGINT and SIGCHLD must be blocked before the first call. */
int loop_new(struct loop **ret);
/* Runs until loop_exit(), then returns its code. Every sd-event source and call must be gone before loop_free(). */
int loop_run(struct loop *loop);
void loop_exit(struct loop *loop, int code);
struct loop *loop_free(struct loop *loop);

sd_event *loop_event(struct loop *loop);              /* weak; the loop owns it */
grpc_completion_queue *loop_queue(struct loop *loop); /* weak */

/* From any thread: tag->on_done(tag, true) will run on the loop thread, in order of posting from one thread. */
void loop_post(struct loop *loop, struct loop_tag *tag);

/* For an on_done that ran no code but its own and left every sd-event source as it was: the loop need not look at
 * sd-event again before it blocks. */
void loop_keep_armed(struct loop *loop);
