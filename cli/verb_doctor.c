#include "cli/answer.h"
#include "cli/doctor_host.h"
#include "cli/doctor_services.h"
#include "cli/verbs.h"
#include "lib/text/proto_write.h"
#include "lib/text/yaml_write.h"

#include <errno.h>
#include <string.h>

static enum style level_style(enum finding_level level)
{
	return level == FINDING_OK ? STYLE_GOOD : level == FINDING_WARN ? STYLE_WARN : STYLE_BAD;
}

static int data_print(struct cli *cli, const struct findings *findings)
{
	json_t *list = json_array();
	CLEANUP_FREE char *text = NULL;

	for (size_t i = 0; list && i < findings->n; i++) {
		const struct finding *finding = &findings->items[i];

		(void)json_array_append_new(list,
		        json_pack("{s:s, s:s, s:s, s:s}", "level", finding_level_text(finding->level), "what",
		                finding->what, "detail", finding->detail, "mend", finding->mend));
	}
	if (list && cli->output == OUTPUT_YAML)
		(void)yaml_text(list, &text);
	else if (list)
		text = json_text(list, PROTO_WRITE_INDENT);
	json_decref(list);
	if (!text)
		return cli_fail(cli, EXIT_FAILED, "cannot print the findings: %s", strerror(ENOMEM));
	(void)fputs(text, cli->out);
	return EXIT_OK;
}

static int findings_print(struct cli *cli, const struct findings *findings)
{
	CLEANUP(table) struct table *table = table_new();

	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	table_column(table, "", 0);
	table_column(table, "PREREQUISITE", 0);
	table_column(table, "FOUND", 0);
	for (size_t i = 0; i < findings->n; i++) {
		const struct finding *finding = &findings->items[i];

		table_cell(table, level_style(finding->level), "%s", finding_level_text(finding->level));
		table_cell(table, STYLE_PLAIN, "%s", finding->what);
		table_cell(table, STYLE_PLAIN, "%s", finding->detail);
		if (!finding->mend[0])
			continue;
		table_cell(table, STYLE_PLAIN, "%s", "");
		table_cell(table, STYLE_PLAIN, "%s", "");
		table_cell(table, STYLE_FAINT, "mend: %s", finding->mend);
	}
	return answer_table(cli, table);
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	struct findings findings __attribute__((cleanup(findings_done))) = { 0 };
	struct doctor_services services;
	const char *data_dir = arguments_value(arguments, "data-dir");
	const char *path = getenv("PATH");
	int r;

	doctor_services_check(cli, &findings, &services);
	const struct doctor_host host = {
		.root = "",
		.path = path ? path : "/usr/sbin:/usr/bin:/sbin:/bin",
		.data_dir = data_dir ? data_dir : "/var/lib/bc",
		.run_dir = cli->run_dir,
		.runs_libvirt = services.has_libvirt,
		.runs_ch = services.has_ch,
	};

	doctor_host_check(&host, &findings);
	r = cli_output_is_data(cli) ? data_print(cli, &findings) : findings_print(cli, &findings);
	return r != EXIT_OK || findings_worst(&findings) < FINDING_FAIL ? r : EXIT_FAILED;
}

static const struct option_def OPTIONS[] = {
	{ 0, "data-dir", "DIR", WORD_DIR, "where the services keep images and disks; /var/lib/bc" },
	{ 0 },
};

const struct command verb_doctor = {
	.name = "doctor",
	.summary = "Check each prerequisite of this host, and say how to mend what is missing",
	.description =
	        "OK, WARN (something will not work, the rest does) or FAIL (no VM will run). The exit code is 1 when\n"
	        "anything fails.",
	.options = OPTIONS,
	.example = "  bcctl doctor\n"
	           "  bcctl doctor -o json | jq '.[] | select(.level != \"OK\")'",
	.run = run,
};
