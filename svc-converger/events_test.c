#include "svc-converger/events.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void count(void *userdata)
{
	(*(int *)userdata)++;
}

static void events_keep_the_newest(void **state)
{
	struct events *events = events_new(3);
	int heard = 0;
	struct event_follower follower = { .on_event = count, .userdata = &heard };

	(void)state;
	assert_null(events_next(events, 0, ""));
	assert_int_equal(events_last(events), 0);
	events_follow(events, &follower);
	for (int i = 1; i <= 5; i++)
		events_add(events, 1000u + (unsigned)i, EVENT_WARNING, i % 2 ? "odd" : "even", "Counted",
		        "%d", i);
	assert_int_equal(heard, 5);
	events_unfollow(events, &follower);
	events_unfollow(events, &follower);
	assert_int_equal(events_last(events), 5);

	const struct event *event = events_next(events, 0, "");
	assert_int_equal(event->sequence, 3);
	assert_int_equal(event->time_usec, 1003);
	assert_int_equal(event->severity, EVENT_WARNING);
	assert_string_equal(event->message, "3");
	assert_string_equal(event->reason, "Counted");
	assert_int_equal(events_next(events, 3, "odd")->sequence, 5);
	assert_int_equal(events_next(events, 0, "even")->sequence, 4);
	assert_null(events_next(events, 4, "even"));
	assert_null(events_next(events, 5, ""));
	assert_null(events_next(events, UINT64_MAX, ""));
	assert_null(events_next(events, 0, "nobody"));
	events_free(events);
}

static void events_cut_long_words(void **state)
{
	struct events *events = events_new(1);
	char text[EVENT_MESSAGE_MAX * 2];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	events_add(events, 0, EVENT_INFO, text, text, "%s", text);
	const struct event *event = events_next(events, 0, "");
	assert_int_equal(strlen(event->message), EVENT_MESSAGE_MAX - 1);
	assert_int_equal(strlen(event->instance_id), EVENT_ID_MAX - 1);
	events_free(events);
}

TEST_SUITE(events_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_keep_the_newest),
		cmocka_unit_test(events_cut_long_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
