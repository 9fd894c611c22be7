#include "svc-runtime-fake/domains.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BOOT "11111111-1111-4111-8111-111111111111"
#define OTHER_BOOT "22222222-2222-4222-8222-222222222222"

struct fixture {
	char *dir; /* owned */
	char path[128];
	struct domains *domains;
};

static void reopen(struct fixture *f, const char *boot_id)
{
	struct err err = { 0 };

	f->domains = domains_close(f->domains);
	if (domains_open(f->path, boot_id, &f->domains, &err) < 0)
		fail_msg("%s", err.text);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (sandbox_setup((void **)&f->dir) < 0)
		return -1;
	(void)snprintf(f->path, sizeof(f->path), "%s/domains.json", f->dir);
	reopen(f, BOOT);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	f->domains = domains_close(f->domains);
	(void)sandbox_teardown((void **)&f->dir);
	free(f);
	return 0;
}

static void put(struct fixture *f, const char *id, Bc__V1__Domain__State state, const char *volume)
{
	Bc__V1__VolumePath path = BC__V1__VOLUME_PATH__INIT, *paths[] = { &path };
	Bc__V1__Domain domain = BC__V1__DOMAIN__INIT;
	record r = BC__FAKE__RECORD__INIT;
	struct err err = { 0 };

	r.domain = &domain;
	domain.id = (char *)(uintptr_t)id;
	domain.managed = true;
	domain.state = state;
	domain.vcpus = 2;
	domain.memory_bytes = 100;
	path.volume_id = (char *)(uintptr_t)volume;
	domain.volumes = paths;
	domain.n_volumes = volume ? 1 : 0;
	assert_int_equal(domains_put(f->domains, record_copy(&r), &err), 0);
}

/* The ids of what a cursor still gives, each with '-' for a gravestone; "" when nothing. */
static const char *rest(struct change_cursor *cursor, char *buf, size_t size)
{
	const record *r;
	const char *id;
	size_t n = 0;

	buf[0] = '\0';
	while (change_cursor_next(cursor, &id, &r))
		n += (size_t)snprintf(buf + n, size - n, "%s%s ", r ? "" : "-", id);
	return buf;
}
#define REST(cursor) rest((cursor), (char[256]){ 0 }, 256)

static void usage_and_writers_follow_the_states(void **state)
{
	struct fixture *f = *state;

	put(f, "a", BC__V1__DOMAIN__STATE__RUNNING, "v");
	put(f, "b", BC__V1__DOMAIN__STATE__STOPPED, "v");
	put(f, "c", BC__V1__DOMAIN__STATE__PAUSED, NULL);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(domains_usage(f->domains).vcpus, 4);
		assert_int_equal(domains_usage(f->domains).memory_bytes, 200);
		assert_string_equal(domains_writer_of(f->domains, "v", "b"), "a");
		assert_null(domains_writer_of(f->domains, "v", "a"));
		assert_null(domains_writer_of(f->domains, "w", "b"));
		assert_int_equal(domains_count(f->domains), 3);
		reopen(f, BOOT); /* and it is the same again */
	}
	put(f, "a", BC__V1__DOMAIN__STATE__STOPPED, "v");
	assert_null(domains_writer_of(f->domains, "v", "b"));
	assert_int_equal(domains_usage(f->domains).vcpus, 2);
	assert_int_equal(domains_remove(f->domains, "c", NULL), 0);
	assert_int_equal(domains_usage(f->domains).vcpus, 0);
	assert_int_equal(domains_remove(f->domains, "c", NULL), 0);
	assert_null(domains_get(f->domains, "c"));
	reopen(f, BOOT);
	assert_null(domains_get(f->domains, "c"));
	assert_int_equal(domains_count(f->domains), 2);
}

static void a_cursor_gives_each_domain_once_at_its_last_change(void **state)
{
	struct fixture *f = *state;
	struct change_cursor early, late;

	put(f, "a", BC__V1__DOMAIN__STATE__STOPPED, NULL);
	put(f, "b", BC__V1__DOMAIN__STATE__STOPPED, NULL);
	put(f, "c", BC__V1__DOMAIN__STATE__STOPPED, NULL);
	change_cursor_init(&early, f->domains);
	put(f, "a", BC__V1__DOMAIN__STATE__RUNNING, NULL);
	put(f, "a", BC__V1__DOMAIN__STATE__PAUSED, NULL);
	assert_string_equal(REST(&early), "b c a ");
	assert_string_equal(REST(&early), "");
	put(f, "b", BC__V1__DOMAIN__STATE__RUNNING, NULL);
	assert_int_equal(domains_remove(f->domains, "c", NULL), 0);
	put(f, "b", BC__V1__DOMAIN__STATE__STOPPED, NULL);
	assert_string_equal(REST(&early), "-c b ");
	/* Who comes later never knew what is gone. */
	assert_int_equal(domains_remove(f->domains, "a", NULL), 0);
	change_cursor_init(&late, f->domains);
	assert_string_equal(REST(&late), "b ");
	assert_string_equal(REST(&early), "-a ");
	/* Back from the dead. */
	put(f, "a", BC__V1__DOMAIN__STATE__STOPPED, NULL);
	assert_string_equal(REST(&early), "a ");
	change_cursor_done(&early);
	change_cursor_done(&late);
}

static void gravestones_wait_for_the_slowest_only(void **state)
{
	struct fixture *f = *state;
	struct change_cursor slow;
	char id[16];

	change_cursor_init(&slow, f->domains);
	for (int i = 0; i < 100; i++) {
		(void)snprintf(id, sizeof(id), "d%d", i);
		put(f, id, BC__V1__DOMAIN__STATE__STOPPED, NULL);
		assert_int_equal(domains_remove(f->domains, id, NULL), 0);
	}
	assert_int_equal(domains_gravestones(f->domains), 100);
	change_cursor_done(&slow);
	assert_int_equal(domains_gravestones(f->domains), 0);
	assert_int_equal(domains_count(f->domains), 0);
}

static size_t lines(const struct fixture *f)
{
	CLEANUP_FREE char *text = NULL;
	size_t n = 0;

	assert_int_equal(file_read(AT_FDCWD, f->path, 1 << 24, &text, NULL), 0);
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

static void the_file_is_written_anew_at_the_start(void **state)
{
	struct fixture *f = *state;

	put(f, "kept", BC__V1__DOMAIN__STATE__RUNNING, "v");
	for (int i = 0; i < 1200; i++)
		put(f, "a", BC__V1__DOMAIN__STATE__STOPPED, NULL);
	assert_true(lines(f) > 1200);
	reopen(f, BOOT);
	assert_int_equal(lines(f), 3); /* the boot id and two domains */
	assert_string_equal(domains_writer_of(f->domains, "v", "a"), "kept");
	put(f, "b", BC__V1__DOMAIN__STATE__STOPPED, NULL);
	reopen(f, BOOT);
	assert_int_equal(domains_count(f->domains), 3);
	assert_int_equal(domains_get(f->domains, "kept")->domain->state, BC__V1__DOMAIN__STATE__RUNNING);
	reopen(f, OTHER_BOOT);
	assert_int_equal(domains_get(f->domains, "kept")->domain->state, BC__V1__DOMAIN__STATE__STOPPED);
	assert_null(domains_writer_of(f->domains, "v", "a"));
}

static void a_file_of_something_else_is_refused_with_its_line(void **state)
{
	static const char *const TEXTS[] = { "{\"bootId\":\"" BOOT "\"}\n{}x\n", "{}\n{\"record\":{}}\n",
		"\xff\n", "[1]\n" };
	struct fixture *f = *state;

	f->domains = domains_close(f->domains);
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		struct err err = { 0 };

		assert_int_equal(atomic_file_write(AT_FDCWD, f->path, TEXTS[i], strlen(TEXTS[i]), 0600), 0);
		assert_int_equal(domains_open(f->path, BOOT, &f->domains, &err), -EINVAL);
		assert_non_null(strstr(err.text, i < 2 ? "line 2" : "line 1"));
		assert_non_null(strstr(err.text, "domains.json"));
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

TEST_SUITE(domains_test)
{
	const struct CMUnitTest tests[] = {
		TEST(usage_and_writers_follow_the_states),
		TEST(a_cursor_gives_each_domain_once_at_its_last_change),
		TEST(gravestones_wait_for_the_slowest_only),
		TEST(the_file_is_written_anew_at_the_start),
		TEST(a_file_of_something_else_is_refused_with_its_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
