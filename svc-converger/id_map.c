#include "svc-converger/id_map.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 16 };

struct slot {
	void *thing; /* weak; NULL: free */
	uint64_t hash;
};

/* Linear probing, at most two thirds full; a removal moves later things of its run back, so no slot is ever lost
 * to a tombstone. */
struct id_map {
	struct slot *slots; /* owned */
	size_t n_slots;     /* a power of two */
	size_t n_things;
	size_t key_offset;
};

static uint64_t hash_id(const char *id)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *id; id++)
		hash = (hash ^ (unsigned char)*id) * 0x100000001b3;
	return hash ^ hash >> 29;
}

static const char *key_of(const struct id_map *map, const void *thing)
{
	return (const char *)thing + map->key_offset;
}

struct id_map *id_map_new(size_t key_offset)
{
	struct id_map *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->slots = calloc(SLOTS_MIN, sizeof(*map->slots));
	if (!map->slots) {
		free(map);
		return NULL;
	}
	map->n_slots = SLOTS_MIN;
	map->key_offset = key_offset;
	return map;
}

struct id_map *id_map_free(struct id_map *map)
{
	if (!map)
		return NULL;
	free(map->slots);
	free(map);
	return NULL;
}

/* The slot that holds id, or the free one where it would go. */
static size_t map_find(const struct id_map *map, const char *id, uint64_t hash)
{
	size_t i = hash & (map->n_slots - 1);

	while (map->slots[i].thing &&
	        (map->slots[i].hash != hash || strcmp(key_of(map, map->slots[i].thing), id) != 0))
		i = (i + 1) & (map->n_slots - 1);
	return i;
}

void *id_map_get(const struct id_map *map, const char *id)
{
	return map->slots[map_find(map, id, hash_id(id))].thing;
}

static int map_grow(struct id_map *map)
{
	size_t n_slots = map->n_slots * 2;
	struct slot *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->n_slots; i++) {
		size_t to = map->slots[i].hash & (n_slots - 1);

		if (!map->slots[i].thing)
			continue;
		while (slots[to].thing)
			to = (to + 1) & (n_slots - 1);
		slots[to] = map->slots[i];
	}
	free(map->slots);
	map->slots = slots;
	map->n_slots = n_slots;
	return 0;
}

int id_map_put(struct id_map *map, void *thing)
{
	uint64_t hash = hash_id(key_of(map, thing));
	size_t i;

	if ((map->n_things + 1) * 3 > map->n_slots * 2) {
		int r = map_grow(map);

		if (r < 0)
			return r;
	}
	i = map_find(map, key_of(map, thing), hash);
	if (map->slots[i].thing)
		return -EEXIST;
	map->slots[i] = (struct slot){ .thing = thing, .hash = hash };
	map->n_things++;
	return 0;
}

void *id_map_remove(struct id_map *map, const char *id)
{
	size_t mask = map->n_slots - 1;
	size_t hole = map_find(map, id, hash_id(id));
	void *thing = map->slots[hole].thing;

	if (!thing)
		return NULL;
	for (size_t i = (hole + 1) & mask; map->slots[i].thing; i = (i + 1) & mask) {
		size_t home = map->slots[i].hash & mask;

		/* It may move back when its home is not between the hole and where it is. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->slots[hole].thing = NULL;
	map->n_things--;
	return thing;
}

size_t id_map_count(const struct id_map *map)
{
	return map->n_things;
}

void *id_map_next(const struct id_map *map, size_t *cursor)
{
	while (*cursor < map->n_slots) {
		void *thing = map->slots[(*cursor)++].thing;

		if (thing)
			return thing;
	}
	return NULL;
}
