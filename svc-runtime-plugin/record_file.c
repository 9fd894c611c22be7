#include "svc-runtime-plugin/record_file.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/ids.h"
#include "lib/rpc/intake.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

static const char SUFFIX[] = ".record";

static void path_make(const char *dir, const char *id, char ret[static PATH_MAX])
{
	(void)snprintf(ret, PATH_MAX, "%s/%s%s", dir, id, SUFFIX);
}

int record_file_write(const char *dir, const char *id, const void *data, size_t n_data, struct err *err)
{
	char path[PATH_MAX];
	int r;

	path_make(dir, id, path);
	r = atomic_file_write(AT_FDCWD, path, data, n_data, 0600);
	return r < 0 ? err_set(err, r, "cannot write %s: %s", path, strerror(-r)) : 0;
}

int record_file_remove(const char *dir, const char *id, struct err *err)
{
	char path[PATH_MAX];
	int r = 0;

	path_make(dir, id, path);
	if (unlink(path) < 0)
		r = errno == ENOENT ? 0 : -errno;
	else
		r = dir_sync_parent(AT_FDCWD, path);
	return r < 0 ? err_set(err, r, "cannot remove %s: %s", path, strerror(-r)) : 0;
}

static int record_read(const char *path, const char *id, Bc__V1__EnsureRequest **ret, struct err *err)
{
	CLEANUP_FREE char *data = NULL;
	ProtobufCMessage *message;
	size_t size;
	int r = file_read(AT_FDCWD, path, RPC_WIRE_MAX, &data, &size);

	if (r < 0)
		return err_set(err, r, "%s", strerror(-r));
	r = rpc_message_parse(&bc__v1__ensure_request__descriptor, data, size, &message, err);
	if (r < 0)
		return r;
	*ret = (Bc__V1__EnsureRequest *)message;
	if ((*ret)->spec && strcmp((*ret)->spec->id, id) == 0)
		return 0;
	protobuf_c_message_free_unpacked(message, NULL);
	return err_set(err, -EBADMSG, "it is of another instance");
}

/* The id in "<id>.record"; false for other names. */
static bool id_of_name(const char *name, char ret[static UUID_TEXT_MAX])
{
	if (strlen(name) != UUID_TEXT_MAX - 1 + sizeof(SUFFIX) - 1 ||
	        strcmp(name + UUID_TEXT_MAX - 1, SUFFIX) != 0)
		return false;
	(void)snprintf(ret, UUID_TEXT_MAX, "%s", name);
	return uuid_is_valid(ret);
}

int record_files_load(const char *dir, int (*fn)(Bc__V1__EnsureRequest *record, void *userdata),
        void (*on_bad)(const char *path, const char *why, void *userdata), void *userdata, struct err *err)
{
	CLEANUP_CLOSEDIR DIR *d = opendir(dir);
	const struct dirent *entry;
	int r = 0;

	if (!d)
		return err_set(err, -errno, "cannot read the directory %s: %s", dir, strerror(errno));
	while (r == 0 && (entry = readdir(d))) {
		char id[UUID_TEXT_MAX], path[PATH_MAX], aside[PATH_MAX];
		Bc__V1__EnsureRequest *record = NULL;
		struct err why = { 0 };

		if (atomic_file_is_temporary(entry->d_name))
			(void)unlinkat(dirfd(d), entry->d_name, 0);
		if (!id_of_name(entry->d_name, id))
			continue;
		path_make(dir, id, path);
		if (record_read(path, id, &record, &why) == 0) {
			r = fn(record, userdata);
			continue;
		}
		(void)snprintf(aside, sizeof(aside), "%s/%s.bad", dir, id);
		(void)rename(path, aside);
		on_bad(aside, err_text(&why, why.code), userdata);
	}
	return r;
}
