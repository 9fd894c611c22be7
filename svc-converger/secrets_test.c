#include "svc-converger/secrets.h"

#include "lib/base/ids.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char A[] = "00000000-0000-4000-8000-00000000000a";
static const char B[] = "00000000-0000-4000-8000-00000000000b";

struct session {
	int n_asked;
	bool is_full;
	char last[SECRET_REQUEST_MAX];
	char log[4096]; /* "ref@allocation " of each */
};

static bool ask(const struct secret_request *request, void *userdata)
{
	struct session *session = userdata;
	size_t n = strlen(session->log);

	if (session->is_full)
		return false;
	session->n_asked++;
	(void)snprintf(session->last, sizeof(session->last), "%s", request->request_id);
	(void)snprintf(
	        session->log + n, sizeof(session->log) - n, "%s@%s ", request->ref, request->allocation_id);
	return true;
}

static void count(const char *instance_id, void *userdata)
{
	(void)instance_id;
	(*(int *)userdata)++;
}

static void a_secret_goes_from_answer_to_taker(void **state)
{
	int changes = 0;
	const char *why;
	struct secrets *secrets = secrets_new(count, &changes);
	struct session session = { 0 };

	(void)state;
	assert_false(secrets_want(secrets, A, "alloc-1", "ref", &why));
	assert_non_null(strstr(why, "no control plane session"));
	assert_null(secrets_take(secrets, A, "alloc-1", "ref"));

	struct secret_asker *asker = secret_asker_new(secrets, ask, &session);
	assert_string_equal(session.log, "ref@alloc-1 ");
	assert_false(secrets_want(secrets, A, "alloc-1", "ref", &why));
	assert_non_null(strstr(why, "not answered"));
	assert_int_equal(session.n_asked, 1);
	assert_int_equal(secrets_answer(secrets, "nobody.7", "x", 1, ""), SECRET_E_UNKNOWN);
	assert_int_equal(secrets_answer(secrets, session.last, "hush", 4, ""), SECRET_TAKEN);
	assert_int_equal(changes, 1);
	assert_int_equal(secrets_answer(secrets, session.last, "again", 5, ""), SECRET_E_UNKNOWN);
	assert_true(secrets_want(secrets, A, "alloc-1", "ref", &why));

	struct secret *secret = secrets_take(secrets, A, "alloc-1", "ref");
	assert_int_equal(secret_size(secret), 4);
	assert_memory_equal(secret_data(secret), "hush", 4);
	secret_free(secret);
	assert_null(secrets_take(secrets, A, "alloc-1", "ref"));
	assert_int_equal(secrets_open(secrets), 0);
	secret_asker_free(asker);
	secrets_free(secrets);
}

/* The answer for an old allocation is of no use to a new one, before and after it came. */
static void a_secret_is_bound_to_its_allocation(void **state)
{
	int changes = 0;
	const char *why;
	char old[SECRET_REQUEST_MAX];
	struct secrets *secrets = secrets_new(count, &changes);
	struct session session = { 0 };
	struct secret_asker *asker = secret_asker_new(secrets, ask, &session);

	(void)state;
	assert_false(secrets_want(secrets, A, "old", "ref", &why));
	strcpy(old, session.last);
	assert_false(secrets_want(secrets, A, "new", "ref", &why));
	assert_int_equal(secrets_answer(secrets, old, "old", 3, ""), SECRET_E_UNKNOWN);
	assert_null(secrets_take(secrets, A, "new", "ref"));
	assert_int_equal(secrets_answer(secrets, session.last, "new", 3, ""), SECRET_TAKEN);
	assert_null(secrets_take(secrets, A, "old", "ref"));
	assert_null(secrets_take(secrets, A, "new", "other"));
	assert_false(secrets_want(secrets, A, "newer", "ref", &why));
	assert_null(secrets_take(secrets, A, "new", "ref"));
	assert_string_equal(session.log, "ref@old ref@new ref@newer ");
	secrets_forget(secrets, A);
	assert_int_equal(secrets_answer(secrets, session.last, "x", 1, ""), SECRET_E_UNKNOWN);
	secret_asker_free(asker);
	secrets_free(secrets);
}

static void a_refusal_can_be_asked_again(void **state)
{
	int changes = 0;
	const char *why;
	static char large[SECRET_SIZE_MAX + 1];
	struct secrets *secrets = secrets_new(count, &changes);
	struct session session = { 0 }, second = { 0 };
	struct secret_asker *asker = secret_asker_new(secrets, ask, &session);

	(void)state;
	assert_false(secrets_want(secrets, A, "a", "ref", &why));
	assert_int_equal(secrets_answer(secrets, session.last, NULL, 0, "no such ref"), SECRET_TAKEN);
	assert_false(secrets_want(secrets, A, "a", "ref", &why));
	assert_non_null(strstr(why, "no such ref"));
	assert_int_equal(session.n_asked, 1);
	/* A new session is asked at once, the old one when somebody says so. */
	struct secret_asker *other = secret_asker_new(secrets, ask, &second);
	assert_int_equal(second.n_asked, 1);
	secrets_retry(secrets, A);
	assert_int_equal(session.n_asked, 2);
	assert_int_equal(secrets_answer(secrets, session.last, large, sizeof(large), ""), SECRET_E_TOO_LARGE);
	assert_int_equal(secrets_answer(secrets, session.last, large, SECRET_SIZE_MAX, ""), SECRET_TAKEN);
	assert_true(secrets_want(secrets, A, "a", "ref", &why));
	secret_asker_free(asker);
	secret_asker_free(other);
	secrets_free(secrets);
}

static void only_so_many_are_open(void **state)
{
	int changes = 0, n = 0;
	const char *why;
	char id[UUID_TEXT_MAX];
	struct secrets *secrets = secrets_new(count, &changes);
	struct session session = { .is_full = true };
	struct secret_asker *asker = secret_asker_new(secrets, ask, &session);

	(void)state;
	for (int i = 0; i < SECRETS_OPEN_MAX + 10; i++) {
		(void)snprintf(id, sizeof(id), "00000000-0000-4000-8000-%012x", i);
		assert_false(secrets_want(secrets, id, "a", "r", &why));
	}
	assert_int_equal(secrets_open(secrets), SECRETS_OPEN_MAX);
	assert_int_equal(session.n_asked, 0);
	session.is_full = false;
	secret_asker_resume(asker);
	assert_int_equal(session.n_asked, SECRETS_OPEN_MAX);
	secret_asker_resume(asker);
	assert_int_equal(session.n_asked, SECRETS_OPEN_MAX);
	for (; secrets_open(secrets); n++) {
		(void)snprintf(id, sizeof(id), "00000000-0000-4000-8000-%012x", n);
		secrets_forget(secrets, id);
	}
	assert_int_equal(n, SECRETS_OPEN_MAX + 10);
	assert_int_equal(session.n_asked, SECRETS_OPEN_MAX + 10);
	assert_false(secrets_want(secrets, B, "a", "r", &why));
	secret_asker_free(asker);
	secrets_free(secrets);
}

TEST_SUITE(secrets_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_secret_goes_from_answer_to_taker),
		cmocka_unit_test(a_secret_is_bound_to_its_allocation),
		cmocka_unit_test(a_refusal_can_be_asked_again),
		cmocka_unit_test(only_so_many_are_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
