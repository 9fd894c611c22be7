/* Directories: made with their parents, removed with what is in them. */
#pragma once

#include <sys/types.h>

enum { TREE_DEPTH_MAX = 64 };

/* Makes path and what is missing above it; mode (exact, whatever the umask) is given to the last one only,
 * the others get 0755. A path that exists is left as it is; -ENOTDIR when it is no directory. */
int mkdir_p(const char *path, mode_t mode);

/* Removes path, be it a file or a directory with all it holds, and fsyncs its parent. No symlink is
 * followed below dir_fd/path: one in the tree is removed itself, path being one is -ELOOP. A mount point
 * in the tree is -EXDEV, more than TREE_DEPTH_MAX levels -ENAMETOOLONG; what was removed before that stays
 * removed. A path that is not there: 0. */
int remove_tree(int dir_fd, const char *path);
