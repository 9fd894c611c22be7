#include "svc-netd/record.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/tap_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_MAGIC "bc-netd-elements 1\n"

/* Line: table, set, key and for a map the value, both in hex. */
enum { HEX_MAX = 2 * ELEMENT_KEY_MAX + 1 };

static void hex_format(const uint8_t *data, size_t n, char ret[static HEX_MAX])
{
	for (size_t i = 0; i < n; i++)
		(void)sprintf(ret + 2 * i, "%02x", data[i]);
	ret[2 * n] = 0;
}

static int nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_parse(const char *s, uint8_t *ret, size_t n)
{
	if (strlen(s) != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++) {
		int high = nibble(s[2 * i]), low = nibble(s[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static void temporary_name(const char *ifname, char ret[static IFNAME_MAX + 8])
{
	(void)snprintf(ret, IFNAME_MAX + 8, ".%s.tmp", ifname);
}

static int record_put(FILE *file, const struct elements *elements)
{
	(void)fputs(RECORD_MAGIC, file);
	for (size_t i = 0; i < elements->n; i++) {
		const struct element *e = &elements->items[i];
		const struct set_info *info = set_info(e->set);
		char key[HEX_MAX], data[HEX_MAX];

		hex_format(e->key, info->key_size, key);
		hex_format(e->data, info->data_size, data);
		(void)fprintf(file, "%s %s %s %s\n", info->bridge ? "bridge" : "inet", info->name, key, data);
	}
	if (fflush(file) < 0)
		return -errno;
	return ferror(file) ? -EIO : 0;
}

int record_write(int dir_fd, const char *ifname, const struct elements *elements)
{
	CLEANUP_FCLOSE FILE *file = NULL;
	char temporary[IFNAME_MAX + 8];
	int fd, r;

	temporary_name(ifname, temporary);
	fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	file = fdopen(fd, "w");
	if (!file) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	r = record_put(file, elements);
	if (r == 0 && renameat(dir_fd, temporary, dir_fd, ifname) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, temporary, 0);
	return r;
}

/* Cuts the next word off *s, at a single space; "" at the end. */
static char *word_take(char **s)
{
	char *word = *s, *end = strchr(word, ' ');

	*s = end ? end + 1 : word + strlen(word);
	if (end)
		*end = 0;
	return word;
}

static int line_parse(char *line, const char *ifname, struct elements *elements)
{
	const char *table = word_take(&line), *name = word_take(&line), *key = word_take(&line);
	bool bridge = strcmp(table, "bridge") == 0;
	enum set_id set = set_find(bridge, name);
	struct element e = { .set = (uint8_t)set };

	if ((!bridge && strcmp(table, "inet") != 0) || set == SET_COUNT ||
	        !hex_parse(key, e.key, set_info(set)->key_size) ||
	        !hex_parse(line, e.data, set_info(set)->data_size))
		return -EINVAL;
	if (set_info(set)->by_nic && strncmp(element_ifname(&e), ifname, IFNAME_MAX) != 0)
		return -EINVAL;
	elements_add(elements, &e);
	return 0;
}

int record_parse(const char *text, const char *ifname, struct elements *ret)
{
	struct elements elements = { 0 };
	int r = 0;

	if (strncmp(text, RECORD_MAGIC, strlen(RECORD_MAGIC)) != 0)
		return -EINVAL;
	text += strlen(RECORD_MAGIC);
	while (*text && r == 0) {
		size_t n = strcspn(text, "\n");
		char line[256];

		if (text[n] != '\n' || n >= sizeof(line)) {
			r = -EINVAL;
			break;
		}
		memcpy(line, text, n);
		line[n] = 0;
		text += n + 1;
		r = line_parse(line, ifname, &elements);
	}
	if (r == 0)
		r = elements_finish(&elements);
	if (r < 0) {
		elements_done(&elements);
		return r;
	}
	*ret = elements;
	return 0;
}

int record_read(int dir_fd, const char *ifname, struct elements *ret)
{
	CLEANUP_FREE char *text = NULL;
	size_t size;
	int r = file_read(dir_fd, ifname, RECORD_MAX, &text, &size);

	if (r < 0)
		return r;
	return strlen(text) == size ? record_parse(text, ifname, ret) : -EINVAL;
}

void record_remove(int dir_fd, const char *ifname)
{
	(void)unlinkat(dir_fd, ifname, 0);
}

/* ".NAME.tmp", with the name of an interface. */
static bool is_half(const char *name)
{
	char ifname[IFNAME_MAX];
	size_t n = strlen(name);

	if (name[0] != '.' || n < 5 || strcmp(name + n - 4, ".tmp") != 0 || n - 5 >= sizeof(ifname))
		return false;
	(void)snprintf(ifname, sizeof(ifname), "%.*s", (int)(n - 5), name + 1);
	return tap_name_parse(ifname, NULL, NULL);
}

void record_sweep(int dir_fd, bool (*is_there)(const char *ifname, void *userdata), void *userdata)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (is_half(entry->d_name) ||
		        (tap_name_parse(entry->d_name, NULL, NULL) && !is_there(entry->d_name, userdata)))
			(void)unlinkat(dir_fd, entry->d_name, 0);
}
