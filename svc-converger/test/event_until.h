/* For tests of what has an sd-event loop and no world. */
#pragma once

#include "lib/base/clock.h"
#include "tests/harness/timeout.h"

#include <systemd/sd-event.h>

/* Runs the loop until the condition holds. */
#define EVENT_UNTIL(event, condition)                                                                        \
	do {                                                                                                 \
		uint64_t until_usec_ = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);         \
		while (!(condition)) {                                                                       \
			uint64_t now_usec_ = clock_monotonic_usec();                                         \
			if (now_usec_ >= until_usec_)                                                        \
				fail_msg("never came true: %s", #condition);                                 \
			assert_true(sd_event_run((event), until_usec_ - now_usec_) >= 0);                    \
		}                                                                                            \
	} while (0)
