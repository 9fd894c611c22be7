/* The connection to libvirt, over its test driver. Some of libvirt's calls are this file's own: they fail when told to,
 * and tell what a call came to. */
#include "svc-runtime-libvirt/virt.h"
#include "tests/harness/suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <libvirt/virterror.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct {
	atomic_int lists_to_fail;
	atomic_bool dead;    /* what is asked whether it is alive */
	atomic_int n_closed; /* connections for which the last reference went */
	atomic_int n_held;   /* closed, but held by something else */
} libvirt;

int virConnectListAllDomains(virConnectPtr conn, virDomainPtr **domains, unsigned flags)
{
	int (*real)(virConnectPtr, virDomainPtr **, unsigned) =
	        (int (*)(virConnectPtr, virDomainPtr **, unsigned))dlsym(RTLD_NEXT, __func__);

	if (libvirt.lists_to_fail > 0) {
		libvirt.lists_to_fail--;
		virResetLastError();
		return -1;
	}
	return real(conn, domains, flags);
}

int virConnectIsAlive(virConnectPtr conn)
{
	(void)conn;
	return !libvirt.dead;
}

int virConnectClose(virConnectPtr conn)
{
	int (*real)(virConnectPtr) = (int (*)(virConnectPtr))dlsym(RTLD_NEXT, __func__);
	int r = real(conn);

	if (r == 0)
		libvirt.n_closed++;
	else
		libvirt.n_held++;
	return r;
}

struct fixture {
	struct loop *loop;
	struct job_pool *pool;
	struct virt *virt;
	unsigned n_open, n_lost;
};

static void on_open(struct domain_look *looks, size_t n_looks, void *userdata)
{
	struct fixture *f = userdata;

	(void)looks;
	assert_true(n_looks > 0);
	f->n_open++;
}

static void on_event(const struct virt_event *event, void *userdata)
{
	(void)event;
	(void)userdata;
}

static void on_lost(const struct err *why, void *userdata)
{
	struct fixture *f = userdata;

	assert_true(why->code < 0);
	f->n_lost++;
}

static void on_idle(void *userdata)
{
	struct fixture *f = userdata;

	loop_exit(f->loop, 0);
}

/* Until it was opened n times in all, and nothing is under way. */
static void wait_open(struct fixture *f, unsigned n)
{
	do
		assert_int_equal(loop_run(f->loop), 0);
	while (f->n_open < n);
}

static int setup(void **state)
{
	static const struct virt_handlers handlers = {
		.on_open = on_open, .on_event = on_event, .on_lost = on_lost
	};
	static const struct look_paths paths = { .pid_dir = "/nowhere", .proc_dir = "/nowhere" };
	struct fixture *f = calloc(1, sizeof(*f));

	libvirt.n_closed = libvirt.n_held = libvirt.lists_to_fail = 0;
	libvirt.dead = false;
	if (!f || loop_new(&f->loop) < 0 || job_pool_new(f->loop, "test", 2, 16, &f->pool) < 0)
		return -1;
	job_pool_set_idle(f->pool, on_idle, f);
	*state = f;
	return virt_new(f->loop, f->pool, "test:///default", &paths, &handlers, f, &f->virt);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	libvirt.dead = true;
	virt_suspect(f->virt, &(struct err){ .code = -ENOTCONN });
	virt_stop(f->virt);
	while (job_pool_pending(f->pool) > 0)
		assert_int_equal(loop_run(f->loop), 0);
	assert_int_equal(libvirt.n_held, 0);
	f->virt = virt_free(f->virt);
	f->pool = job_pool_free(f->pool);
	f->loop = loop_free(f->loop);
	free(f);
	return 0;
}

/* --- */

static void a_lost_connection_is_closed(void **state)
{
	struct fixture *f = *state;
	struct err why = { .code = -ENOTCONN, .text = "a call was cut off" };

	wait_open(f, 1);
	for (unsigned i = 1; i <= 3; i++) {
		libvirt.dead = true;
		virt_suspect(f->virt, &why);
		libvirt.dead = false;
		assert_int_equal(f->n_lost, i);
		assert_null(virt_ref(f->virt));
		wait_open(f, i + 1);
		assert_int_equal(libvirt.n_held, 0);
		assert_int_equal(libvirt.n_closed, i);
	}
}

static void a_connection_that_could_not_be_read_is_closed(void **state)
{
	struct fixture *f = *state;

	wait_open(f, 1);
	libvirt.lists_to_fail = 2;
	libvirt.dead = true;
	virt_suspect(f->virt, &(struct err){ .code = -ENOTCONN });
	libvirt.dead = false;
	wait_open(f, 2);
	assert_int_equal(f->n_lost, 3);
	assert_int_equal(libvirt.n_held, 0);
	assert_int_equal(libvirt.n_closed, 3);
}

static void what_is_alive_is_kept(void **state)
{
	struct fixture *f = *state;

	wait_open(f, 1);
	virt_suspect(f->virt, &(struct err){ .code = -ENOTCONN });
	assert_int_equal(f->n_lost, 0);
	virConnectPtr conn = virt_ref(f->virt);
	assert_non_null(conn);
	(void)virConnectClose(conn);
	libvirt.n_held = 0;
	assert_string_equal(virt_trouble(f->virt), "");
}

TEST_SUITE(virt_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lost_connection_is_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(
		        a_connection_that_could_not_be_read_is_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_alive_is_kept, setup, teardown),
	};

	if (virt_start_events() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
