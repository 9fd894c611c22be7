/* What a benchmark needs: medians, one CPU for everybody, and a child that says when it is ready. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

double measure_now_usec(void);
/* Sorts values and returns the one in the middle. */
double measure_median(double *values, size_t n);
/* Resident memory of a process, and what of it no file is behind; 0 when it cannot be read. */
double measure_rss_mib(pid_t pid);
double measure_anon_mib(pid_t pid);
/* Every thread of a process (0: this one) on the first usable CPU, or on all again. Threads that start later inherit
 * what their creator has. */
void measure_pin(pid_t pid, int one_cpu);
/* Starts argv, waits for its line "ready" on stdout. Ends the benchmark when it cannot. */
pid_t measure_child(const char *const *argv);
void measure_child_stop(pid_t pid); /* SIGTERM, and waits */
