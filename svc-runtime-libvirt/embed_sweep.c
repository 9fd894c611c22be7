#include "svc-runtime-libvirt/embed_sweep.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/tree.h"
#include "svc-runtime-libvirt/xml_node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_MAX = 4 * 1024 * 1024, CMDLINE_MAX = 64 * 1024 };

static bool has_prefix(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Whether data holds text, and what follows it there is no part of a name. A comma that is one QEMU wants doubled. */
static bool names(const char *data, size_t n_data, const char *text)
{
	size_t n_text = strlen(text);

	for (const char *at = data; (at = memmem(at, n_data - (size_t)(at - data), text, n_text));
	        at += n_text)
		if (!at[n_text] || at[n_text] == '/' || (at[n_text] == ',' && at[n_text + 1] != ','))
			return true;
	return false;
}

/* The process that a file names, if its command line has text: another may have its pid by now. */
static void end_process(const char *pid_file, const char *text)
{
	CLEANUP_FREE char *number = NULL, *cmdline = NULL;
	char path[64];
	size_t n_cmdline;

	if (file_read(AT_FDCWD, pid_file, 32, &number, NULL) < 0)
		return;
	long pid = strtol(number, NULL, 10);
	(void)snprintf(path, sizeof(path), "/proc/%ld/cmdline", pid);
	if (pid > 1 && file_read(AT_FDCWD, path, CMDLINE_MAX, &cmdline, &n_cmdline) == 0 &&
	        names(cmdline, n_cmdline, text))
		(void)kill((pid_t)pid, SIGKILL);
}

/* A QEMU that was asked for its features; its command line names its directory. */
static void end_probe(const char *dir)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/qmp.pid", dir);
	end_process(path, dir);
}

static int status_read(const char *path, xmlDoc **ret)
{
	CLEANUP_FREE char *text = NULL;
	size_t n_text;
	int r = file_read(AT_FDCWD, path, STATUS_MAX, &text, &n_text);

	return r < 0 ? r : xml_parse(text, n_text, ret, NULL);
}

static bool is_unborn(const char *status)
{
	CLEANUP_XML_DOC xmlDoc *doc = NULL;

	if (status_read(status, &doc) < 0)
		return false;
	const xmlNode *root = xmlDocGetRootElement(doc);
	return xmlStrEqual(root->name, (const xmlChar *)"domstatus") && xml_attr_is(root, "pid", "0");
}

/* Among its attributes or those of what is below it: as a whole component of a path. A guest's name may be one that XML
 * writes in another way. */
static bool has_dir(const xmlNode *node, const char *dir)
{
	bool has = false;

	for (const xmlAttr *attr = node->properties; !has && attr; attr = attr->next) {
		char *value = xml_attr_dup(node, (const char *)attr->name);
		const char *slash = value ? strchr(value, '/') : NULL;
		size_t n = strlen(dir);
		for (; !has && slash; slash = strchr(slash + 1, '/'))
			has = strncmp(slash + 1, dir, n) == 0 && (!slash[n + 1] || slash[n + 1] == '/');
		free(value);
	}
	for (const xmlNode *child = node->children; !has && child; child = child->next)
		has = child->type == XML_ELEMENT_NODE && has_dir(child, dir);
	return has;
}

/* libvirt's notes on a guest, from before its QEMU begins until it has ended, name its directories. */
static bool is_noted(const char *root, const char *dir)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/run/qemu", root);
	CLEANUP_CLOSEDIR DIR *notes = opendir(path);
	if (!notes)
		return true; /* it cannot be told */
	for (const struct dirent *entry; (entry = readdir(notes));) {
		const char *suffix = strrchr(entry->d_name, '.');
		if (!suffix || strcmp(suffix, ".xml") != 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/run/qemu/%s", root, entry->d_name);
		CLEANUP_XML_DOC xmlDoc *doc = NULL;
		int r = status_read(path, &doc);
		if (r < 0 && r != -EINVAL && r != -ENOENT)
			return true; /* nor this; what is no XML libvirt does not take for a guest either */
		if (r == 0 && has_dir(xmlDocGetRootElement(doc), dir))
			return true;
	}
	return false;
}

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n_name = strlen(name), n_suffix = strlen(suffix);

	return n_name > n_suffix && strcmp(name + n_name - n_suffix, suffix) == 0;
}

/* libvirt writes NAME.xml.new and renames it, and never looks at one that it left; its own notes all end in .xml.
 * Below are the directories of guests, that it would not remove with something in them. */
static void forget_half_written(const char *path, bool below)
{
	char entry_path[PATH_MAX];

	CLEANUP_CLOSEDIR DIR *dir = opendir(path);
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		int n = snprintf(entry_path, sizeof(entry_path), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof(entry_path))
			continue;
		if (has_suffix(entry->d_name, ".xml.new"))
			(void)unlink(entry_path);
		else if (below)
			forget_half_written(entry_path, false);
	}
}

static void sweep_new(const char *root)
{
	static const struct {
		const char *where;
		bool below;
	} places[] = {
		{ "run/qemu", false },
		{ "etc/qemu", false },
		{ "lib/qemu/snapshot", true },
		{ "lib/qemu/checkpoint", true },
	};
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", root, places[i].where);
		forget_half_written(path, places[i].below);
	}
}

static void sweep_dir(const char *root, const char *where)
{
	char path[PATH_MAX], below[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", root, where);
	CLEANUP_CLOSEDIR DIR *dir = opendir(path);
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		int n = snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		if (n < 0 || (size_t)n >= sizeof(below))
			continue;
		if (has_prefix(entry->d_name, "qmp-"))
			end_probe(below);
		else if (!has_prefix(entry->d_name, "domain-") || is_noted(root, entry->d_name))
			continue;
		(void)remove_tree(AT_FDCWD, below);
	}
}

/* As QEMU's command line has a guest of that name: "guest=a,,b" for one that is called "a,b". */
static void guest_argument(const char *name, size_t n_name, char *buf, size_t size)
{
	size_t n = (size_t)snprintf(buf, size, "guest=");

	for (size_t i = 0; i < n_name && n + 2 < size; i++) {
		buf[n++] = name[i];
		if (name[i] == ',')
			buf[n++] = ',';
	}
	buf[n] = '\0';
}

/* Where a QEMU was to be started and had no pid yet, libvirt believes for ever that it is being started. */
static void forget_unborn(const char *root)
{
	char path[PATH_MAX], guest[2 * NAME_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/run/qemu", root);
	CLEANUP_CLOSEDIR DIR *notes = opendir(path);
	for (const struct dirent *entry; notes && (entry = readdir(notes));) {
		char *suffix = strrchr(entry->d_name, '.');
		if (!suffix || strcmp(suffix, ".xml") != 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/run/qemu/%s", root, entry->d_name);
		if (!is_unborn(path))
			continue;
		(void)unlink(path);
		guest_argument(entry->d_name, (size_t)(suffix - entry->d_name), guest, sizeof(guest));
		(void)strcpy(strrchr(path, '.'), ".pid");
		end_process(path, guest);
		(void)unlink(path);
	}
}

void embed_sweep(const char *root)
{
	sweep_new(root);
	forget_unborn(root);
	sweep_dir(root, "lib/qemu");
	sweep_dir(root, "lib/qemu/channel/target");
}
