#include "cli/run_dir.h"

#include "lib/base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int name_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

int run_dir_list(const struct cli *cli, const char *prefix, char names[RUNTIMES_MAX][SOCKET_NAME_MAX])
{
	static const char SUFFIX[] = ".sock";
	CLEANUP_CLOSEDIR DIR *dir = opendir(cli->run_dir);
	const struct dirent *entry;
	int n = 0;

	if (!dir)
		return -errno;
	while (n < RUNTIMES_MAX && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name), n_suffix = sizeof(SUFFIX) - 1;

		if (length <= n_suffix || length - n_suffix >= SOCKET_NAME_MAX ||
		        strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
		        strcmp(entry->d_name + length - n_suffix, SUFFIX) != 0)
			continue;
		(void)snprintf(names[n++], SOCKET_NAME_MAX, "%.*s", (int)(length - n_suffix), entry->d_name);
	}
	qsort(names, (size_t)n, sizeof(names[0]), name_compare);
	return n;
}
