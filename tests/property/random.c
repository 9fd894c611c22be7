#include "tests/property/random.h"

uint64_t random_next(struct random *random)
{
	uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

unsigned random_below(struct random *random, unsigned n)
{
	return (unsigned)(random_next(random) >> 33) % n;
}

bool random_chance(struct random *random, unsigned percent)
{
	return random_below(random, 100) < percent;
}
