#include "lib/vfio/gpu.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/quote.h"

#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MEMORY_FILE_MAX = 64 * 1024, INFORMATION_MAX = 16 * 1024 };

/* --- memory --- */

struct gpu_record {
	char uuid[GPU_UUID_MAX];
	struct pci_address address;
};

struct gpu_memory {
	char *path; /* owned */
	struct gpu_record records[GPU_MEMORY_MAX];
	size_t n_records;
};

static void cleanup_json(json_t **json)
{
	json_decref(*json);
}

static int memory_load(struct gpu_memory *memory, const char *text, size_t n_text)
{
	__attribute__((cleanup(cleanup_json))) json_t *root =
	        json_loadb(text, n_text, JSON_REJECT_DUPLICATES, NULL);
	const char *uuid;
	json_t *value;

	if (!json_is_object(root) || json_object_size(root) > GPU_MEMORY_MAX)
		return -EINVAL;
	json_object_foreach(root, uuid, value)
	{
		struct gpu_record *record = &memory->records[memory->n_records];

		if (strlen(uuid) >= sizeof(record->uuid) || !json_is_string(value) ||
		        pci_address_parse(json_string_value(value), &record->address) < 0)
			return -EINVAL;
		(void)strcpy(record->uuid, uuid);
		memory->n_records++;
	}
	return 0;
}

int gpu_memory_open(const char *path, struct gpu_memory **ret, struct err *err)
{
	CLEANUP(gpu_memory) struct gpu_memory *memory = calloc(1, sizeof(*memory));
	CLEANUP_FREE char *text = NULL;
	size_t n_text;

	if (!memory)
		return -ENOMEM;
	memory->path = strdup(path);
	if (!memory->path)
		return -ENOMEM;
	int r = file_read(AT_FDCWD, path, MEMORY_FILE_MAX, &text, &n_text);
	if (r < 0 && r != -ENOENT)
		return err_set(err, r, "cannot read '%s': %s", path, strerror(-r));
	if (r >= 0 && memory_load(memory, text, n_text) < 0)
		return err_set(err, -EINVAL,
		        "'%s' is not a list of GPUs and their PCI addresses; remove it, and GPUs on vfio-pci are "
		        "found again once their own driver has had them",
		        path);
	*ret = TAKE_PTR(memory);
	return 0;
}

struct gpu_memory *gpu_memory_free(struct gpu_memory *memory)
{
	if (!memory)
		return NULL;
	free(memory->path);
	free(memory);
	return NULL;
}

const struct pci_address *gpu_memory_get(const struct gpu_memory *memory, const char *uuid)
{
	for (size_t i = 0; i < memory->n_records; i++)
		if (strcmp(memory->records[i].uuid, uuid) == 0)
			return &memory->records[i].address;
	return NULL;
}

static int memory_save(const struct gpu_memory *memory)
{
	__attribute__((cleanup(cleanup_json))) json_t *root = json_object();

	for (size_t i = 0; root && i < memory->n_records; i++)
		if (json_object_set_new(
		            root, memory->records[i].uuid, json_string(memory->records[i].address.text)) < 0)
			return -ENOMEM;
	CLEANUP_FREE char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
	if (!text)
		return -ENOMEM;
	return atomic_file_write(AT_FDCWD, memory->path, text, strlen(text), 0644);
}

int gpu_memory_put(
        struct gpu_memory *memory, const char *uuid, const struct pci_address *address, struct err *err)
{
	const struct pci_address *known = gpu_memory_get(memory, uuid);
	size_t n = 0;

	if (known && strcmp(known->text, address->text) == 0)
		return 0;
	if (strlen(uuid) >= GPU_UUID_MAX)
		return err_set(err, -EINVAL, "GPU id '%s' is too long", QUOTED(uuid));
	/* Neither this GPU's former address nor that address' former GPU is true any more. */
	for (size_t i = 0; i < memory->n_records; i++)
		if (strcmp(memory->records[i].uuid, uuid) != 0 &&
		        strcmp(memory->records[i].address.text, address->text) != 0)
			memory->records[n++] = memory->records[i];
	memory->n_records = n;
	if (n == GPU_MEMORY_MAX)
		return err_set(err, -ENOSPC, "more than %d GPUs", GPU_MEMORY_MAX);
	(void)strcpy(memory->records[n].uuid, uuid);
	memory->records[n].address = *address;
	memory->n_records++;
	int r = memory_save(memory);
	return r < 0 ? err_set(err, r, "cannot write '%s': %s", memory->path, strerror(-r)) : 0;
}

/* --- the driver's tree --- */

/* The value behind "name:" in the driver's information file, without blanks around it. */
static bool information_value(const char *text, const char *name, char *buf, size_t size)
{
	size_t n_name = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		if (strncasecmp(line, name, n_name) != 0 || line[n_name] != ':')
			continue;
		const char *value = line + n_name + 1;
		value += strspn(value, " \t");
		size_t n = strcspn(value, "\n");
		while (n > 0 && isspace((unsigned char)value[n - 1]))
			n--;
		if (n == 0 || n >= size)
			return false;
		memcpy(buf, value, n);
		buf[n] = 0;
		return true;
	}
	return false;
}

static int information_read(const char *proc_gpus, const char *name, char **ret)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s/information", proc_gpus, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return file_read(AT_FDCWD, path, INFORMATION_MAX, ret, NULL);
}

/* 1: found, 0: the tree does not know it (or there is none). */
static int tree_find(const char *proc_gpus, const char *uuid, struct pci_address *ret)
{
	CLEANUP_CLOSEDIR DIR *dir = opendir(proc_gpus);

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	for (;;) {
		CLEANUP_FREE char *text = NULL;
		struct pci_address address;
		char value[GPU_UUID_MAX];

		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry)
			return errno ? -errno : 0;
		if (pci_address_parse(entry->d_name, &address) < 0 ||
		        information_read(proc_gpus, entry->d_name, &text) < 0 ||
		        !information_value(text, "GPU UUID", value, sizeof(value)) ||
		        strcasecmp(value, uuid) != 0)
			continue;
		*ret = address;
		return 1;
	}
}

/* --- finding --- */

static int display_read(const char *uuid, const char *sysfs, const struct pci_address *address,
        struct pci_device *ret, struct err *err)
{
	int r = pci_device_read(sysfs, address, ret, err);

	if (r >= 0 && !pci_device_is_display(ret))
		r = err_set(err, -ENODEV, "the PCI device %s (class %06x) is no display controller",
		        address->text, ret->class_code);
	if (r < 0)
		err_wrap(err, "GPU '%s'", QUOTED(uuid));
	return r;
}

int gpu_find(const char *uuid, const char *stated, const char *sysfs, const char *proc_gpus,
        struct gpu_memory *memory, struct pci_address *ret, struct err *err)
{
	struct pci_address address;
	struct pci_device device;
	int r;

	if (stated && stated[0]) {
		if (pci_address_parse(stated, &address) < 0)
			return err_set(err, -EINVAL, "GPU '%s': PCI address '%s' is not dddd:bb:ss.f",
			        QUOTED(uuid), QUOTED(stated));
		r = display_read(uuid, sysfs, &address, &device, err);
		if (r >= 0)
			*ret = address;
		return r;
	}
	r = tree_find(proc_gpus, uuid, &address);
	if (r < 0)
		return err_set(err, r, "cannot look for GPU '%s' in '%s': %s", QUOTED(uuid), proc_gpus,
		        strerror(-r));
	if (r > 0) {
		r = display_read(uuid, sysfs, &address, &device, err);
		if (r >= 0)
			r = gpu_memory_put(memory, uuid, &address, err);
		if (r >= 0)
			*ret = address;
		return r;
	}
	const struct pci_address *known = gpu_memory_get(memory, uuid);
	if (!known)
		return err_set(err, -ENODEV,
		        "GPU '%s' has no PCI address: neither the node's spec, nor '%s', nor memory knows it",
		        QUOTED(uuid), proc_gpus);
	r = display_read(uuid, sysfs, known, &device, err);
	/* On another driver it would be in that driver's tree: some other card is in its place. */
	if (r >= 0 && strcmp(device.driver, "vfio-pci") != 0 && device.driver[0])
		r = err_set(err, -ENODEV,
		        "GPU '%s' was last at %s, but what is there now is on driver '%s' and not this GPU",
		        QUOTED(uuid), known->text, device.driver);
	if (r >= 0)
		*ret = *known;
	return r;
}

/* --- holders --- */

static bool process_holds(const char *proc, pid_t pid, const char *node, bool *complete)
{
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	char path[PATH_MAX], target[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%d/fd", proc, (int)pid);
	dir = opendir(path);
	if (!dir) {
		if (errno != ENOENT && errno != ESRCH) /* it ended meanwhile */
			*complete = false;
		return false;
	}
	for (const struct dirent *entry; (entry = readdir(dir));) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (n < 0)
			continue;
		target[n] = 0;
		if (strcmp(target, node) == 0)
			return true;
	}
	return false;
}

static void name_read(const char *proc, pid_t pid, char *buf, size_t size)
{
	CLEANUP_FREE char *text = NULL;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%d/comm", proc, (int)pid);
	(void)snprintf(buf, size, "?");
	if (file_read(AT_FDCWD, path, 4096, &text, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = 0;
	(void)snprintf(buf, size, "%.16s", text);
}

int gpu_holders(const char *proc, const char *proc_gpus, const struct pci_address *address,
        struct gpu_holder ret[static GPU_HOLDERS_MAX], size_t *ret_n, bool *ret_complete)
{
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	CLEANUP_FREE char *text = NULL;
	char minor[8], node[32];
	bool complete = true;
	size_t n = 0;
	int r = information_read(proc_gpus, address->text, &text);

	if (r == -ENOENT) { /* its driver does not have it: nobody can hold it through that */
		*ret_n = 0;
		*ret_complete = true;
		return 0;
	}
	if (r < 0)
		return r;
	if (!information_value(text, "Device Minor", minor, sizeof(minor)) ||
	        strspn(minor, "0123456789") != strlen(minor))
		return -EBADMSG;
	(void)snprintf(node, sizeof(node), "/dev/nvidia%s", minor);
	dir = opendir(proc);
	if (!dir)
		return -errno;
	for (const struct dirent *entry; n < GPU_HOLDERS_MAX && (entry = readdir(dir));) {
		if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name))
			continue;
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (pid <= 0 || !process_holds(proc, pid, node, &complete))
			continue;
		ret[n].pid = pid;
		name_read(proc, pid, ret[n].name, sizeof(ret[n].name));
		n++;
	}
	*ret_n = n;
	*ret_complete = complete;
	return 0;
}

int gpu_holders_check(const char *uuid, const struct gpu_holder *holders, size_t n, struct err *err)
{
	char list[ERR_TEXT_MAX / 2] = { 0 };
	bool persistenced = false;
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		/* comm is cut to 15 bytes */
		persistenced = persistenced || strncmp(holders[i].name, "nvidia-persiste", 15) == 0;
		if (at < sizeof(list))
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s (pid %d)", at ? ", " : "",
			        QUOTED(holders[i].name), (int)holders[i].pid);
	}
	if (n == 0)
		return 0;
	return err_set(err, -EBUSY, "GPU '%s' is held open by %s%s", QUOTED(uuid), list,
	        persistenced ? "; switch its persistence mode off (nvidia-smi -pm 0 -i …) or stop "
	                       "nvidia-persistenced"
	                     : "");
}
