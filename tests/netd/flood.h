/* A guest that lies without pause, and an ear on the other side that counts every lie it hears. */
#pragma once

#include "tests/netd/lan.h"

struct flood;

/* from sends frame over and over, to listens for it; both stay the caller's. */
struct flood *flood_start(struct port from, struct port to, const struct frame *frame);
/* Waits until n more were sent. */
void flood_wait(struct flood *flood, uint64_t n);
/* Ends it; how many were heard. *ret_sent may be NULL. */
uint64_t flood_stop(struct flood *flood, uint64_t *ret_sent);
