#include "cli/human.h"
#include "cli/instance_view.h"
#include "cli/node_status.h"
#include "cli/verbs.h"
#include "lib/net/port_map.h"

#include <string.h>
#include <time.h>

enum { LABEL_WIDTH = 14 };

static void field(struct cli *cli, const char *label, enum style style, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));

/* "Memory:       512 MiB"; nothing for an empty value. */
static void field(struct cli *cli, const char *label, enum style style, const char *fmt, ...)
{
	CLEANUP_FREE char *raw = NULL;
	CLEANUP_FREE char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&raw, fmt, ap);
	va_end(ap);
	if (n <= 0) {
		raw = n < 0 ? NULL : raw;
		return;
	}
	text = style_safe(raw);
	if (text)
		(void)fprintf(cli->out, "%s%s%*s%s%s%s\n", label, label[0] ? ":" : " ",
		        (int)(LABEL_WIDTH - 1 - (int)strlen(label)), "", style_begin(style, cli->color), text,
		        style_end(style, cli->color));
}

static void status_print(struct cli *cli, const Bc__V1__InstanceStatus *status)
{
	char buf[HUMAN_MAX], buf2[HUMAN_MAX], state[ENUM_TEXT_MAX];
	int64_t now = time(NULL);

	field(cli, "Instance", STYLE_BOLD, "%s", status->id);
	field(cli, "State", instance_state_style(status->state), "%s",
	        instance_state_text(status->state, state));
	field(cli, "Reason", STYLE_PLAIN, "%s", status->reason);
	field(cli, "Message", STYLE_PLAIN, "%s", status->message);
	if (status->last_transition)
		field(cli, "Since", STYLE_PLAIN, "%s ago",
		        human_age(status->last_transition->seconds, now, buf));
	if (status->next_attempt && status->next_attempt->seconds)
		field(cli, "Next attempt", STYLE_WARN, "%s, after %s in a row",
		        human_until(status->next_attempt->seconds, now, buf),
		        human_count(status->failures, "failure", buf2));
	if (status->progress && status->progress->what[0])
		field(cli, "Under way", STYLE_PLAIN, "%s, %s of %s", status->progress->what,
		        human_bytes(status->progress->done_bytes, buf),
		        status->progress->total_bytes ? human_bytes(status->progress->total_bytes, buf2)
		                                      : "?");
	field(cli, "Allocation", STYLE_PLAIN, "%s", status->allocation_id);
	field(cli, "Runtime", STYLE_PLAIN, "%s%s%s%s", status->runtime, status->accel[0] ? " (" : "",
	        status->accel, status->accel[0] ? ")" : "");
	if (status->memory_bytes)
		field(cli, "Memory", STYLE_PLAIN, "%s%s%s", human_bytes(status->memory_bytes, buf),
		        status->balloon_bytes ? ", of which the guest has " : "",
		        status->balloon_bytes ? human_bytes(status->balloon_bytes, buf2) : "");
	field(cli, "Revision", STYLE_PLAIN, "%llu", (unsigned long long)status->observed_revision);
	field(cli, "Restarts", status->restarts ? STYLE_WARN : STYLE_PLAIN, "%u", status->restarts);
	field(cli, "Identity", STYLE_PLAIN, "%s", status->identity_rebound_ref);
	for (size_t i = 0; i < status->n_vmm_pids; i++)
		field(cli, i ? "" : "VMM pid", STYLE_PLAIN, "%lld", (long long)status->vmm_pids[i]);
}

static void boot_print(struct cli *cli, const Bc__V1__BootTimings *boot)
{
	static const char *const LABELS[] = { "prepared", "VMM started", "first output", "ready" };
	char buf[HUMAN_MAX];

	if (!boot)
		return;
	const uint64_t times[] = { boot->prepared_ns, boot->vmm_started_ns, boot->first_output_ns,
		boot->ready_ns };
	bool first = true;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		if (times[i]) {
			field(cli, first ? "Boot" : "", STYLE_PLAIN, "%s after %s", LABELS[i],
			        human_duration(times[i], buf));
			first = false;
		}
}

static void nics_print(struct cli *cli, const Bc__V1__InstanceStatus *status)
{
	for (size_t i = 0; i < status->n_nics; i++) {
		const Bc__V1__NicStatus *nic = status->nics[i];
		char label[16];

		(void)snprintf(label, sizeof(label), "NIC %u", nic->index);
		field(cli, label, STYLE_PLAIN, "%s  %s%s%s%s",
		        nic->interface[0] ? nic->interface : "user mode", nic->mac,
		        nic->queues > 1 ? ", several queues" : "", nic->vhost ? ", vhost" : "",
		        nic->filtered ? ", filtered" : "");
		for (size_t j = 0; j < nic->n_addresses; j++)
			field(cli, "", STYLE_PLAIN, "%s", nic->addresses[j]);
	}
	for (size_t i = 0; i < status->n_ports; i++) {
		const Bc__V1__PublishedPort *port = status->ports[i];
		char text[PORT_MAP_TEXT_MAX];

		if (port->mapping)
			field(cli, i ? "" : "Published", STYLE_PLAIN, "%s to port %u of NIC %u",
			        port_map_text(port->mapping, text, sizeof(text)), port->mapping->guest_port,
			        port->nic_index);
	}
}

static const Bc__V1__InstanceSpec *spec_of(const Bc__V1__GetNodeReply *node, const char *id)
{
	if (!node->spec || !node->spec->instances)
		return NULL;
	for (size_t i = 0; i < node->spec->instances->n_items; i++)
		if (strcmp(node->spec->instances->items[i]->id, id) == 0)
			return node->spec->instances->items[i];
	return NULL;
}

/* "0,2,3" */
static char *numbers_text(const uint32_t *numbers, size_t n_numbers, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < n_numbers && n < size; i++) {
		int more = snprintf(buf + n, size - n, i ? ",%u" : "%u", numbers[i]);

		n += more > 0 ? (size_t)more : 0;
	}
	return buf;
}

static void placement_print(struct cli *cli, const Bc__V1__Placement *placement)
{
	char text[256], buf[HUMAN_MAX];

	if (placement->n_cpu_pins)
		field(cli, "vCPUs on", STYLE_PLAIN, "CPU %s",
		        numbers_text(placement->cpu_pins, placement->n_cpu_pins, text, sizeof(text)));
	if (placement->n_emulator_cpus)
		field(cli, "VMM on", STYLE_PLAIN, "CPU %s",
		        numbers_text(
		                placement->emulator_cpus, placement->n_emulator_cpus, text, sizeof(text)));
	if (placement->n_numa_nodes)
		field(cli, "Memory on", STYLE_PLAIN, "node %s",
		        numbers_text(placement->numa_nodes, placement->n_numa_nodes, text, sizeof(text)));
	if (placement->huge_page_bytes)
		field(cli, "Pages", STYLE_PLAIN, "%s", human_bytes(placement->huge_page_bytes, buf));
}

static void spec_print(struct cli *cli, const Bc__V1__InstanceSpec *spec)
{
	bool is_job = spec->kind == BC__V1__INSTANCE_SPEC__KIND__JOB;
	char buf[HUMAN_MAX], vcpus[HUMAN_MAX];

	field(cli, "Wanted", STYLE_PLAIN, "%s%s, %s, %s", is_job ? "a job, " : "",
	        ENUM_TEXT(bc__v1__instance_spec__desired_state__descriptor, spec->desired_state),
	        human_count(spec->vcpus, "vCPU", vcpus), human_bytes(spec->memory_bytes, buf));
	if (spec->balloon && spec->balloon->min_bytes)
		field(cli, "At least", STYLE_PLAIN, "%s under pressure",
		        human_bytes(spec->balloon->min_bytes, buf));
	if (spec->placement)
		placement_print(cli, spec->placement);
	if (spec->boot && spec->boot->source_case == BC__V1__BOOT__SOURCE_IMAGE)
		field(cli, "Image", STYLE_PLAIN, "%s (%s)", spec->boot->image->digest,
		        ENUM_TEXT(bc__v1__image_boot__format__descriptor, spec->boot->image->format));
	else if (spec->boot && spec->boot->source_case == BC__V1__BOOT__SOURCE_KERNEL)
		field(cli, "Kernel", STYLE_PLAIN, "%s%s%s", spec->boot->kernel->kernel,
		        spec->boot->kernel->cmdline[0] ? " " : "", spec->boot->kernel->cmdline);
	if (spec->restore_from)
		field(cli, "Restored", STYLE_PLAIN, "%s%s", spec->restore_from->digest,
		        spec->restore_from->with_memory ? ", with its memory" : "");
	field(cli, "To become", STYLE_PLAIN, "%s", spec->identity_rebind_ref);
	if (spec->ssh_from_host_only)
		field(cli, "SSH", STYLE_PLAIN, "from this host only");
	for (size_t i = 0; i < spec->n_volumes; i++)
		field(cli, i ? "" : "Volumes", STYLE_PLAIN, "vd%c: %s, serial %s%s", (char)('b' + i),
		        spec->volumes[i]->volume_id, spec->volumes[i]->serial,
		        spec->volumes[i]->read_only ? ", read-only" : "");
	for (size_t i = 0; i < spec->n_gpu_device_ids; i++)
		field(cli, i ? "" : "GPUs", STYLE_PLAIN, "%s", spec->gpu_device_ids[i]);
	field(cli, "User data", STYLE_PLAIN, "%s", spec->user_data_ref);
	for (size_t i = 0; i < spec->n_labels; i++)
		field(cli, i ? "" : "Labels", STYLE_PLAIN, "%s=%s", spec->labels[i]->key,
		        spec->labels[i]->value);
}

struct recent {
	struct cli *cli; /* weak */
	char *lines[10]; /* owned; a ring */
	size_t n;
};

static bool on_event(const ProtobufCMessage *message, void *userdata)
{
	const Bc__V1__Event *event = (const Bc__V1__Event *)message;
	struct recent *recent = userdata;
	char **line = &recent->lines[recent->n++ % ARRAY_SIZE(recent->lines)], age[HUMAN_MAX];

	free(*line);
	if (asprintf(line, "%s ago  %s%s%s", human_age(timestamp_seconds(event->time), time(NULL), age),
	            event->reason, event->message[0] ? ": " : "", event->message) < 0)
		*line = NULL;
	return true;
}

/* The last few events; a converger without them is no reason to fail. */
static void events_print(struct door *door, const char *id)
{
	struct recent recent = { .cli = door->cli };
	const struct door_stream stream = { .on_message = on_event, .userdata = &recent };
	Bc__V1__EventsRequest request = BC__V1__EVENTS_REQUEST__INIT;
	struct rpc_status status = { 0 };
	size_t n_kept = ARRAY_SIZE(recent.lines);

	request.instance_id = (char *)(uintptr_t)id;
	(void)door_stream(door, DOOR_METHOD(Converger, events), &request.base, door->cli->timeout_usec,
	        &stream, &status);
	size_t first = recent.n > n_kept ? recent.n - n_kept : 0;

	for (size_t i = first; i < recent.n; i++)
		field(door->cli, i == first ? "Events" : "", STYLE_PLAIN, "%s",
		        recent.lines[i % n_kept] ? recent.lines[i % n_kept] : "");
	for (size_t i = 0; i < n_kept; i++)
		free(recent.lines[i]);
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP_MESSAGE ProtobufCMessage *status = NULL;
	CLEANUP_MESSAGE ProtobufCMessage *node = NULL;
	int r = door_open(cli, "converger", &door);

	if (r == EXIT_OK)
		r = node_status_get(&door, "", (Bc__V1__NodeStatus **)(void *)&status);
	if (r != EXIT_OK)
		return r;
	const Bc__V1__InstanceStatus *instance =
	        node_status_find(cli, (const Bc__V1__NodeStatus *)status, arguments->words[0], &r);

	if (!instance)
		return r;
	if (cli_output_is_data(cli))
		return answer_print(cli, &instance->base);
	r = node_get(&door, true, (Bc__V1__GetNodeReply **)(void *)&node);
	if (r != EXIT_OK)
		return r;
	const Bc__V1__InstanceSpec *spec = spec_of((const Bc__V1__GetNodeReply *)node, instance->id);

	status_print(cli, instance);
	if (spec)
		spec_print(cli, spec);
	nics_print(cli, instance);
	boot_print(cli, instance->boot);
	events_print(&door, instance->id);
	return EXIT_OK;
}

const struct command verb_describe = {
	.name = "describe",
	.words = "ID",
	.n_words_min = 1,
	.n_words_max = 1,
	.kind = WORD_INSTANCE,
	.summary = "Show all that is known of one instance: state, wish, network, boot times, events",
	.example = "  bcctl describe 6f1c",
	.run = run,
};
