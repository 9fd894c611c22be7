#include "lib/conf/conf.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "lib/base/tree.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct target {
	char *socket;
	char *name;
	uint64_t queues;
	struct conf_list bridges;
	bool vhost;
};

static const struct conf_key KEYS[] = {
	{ .section = "service",
	        .name = "socket",
	        .type = CONF_PATH,
	        .offset = offsetof(struct target, socket),
	        .preset = "/run/bc/netd.sock",
	        .help = "where it listens" },
	{ .section = "service",
	        .name = "name",
	        .type = CONF_STRING,
	        .offset = offsetof(struct target, name),
	        .help = "a name" },
	{ .section = "netd",
	        .name = "max_queues",
	        .type = CONF_UINT,
	        .offset = offsetof(struct target, queues),
	        .preset = "16",
	        .min = 1,
	        .max = 64,
	        .help = "queue pairs of a NIC at most" },
	{ .section = "netd",
	        .name = "allowed_bridges",
	        .type = CONF_LIST,
	        .offset = offsetof(struct target, bridges),
	        .preset = "br0",
	        .help = "bridges that may be named" },
	{ .section = "netd",
	        .name = "default_vhost",
	        .type = CONF_BOOL,
	        .offset = offsetof(struct target, vhost),
	        .help = "vhost" },
};

struct fixture {
	char *dir;  /* owned */
	char *file; /* owned */
	struct target target;
	struct conf_table table;
	struct err err;
	char warnings[4096];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (sandbox_setup((void **)&f->dir) < 0 || asprintf(&f->file, "%s/netd.conf", f->dir) < 0)
		return -1;
	f->table = (struct conf_table){ .keys = KEYS, .n_keys = ARRAY_SIZE(KEYS), .target = &f->target };
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	conf_done(&f->table, 1);
	(void)sandbox_teardown((void **)&f->dir);
	free(f->file);
	free(f);
	return 0;
}

static void put(struct fixture *f, const char *name, const char *text)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	assert_int_equal(atomic_file_write(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

static void on_warning(const char *warning, void *userdata)
{
	struct fixture *f = userdata;
	size_t n = strlen(f->warnings);

	assert_int_equal(strncmp(warning, f->dir, strlen(f->dir)), 0);
	(void)snprintf(f->warnings + n, sizeof(f->warnings) - n, "%s\n", warning + strlen(f->dir) + 1);
}

static int load(struct fixture *f)
{
	conf_done(&f->table, 1);
	f->err = (struct err){ 0 };
	f->warnings[0] = '\0';
	return conf_load(f->file, false, &f->table, 1, on_warning, f, &f->err);
}

static void loaded(struct fixture *f)
{
	if (load(f) < 0)
		fail_msg("refused: %s", f->err.text);
}

static void refused(struct fixture *f, const char *text, const char *why)
{
	put(f, "netd.conf", text);
	assert_int_equal(load(f), -EINVAL);
	assert_string_equal(f->err.text + strlen(f->dir) + 1, why);
}

static void without_a_file_presets_hold(void **state)
{
	struct fixture *f = *state;

	loaded(f);
	assert_string_equal(f->target.socket, "/run/bc/netd.sock");
	assert_string_equal(f->target.name, "");
	assert_int_equal(f->target.queues, 16);
	assert_int_equal(f->target.bridges.n, 1);
	assert_int_equal(conf_load(f->file, true, &f->table, 1, NULL, NULL, &f->err), -ENOENT);
	assert_non_null(strstr(f->err.text, "netd.conf: cannot be read: No such file or directory"));
}

static void later_files_win_and_lists_grow(void **state)
{
	struct fixture *f = *state;

	put(f, "netd.conf",
	        "\xef\xbb\xbf# comment\n; another\n[netd]\r\nmax_queues = 5 ; five\n  allowed_bridges=br1\n"
	        "default_vhost=yes\n[service]\nname = \"a b\"\n[netd]\nallowed_bridges=br2 br3\n");
	put(f, "netd.conf.d", "");
	loaded(f); /* a file in the place of the directory is not one */
	assert_int_equal(f->target.queues, 5);
	assert_string_equal(f->target.name, "a b");
	assert_true(f->target.vhost);
	assert_int_equal(f->target.bridges.n, 3); /* without the preset */
	assert_string_equal(f->target.bridges.items[0], "br1");
	assert_string_equal(f->warnings, "");

	assert_int_equal(remove_tree(AT_FDCWD, SANDBOX_PATH(&f->dir, "netd.conf.d")), 0);
	assert_int_equal(mkdir_p(SANDBOX_PATH(&f->dir, "netd.conf.d"), 0755), 0);
	put(f, "netd.conf.d/20-b.conf", "[netd]\nmax_queues=7\nallowed_bridges=\nallowed_bridges=br9\n");
	put(f, "netd.conf.d/10-a.conf", "[netd]\nmax_queues=6\n[service]\nname=\n");
	put(f, "netd.conf.d/30-c.conf~", "[netd]\nmax_queues=8\n");
	put(f, "netd.conf.d/.40.conf", "[netd]\nmax_queues=9\n");
	loaded(f);
	assert_int_equal(f->target.queues, 7);
	assert_string_equal(f->target.name, "");
	assert_int_equal(f->target.bridges.n, 1);
	assert_string_equal(f->target.bridges.items[0], "br9");
}

/* Of every type but lists, in one section or in the same one opened again, with the same value or none. */
static void a_key_given_twice_in_one_file_is_a_refusal(void **state)
{
	struct fixture *f = *state;

	refused(f, "[netd]\nmax_queues=4\n\nmax_queues=4\n",
	        "netd.conf:4: [netd] max_queues is given in line 2 already: leave one of them");
	refused(f, "[service]\nname=a\n[netd]\n[service]\nname=\n",
	        "netd.conf:5: [service] name is given in line 2 already: leave one of them");
	refused(f, "[service]\nsocket=\nsocket=/run/x\n",
	        "netd.conf:3: [service] socket is given in line 2 already: leave one of them");
	refused(f, "[netd]\ndefault_vhost=no\ndefault_vhost=yes\n",
	        "netd.conf:3: [netd] default_vhost is given in line 2 already: leave one of them");
	/* in a drop-in as well, whatever the file before it says */
	put(f, "netd.conf", "[netd]\nmax_queues=4\n");
	assert_int_equal(mkdir_p(SANDBOX_PATH(&f->dir, "netd.conf.d"), 0755), 0);
	put(f, "netd.conf.d/a.conf", "[netd]\nmax_queues=5\n");
	loaded(f);
	assert_int_equal(f->target.queues, 5);
	put(f, "netd.conf.d/b.conf", "[netd]\nmax_queues=6\nmax_queues=7\n");
	assert_int_equal(load(f), -EINVAL);
	assert_non_null(
	        strstr(f->err.text, "netd.conf.d/b.conf:3: [netd] max_queues is given in line 2 already"));
}

static void what_is_unknown_is_a_warning_with_its_place(void **state)
{
	struct fixture *f = *state;

	put(f, "netd.conf",
	        "early=1\nearlier=2\n[netd]\nmax_queue=3\nxyzzy=1\n[net]\na=1\nb=2\n[zzz]\nc=1\n");
	loaded(f);
	assert_string_equal(f->warnings,
	        "netd.conf:1: key 'early' stands before any [section] and is ignored\n"
	        "netd.conf:2: key 'earlier' stands before any [section] and is ignored\n"
	        "netd.conf:4: unknown key 'max_queue' in [netd] is ignored, did you mean 'max_queues'?\n"
	        "netd.conf:5: unknown key 'xyzzy' in [netd] is ignored\n"
	        "netd.conf:7: unknown section [net] is ignored, did you mean 'netd'?\n"
	        "netd.conf:10: unknown section [zzz] is ignored\n");
	assert_int_equal(f->target.queues, 16);
}

static void a_bad_value_is_a_refusal_with_place_value_and_remedy(void **state)
{
	struct fixture *f = *state;
	char line[512];

	refused(f, "[netd]\n\nmax_queues=100\n",
	        "netd.conf:3: [netd] max_queues=100: write a whole number from 1 to 64");
	refused(f, "[netd]\ndefault_vhost=perhaps\n",
	        "netd.conf:2: [netd] default_vhost=perhaps: write yes or no");
	refused(f, "[service]\nsocket=here\n",
	        "netd.conf:2: [service] socket=here: write an absolute path of at most 4095 bytes");
	refused(f, "[service]\nname=\"a ; b\"\n",
	        "netd.conf:2: [service] name=\"a: write a text of at most 4095 bytes, in matching quotes "
	        "if it has quotes or "
	        "' #'; a comment needs a line of its own");
	refused(f, "[netd]\nmax_queues\nmax_queues=0\n",
	        "netd.conf:2: the line is neither [section] nor key=value");
	refused(f, "[netd\nmax_queues=0\n", "netd.conf:1: the line is neither [section] nor key=value");
	refused(f, "[netd]\nmax_queues=0\n[oops\n",
	        "netd.conf:2: [netd] max_queues=0: write a whole number from 1 to 64");
	refused(f, "[netd]\nallowed_bridges=a \\\n  b\n",
	        "netd.conf:2: lines are not continued with '\\'; repeat the key to append to a list");

	(void)snprintf(line, sizeof(line), "[service]\nname=%0*d\n", 191, 7);
	put(f, "netd.conf", line);
	loaded(f);
	assert_int_equal(strlen(f->target.name), 191);
	(void)snprintf(line, sizeof(line), "[service]\nname=%0*d\n", 192, 7);
	refused(f, line, "netd.conf:2: the line has 197 bytes; at most 196 are read");
	(void)snprintf(line, sizeof(line), "[service]\n# %0*d\nname=x\n", 300, 7);
	put(f, "netd.conf", line);
	loaded(f); /* a comment may be long */
}

static void bytes_that_are_no_text_are_refused(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(atomic_file_write(AT_FDCWD, f->file, "[netd]\nmax\0_queues=1\n", 21, 0644), 0);
	assert_int_equal(load(f), -EINVAL);
	assert_non_null(strstr(f->err.text, "netd.conf:2: the line holds a NUL character; leave it out"));
	assert_int_equal(unlink(f->file), 0);
	assert_int_equal(mkdir_p(f->file, 0755), 0);
	assert_int_equal(load(f), -EISDIR);
}

static void it_prints_itself(void **state)
{
	struct fixture *f = *state;
	CLEANUP_FREE char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	loaded(f);
	conf_print(&f->table, 1, out);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text,
	        "[service]\n# where it listens: an absolute path of at most 4095 bytes\n"
	        "#socket=/run/bc/netd.sock\n"));
	assert_non_null(strstr(text,
	        "\n[netd]\n# queue pairs of a NIC at most: a whole number from 1 to 64\n#max_queues=16\n"));
	put(f, "netd.conf", text);
	loaded(f);
	assert_string_equal(f->warnings, "");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

TEST_SUITE(conf_test)
{
	const struct CMUnitTest tests[] = {
		TEST(without_a_file_presets_hold),
		TEST(later_files_win_and_lists_grow),
		TEST(a_key_given_twice_in_one_file_is_a_refusal),
		TEST(what_is_unknown_is_a_warning_with_its_place),
		TEST(a_bad_value_is_a_refusal_with_place_value_and_remedy),
		TEST(bytes_that_are_no_text_are_refused),
		TEST(it_prints_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
