#include "svc-runtime-plugin/ensure_check.h"

#include "lib/base/ids.h"
#include "lib/base/quote.h"
#include "svc-runtime-plugin/plugin_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint64_t MIB = UINT64_C(1) << 20;

int key_check(const char *id, const char *key, const char *what, struct err *err)
{
	char wanted[96];

	(void)snprintf(wanted, sizeof(wanted), "instance:%s:%s", id, what);
	if (!*key || strcmp(key, wanted) == 0)
		return 0;
	return err_set(err, -EINVAL,
	        "idempotency_key: '%s' is not of this call; write '%s' or leave it empty", QUOTED(key),
	        wanted);
}

static int size_check(const Bc__V1__InstanceSpec *spec, struct err *err)
{
	if (spec->vcpus < 1 || spec->vcpus > 512)
		return err_set(err, -EINVAL, "spec.vcpus: %u; write 1 to 512", spec->vcpus);
	if (spec->memory_bytes < 16 * MIB || spec->memory_bytes % MIB)
		return err_set(err, -EINVAL,
		        "spec.memory_bytes: %llu; write a multiple of 1 MiB, at least 16 MiB",
		        (unsigned long long)spec->memory_bytes);
	if (spec->root_disk_bytes % 512)
		return err_set(err, -EINVAL, "spec.root_disk_bytes: %llu; write a multiple of 512",
		        (unsigned long long)spec->root_disk_bytes);
	return 0;
}

static int volumes_check(const Bc__V1__EnsureRequest *request, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;

	if (request->n_volumes != spec->n_volumes)
		return err_set(err, -EINVAL, "volumes: %zu paths for %zu volumes of the spec",
		        request->n_volumes, spec->n_volumes);
	for (size_t i = 0; i < spec->n_volumes; i++)
		if (strcmp(request->volumes[i]->volume_id, spec->volumes[i]->volume_id) != 0 ||
		        request->volumes[i]->path[0] != '/')
			return err_set(err, -EINVAL,
			        "volumes[%zu]: '%s' at '%s'; write the path of volume %s", i,
			        QUOTED(request->volumes[i]->volume_id), QUOTED(request->volumes[i]->path),
			        spec->volumes[i]->volume_id);
	return 0;
}

static int succession_check(
        const Bc__V1__InstanceSpec *spec, const Bc__V1__EnsureRequest *current, struct err *err)
{
	if (!current)
		return 0;
	if (strcmp(spec->allocation_id, current->spec->allocation_id) != 0)
		return err_set(err, -EBUSY, "instance %s is of allocation '%s'; remove it first", spec->id,
		        QUOTED(current->spec->allocation_id));
	if (spec->root_disk_bytes && spec->root_disk_bytes < current->spec->root_disk_bytes)
		return err_set(err, -EBUSY,
		        "spec.root_disk_bytes: %llu; the root disk has %llu and never shrinks",
		        (unsigned long long)spec->root_disk_bytes,
		        (unsigned long long)current->spec->root_disk_bytes);
	return 0;
}

int ensure_check(const Bc__V1__EnsureRequest *request, const Bc__V1__EnsureRequest *current, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;
	const char *word;
	char what[16];
	int r;

	if (!spec)
		return err_set(err, -EINVAL, "spec: missing");
	word = plugin_state_word(spec->desired_state);
	r = uuid_check("spec.id", spec->id, err);
	if (r == 0 && !word)
		r = err_set(err, -EINVAL, "spec.desired_state: write RUNNING, STOPPED or PAUSED");
	if (r < 0)
		return r;
	(void)snprintf(what, sizeof(what), "apply:%s", word);
	r = key_check(spec->id, request->idempotency_key, what, err);
	if (r == 0 && (!spec->boot || spec->boot->source_case == BC__V1__BOOT__SOURCE__NOT_SET))
		r = err_set(err, -EINVAL, "spec.boot: write image or kernel");
	if (r == 0)
		r = size_check(spec, err);
	if (r == 0 && request->user_data.len > USER_DATA_MAX)
		r = err_set(err, -EINVAL, "user_data: %zu bytes, at most %d", request->user_data.len,
		        USER_DATA_MAX);
	if (r == 0)
		r = volumes_check(request, err);
	return r < 0 ? r : succession_check(spec, current, err);
}
