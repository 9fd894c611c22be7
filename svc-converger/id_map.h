/* Things found by an identifier they carry: a hash table of weak pointers. */
#pragma once

#include "lib/base/cleanup.h"

#include <stddef.h>

struct id_map;

/* key_offset is where in a thing its NUL-terminated id lies; the id never changes while the thing is in. */
struct id_map *id_map_new(size_t key_offset);   /* NULL: no memory */
struct id_map *id_map_free(struct id_map *map); /* the things stay; accepts NULL */
CLEANUP_DEFINE(id_map, id_map_free)

void *id_map_get(const struct id_map *map, const char *id); /* NULL: none */
int id_map_put(struct id_map *map, void *thing);            /* -EEXIST: another thing has its id */
void *id_map_remove(struct id_map *map, const char *id);    /* the thing, or NULL */
size_t id_map_count(const struct id_map *map);
/* Each thing, in no order; cursor starts at 0. The map must not change meanwhile. NULL: no more. */
void *id_map_next(const struct id_map *map, size_t *cursor);
