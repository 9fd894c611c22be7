/* Macvtaps, on the machine's own /dev: the kernel makes their nodes there, whatever network namespace they
 * are in. */
#include "tests/netd/lan.h"

#include "svc-netd/link.h"
#include "svc-netd/macvtap.h"
#include "svc-netd/netlink.h"
#include "svc-netd/reaper.h"

#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MAC_A "52:54:00:00:00:0a"

/* Further up than anybody's by chance: the nodes of namespaces on this machine share one directory. */
enum { UID = 64055, GID = 64056 };

static int setup(void **state)
{
	struct lan *lan = calloc(1, sizeof(*lan));

	*state = lan;
	if (!lan || !lan_enter_namespace())
		return -1;
	lan_open(lan, NULL);
	lan_run("ip link add parent index $((200000 + $$)) type veth peer name other; ip link set parent up; "
	        "ip link set other up");
	return 0;
}

static int teardown(void **state)
{
	lan_run("ip link del parent 2>/dev/null || true");
	lan_close(*state);
	free(*state);
	return 0;
}

static struct nic_request request_a(void)
{
	struct nic_request request = lan_request(1, 0, MAC_A);

	(void)snprintf(request.owner.master, IFNAME_MAX, "parent");
	request.filtered = false;
	request.uid = UID;
	request.gid = GID;
	request.macvtap_mode = MACVLAN_MODE_BRIDGE;
	return request;
}

static struct nic *prepare(struct lan *lan, const struct nic_request *request)
{
	struct err err = { 0 };
	struct nic *nic = NULL;

	if (nic_prepare_macvtap(lan->nics, request, &nic, &err) < 0)
		fail_msg("%s", err.text);
	return nic;
}

static void reap(struct lan *lan)
{
	struct netlink *nl;

	assert_int_equal(netlink_open(NETLINK_ROUTE, &nl), 0);
	assert_true(reaper_run(nics_reaper(lan->nics), nl) >= 0);
	netlink_free(nl);
}

static void expect_nothing_left(struct lan *lan)
{
	reap(lan);
	assert_false(lan_try("ip -o link show | grep -q ' bc[0-9a-fx]'"));
	assert_int_equal(nic_table_count(nics_table(lan->nics)), 0);
}

static void a_macvtap_is_built(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	char device[MACVTAP_DEVICE_MAX];
	struct nic_removal removal;
	struct nic *nic, *checked;
	struct link link;
	struct stat st;
	int fds[4];

	request.owner.queues = 4;
	nic = prepare(lan, &request);
	link = lan_link(nic->ifname);
	assert_true(link_is_macvtap(&link));
	assert_int_equal(link.macvlan_mode, MACVLAN_MODE_BRIDGE);
	assert_int_equal(link.parent, lan_link("parent").ifindex);
	assert_true(mac_equal(&link.mac, &request.owner.mac));
	assert_true(link.flags & IFF_UP);
	assert_false(nic->owner.filtered);
	assert_false(lan_try("ip -6 addr show dev %s | grep -q inet6", nic->ifname));
	macvtap_device("/dev", nic->ifindex, device);
	assert_int_equal(stat(device, &st), 0);
	assert_int_equal(st.st_uid, UID);
	assert_int_equal(st.st_gid, GID);
	/* One descriptor for each pair of queues. */
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = open(device, O_RDWR | O_CLOEXEC);
		assert_true(fds[i] >= 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close(fds[i]);
	assert_int_equal(nic_check(lan->nics, lan_instance(1), 0, &checked, NULL), 0);
	assert_int_equal(checked->kind, NIC_MACVTAP);
	nic_free(checked);
	assert_int_equal(nic_remove(lan->nics, lan_instance(1), 0, &removal, NULL), 0);
	assert_int_equal(removal.n_interfaces, 1);
	nic_removal_done(&removal);
	expect_nothing_left(lan);
	assert_int_equal(stat(device, &st), -1);
	nic_free(nic);
}

static void every_mode(void **state)
{
	static const uint32_t modes[] = { MACVLAN_MODE_BRIDGE, MACVLAN_MODE_VEPA, MACVLAN_MODE_PRIVATE,
		MACVLAN_MODE_PASSTHRU };
	struct lan *lan = *state;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct nic_request request = request_a();
		struct nic_removal removal;
		struct nic *nic;

		request.macvtap_mode = modes[i];
		nic_free(prepare(lan, &request));
		nic = prepare(lan, &request);
		assert_int_equal(lan_link(nic->ifname).macvlan_mode, modes[i]);
		assert_int_equal(nic_remove(lan->nics, lan_instance(1), 0, &removal, NULL), 0);
		nic_removal_done(&removal);
		reap(lan);
		nic_free(nic);
	}
}

static void the_node_is_the_vmms_every_time(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();

	for (int i = 0; i < 200; i++) {
		struct nic *nic = prepare(lan, &request);
		char device[MACVTAP_DEVICE_MAX];
		struct stat st;

		macvtap_device("/dev", nic->ifindex, device);
		assert_int_equal(stat(device, &st), 0);
		assert_int_equal(st.st_uid, UID);
		nic_free(nic);
		/* What waits for its deletion is on the parent still, with the same address. */
		reap(lan);
	}
}

/* Another namespace has an interface of the same index, and was first: the node is its. */
static void a_node_of_another_namespace_is_not_given(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct err err = { 0 };
	struct nic *nic;
	int pipe_fds[2], last, status;
	char device[MACVTAP_DEVICE_MAX], byte;
	struct stat before, after;
	pid_t pid;

	/* The index that the next interface here will have. */
	lan_run("ip link add probe type veth peer name probe2");
	last = lan_link("probe").ifindex > lan_link("probe2").ifindex ? lan_link("probe").ifindex
	                                                              : lan_link("probe2").ifindex;
	lan_run("ip link del probe");
	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!lan_enter_namespace())
			_exit(1);
		lan_run("ip link add p index 300000 type veth peer name q index 300001; "
		        "ip link add link p index %d name other type macvtap mode bridge",
		        last + 1);
		(void)!write(pipe_fds[1], "x", 1);
		(void)pause();
		_exit(0);
	}
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
	macvtap_device("/dev", last + 1, device);
	assert_int_equal(stat(device, &before), 0);
	assert_int_equal(nic_prepare_macvtap(lan->nics, &request, &nic, &err), -EBUSY);
	assert_non_null(strstr(err.text, "another network namespace has that node"));
	assert_int_equal(stat(device, &after), 0);
	assert_int_equal(after.st_uid, before.st_uid);
	assert_int_equal(after.st_rdev, before.st_rdev);
	expect_nothing_left(lan);
	/* The next has a number of its own. */
	nic_free(prepare(lan, &request));
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
}

static void unknown_parents_are_refused(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct err err = { 0 };
	struct nic *nic;

	(void)snprintf(request.owner.master, IFNAME_MAX, "eth77");
	assert_int_equal(nic_prepare_macvtap(lan->nics, &request, &nic, &err), -ENOENT);
	assert_non_null(strstr(err.text, "interface 'eth77' does not exist"));
	(void)snprintf(request.owner.master, IFNAME_MAX, "lo");
	err = (struct err){ 0 };
	assert_true(nic_prepare_macvtap(lan->nics, &request, &nic, &err) < 0);
	expect_nothing_left(lan);
}

struct fault {
	int number, n;
	bool kill;
};

static int on_step(const char *step, const char *ifname, void *userdata)
{
	struct fault *fault = userdata;

	(void)step;
	(void)ifname;
	if (fault->n++ != fault->number)
		return 0;
	if (fault->kill)
		(void)kill(getpid(), SIGKILL);
	return -EIO;
}

static void open_with_fault(struct lan *lan, struct fault *fault)
{
	struct nics_options options = {
		.rules = { .stored_fd = -EBADF }, .before_step = fault ? on_step : NULL, .userdata = fault
	};
	struct err err = { 0 };

	nics_free(lan->nics);
	if (nics_open(&options, &lan->nics, &err) < 0)
		fail_msg("%s", err.text);
}

static void every_failing_step_is_rolled_back(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct fault fault = { .number = -1 };
	struct nic_removal removal;
	int n_steps;

	open_with_fault(lan, &fault);
	nic_free(prepare(lan, &request));
	n_steps = fault.n;
	assert_true(n_steps >= 8);
	fault.number = -1;
	assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
	nic_removal_done(&removal);
	for (int i = 0; i < n_steps; i++) {
		struct nic *nic;

		fault = (struct fault){ .number = i };
		assert_int_equal(nic_prepare_macvtap(lan->nics, &request, &nic, NULL), -EIO);
		fault = (struct fault){ .number = -1 };
		expect_nothing_left(lan);
	}
}

static void killed_between_any_two_steps(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	int n = 0;

	for (int i = 0;; i++) {
		struct nic_removal removal;
		int status;
		pid_t pid;

		lan->nics = nics_free(lan->nics);
		pid = fork();
		if (pid == 0) {
			struct fault fault = { .number = i, .kill = true };
			struct nic *nic;

			open_with_fault(lan, &fault);
			_exit(nic_prepare_macvtap(lan->nics, &request, &nic, NULL) < 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		open_with_fault(lan, NULL);
		/* A macvtap lasts from the moment it is made; what is without a record is known by its
		 * group. */
		assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
		nic_removal_done(&removal);
		expect_nothing_left(lan);
		if (!WIFSIGNALED(status))
			break;
		n++;
	}
	assert_true(n >= 8);
}

TEST_SUITE(macvtap_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_macvtap_is_built),
		TEST(every_mode),
		TEST(the_node_is_the_vmms_every_time),
		TEST(a_node_of_another_namespace_is_not_given),
		TEST(unknown_parents_are_refused),
		TEST(every_failing_step_is_rolled_back),
		TEST(killed_between_any_two_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
