#include "svc-converger/test/fault_vfs.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>

struct fault_vfs {
	sqlite3_vfs base; /* first: SQLite gives it back */
	sqlite3_vfs *real;
	sqlite3_io_methods methods;
	pthread_mutex_t lock; /* all that follows */
	int code;
	unsigned n_before, n_left, n_failed;
};

struct file {
	sqlite3_file base; /* first, as above */
	struct fault_vfs *vfs;
	void *real[]; /* aligned as SQLite aligns */
};

static sqlite3_file *real_of(sqlite3_file *file)
{
	return (sqlite3_file *)(void *)((struct file *)file)->real;
}

#define REAL(file, method, ...) real_of(file)->pMethods->method(real_of(file), ##__VA_ARGS__)

/* SQLITE_OK: let it happen. */
static int judge(sqlite3_file *file)
{
	struct fault_vfs *vfs = ((struct file *)file)->vfs;
	int code = SQLITE_OK;

	(void)pthread_mutex_lock(&vfs->lock);
	if (vfs->n_before > 0) {
		vfs->n_before--;
	} else if (vfs->n_left > 0) {
		vfs->n_left--;
		vfs->n_failed++;
		code = vfs->code;
	}
	(void)pthread_mutex_unlock(&vfs->lock);
	if (code == FAULT_KILL)
		(void)raise(SIGKILL);
	return code;
}

static int on_close(sqlite3_file *file)
{
	return REAL(file, xClose);
}

static int on_read(sqlite3_file *file, void *data, int size, sqlite3_int64 at)
{
	return REAL(file, xRead, data, size, at);
}

static int on_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
	int r = judge(file);

	return r == SQLITE_OK ? REAL(file, xWrite, data, size, at) : r;
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	int r = judge(file);

	return r == SQLITE_OK ? REAL(file, xTruncate, size) : r;
}

static int on_sync(sqlite3_file *file, int flags)
{
	int r = judge(file);

	return r == SQLITE_OK ? REAL(file, xSync, flags) : r;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *ret)
{
	return REAL(file, xFileSize, ret);
}

static int on_lock(sqlite3_file *file, int level)
{
	return REAL(file, xLock, level);
}

static int on_unlock(sqlite3_file *file, int level)
{
	return REAL(file, xUnlock, level);
}

static int on_check_lock(sqlite3_file *file, int *ret)
{
	return REAL(file, xCheckReservedLock, ret);
}

static int on_control(sqlite3_file *file, int what, void *argument)
{
	return REAL(file, xFileControl, what, argument);
}

static int on_sector_size(sqlite3_file *file)
{
	return REAL(file, xSectorSize);
}

static int on_characteristics(sqlite3_file *file)
{
	return REAL(file, xDeviceCharacteristics);
}

static int on_open(sqlite3_vfs *base, const char *name, sqlite3_file *opened, int flags, int *ret_flags)
{
	struct fault_vfs *vfs = (struct fault_vfs *)base;
	struct file *file = (struct file *)opened;
	int r = vfs->real->xOpen(vfs->real, name, real_of(opened), flags, ret_flags);

	file->vfs = vfs;
	opened->pMethods = real_of(opened)->pMethods ? &vfs->methods : NULL;
	return r;
}

struct fault_vfs *fault_vfs_new(void)
{
	struct fault_vfs *vfs = calloc(1, sizeof(*vfs));

	assert(vfs);
	(void)pthread_mutex_init(&vfs->lock, NULL);
	vfs->real = sqlite3_vfs_find(NULL);
	vfs->base = *vfs->real;
	vfs->base.pNext = NULL;
	vfs->base.zName = "fault";
	vfs->base.szOsFile += (int)sizeof(struct file);
	vfs->base.xOpen = on_open;
	/* Version 1: the store holds its file alone and needs no shared memory. */
	vfs->methods = (sqlite3_io_methods){
		.iVersion = 1,
		.xClose = on_close,
		.xRead = on_read,
		.xWrite = on_write,
		.xTruncate = on_truncate,
		.xSync = on_sync,
		.xFileSize = on_size,
		.xLock = on_lock,
		.xUnlock = on_unlock,
		.xCheckReservedLock = on_check_lock,
		.xFileControl = on_control,
		.xSectorSize = on_sector_size,
		.xDeviceCharacteristics = on_characteristics,
	};
	(void)sqlite3_vfs_register(&vfs->base, 1);
	return vfs;
}

struct fault_vfs *fault_vfs_free(struct fault_vfs *vfs)
{
	if (!vfs)
		return NULL;
	(void)sqlite3_vfs_unregister(&vfs->base);
	(void)pthread_mutex_destroy(&vfs->lock);
	free(vfs);
	return NULL;
}

void fault_vfs_arm(struct fault_vfs *vfs, int code, unsigned nth, unsigned n)
{
	(void)pthread_mutex_lock(&vfs->lock);
	vfs->code = code;
	vfs->n_before = nth - 1;
	vfs->n_left = n;
	vfs->n_failed = 0;
	(void)pthread_mutex_unlock(&vfs->lock);
}

unsigned fault_vfs_disarm(struct fault_vfs *vfs)
{
	unsigned n;

	(void)pthread_mutex_lock(&vfs->lock);
	n = vfs->n_failed;
	vfs->n_before = vfs->n_left = vfs->n_failed = 0;
	(void)pthread_mutex_unlock(&vfs->lock);
	return n;
}
