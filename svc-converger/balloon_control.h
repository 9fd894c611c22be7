/* Whether guests must give memory back, and how much each: a pure decision, asked every few seconds.
 *
 * Pressure begins when MemAvailable falls below low_percent of MemTotal, or the kernel reports stalls on memory
 * (PSI "some", 10 s average) above psi_high; it is over only when MemAvailable is above high_percent and PSI below
 * psi_low, for calm_usec. Under pressure what is missing up to high_percent is taken from the guests in proportion
 * to what each does not use, never below its minimum. Afterwards it is given back in steps that cannot bring
 * the pressure back. Between the two nothing moves. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct balloon_config {
	double low_percent, high_percent; /* of MemTotal; 8 and 15 */
	double psi_high, psi_low;         /* percent of time; 10 and 1 */
	uint64_t calm_usec;               /* 60 s */
	uint64_t step_min_bytes;          /* smaller changes of one guest are not made; 16 MiB */
	uint64_t guest_reserve_bytes;     /* of what a guest does not use, left to it; 64 MiB */
};
struct balloon_config balloon_config_default(void);

struct balloon_host {
	uint64_t total_bytes;
	uint64_t available_bytes;
	double psi_some_avg10; /* 0 where the kernel has no PSI */
};
/* proc is "/proc". -errno when meminfo cannot be read; PSI may be absent. */
int balloon_host_read(const char *proc, struct balloon_host *ret);

struct balloon_guest {
	uint64_t memory_bytes;
	uint64_t min_bytes;     /* its balloon.min_bytes; memory_bytes: leave it alone */
	uint64_t current_bytes; /* what it has now */
	uint64_t unused_bytes;  /* as it says */
	bool usage_known;       /* false: it is asked for nothing, and only given back to */
	uint64_t target_bytes;  /* out: what it should have; current_bytes: nothing to do */
};

enum balloon_phase {
	BALLOON_CALM,
	BALLOON_PRESSURE,
};

/* Kept between decisions; zero at first. */
struct balloon_control {
	enum balloon_phase phase;
	uint64_t calm_since_usec; /* under pressure: since when the host has been calm; 0: it is not */
};

/* Decides for all guests at now_usec (monotonic). Returns true when some target differs from current. */
bool balloon_decide(struct balloon_control *control, const struct balloon_config *config,
        const struct balloon_host *host, uint64_t now_usec, struct balloon_guest *guests, size_t n_guests);
