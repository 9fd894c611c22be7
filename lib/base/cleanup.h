/* Cleanup attributes: each resource is released where its name goes out of scope. A variable that carries one
 * is always initialised to the empty value (NULL, -EBADF). */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	errno = saved;
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static inline void cleanup_closedir(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

#define CLEANUP_FREE __attribute__((cleanup(cleanup_free)))
#define CLEANUP_CLOSE __attribute__((cleanup(cleanup_close)))
#define CLEANUP_FCLOSE __attribute__((cleanup(cleanup_fclose)))
#define CLEANUP_CLOSEDIR __attribute__((cleanup(cleanup_closedir)))

/* CLEANUP_WITH(thing_free) on a `struct thing *`: calls thing_free(ptr) unless NULL. Declare the adapter once,
 * beside the type, with CLEANUP_DEFINE(thing, thing_free) and write CLEANUP(thing). */
#define CLEANUP_DEFINE(type, fn)                                                                             \
	static inline void cleanup_##type(struct type **p)                                                   \
	{                                                                                                    \
		if (*p)                                                                                      \
			(void)fn(*p);                                                                        \
	}
#define CLEANUP(type) __attribute__((cleanup(cleanup_##type)))

/* Hand a resource on: the variable becomes empty, its cleanup does nothing. */
#define TAKE_PTR(p)                                                                                          \
	({                                                                                                   \
		__typeof__(p) *take_p_ = &(p);                                                               \
		__typeof__(p) take_v_ = *take_p_;                                                            \
		*take_p_ = NULL;                                                                             \
		take_v_;                                                                                     \
	})
#define TAKE_FD(fd)                                                                                          \
	({                                                                                                   \
		int *take_p_ = &(fd);                                                                        \
		int take_v_ = *take_p_;                                                                      \
		*take_p_ = -EBADF;                                                                           \
		take_v_;                                                                                     \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
