#include "tests/bench/measure.h"

#include "lib/base/cleanup.h"
#include "lib/base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double measure_now_usec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int double_compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

double measure_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), double_compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The kernel's counters of a process lag behind; this adds up its pages. */
static double rollup_mib(pid_t pid, const char *key)
{
	char path[64], line[256];
	double kib = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	CLEANUP_FCLOSE FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			kib = strtod(line + strlen(key), NULL);
	return kib / 1024;
}

double measure_rss_mib(pid_t pid)
{
	return rollup_mib(pid, "Rss:");
}

double measure_anon_mib(pid_t pid)
{
	return rollup_mib(pid, "Anonymous:");
}

/* The CPUs this process was given are those of its parent, which nobody pins. */
static void cpus_usable(cpu_set_t *ret)
{
	if (sched_getaffinity(getppid(), sizeof(*ret), ret) < 0)
		abort();
}

void measure_pin(pid_t pid, int one_cpu)
{
	cpu_set_t cpus;
	char path[64];

	cpus_usable(&cpus);
	for (int i = 0, found = 0; one_cpu && i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &cpus) && found++)
			CPU_CLR(i, &cpus);
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/task", pid ? (int)pid : (int)getpid());
	DIR *dir = opendir(path);
	if (!dir)
		abort();
	for (struct dirent *e; (e = readdir(dir));) {
		if (e->d_name[0] != '.')
			(void)sched_setaffinity((pid_t)strtol(e->d_name, NULL, 10), sizeof(cpus), &cpus);
	}
	(void)closedir(dir);
}

pid_t measure_child(const char *const *argv)
{
	int out[2];
	int pidfd = -1;
	pid_t pid = 0;
	char line[16] = "";

	if (pipe2(out, O_CLOEXEC) < 0)
		abort();
	const struct process_fd fds[] = { { out[1], 1 }, { 2, 2 } };
	const struct process_options options = { .argv = argv, .fds = fds, .n_fds = 2 };
	int r = process_spawn(&options, &pid, &pidfd);
	(void)close(out[1]);
	if (r < 0 || read(out[0], line, 5) != 5 || strcmp(line, "ready") != 0) {
		(void)fprintf(stderr, "%s did not start\n", argv[0]);
		exit(1);
	}
	/* the reading end stays open: a later line of the child must not kill it */
	(void)close(pidfd);
	return pid;
}

void measure_child_stop(pid_t pid)
{
	(void)kill(pid, SIGTERM);
	(void)waitpid(pid, NULL, 0);
}
