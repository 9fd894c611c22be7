#include "cli/answer.h"

#include "lib/text/proto_enum.h"
#include "lib/text/proto_write.h"
#include "lib/text/yaml_write.h"

#include <errno.h>
#include <string.h>

static int text_print(struct cli *cli, int r, char *text)
{
	CLEANUP_FREE char *owned = text;

	if (r < 0)
		return cli_fail(cli, EXIT_FAILED, "cannot print the answer: %s", strerror(-r));
	(void)fputs(owned, cli->out);
	return EXIT_OK;
}

int answer_print(struct cli *cli, const ProtobufCMessage *message)
{
	char *text = NULL;
	int r = cli->output == OUTPUT_YAML ? proto_write_yaml(message, 0, &text)
	                                   : proto_write_json(message, PROTO_WRITE_INDENT, &text);

	return text_print(cli, r, text);
}

static int list_build(const ProtobufCMessage *const *messages, size_t n_messages, json_t *list)
{
	for (size_t i = 0; i < n_messages; i++) {
		json_t *tree = NULL;
		int r = proto_write_tree(messages[i], 0, &tree);

		if (r < 0)
			return r;
		if (json_array_append_new(list, tree) < 0)
			return -ENOMEM;
	}
	return 0;
}

int answers_print(struct cli *cli, const ProtobufCMessage *const *messages, size_t n_messages)
{
	json_t *list = json_array();
	char *text = NULL;
	int r = list ? list_build(messages, n_messages, list) : -ENOMEM;

	if (r == 0 && cli->output == OUTPUT_YAML) {
		r = yaml_text(list, &text);
	} else if (r == 0) {
		text = json_text(list, PROTO_WRITE_INDENT);
		r = text ? 0 : -ENOMEM;
	}
	json_decref(list);
	return text_print(cli, r, text);
}

int answer_print_next(struct cli *cli, const ProtobufCMessage *message)
{
	char *text = NULL;
	int r;

	if (cli->output == OUTPUT_YAML) {
		(void)fputs("---\n", cli->out);
		r = proto_write_yaml(message, 0, &text);
	} else {
		r = proto_write_json(message, PROTO_WRITE_COMPACT, &text);
	}
	r = text_print(cli, r, text);
	if (cli->output == OUTPUT_JSON)
		(void)fputc('\n', cli->out);
	(void)fflush(cli->out);
	return r;
}

int answer_table(struct cli *cli, const struct table *table)
{
	int r = table_print(table, cli->out, cli->color, cli->output == OUTPUT_WIDE, cli->headings);

	return r < 0 ? cli_fail(cli, EXIT_FAILED, "cannot print the table: %s", strerror(-r)) : EXIT_OK;
}

const char *enum_text(const ProtobufCEnumDescriptor *type, int value, char buf[static ENUM_TEXT_MAX])
{
	const char *name = proto_enum_name(type, value);

	if (name)
		return name;
	(void)snprintf(buf, ENUM_TEXT_MAX, "%d", value);
	return buf;
}

int64_t timestamp_seconds(const Google__Protobuf__Timestamp *time)
{
	return time ? time->seconds : 0;
}
