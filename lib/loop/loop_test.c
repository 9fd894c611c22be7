#include "lib/loop/loop.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

static int setup(void **state)
{
	return loop_new((struct loop **)state);
}

static int teardown(void **state)
{
	*state = loop_free(*state);
	return 0;
}

struct posted {
	struct loop_tag tag;
	struct loop *loop;
	int number;
	int *last;
	int exit_at;
};

static void on_posted(struct loop_tag *tag, bool ok)
{
	struct posted *posted = CONTAINER_OF(tag, struct posted, tag);

	assert_true(ok);
	assert_int_equal(posted->number, *posted->last + 1);
	*posted->last = posted->number;
	if (posted->number == posted->exit_at)
		loop_exit(posted->loop, 7);
}

enum { POSTS = 1000 };

static void *post_all(void *userdata)
{
	struct posted *posted = userdata;

	for (int i = 0; i < POSTS; i++)
		loop_post(posted[i].loop, &posted[i].tag);
	return NULL;
}

static void posts_of_a_thread_arrive_in_order(void **state)
{
	static struct posted posted[POSTS];
	pthread_t thread;
	int last = 0;

	for (int i = 0; i < POSTS; i++)
		posted[i] = (struct posted){ { on_posted }, *state, i + 1, &last, POSTS };
	assert_int_equal(pthread_create(&thread, NULL, post_all, posted), 0);
	assert_int_equal(loop_run(*state), 7);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(last, POSTS);
}

static void a_loop_runs_again_after_exit(void **state)
{
	for (int round = 0; round < 3; round++) {
		int last = 0;
		struct posted posted = { { on_posted }, *state, 1, &last, 1 };

		loop_post(*state, &posted.tag);
		assert_int_equal(loop_run(*state), 7);
	}
}

static int on_timer_exit(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	loop_exit(userdata, 11);
	return 0;
}

static void a_timer_wakes_a_sleeping_loop(void **state)
{
	assert_true(sd_event_add_time_relative(
	                    loop_event(*state), NULL, CLOCK_MONOTONIC, 20000, 1, on_timer_exit, *state) >= 0);
	assert_int_equal(loop_run(*state), 11);
}

static void on_posted_exit_quietly(struct loop_tag *tag, bool ok)
{
	struct posted *posted = CONTAINER_OF(tag, struct posted, tag);

	(void)ok;
	loop_exit(posted->loop, 7);
	loop_keep_armed(posted->loop);
}

/* Whatever ended the run before: the timer that is set then is still to be armed. */
static void a_timer_set_between_two_runs_fires(void **state)
{
	for (int round = 0; round < 3; round++) {
		struct posted posted = { .tag = { on_posted_exit_quietly }, .loop = *state };

		loop_post(*state, &posted.tag);
		assert_int_equal(loop_run(*state), 7);
		assert_true(sd_event_add_time_relative(loop_event(*state), NULL, CLOCK_MONOTONIC, 1000, 1,
		                    on_timer_exit, *state) >= 0);
		assert_int_equal(loop_run(*state), 11);
	}
}

static void on_posted_set_timer(struct loop_tag *tag, bool ok)
{
	struct posted *posted = CONTAINER_OF(tag, struct posted, tag);

	(void)ok;
	assert_true(sd_event_add_time_relative(loop_event(posted->loop), NULL, CLOCK_MONOTONIC, 50000, 1,
	                    on_timer_exit, posted->loop) >= 0);
}

static void *post_after_a_while(void *userdata)
{
	struct posted *posted = userdata;
	struct timespec pause = { .tv_nsec = 100000000 };

	(void)nanosleep(&pause, NULL); /* runs out: the loop has to be asleep for longer than the timer */
	loop_post(posted->loop, &posted->tag);
	return NULL;
}

/* sd-event's clock stands still while the loop sleeps; one millisecond it may be behind (EVENT_TIME_STALE_USEC), which
 * shows when the loop came to sleep just before it was woken. */
static void a_timer_set_after_a_long_sleep_is_not_early(void **state)
{
	struct posted posted = { .tag = { on_posted_set_timer }, .loop = *state };
	uint64_t start = clock_monotonic_usec();
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, post_after_a_while, &posted), 0);
	assert_int_equal(loop_run(*state), 11);
	assert_true(clock_monotonic_usec() - start >= 149000);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

struct flood {
	struct loop_tag tag;
	struct loop *loop;
	bool stop;
};

static void on_flood(struct loop_tag *tag, bool ok)
{
	struct flood *flood = CONTAINER_OF(tag, struct flood, tag);

	(void)ok;
	if (flood->stop)
		loop_exit(flood->loop, 0);
	else
		loop_post(flood->loop, &flood->tag);
}

static int on_timer_stop(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct flood *flood = userdata;

	(void)source;
	(void)usec;
	flood->stop = true;
	return 0;
}

static void a_flood_of_posts_does_not_starve_a_timer(void **state)
{
	struct flood flood = { { on_flood }, *state, false };

	assert_true(sd_event_add_time_relative(
	                    loop_event(*state), NULL, CLOCK_MONOTONIC, 10000, 1, on_timer_stop, &flood) >= 0);
	loop_post(*state, &flood.tag);
	assert_int_equal(loop_run(*state), 0);
	assert_true(flood.stop);
}

static int on_always_ready(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source;
	(void)fd;
	(void)revents;
	(*(unsigned *)userdata)++;
	return 0;
}

/* An event source that is always ready must leave completions their turn. */
static void a_busy_source_does_not_starve_posts(void **state)
{
	unsigned n_ready = 0;
	int last = 0;
	struct posted posted = { { on_posted }, *state, 1, &last, 1 };
	sd_event_source *source = NULL;
	CLEANUP_CLOSE int fd = eventfd(1, EFD_CLOEXEC);

	assert_true(
	        sd_event_add_io(loop_event(*state), &source, fd, EPOLLIN, on_always_ready, &n_ready) >= 0);
	loop_post(*state, &posted.tag);
	assert_int_equal(loop_run(*state), 7);
	assert_true(n_ready > 0);
	sd_event_source_disable_unref(source);
}

struct pipe_reader {
	struct loop *loop;
	int n;
};

static int on_pipe(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct pipe_reader *reader = userdata;
	char c = 0;

	(void)source;
	(void)revents;
	assert_int_equal(read(fd, &c, 1), 1);
	if (++reader->n == POSTS)
		loop_exit(reader->loop, 0);
	return 0;
}

static void *pipe_write(void *userdata)
{
	for (int i = 0; i < POSTS; i++)
		if (write(*(int *)userdata, "x", 1) != 1)
			return NULL;
	return NULL;
}

/* Events of sd-event, each from another thread, reach a loop that sits in the completion queue; none is lost. */
static void every_event_is_brought_to_the_queue(void **state)
{
	struct pipe_reader reader = { *state, 0 };
	sd_event_source *source = NULL;
	pthread_t thread;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_true(sd_event_add_io(loop_event(*state), &source, fds[0], EPOLLIN, on_pipe, &reader) >= 0);
	assert_int_equal(pthread_create(&thread, NULL, pipe_write, &fds[1]), 0);
	assert_int_equal(loop_run(*state), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	sd_event_source_disable_unref(source);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static uint64_t cpu_usec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * USEC_PER_SEC + (uint64_t)t.tv_nsec / NSEC_PER_USEC;
}

/* A loop with nothing to do costs nothing: a busy wake thread would show as CPU time. */
static void an_idle_loop_does_not_spin(void **state)
{
	assert_true(sd_event_add_time_relative(loop_event(*state), NULL, CLOCK_MONOTONIC, 400000, 1,
	                    on_timer_exit, *state) >= 0);
	uint64_t before = cpu_usec();
	assert_int_equal(loop_run(*state), 11);
	assert_true(cpu_usec() - before < 200000);
}

static int on_signal_exit(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	(void)source;
	assert_int_equal(info->ssi_signo, SIGTERM);
	loop_exit(userdata, 15);
	return 0;
}

static void a_blocked_signal_reaches_its_handler(void **state)
{
	sd_event_source *source = NULL;

	assert_true(sd_event_add_signal(loop_event(*state), &source, SIGTERM, on_signal_exit, *state) >= 0);
	assert_int_equal(kill(getpid(), SIGTERM), 0);
	assert_int_equal(loop_run(*state), 15);
	sd_event_source_disable_unref(source);
}

static int on_timer_event_exit(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)usec;
	(void)userdata;
	return sd_event_exit(sd_event_source_get_event(source), 4);
}

static void sd_event_exit_ends_the_loop_too(void **state)
{
	assert_true(sd_event_add_time_relative(loop_event(*state), NULL, CLOCK_MONOTONIC, 1000, 1,
	                    on_timer_event_exit, NULL) >= 0);
	assert_int_equal(loop_run(*state), 4);
}

TEST_SUITE(loop_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(posts_of_a_thread_arrive_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(a_loop_runs_again_after_exit, setup, teardown),
		cmocka_unit_test_setup_teardown(a_timer_wakes_a_sleeping_loop, setup, teardown),
		cmocka_unit_test_setup_teardown(a_timer_set_between_two_runs_fires, setup, teardown),
		cmocka_unit_test_setup_teardown(a_timer_set_after_a_long_sleep_is_not_early, setup, teardown),
		cmocka_unit_test_setup_teardown(a_flood_of_posts_does_not_starve_a_timer, setup, teardown),
		cmocka_unit_test_setup_teardown(a_busy_source_does_not_starve_posts, setup, teardown),
		cmocka_unit_test_setup_teardown(every_event_is_brought_to_the_queue, setup, teardown),
		cmocka_unit_test_setup_teardown(an_idle_loop_does_not_spin, setup, teardown),
		cmocka_unit_test_setup_teardown(a_blocked_signal_reaches_its_handler, setup, teardown),
		cmocka_unit_test_setup_teardown(sd_event_exit_ends_the_loop_too, setup, teardown),
	};
	sigset_t blocked;

	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGTERM);
	(void)pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
