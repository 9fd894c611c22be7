#include "svc-runtime-libvirt/instance_path.h"

#include <stdio.h>

char *instance_path(const char *instances_dir, const char *id, const char *file)
{
	char *path = NULL;
	int n = file ? asprintf(&path, "%s/%s/%s", instances_dir, id, file)
	             : asprintf(&path, "%s/%s", instances_dir, id);

	return n < 0 ? NULL : path;
}
