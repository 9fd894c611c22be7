#include "lib/loop/loop.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/tsan.h"

#include <dlfcn.h>
#include <errno.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/* How old sd-event's idea of "now" may be when a handler runs. */
static const uint64_t EVENT_TIME_STALE_USEC = 1000;
/* Event handlers that run before completions have their turn. */
enum { EVENTS_AT_ONCE_MAX = 16 };
enum { WAKER_STACK = 256 << 10 };

struct loop {
	sd_event *event;              /* owned */
	grpc_completion_queue *queue; /* owned */
	grpc_channel *lame;           /* owned; carries post_call and nothing else */
	grpc_call *post_call;         /* owned; what empty batches are started on */
	struct loop_tag event_tag;    /* posted by the wake thread: sd-event has something */
	int wake_fd;                  /* owned; epoll: sd-event's descriptor, one shot, and quit_fd */
	int quit_fd;                  /* owned; eventfd that ends the wake thread */
	pthread_t waker;
	bool waker_started;
	bool waker_armed; /* or its tag is on the way */
	bool event_idle;  /* sd-event was dispatched and nothing has run since: its timers are armed */
	bool event_more;  /* … but it was stopped before it had nothing more */
	uint64_t dispatched_usec; /* CLOCK_MONOTONIC, when sd-event last looked at the clock */
	bool exiting;
	int exit_code;
};

static void *waker_run(void *userdata)
{
	struct loop *loop = userdata;

	for (;;) {
		struct epoll_event ready;
		int n = epoll_wait(loop->wake_fd, &ready, 1, -1);

		if (n < 0 && errno != EINTR)
			abort(); /* the descriptors are ours and open: nothing else can fail */
		if (n <= 0)
			continue;
		if (ready.data.ptr == NULL)
			return NULL;
		loop_post(loop, &loop->event_tag);
	}
}

/* One shot, so that the wake thread sleeps until the loop thread has dispatched what there was. */
static void waker_arm(struct loop *loop)
{
	struct epoll_event interest = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = loop };

	if (loop->waker_armed)
		return;
	if (epoll_ctl(loop->wake_fd, EPOLL_CTL_MOD, sd_event_get_fd(loop->event), &interest) < 0)
		abort(); /* both descriptors are ours and open */
	loop->waker_armed = true;
}

static void on_event_ready(struct loop_tag *tag, bool ok)
{
	struct loop *loop = CONTAINER_OF(tag, struct loop, event_tag);

	(void)ok;
	loop->waker_armed = false;
}

static int waker_start(struct loop *loop)
{
	struct epoll_event quit = { .events = EPOLLIN, .data.ptr = NULL };
	struct epoll_event unarmed = { .events = EPOLLONESHOT, .data.ptr = loop };
	pthread_attr_t attr;
	sigset_t all, before;

	loop->wake_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->wake_fd < 0)
		return -errno;
	loop->quit_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->quit_fd < 0)
		return -errno;
	if (epoll_ctl(loop->wake_fd, EPOLL_CTL_ADD, loop->quit_fd, &quit) < 0)
		return -errno;
	if (epoll_ctl(loop->wake_fd, EPOLL_CTL_ADD, sd_event_get_fd(loop->event), &unarmed) < 0)
		return -errno;
	int r = pthread_attr_init(&attr);
	if (r != 0)
		return -r;
	(void)pthread_attr_setstacksize(&attr, WAKER_STACK);
	(void)sigfillset(&all); /* signals belong to the loop thread */
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&loop->waker, &attr, waker_run, loop);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	if (r != 0)
		return -r;
	loop->waker_started = true;
	(void)pthread_setname_np(loop->waker, "bc-wake");
	return 0;
}

/* Abseil's detector of deadlocks is meant for debugging, but on in Debian's build; it costs a sixth of a call. */
static void abseil_deadlock_detection_stop(void)
{
	enum { IGNORE = 0 };
	void (*set_mode)(int) = (void (*)(int))dlsym(
	        RTLD_DEFAULT, "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE");

	if (set_mode)
		set_mode(IGNORE);
}

int loop_new(struct loop **ret)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return -ENOMEM;
	loop->wake_fd = loop->quit_fd = -EBADF;
	loop->event_tag.on_done = on_event_ready;
	/* A service has a handful of connections: poll() asks for what is awaited, where epoll's edges wake us each
	 * time a peer has read what we sent. */
	(void)setenv("GRPC_POLL_STRATEGY", "poll,all", 0);
	grpc_init();
	abseil_deadlock_detection_stop();
	loop->queue = grpc_completion_queue_create_for_next(NULL);
	loop->lame = grpc_lame_client_channel_create("loop", GRPC_STATUS_UNAVAILABLE, "not for calls");
	loop->post_call = grpc_channel_create_call(loop->lame, NULL, GRPC_PROPAGATE_DEFAULTS, loop->queue,
	        grpc_slice_from_static_string("/post"), NULL, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	int r = sd_event_new(&loop->event);
	if (r >= 0)
		r = waker_start(loop);
	if (r < 0) {
		loop_free(loop);
		return r;
	}
	*ret = loop;
	return 0;
}

static bool loop_over(const struct loop *loop)
{
	return loop->exiting || sd_event_get_state(loop->event) == SD_EVENT_FINISHED;
}

/* Dispatches what sd-event has, which also arms the timers that handlers have set; but only so much, then
 * completions have their turn. */
static int event_dispatch(struct loop *loop)
{
	int r = 1;

	for (int n = 0; r > 0 && n < EVENTS_AT_ONCE_MAX && !loop_over(loop); n++) {
		r = sd_event_run(loop->event, 0);
		if (r < 0)
			return r;
	}
	loop->event_idle = true;
	loop->dispatched_usec = clock_monotonic_usec();
	loop->event_more = r > 0;
	return 0;
}

/* Takes one completion and runs it; waits for one unless sd-event has more. */
static int completion_dispatch(struct loop *loop)
{
	gpr_timespec until = gpr_inf_past(GPR_CLOCK_REALTIME);

	if (!loop->event_more) {
		waker_arm(loop);
		until = gpr_inf_future(GPR_CLOCK_REALTIME);
	}
	grpc_event next = grpc_completion_queue_next(loop->queue, until, NULL);
	if (next.type == GRPC_QUEUE_TIMEOUT) {
		loop->event_idle = false;
		return 0;
	}
	struct loop_tag *tag = next.tag;
	TSAN_ACQUIRE(tag);

	/* sd_event_now() is the time of its last dispatch; a handler's relative timer must not start from
	 * before a long sleep. */
	if (clock_monotonic_usec() - loop->dispatched_usec > EVENT_TIME_STALE_USEC) {
		int r = event_dispatch(loop);

		if (r < 0)
			return r;
	}
	loop->event_idle = false;
	tag->on_done(tag, next.success != 0);
	return 0;
}

/* sd-event gets its turn after each completion, so that neither a flood of calls nor one of events starves the
 * other. */
int loop_run(struct loop *loop)
{
	int code = 0;

	loop->exiting = false;
	loop->event_idle = false; /* whoever runs the loop may have set timers before */
	while (!loop_over(loop)) {
		int r = loop->event_idle ? completion_dispatch(loop) : event_dispatch(loop);

		if (r < 0)
			return r;
	}
	if (loop->exiting)
		return loop->exit_code;
	int r = sd_event_get_exit_code(loop->event, &code);
	return r < 0 ? r : code;
}

void loop_keep_armed(struct loop *loop)
{
	loop->event_idle = !loop->event_more;
}

void loop_exit(struct loop *loop, int code)
{
	loop->exiting = true;
	loop->exit_code = code;
}

sd_event *loop_event(struct loop *loop)
{
	return loop->event;
}

grpc_completion_queue *loop_queue(struct loop *loop)
{
	return loop->queue;
}

void loop_post(struct loop *loop, struct loop_tag *tag)
{
	TSAN_RELEASE(tag);
	grpc_call_error error = grpc_call_start_batch(loop->post_call, NULL, 0, tag, NULL);

	if (error != GRPC_CALL_OK)
		abort(); /* an empty batch has nothing that can be refused */
}

static void waker_stop(struct loop *loop)
{
	if (loop->waker_started) {
		while (eventfd_write(loop->quit_fd, 1) < 0 && errno == EINTR)
			continue;
		(void)pthread_join(loop->waker, NULL);
	}
	if (loop->quit_fd >= 0)
		(void)close(loop->quit_fd);
	if (loop->wake_fd >= 0)
		(void)close(loop->wake_fd);
}

struct loop *loop_free(struct loop *loop)
{
	if (!loop)
		return NULL;
	waker_stop(loop);
	grpc_completion_queue_shutdown(loop->queue);
	for (;;) {
		grpc_event next =
		        grpc_completion_queue_next(loop->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

		if (next.type == GRPC_QUEUE_SHUTDOWN)
			break;
		struct loop_tag *tag = next.tag;
		TSAN_ACQUIRE(tag);
		tag->on_done(tag, next.success != 0);
	}
	grpc_call_unref(loop->post_call);
	grpc_channel_destroy(loop->lame);
	grpc_completion_queue_destroy(loop->queue);
	sd_event_unref(loop->event);
	free(loop);
	grpc_shutdown();
	return NULL;
}
