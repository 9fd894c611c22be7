/* What the scan refuses before protobuf-c unpacks anything, and what it lets through. */
#include "lib/rpc/intake.h"
#include "lib/rpc/test/wire_builder.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <echo.pb-c.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum field {
	PAYLOAD = 1,
	COUNT = 2,
	BEHAVIOUR = 3,
	TEXT = 5,
	NESTED = 6,
	ITEMS = 7,
	LABELS = 8,
	WORD = 9,
	NUMBER = 10,
	MESSAGE = 11,
	NUMBERS = 12,
	BEHAVIOURS = 13,
	UNKNOWN = 77,
};

/* --- one fault each, and the words for it --- */

static void bad_utf8(struct wire_builder *w)
{
	wire_put_bytes(w, TEXT, "a\xff", 2);
}

static void surrogate(struct wire_builder *w)
{
	wire_put_bytes(w, TEXT, "\xed\xa0\x80", 3);
}

static void nul_inside(struct wire_builder *w)
{
	wire_put_bytes(w, TEXT, "a\0b", 3);
}

static void bad_utf8_below(struct wire_builder *w)
{
	bad_utf8(w);
	wire_wrap(w, NESTED);
	struct wire_builder list = { 0 };
	wire_put_bytes(&list, ITEMS, "", 0);
	wire_put_bytes(&list, ITEMS, w->bytes, w->n);
	wire_builder_done(w);
	*w = list;
}

static void enum_unknown(struct wire_builder *w)
{
	wire_put_number(w, BEHAVIOUR, 99);
}

static void enum_negative(struct wire_builder *w)
{
	wire_put_number(w, BEHAVIOUR, UINT64_MAX);
}

static void enum_packed_unknown(struct wire_builder *w)
{
	wire_put_bytes(w, BEHAVIOURS, "\x00\x01\x63", 3);
}

static void map_entry(struct wire_builder *w, const char *key)
{
	struct wire_builder entry = { 0 };

	wire_put_text(&entry, 1, key);
	wire_put_text(&entry, 2, "value");
	wire_put_bytes(w, LABELS, entry.bytes, entry.n);
	wire_builder_done(&entry);
}

static void map_key_twice(struct wire_builder *w)
{
	map_entry(w, "site");
	map_entry(w, "rack");
	map_entry(w, "site");
}

static void map_key_absent_twice(struct wire_builder *w)
{
	wire_put_bytes(w, LABELS, "", 0);
	wire_put_bytes(w, LABELS, "", 0);
}

static void given_twice(struct wire_builder *w)
{
	wire_put_number(w, COUNT, 1);
	wire_put_number(w, COUNT, 2);
}

static void oneof_twice(struct wire_builder *w)
{
	wire_put_text(w, WORD, "w");
	wire_put_number(w, NUMBER, 1);
}

static void wrong_wire_type(struct wire_builder *w)
{
	wire_put_number(w, TEXT, 1);
}

static void group(struct wire_builder *w)
{
	wire_put_varint(w, UNKNOWN << 3 | 3);
}

static void field_zero(struct wire_builder *w)
{
	wire_put_number(w, 0, 1);
}

static void padded_tag(struct wire_builder *w)
{
	wire_put_raw(w, "\x90\x80\x80\x80\x80\x00\x01", 7);
}

static void padded_length(struct wire_builder *w)
{
	wire_put_raw(w, "\x2a\x81\x80\x80\x80\x80\x00x", 8);
}

static void cut_in_tag(struct wire_builder *w)
{
	wire_put_raw(w, "\x80", 1);
}

static void cut_in_value(struct wire_builder *w)
{
	wire_put_raw(w,
	        "\x2a\x05"
	        "abc",
	        5);
}

static void length_of_4_gib(struct wire_builder *w)
{
	wire_put_varint(w, TEXT << 3 | 2);
	wire_put_varint(w, UINT32_MAX);
}

static void length_of_16_eib(struct wire_builder *w)
{
	wire_put_varint(w, TEXT << 3 | 2);
	wire_put_varint(w, UINT64_MAX);
}

static void varint_without_end(struct wire_builder *w)
{
	wire_put_raw(w, "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
}

static void packed_cut(struct wire_builder *w)
{
	wire_put_bytes(w, NUMBERS, "\x01\x80", 2);
}

static void nest(struct wire_builder *w, int levels)
{
	for (int i = 0; i < levels; i++)
		wire_wrap(w, NESTED);
}

/* The message itself is the first of 64. */
static void depth_65(struct wire_builder *w)
{
	wire_put_number(w, COUNT, 1);
	nest(w, RPC_DEPTH_MAX);
}

static void depth_10000(struct wire_builder *w)
{
	wire_put_number(w, COUNT, 1);
	nest(w, 10000);
}

static void depth_10000_by_oneof(struct wire_builder *w)
{
	for (int i = 0; i < 10000; i++)
		wire_wrap(w, MESSAGE);
}

static void unknown_fields(struct wire_builder *w)
{
	for (int i = 0; i <= RPC_UNKNOWN_FIELDS_MAX; i++)
		wire_put_number(w, UNKNOWN, 1);
}

static void unknown_fields_spread(struct wire_builder *w)
{
	struct wire_builder item = { 0 };

	wire_put_number(&item, UNKNOWN, 1);
	for (int i = 0; i <= RPC_UNKNOWN_FIELDS_MAX; i++)
		wire_put_bytes(w, ITEMS, item.bytes, item.n);
	wire_builder_done(&item);
}

/* Two bytes each on the wire, a struct each in memory. */
static void empty_messages(struct wire_builder *w)
{
	while (w->n + 2 <= RPC_WIRE_MAX)
		wire_put_bytes(w, ITEMS, "", 0);
}

static void map_entries(struct wire_builder *w)
{
	for (uint32_t i = 0; w->n + 8 <= RPC_WIRE_MAX; i++) {
		uint8_t entry[8] = { LABELS << 3 | 2, 6, 1 << 3 | 2, 4 };
		for (unsigned k = 0; k < 4; k++)
			entry[4 + k] = 'a' + (i >> (4 * k) & 15);
		wire_put_raw(w, entry, sizeof(entry));
	}
}

static void packed_numbers(struct wire_builder *w)
{
	static const uint8_t zeros[RPC_WIRE_MAX - 16];

	wire_put_bytes(w, NUMBERS, zeros, sizeof(zeros));
}

static void too_long(struct wire_builder *w)
{
	static const uint8_t zeros[RPC_WIRE_MAX];

	wire_put_bytes(w, PAYLOAD, zeros, sizeof(zeros));
}

static const struct fault {
	const char *name;
	void (*make)(struct wire_builder *w);
	int r;
	const char *words;
} faults[] = {
#define FAULT(make, r, words)                                                                                \
	{                                                                                                    \
#make, make, r, words                                                                        \
	}
	FAULT(bad_utf8, -EINVAL, "text: not valid UTF-8"),
	FAULT(surrogate, -EINVAL, "text: not valid UTF-8"),
	FAULT(nul_inside, -EINVAL, "text: a NUL byte inside the string"),
	FAULT(bad_utf8_below, -EINVAL, "items[1].nested.text: not valid UTF-8"),
	FAULT(enum_unknown, -EINVAL, "behaviour: 99 is no value of"),
	FAULT(enum_negative, -EINVAL, "behaviour: -1 is no value of"),
	FAULT(enum_packed_unknown, -EINVAL, "behaviours[0]: 99 is no value of"),
	FAULT(map_key_twice, -EINVAL, "key 'site' given twice"),
	FAULT(map_key_absent_twice, -EINVAL, "key '' given twice"),
	FAULT(given_twice, -EINVAL, "count: given twice"),
	FAULT(oneof_twice, -EINVAL, "both 'word' and 'number' are set"),
	FAULT(wrong_wire_type, -EBADMSG, "text: sent with the wire type"),
	FAULT(group, -EBADMSG, "malformed or cut unknown field"),
	FAULT(field_zero, -EBADMSG, "malformed field tag"),
	FAULT(padded_tag, -EBADMSG, "malformed field tag"),
	FAULT(padded_length, -EBADMSG, "text: cut short"),
	FAULT(cut_in_tag, -EBADMSG, "malformed field tag"),
	FAULT(cut_in_value, -EBADMSG, "text: cut short"),
	FAULT(length_of_4_gib, -EBADMSG, "text: cut short"),
	FAULT(length_of_16_eib, -EBADMSG, "text: cut short"),
	FAULT(varint_without_end, -EBADMSG, "count: cut short"),
	FAULT(packed_cut, -EBADMSG, "numbers[0]: malformed packed values"),
	FAULT(depth_65, -E2BIG, "nested deeper than 64 messages"),
	FAULT(depth_10000, -E2BIG, "nested deeper than 64 messages"),
	FAULT(depth_10000_by_oneof, -E2BIG, "nested deeper than 64 messages"),
	FAULT(unknown_fields, -E2BIG, "too many fields that this version does not know"),
	FAULT(unknown_fields_spread, -E2BIG, "too many fields that this version does not know"),
	FAULT(empty_messages, -E2BIG, "too many elements"),
	FAULT(map_entries, -E2BIG, "too many elements"),
	FAULT(packed_numbers, -E2BIG, "too many elements"),
	FAULT(too_long, -E2BIG, "at most 4 MiB are taken"),
#undef FAULT
};

static void each_fault_is_refused_in_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		CLEANUP_WIRE struct wire_builder w = { 0 };
		ProtobufCMessage *message = NULL;
		struct err err = { 0 };

		faults[i].make(&w);
		int r = rpc_message_parse(&bc__test__echo_message__descriptor, w.bytes, w.n, &message, &err);
		if (r != faults[i].r || message || !strstr(err.text, faults[i].words))
			fail_msg("%s: %d, '%s'", faults[i].name, r, err.text);
	}
}

static void parse_ok(const struct wire_builder *w)
{
	ProtobufCMessage *message = NULL;
	struct err err = { 0 };
	int r = rpc_message_parse(&bc__test__echo_message__descriptor, w->bytes, w->n, &message, &err);

	if (r < 0)
		fail_msg("refused: %s", err.text);
	protobuf_c_message_free_unpacked(message, NULL);
}

/* One step inside each limit. */
static void what_is_just_within_the_limits_is_taken(void **state)
{
	static const uint8_t zeros[RPC_WIRE_MAX - 16];
	CLEANUP_WIRE struct wire_builder deep = { 0 };
	CLEANUP_WIRE struct wire_builder unknown = { 0 };
	CLEANUP_WIRE struct wire_builder large = { 0 };
	const struct wire_builder empty = { 0 };

	(void)state;
	nest(&deep, RPC_DEPTH_MAX - 1);
	parse_ok(&deep);
	for (int i = 0; i < RPC_UNKNOWN_FIELDS_MAX; i++)
		wire_put_number(&unknown, UNKNOWN, 1);
	parse_ok(&unknown);
	wire_put_bytes(&large, PAYLOAD, zeros, sizeof(zeros));
	parse_ok(&large);
	parse_ok(&empty);
}

/* Every field at once, and cut after each byte: a cut is refused or gives a shorter message, and nothing is read
 * behind it (each cut is a heap block of its own, for ASan to see). */
static void a_message_cut_anywhere_is_safe(void **state)
{
	CLEANUP_WIRE struct wire_builder w = { 0 };

	(void)state;
	wire_put_bytes(&w, PAYLOAD, "bytes", 5);
	wire_put_number(&w, COUNT, 300);
	wire_put_number(&w, BEHAVIOUR, 3);
	wire_put_text(&w, TEXT, "grüezi");
	map_entry(&w, "site");
	wire_put_bytes(&w, NUMBERS, "\x01\x96\x01", 3);
	wire_put_bytes(&w, BEHAVIOURS, "\x01\x02", 2);
	wire_wrap(&w, MESSAGE);
	wire_put_text(&w, TEXT, "again");
	wire_put_number(&w, UNKNOWN, UINT64_MAX);
	parse_ok(&w);
	for (size_t n = 0; n < w.n; n++) {
		CLEANUP_FREE uint8_t *cut = malloc(n + 1);
		ProtobufCMessage *message = NULL;
		struct err err = { 0 };

		memcpy(cut, w.bytes, n);
		cut = realloc(cut, n ? n : 1);
		if (rpc_message_parse(&bc__test__echo_message__descriptor, cut, n, &message, &err) == 0)
			protobuf_c_message_free_unpacked(message, NULL);
		else
			assert_string_not_equal(err.text, "");
	}
}

TEST_SUITE(intake_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_is_refused_in_words),
		cmocka_unit_test(what_is_just_within_the_limits_is_taken),
		cmocka_unit_test(a_message_cut_anywhere_is_safe),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
