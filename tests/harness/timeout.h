/* How long a test waits for what must come: a base of the list below times a factor, so that a slow machine makes a
 * slow test and not a red one. No test has another bound on what must come. Times that a test means to run out (a
 * deadline that is exceeded, a moment in which nothing may happen) are its own.
 *
 * The factor is BC_TEST_TIMEOUT_FACTOR of the environment (1 to 100, by default 1), times 4 under a sanitizer, times 2
 * while the machine's load average of a minute is above the number of its processors. It is taken anew at each
 * call, so a wait that begins when the load has come is the longer one. tests/harness/timeout has it for scripts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum test_timeout {
	TEST_SERVICE_SEC = 120, /* a process of ours answers, starts, ends, or makes a wish true */
	TEST_GUEST_SEC = 240,   /* an emulated guest gets where it should */
};

/* Of an environment's text (NULL: it has none). */
unsigned test_timeout_factor(const char *environment, bool is_sanitized, double load, long n_processors);
uint64_t test_timeout_usec(enum test_timeout base);
int test_timeout_msec(enum test_timeout base); /* for poll() */
/* As bcctl, timeout(1) and configurations take it ("60s"). Valid until the end of the enclosing block. */
#define TEST_TIMEOUT_TEXT(base) test_timeout_text((base), (char[16]){ 0 })
const char *test_timeout_text(enum test_timeout base, char buf[static 16]);
