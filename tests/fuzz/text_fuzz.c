/* Any text is read or refused with reasons; what was read is printed as JSON and YAML that read back as the same. */
#include "lib/base/cleanup.h"
#include "lib/text/proto_read.h"
#include "lib/text/proto_write.h"
#include "lib/text/sample_test.pb-c.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);

static ProtobufCMessage *message_read(const char *text, size_t n_text)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "fuzz" };
	ProtobufCMessage *message = NULL;
	int r = proto_read(text, n_text, &bc__text_sample__sample__descriptor, &message, &problems);

	if ((r == 0) != (problems.n == 0) || (r == 0) != (message != NULL))
		abort();
	return message;
}

static char *json_of(const ProtobufCMessage *message)
{
	char *text = NULL;

	if (proto_write_json(message, PROTO_WRITE_COMPACT, &text) < 0)
		abort();
	return text;
}

/* Reads text again and compares what it prints. Real numbers settle after one printing, so nothing may change. */
static void must_read_back(const char *text, const char *json)
{
	ProtobufCMessage *message = message_read(text, strlen(text));

	if (!message)
		abort();
	CLEANUP_FREE char *again = json_of(message);
	if (strcmp(again, json) != 0)
		abort();
	protobuf_c_message_free_unpacked(message, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	ProtobufCMessage *message = message_read((const char *)data, n_data);

	if (!message)
		return 0;
	CLEANUP_FREE char *json = json_of(message);
	CLEANUP_FREE char *yaml = NULL;
	if (proto_write_yaml(message, 0, &yaml) < 0)
		abort();
	protobuf_c_message_free_unpacked(message, NULL);
	/* Printing may need more than what is read: escapes, names instead of numbers. */
	if (strlen(json) > TEXT_SIZE_MAX || strlen(yaml) > TEXT_SIZE_MAX)
		return 0;
	must_read_back(json, json);
	must_read_back(yaml, json);
	return 0;
}
