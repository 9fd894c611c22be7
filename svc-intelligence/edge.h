/* bc.v1.Intelligence. Only Status answers yet, and says what is missing. */
#pragma once

#include "lib/rpc/server.h"

#include <bc/v1/intelligence.pb-c.h>

void intelligence_edge_init(Bc__V1__Intelligence_Service *service);
