/* Lets QEMU's own user reach a disk: search permission on the directories between data_dir and the file. Never read
 * permission, never anything on the file itself or above data_dir: listing stays closed. */
#pragma once

#include "lib/base/err.h"

#include <sys/types.h>

/* Told of each directory that was changed, so that it is on record. */
typedef void (*path_access_fn)(const char *dir, mode_t before, mode_t after, void *userdata);

/* Who gets to search. */
enum path_access_who {
	PATH_ACCESS_OTHERS, /* running as root: QEMU's user is nobody we know */
	PATH_ACCESS_GROUP,  /* QEMU's user is in the directories' group */
};

/* Adds it where it is missing, on data_dir and every directory below it on the way to path. data_dir is absolute and
 * may itself be reached through links; below it a link is refused (-ELOOP): what it leads to is not ours to open.
 * -EINVAL when path is not below data_dir, -EPERM for a directory of somebody else. on_change may be NULL. */
int path_access_add(const char *data_dir, const char *path, enum path_access_who who,
        path_access_fn on_change, void *userdata, struct err *err);
