/* bc.v1.Runtime of the cloud-hypervisor runtime. Nothing of it is built yet: every RPC says so, Describe too, so
 * that the converger never takes this process for a runtime that holds nothing. */
#pragma once

#include "lib/rpc/server.h"

#include <bc/v1/runtime.pb-c.h>

void ch_edge_init(Bc__V1__Runtime_Service *service);
