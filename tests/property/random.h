/* The only source of chance in a run: the same seed makes the same steps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

uint64_t random_next(struct random *random);
/* 0..n-1; n must not be 0. */
unsigned random_below(struct random *random, unsigned n);
bool random_chance(struct random *random, unsigned percent);
