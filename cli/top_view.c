#include "cli/top_view.h"

#include "cli/human.h"
#include "cli/instance_view.h"

#include <string.h>

/* Counters of one VM at one look; each with whether its source is there. */
struct counters {
	bool has_proc, has_sched, has_kvm;
	uint64_t cpu_ns, read_bytes, written_bytes, resident_bytes, delay_ns, exits;
};

struct row {
	char id[64];
	Bc__V1__InstanceStatus__State state;
	uint64_t memory_bytes;
	struct counters now, before;
	bool had_before;
	double cpu_percent; /* for the order; negative: unknown */
};

struct top_view {
	struct row *rows; /* owned */
	size_t n_rows;
	uint64_t now_ns, before_ns;
	bool known; /* there was an earlier look */
	unsigned n_running;
	uint64_t committed_bytes, total_bytes;
};

struct top_view *top_view_new(void)
{
	return calloc(1, sizeof(struct top_view));
}

struct top_view *top_view_free(struct top_view *view)
{
	if (view)
		free(view->rows);
	free(view);
	return NULL;
}

static struct counters counters_take(const Bc__V1__VmTelemetry *vm)
{
	struct counters c = { 0 };

	if (vm->proc) {
		c.has_proc = true;
		c.cpu_ns = vm->proc->cpu_user_ns + vm->proc->cpu_system_ns;
		c.read_bytes = vm->proc->read_bytes;
		c.written_bytes = vm->proc->written_bytes;
		c.resident_bytes = vm->proc->resident_bytes;
	}
	if (vm->sched) {
		c.has_sched = true;
		c.delay_ns = vm->sched->runnable_delay_ns;
	}
	if (vm->kvm) {
		c.has_kvm = true;
		c.exits = vm->kvm->exits;
	}
	return c;
}

static const struct row *row_find(const struct row *rows, size_t n_rows, const char *id)
{
	for (size_t i = 0; i < n_rows; i++)
		if (strcmp(rows[i].id, id) == 0)
			return &rows[i];
	return NULL;
}

static const Bc__V1__VmTelemetry *vm_find(const Bc__V1__ListVmsReply *vms, const char *id)
{
	for (size_t i = 0; vms && i < vms->n_vms; i++)
		if (strcmp(vms->vms[i]->instance_id, id) == 0)
			return vms->vms[i];
	return NULL;
}

/* Per second; counters that went back (another process under the same id) say nothing. */
static double rate(const struct top_view *view, uint64_t now, uint64_t before)
{
	if (!view->known || view->now_ns <= view->before_ns || now < before)
		return -1;
	return (double)(now - before) * 1e9 / (double)(view->now_ns - view->before_ns);
}

static int row_compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->cpu_percent != y->cpu_percent)
		return x->cpu_percent < y->cpu_percent ? 1 : -1;
	return strcmp(x->id, y->id);
}

static void row_fill(struct row *row, const Bc__V1__InstanceStatus *status, const Bc__V1__VmTelemetry *vm,
        const struct row *old)
{
	(void)snprintf(row->id, sizeof(row->id), "%s", status->id);
	row->state = status->state;
	row->memory_bytes = status->balloon_bytes ? status->balloon_bytes : status->memory_bytes;
	if (vm)
		row->now = counters_take(vm);
	if (old) {
		row->before = old->now;
		row->had_before = true;
	}
}

void top_view_update(struct top_view *view, const Bc__V1__NodeStatus *status, const Bc__V1__ListVmsReply *vms,
        uint64_t now_ns)
{
	struct row *rows = calloc(status->n_instances + 1, sizeof(*rows));

	if (!rows)
		return;
	view->before_ns = view->now_ns;
	view->now_ns = now_ns;
	view->known = view->rows != NULL;
	view->n_running = 0;
	for (size_t i = 0; i < status->n_instances; i++) {
		const Bc__V1__InstanceStatus *instance = status->instances[i];

		row_fill(&rows[i], instance, vm_find(vms, instance->id),
		        row_find(view->rows, view->n_rows, instance->id));
		rows[i].cpu_percent = rows[i].now.has_proc && rows[i].had_before && rows[i].before.has_proc
		        ? rate(view, rows[i].now.cpu_ns, rows[i].before.cpu_ns) / 1e7
		        : -1;
		view->n_running += instance->state == BC__V1__INSTANCE_STATUS__STATE__RUNNING;
	}
	view->committed_bytes = status->capacity ? status->capacity->committed_bytes : 0;
	view->total_bytes = status->capacity ? status->capacity->total_bytes : 0;
	qsort(rows, status->n_instances, sizeof(*rows), row_compare);
	free(view->rows);
	view->rows = rows;
	view->n_rows = status->n_instances;
}

/* A rate when there is one, else the total so far, else "-". */
static void bytes_cell(const struct top_view *view, struct table *table, const struct row *row, bool has,
        uint64_t now, uint64_t before)
{
	char buf[HUMAN_MAX];
	double per_second = has && row->had_before && row->before.has_proc ? rate(view, now, before) : -1;

	if (!has)
		table_cell(table, STYLE_FAINT, "-");
	else if (per_second < 0)
		table_cell(table, STYLE_PLAIN, "%s", human_bytes(now, buf));
	else
		table_cell(table, STYLE_PLAIN, "%s/s", human_bytes((uint64_t)per_second, buf));
}

static void row_print(const struct top_view *view, struct table *table, const struct row *row)
{
	const struct counters *now = &row->now, *before = &row->before;
	char state[ENUM_TEXT_MAX], buf[HUMAN_MAX];
	double value;

	table_cell(table, STYLE_PLAIN, "%s", row->id);
	table_cell(table, instance_state_style(row->state), "%s", instance_state_text(row->state, state));
	if (row->cpu_percent >= 0)
		table_cell(
		        table, row->cpu_percent > 90 ? STYLE_WARN : STYLE_PLAIN, "%.0f%%", row->cpu_percent);
	else
		table_cell(table, now->has_proc ? STYLE_PLAIN : STYLE_FAINT, "%s",
		        now->has_proc ? human_duration(now->cpu_ns, buf) : "-");
	value = now->has_sched && row->had_before && before->has_sched
	        ? rate(view, now->delay_ns, before->delay_ns) / 1e7
	        : -1;
	if (value >= 0)
		table_cell(table, value > 10 ? STYLE_WARN : STYLE_PLAIN, "%.1f%%", value);
	else
		table_cell(table, now->has_sched ? STYLE_PLAIN : STYLE_FAINT, "%s",
		        now->has_sched ? human_duration(now->delay_ns, buf) : "-");
	table_cell(table, STYLE_PLAIN, "%s", human_bytes(row->memory_bytes, buf));
	if (now->has_proc)
		table_cell(table, STYLE_PLAIN, "%s", human_bytes(now->resident_bytes, buf));
	else
		table_cell(table, STYLE_FAINT, "-");
	bytes_cell(view, table, row, now->has_proc, now->read_bytes, before->read_bytes);
	bytes_cell(view, table, row, now->has_proc, now->written_bytes, before->written_bytes);
	value = now->has_kvm && row->had_before && before->has_kvm ? rate(view, now->exits, before->exits)
	                                                           : -1;
	if (value >= 0)
		table_cell(table, STYLE_PLAIN, "%.0f/s", value);
	else if (now->has_kvm)
		table_cell(table, STYLE_PLAIN, "%llu", (unsigned long long)now->exits);
	else
		table_cell(table, STYLE_FAINT, "-");
}

static int data_print(const struct top_view *view, struct cli *cli)
{
	for (size_t i = 0; i < view->n_rows; i++) {
		const struct row *row = &view->rows[i];
		Bc__V1__VmTelemetry vm = BC__V1__VM_TELEMETRY__INIT;
		Bc__V1__ProcTelemetry proc = BC__V1__PROC_TELEMETRY__INIT;
		Bc__V1__SchedTelemetry sched = BC__V1__SCHED_TELEMETRY__INIT;
		Bc__V1__KvmTelemetry kvm = BC__V1__KVM_TELEMETRY__INIT;

		vm.instance_id = (char *)(uintptr_t)row->id;
		proc.cpu_user_ns = row->now.cpu_ns;
		proc.read_bytes = row->now.read_bytes;
		proc.written_bytes = row->now.written_bytes;
		proc.resident_bytes = row->now.resident_bytes;
		sched.runnable_delay_ns = row->now.delay_ns;
		kvm.exits = row->now.exits;
		vm.proc = row->now.has_proc ? &proc : NULL;
		vm.sched = row->now.has_sched ? &sched : NULL;
		vm.kvm = row->now.has_kvm ? &kvm : NULL;
		if (answer_print_next(cli, &vm.base) != EXIT_OK)
			return EXIT_FAILED;
	}
	return EXIT_OK;
}

int top_view_print(const struct top_view *view, struct cli *cli, const char *why, size_t n_lines_max)
{
	CLEANUP(table) struct table *table = NULL;
	char committed[HUMAN_MAX], total[HUMAN_MAX];
	size_t n_heading = 1 + (why[0] != '\0') + cli->headings, n_shown = view->n_rows;
	int r;

	if (cli_output_is_data(cli))
		return data_print(view, cli);
	table = table_new();
	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	(void)fprintf(cli->out, "instances: %zu, running: %u; memory committed: %s of %s\n", view->n_rows,
	        view->n_running, human_bytes(view->committed_bytes, committed),
	        human_bytes(view->total_bytes, total));
	if (why[0])
		(void)fprintf(cli->out, "no telemetry: %s\n", why);
	table_column(table, "ID", 0);
	table_column(table, "STATE", 0);
	table_column(table, "CPU", TABLE_RIGHT);
	table_column(table, "WAITS", TABLE_RIGHT);
	table_column(table, "MEMORY", TABLE_RIGHT);
	table_column(table, "RESIDENT", TABLE_RIGHT);
	table_column(table, "READ", TABLE_RIGHT);
	table_column(table, "WRITTEN", TABLE_RIGHT);
	table_column(table, "EXITS", TABLE_RIGHT);
	if (n_lines_max && n_heading + n_shown > n_lines_max)
		n_shown = n_lines_max > n_heading + 1 ? n_lines_max - n_heading - 1 : 0;
	for (size_t i = 0; i < n_shown; i++)
		row_print(view, table, &view->rows[i]);
	r = answer_table(cli, table);
	if (n_shown < view->n_rows)
		(void)fprintf(
		        cli->out, "and %zu more, less busy: --once shows all\n", view->n_rows - n_shown);
	return r;
}
