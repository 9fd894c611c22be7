/* Numbers and times as people read them. Each writes into buf and returns it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { HUMAN_MAX = 48 };

char *human_bytes(uint64_t bytes, char buf[static HUMAN_MAX]); /* "0", "512 MiB", "1.5 GiB", "1000 B" */
char *human_duration(
        uint64_t nsec, char buf[static HUMAN_MAX]); /* "850 ms", "2.31 s", "4m10s", "3h", "12d" */
/* How long before now; "" for 0, which stands for never, and "0s" for what is to come. */
char *human_age(int64_t then_sec, int64_t now_sec, char buf[static HUMAN_MAX]);
/* "in 2m" when it is to come; "now" when it has passed. */
char *human_until(int64_t then_sec, int64_t now_sec, char buf[static HUMAN_MAX]);
char *human_percent(uint64_t part, uint64_t whole, char buf[static HUMAN_MAX]); /* "42%"; "" of nothing */
char *human_count(uint64_t n, const char *one, char buf[static HUMAN_MAX]);     /* "1 port", "2 ports" */
/* "a,b,c", cut where buf ends. */
char *human_list(char *const *texts, size_t n_texts, char *buf, size_t size);
/* Decimal digits and nothing else. -EINVAL, -ERANGE. */
int human_parse_number(const char *text, uint64_t *ret);
/* "90", "90s", "5m", "2h" as microseconds: -EINVAL for anything else, 0, and more than 30 days. */
int human_parse_duration(const char *text, uint64_t *ret_usec);
