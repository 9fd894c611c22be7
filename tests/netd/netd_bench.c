/* What netd's work costs beside the same done by commands, one by one, in one run. In a network namespace of its own. */
#include "tests/netd/lan.h"

#include "svc-netd/link.h"
#include "svc-netd/netlink.h"
#include "svc-netd/reaper.h"

#include "lib/base/cleanup.h"
#include "lib/base/process.h"
#include "lib/base/tap_name.h"
#include "tests/harness/timeout.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	ROUNDS = 12,
	NICS = 8, /* a round, of one kind */
	RULE_ROUNDS = 400,
	FEW = 10,
	MANY = 1000,
	SWEEP = 100, /* instances of one NIC each */
	SWEEP_ROUNDS = 7,
	FRAMES = 2000, /* in a few milliseconds: many of those are not interrupted */
	FRAME_SAMPLES = 10,
	FRAME_ROUNDS = 9,
	MEMORY_NICS = 500, /* on the bridge at once */
	MEMORY_ROUNDS = 3,
	SAMPLES_MAX = 4096,
};

struct samples {
	double usec[SAMPLES_MAX];
	size_t n;
};

static void die(const char *what)
{
	fprintf(stderr, "netd_bench: %s\n", what);
	exit(1);
}

static double now_usec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void sample(struct samples *s, double usec)
{
	if (s->n < SAMPLES_MAX)
		s->usec[s->n++] = usec;
}

/* What the kernel holds for itself, and would not give back by itself: its caches of files are another's doing. */
static double kernel_kib(void)
{
	static const char *const kinds[] = {
		"SUnreclaim:", "Percpu:", "KernelStack:", "PageTables:", "VmallocUsed:"
	};
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128], kind[64];
	unsigned long kib, sum = 0;

	if (!f)
		die("/proc/meminfo");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %lu", kind, &kib) != 2)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			sum += strcmp(kind, kinds[i]) == 0 ? kib : 0;
	}
	(void)fclose(f);
	return (double)sum;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* What it takes where nobody else wants the CPU, of both sides alike: the quarter that is faster. */
static double quarter(struct samples *s)
{
	qsort(s->usec, s->n, sizeof(s->usec[0]), order);
	return s->n ? s->usec[s->n / 4] : 0;
}

static double median(struct samples *s)
{
	qsort(s->usec, s->n, sizeof(s->usec[0]), order);
	return s->n ? s->usec[s->n / 2] : 0;
}

static void command(const char *const *argv)
{
	struct process_fd fds[] = { { 2, 2 } };
	struct process_options options = { .argv = argv, .fds = fds, .n_fds = 1 };
	int pidfd, status;
	pid_t pid;

	if (process_spawn(&options, &pid, &pidfd) < 0 ||
	        process_wait(pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status) < 0 || status != 0)
		die(argv[0]);
	(void)close(pidfd);
}
#define COMMAND(...) command((const char *const[]){ __VA_ARGS__, NULL })

static struct nic_request request_of(unsigned instance, uint32_t queues)
{
	struct nic_request request = lan_request(instance, 0, "52:54:00:00:00:00");
	char address[32];

	request.owner.mac.bytes[3] = (uint8_t)(instance >> 16);
	request.owner.mac.bytes[4] = (uint8_t)(instance >> 8);
	request.owner.mac.bytes[5] = (uint8_t)instance;
	request.owner.queues = queues;
	(void)snprintf(address, sizeof(address), "10.%u.%u.%u", 1 + (instance >> 16 & 127),
	        instance >> 8 & 255, instance & 255);
	lan_address(&request, address);
	return request;
}

/* --- the commands: as few as do it --- */

static void rules_text(char *text, size_t size, const char *verb, const char *name, unsigned i)
{
	(void)snprintf(text, size,
	        "%s element bridge cmp nics { \"%s\" }; %s element bridge cmp macs { \"%s\" . 52:54:00:%02x:%02x:%02x }; "
	        "%s element bridge cmp addresses4 { \"%s\" . 10.9.%u.%u }",
	        verb, name, verb, name, i >> 16 & 255, i >> 8 & 255, i & 255, verb, name, i >> 8 & 255,
	        i & 255);
}

static double commands_rules(const char *verb, const char *name, unsigned i)
{
	char text[512];
	double start = now_usec();

	rules_text(text, sizeof(text), verb, name, i);
	COMMAND("nft", text);
	return now_usec() - start;
}

static void commands_prepare(const char *name, unsigned i, bool multi_queue)
{
	(void)commands_rules("add", name, i);
	if (multi_queue)
		COMMAND("ip", "tuntap", "add", "dev", name, "mode", "tap", "user", "64055", "multi_queue",
		        "vnet_hdr");
	else
		COMMAND("ip", "tuntap", "add", "dev", name, "mode", "tap", "user", "64055", "vnet_hdr");
	COMMAND("ip", "link", "set", "dev", name, "alias", "bc1 node=node-1 instance=… nic=0 queues=1");
	COMMAND("ip", "link", "set", "dev", name, "master", LAN_BRIDGE);
	COMMAND("ip", "link", "set", "dev", name, "up");
}

static void commands_remove(const char *name, unsigned i)
{
	(void)commands_rules("delete", name, i);
	COMMAND("ip", "link", "del", name);
}

/* --- netd --- */

static void prepare(struct lan *lan, unsigned instance, uint32_t queues)
{
	struct nic_request request = request_of(instance, queues);
	struct err err = { 0 };
	struct nic *nic;

	if (nic_prepare_bridge(lan->nics, &request, &nic, &err) < 0)
		die(err.text);
	nic_free(nic);
}

static void remove_instance(struct lan *lan, unsigned instance)
{
	struct nic_removal removal;

	if (nic_remove_instance(lan->nics, lan_instance(instance), &removal, NULL) < 0 ||
	        removal.n_interfaces == 0)
		die("cannot remove");
	nic_removal_done(&removal);
}

static void reap(struct lan *lan)
{
	struct netlink *nl;

	if (netlink_open(NETLINK_ROUTE, &nl) < 0 || reaper_run(nics_reaper(lan->nics), nl) < 0)
		die("cannot reap");
	netlink_free(nl);
}

struct results {
	double prepare_sq, prepare_mq, nft, remove, growth, packet_growth;
};

static void bench_prepare(struct lan *lan, struct results *results)
{
	static struct samples ours[2], theirs[2], ours_removal, theirs_removal, theirs_rules;

	for (int round = 0; round < ROUNDS; round++) {
		for (int mq = 0; mq < 2; mq++) {
			for (unsigned i = 1; i <= NICS; i++) {
				double start = now_usec();

				prepare(lan, i, mq ? 4 : 1);
				sample(&ours[mq], now_usec() - start);
			}
			for (unsigned i = 1; i <= NICS; i++) {
				double start = now_usec();

				remove_instance(lan, i);
				sample(&ours_removal, now_usec() - start);
			}
			reap(lan);
			for (unsigned i = 1; i <= NICS / 4; i++) {
				char name[IFNAME_MAX];
				double start;

				(void)snprintf(name, sizeof(name), "cmp%u", i);
				start = now_usec();
				commands_prepare(name, i, mq);
				sample(&theirs[mq], now_usec() - start);
				start = now_usec();
				commands_remove(name, i);
				sample(&theirs_removal, now_usec() - start);
				sample(&theirs_rules, commands_rules("add", name, i));
				(void)commands_rules("delete", name, i);
			}
		}
	}
	results->prepare_sq = quarter(&theirs[0]) / quarter(&ours[0]);
	results->prepare_mq = quarter(&theirs[1]) / quarter(&ours[1]);
	results->nft = quarter(&theirs_rules);
	/* A sweep, to the last interface gone from the kernel. */
	{
		static struct samples sweeps;
		double per_nic;

		for (int round = 0; round < SWEEP_ROUNDS; round++) {
			double start;

			for (unsigned i = 1; i <= SWEEP; i++)
				prepare(lan, i, 1);
			start = now_usec();
			for (unsigned i = 1; i <= SWEEP; i++)
				remove_instance(lan, i);
			reap(lan);
			sample(&sweeps, (now_usec() - start) / SWEEP);
		}
		per_nic = quarter(&sweeps);
		printf("prepare: commands %.0f and %.0f us, netd %.0f and %.0f us (one queue, several)\n",
		        quarter(&theirs[0]), quarter(&theirs[1]), quarter(&ours[0]), quarter(&ours[1]));
		printf("removal: commands %.0f us, netd's caller waits %.0f us; a NIC in a sweep of %d, to its end, %.0f us\n",
		        quarter(&theirs_removal), quarter(&ours_removal), SWEEP, per_nic);
		if (per_nic < quarter(&ours_removal))
			per_nic = quarter(&ours_removal);
		results->remove = quarter(&theirs_removal) / per_nic;
	}
}

/* Each with its interface, rules, record and place on the bridge. Others use the kernel meanwhile: many NICs, and the
 * median of coming and going. */
static void bench_memory(struct lan *lan)
{
	static struct samples kib[2];

	for (int round = 0; round < MEMORY_ROUNDS; round++) {
		for (int mq = 0; mq < 2; mq++) {
			double before = kernel_kib(), full;

			for (unsigned i = 1; i <= MEMORY_NICS; i++)
				prepare(lan, i, mq ? 4 : 1);
			full = kernel_kib();
			sample(&kib[mq], (full - before) / MEMORY_NICS);
			for (unsigned i = 1; i <= MEMORY_NICS; i++)
				remove_instance(lan, i);
			reap(lan);
			sample(&kib[mq], (full - kernel_kib()) / MEMORY_NICS);
		}
	}
	printf("kernel_mib_sq=%.3f kernel_mib_mq=%.3f\n", median(&kib[0]) / 1024, median(&kib[1]) / 1024);
}

/* Elements only: NICs that are rules and no interface. */
static void elements_of(unsigned i, char name[static IFNAME_MAX], struct elements *elements)
{
	struct nic_request request = request_of(i, 1);

	(void)snprintf(name, IFNAME_MAX, "bc%010xn0", i);
	if (nic_filter_elements(name, &request.owner.mac, &request.filter, elements, NULL) < 0 ||
	        elements_finish(elements) < 0)
		die("elements");
}

static double rules_change_usec(struct lan *lan, unsigned i, bool add)
{
	static const struct elements none;
	struct elements elements = { 0 };
	char name[IFNAME_MAX];
	double start, usec;

	elements_of(i, name, &elements);
	start = now_usec();
	if (rules_change(
	            nics_rules(lan->nics), name, add ? &none : &elements, add ? &elements : &none, NULL) < 0)
		die("rules");
	usec = now_usec() - start;
	elements_done(&elements);
	return usec;
}

static void fill(struct lan *lan, unsigned from, unsigned to)
{
	for (; from < to; from++)
		(void)rules_change_usec(lan, from, true);
	for (; from > to; from--)
		(void)rules_change_usec(lan, from - 1, false);
}

static void sample_frames(struct samples *samples, struct port tap, const struct frame *frame)
{
	for (int n = 0; n < FRAME_SAMPLES; n++) {
		double start = now_usec();

		for (int i = 0; i < FRAMES; i++)
			lan_send(tap, frame);
		sample(samples, (now_usec() - start) / FRAMES);
	}
}

static void bench_growth(struct lan *lan, struct results *results)
{
	static struct samples rule_few, rule_many, frame_few, frame_many;
	struct nic_request request = lan_request(1, 0, "52:54:00:00:00:0a");
	struct err err = { 0 };
	struct frame f;
	struct port tap;
	struct nic *nic;

	lan_address(&request, "10.0.0.10");
	if (nic_prepare_bridge(lan->nics, &request, &nic, &err) < 0)
		die(err.text);
	tap = lan_attach(nic->ifname, false);
	frame_ether(&f, "52:54:00:00:00:99", "52:54:00:00:00:0a", 0x0800);
	frame_ip4(
	        &f, &(struct ip4_options){ .from = "10.0.0.10", .to = "10.0.0.99", .protocol = IPPROTO_UDP });
	frame_udp(&f, 5000, 53);
	frame_finish(&f);
	/* Past the filter nothing is of interest. */
	lan_run("nft 'add table bridge end; add chain bridge end c { type filter hook prerouting priority -200; }; "
	        "add rule bridge end c drop'");
	fill(lan, 0, FEW);
	for (int round = 0; round < FRAME_ROUNDS; round++) {
		for (unsigned i = 0; i < RULE_ROUNDS / FRAME_ROUNDS; i++) {
			sample(&rule_few, rules_change_usec(lan, 5000, true));
			(void)rules_change_usec(lan, 5000, false);
		}
		sample_frames(&frame_few, tap, &f);
		fill(lan, FEW, MANY);
		for (unsigned i = 0; i < RULE_ROUNDS / FRAME_ROUNDS; i++) {
			sample(&rule_many, rules_change_usec(lan, 5000, true));
			(void)rules_change_usec(lan, 5000, false);
		}
		sample_frames(&frame_many, tap, &f);
		fill(lan, MANY, FEW);
	}
	printf("rules of a NIC: %.1f us at %d NICs, %.1f at %d; a command %.0f us\n", quarter(&rule_few), FEW,
	        quarter(&rule_many), MANY, results->nft);
	printf("a frame through the filter: %.2f us at %d NICs, %.2f at %d\n", quarter(&frame_few), FEW,
	        quarter(&frame_many), MANY);
	results->nft /= quarter(&rule_many);
	results->growth = quarter(&rule_many) / quarter(&rule_few);
	results->packet_growth = quarter(&frame_many) / quarter(&frame_few);
	nic_free(nic);
	(void)close(tap.fd);
}

int main(void)
{
	struct results results = { 0 };
	struct lan lan;

	if (!lan_enter_namespace())
		die("no network namespace: run it as root");
	lan_open(&lan, NULL);
	lan_run("nft 'add table bridge cmp; add set bridge cmp nics { type ifname; }; add set bridge cmp macs { type ifname . "
	        "ether_addr; }; add set bridge cmp addresses4 { type ifname . ipv4_addr; }'");
	bench_prepare(&lan, &results);
	bench_growth(&lan, &results);
	bench_memory(&lan);
	printf("prepare_ratio_sq=%.1f prepare_ratio_mq=%.1f nft_ratio=%.0f remove_ratio=%.1f growth_10_1000=%.2f "
	       "packet_growth_10_1000=%.2f\n",
	        results.prepare_sq, results.prepare_mq, results.nft, results.remove, results.growth,
	        results.packet_growth);
	lan_close(&lan);
	return 0;
}
