#include "lib/base/clock.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

static uint64_t clock_usec(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts); /* cannot fail for the two clocks below */
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / NSEC_PER_USEC;
}

uint64_t clock_monotonic_usec(void)
{
	return clock_usec(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_usec(void)
{
	return clock_usec(CLOCK_REALTIME);
}

int boot_id_read(const char *path, char ret[static UUID_TEXT_MAX])
{
	CLEANUP_FREE char *text = NULL;
	int r = file_read(AT_FDCWD, path, 64, &text, NULL);

	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	if (!uuid_is_valid(text))
		return -EINVAL;
	memcpy(ret, text, UUID_TEXT_MAX);
	return 0;
}
