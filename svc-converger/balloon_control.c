#include "svc-converger/balloon_control.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

enum { PROC_FILE_MAX = 64 * 1024, PSI_SHARE = 50 };

struct balloon_config balloon_config_default(void)
{
	return (struct balloon_config){
		.low_percent = 8,
		.high_percent = 15,
		.psi_high = 10,
		.psi_low = 1,
		.calm_usec = 60 * UINT64_C(1000000),
		.step_min_bytes = 16 * MIB,
		.guest_reserve_bytes = 64 * MIB,
	};
}

/* --- reading the host --- */

static int meminfo_field(const char *text, const char *name, uint64_t *ret_bytes)
{
	const char *at = strstr(text, name);
	unsigned long long kib;

	if (!at || sscanf(at + strlen(name), " %llu kB", &kib) != 1 || kib > UINT64_MAX >> 10)
		return -EINVAL;
	*ret_bytes = (uint64_t)kib << 10;
	return 0;
}

/* "some avg10=0.12 avg60=…"; 0 for anything else. */
static double psi_read(const char *proc)
{
	CLEANUP_FREE char *text = NULL;
	char path[PATH_MAX];
	unsigned whole, hundredths;

	(void)snprintf(path, sizeof(path), "%s/pressure/memory", proc);
	if (file_read(AT_FDCWD, path, PROC_FILE_MAX, &text, NULL) < 0 ||
	        sscanf(text, "some avg10=%3u.%2u", &whole, &hundredths) != 2)
		return 0;
	return whole + hundredths / 100.0;
}

int balloon_host_read(const char *proc, struct balloon_host *ret)
{
	CLEANUP_FREE char *text = NULL;
	struct balloon_host host = { 0 };
	char path[PATH_MAX];
	int r;

	(void)snprintf(path, sizeof(path), "%s/meminfo", proc);
	r = file_read(AT_FDCWD, path, PROC_FILE_MAX, &text, NULL);
	if (r == 0)
		r = meminfo_field(text, "MemTotal:", &host.total_bytes);
	if (r == 0)
		r = meminfo_field(text, "MemAvailable:", &host.available_bytes);
	if (r < 0)
		return r;
	host.psi_some_avg10 = psi_read(proc);
	*ret = host;
	return 0;
}

/* --- the decision --- */

static uint64_t percent_of(double percent, uint64_t bytes)
{
	return (uint64_t)((double)bytes * percent / 100);
}

static void phase_step(struct balloon_control *control, const struct balloon_config *config,
        const struct balloon_host *host, uint64_t now_usec)
{
	bool pressed = host->available_bytes < percent_of(config->low_percent, host->total_bytes) ||
	        host->psi_some_avg10 > config->psi_high;
	bool calm = host->available_bytes > percent_of(config->high_percent, host->total_bytes) &&
	        host->psi_some_avg10 < config->psi_low;

	switch (control->phase) {
	case BALLOON_CALM:
		if (pressed)
			*control = (struct balloon_control){ .phase = BALLOON_PRESSURE };
		return;
	case BALLOON_PRESSURE:
		if (!calm)
			control->calm_since_usec = 0;
		else if (control->calm_since_usec == 0)
			control->calm_since_usec = now_usec;
		else if (now_usec - control->calm_since_usec >= config->calm_usec)
			*control = (struct balloon_control){ .phase = BALLOON_CALM };
		return;
	}
}

/* What a guest could give: of what it does not use, all but a reserve, and never more than down to its minimum. */
static uint64_t spare_bytes(const struct balloon_config *config, const struct balloon_guest *guest)
{
	uint64_t unused, above_min;

	if (!guest->usage_known || guest->unused_bytes <= config->guest_reserve_bytes ||
	        guest->current_bytes <= guest->min_bytes)
		return 0;
	unused = guest->unused_bytes - config->guest_reserve_bytes;
	above_min = guest->current_bytes - guest->min_bytes;
	return unused < above_min ? unused : above_min;
}

static uint64_t lack_bytes(const struct balloon_guest *guest)
{
	return guest->memory_bytes > guest->current_bytes ? guest->memory_bytes - guest->current_bytes : 0;
}

/* all's part of amount, in whole MiB. */
static uint64_t share(uint64_t amount, uint64_t part, uint64_t all)
{
	unsigned __int128 product = (unsigned __int128)amount * part;

	return all ? (uint64_t)(product / all) / MIB * MIB : 0;
}

static uint64_t sum_saturated(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void memory_take(
        const struct balloon_config *config, uint64_t wanted, struct balloon_guest *guests, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		all = sum_saturated(all, spare_bytes(config, &guests[i]));
	for (size_t i = 0; i < n; i++) {
		uint64_t spare = spare_bytes(config, &guests[i]);
		uint64_t taken = share(wanted < all ? wanted : all, spare, all);

		if (taken >= config->step_min_bytes)
			guests[i].target_bytes = guests[i].current_bytes - taken;
	}
}

static void memory_give(
        const struct balloon_config *config, uint64_t budget, struct balloon_guest *guests, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		all = sum_saturated(all, lack_bytes(&guests[i]));
	for (size_t i = 0; i < n; i++) {
		uint64_t lack = lack_bytes(&guests[i]);
		uint64_t given = all <= budget ? lack : share(budget, lack, all);

		/* The rest of a guest's memory may be less than a step. */
		if (given && (given >= config->step_min_bytes || given == lack))
			guests[i].target_bytes = guests[i].current_bytes + given;
	}
}

bool balloon_decide(struct balloon_control *control, const struct balloon_config *config,
        const struct balloon_host *host, uint64_t now_usec, struct balloon_guest *guests, size_t n_guests)
{
	uint64_t high = percent_of(config->high_percent, host->total_bytes);
	uint64_t missing = host->available_bytes < high ? high - host->available_bytes : 0;
	bool any = false;

	phase_step(control, config, host, now_usec);
	for (size_t i = 0; i < n_guests; i++)
		guests[i].target_bytes = guests[i].current_bytes;
	if (control->phase == BALLOON_CALM) {
		/* Half of what is above the line at a time: what is given shows in MemAvailable only when it is used. */
		if (host->available_bytes > high)
			memory_give(config, (host->available_bytes - high) / 2, guests, n_guests);
	} else {
		/* Stalls with memory to spare are still stalls: something is given, if less. */
		if (host->psi_some_avg10 > config->psi_high && missing < host->total_bytes / PSI_SHARE)
			missing = host->total_bytes / PSI_SHARE;
		memory_take(config, missing, guests, n_guests);
	}
	for (size_t i = 0; i < n_guests; i++)
		any |= guests[i].target_bytes != guests[i].current_bytes;
	return any;
}
