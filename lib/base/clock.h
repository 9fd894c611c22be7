/* Time, in the one unit that sd-event also uses, and the kernel's boot. */
#pragma once

#include "lib/base/ids.h"

#include <stdint.h>

#define USEC_PER_MSEC UINT64_C(1000)
#define USEC_PER_SEC UINT64_C(1000000)
#define NSEC_PER_USEC UINT64_C(1000)
#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

uint64_t clock_monotonic_usec(void); /* for durations and deadlines */
uint64_t clock_realtime_usec(void);  /* for what people and other hosts read */

/* The kernel's boot id, read from path (BOOT_ID_PATH, or a file of a test). -EINVAL when it holds no UUID. */
int boot_id_read(const char *path, char ret[static UUID_TEXT_MAX]);
