/* A snapshot tar from elsewhere: its meta.json, then all of it into an empty directory. Nothing may appear but what was
 * asked for. */
#include "lib/base/cleanup.h"
#include "lib/snapshot/tar.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);

static void dir_check(const char *dir, bool extracted)
{
	CLEANUP_CLOSEDIR DIR *d = opendir(dir);

	if (!d)
		abort();
	for (const struct dirent *e; (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		        strcmp(e->d_name, "tar") == 0)
			continue;
		if (!extracted || (strcmp(e->d_name, "disk.raw") != 0 && strcmp(e->d_name, "memory") != 0))
			abort();
		(void)unlinkat(dirfd(d), e->d_name, 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	char dir[] = "/dev/shm/bc-fuzz-XXXXXX";
	char tar[64], disk[64], memory[64];
	struct snapshot_meta meta;
	struct err err = { 0 };

	(void)snapshot_meta_parse((const char *)data, n_data, &meta, NULL);
	if (!mkdtemp(dir))
		abort();
	(void)snprintf(tar, sizeof(tar), "%s/tar", dir);
	(void)snprintf(disk, sizeof(disk), "%s/disk.raw", dir);
	(void)snprintf(memory, sizeof(memory), "%s/memory", dir);
	int fd = open(tar, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, n_data) != (ssize_t)n_data)
		abort();
	(void)close(fd);
	struct snapshot_member members[] = {
		{ .name = "disk.raw", .path = disk, .bytes_max = 1 << 30, .perm = FILE_PERM(0600) },
		{ .name = "memory", .path = memory, .bytes_max = 1 << 20, .perm = FILE_PERM(0600) },
		{ .name = "domain.xml", .bytes_max = 1 << 16, .perm = FILE_PERM(0600) },
	};
	int r = snapshot_extract(tar, members, ARRAY_SIZE(members), NULL, NULL, &err);
	if (r < 0 && r != -ENOMEM && err.code == 0)
		abort();
	dir_check(dir, r == 0);
	(void)unlink(tar);
	(void)rmdir(dir);
	return 0;
}
