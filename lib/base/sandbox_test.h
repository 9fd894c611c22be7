/* A private directory for one test: made in setup, removed in teardown. The path is the test's state. */
#pragma once

#include <dirent.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline int sandbox_entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline int sandbox_setup(void **state)
{
	char path[] = "/tmp/bc-test-XXXXXX";

	*state = mkdtemp(path) ? strdup(path) : NULL;
	return *state ? 0 : -1;
}

static inline int sandbox_teardown(void **state)
{
	(void)nftw(*state, sandbox_entry_remove, 16, FTW_DEPTH | FTW_PHYS);
	free(*state);
	return 0;
}

/* A path in the sandbox; valid until the end of the enclosing block. */
#define SANDBOX_PATH(state, name) sandbox_path(*(state), (name), (char[256]){ 0 }, 256)
static inline const char *sandbox_path(const char *dir, const char *name, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s/%s", dir, name);
	return buf;
}

/* How many names are in a directory; SIZE_MAX when it cannot be read. */
static inline size_t sandbox_n_entries(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	if (!d)
		return SIZE_MAX;
	for (struct dirent *e; (e = readdir(d));)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	(void)closedir(d);
	return n;
}
