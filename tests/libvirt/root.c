#include "tests/libvirt/root.h"

#include "lib/base/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void root_make(struct root *root)
{
	(void)strcpy(root->path, "/tmp/bcvXXXXXX");
	assert_non_null(mkdtemp(root->path));
	(void)snprintf(root->uri, sizeof(root->uri), "qemu:///embed?root=%s", root->path);
	(void)snprintf(root->instances, sizeof(root->instances), "%s/i", root->path);
}

void root_remove(const struct root *root)
{
	(void)remove_tree(AT_FDCWD, root->path);
}
