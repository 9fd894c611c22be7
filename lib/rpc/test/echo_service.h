/* A server of bc.test.Echo, for tests and the benchmark. */
#pragma once

#include "lib/rpc/server.h"

#include <echo.pb-c.h>

struct echo_service {
	Bc__Test__Echo_Service service;
	size_t n_hung;      /* unary calls that are not answered */
	size_t n_cancelled; /* calls whose caller gave up */
	size_t n_ended;     /* streams that are over */
	size_t n_down;      /* messages that Down has sent or queued */
};

extern const unsigned char echo_descriptor_set[];
extern const size_t echo_descriptor_set_size;

void echo_service_init(struct echo_service *echo);
