/* A test program holds the suites of a folder: each x_test.c is one, and ctest runs each in a process of its own, as
 *   PROGRAM SUITE [PATTERN]
 * where PATTERN, with * and ?, leaves out the tests whose names do not match. */
#pragma once

struct suite {
	const char *name;
	int (*run)(int argc, char **argv);
};

/* Defines the suite and lists it in its program: what follows is the body of run(), which returns the result of
 * cmocka_run_group_tests(). argv[0] is the suite's name; what a suite starts itself again with comes after it. */
#define TEST_SUITE(suite_name)                                                                               \
	static int suite_run_##suite_name(int argc, char **argv);                                            \
	static const struct suite suite_##suite_name = { #suite_name, suite_run_##suite_name };              \
	__attribute__((used, section("suites"))) static const struct suite *const suite_entry_##suite_name = \
	        &suite_##suite_name;                                                                         \
	static int suite_run_##suite_name(                                                                   \
	        __attribute__((unused)) int argc, __attribute__((unused)) char **argv)
