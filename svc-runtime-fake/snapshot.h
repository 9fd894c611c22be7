/* Snapshots: tars of the form every runtime writes, of disks that hold nothing. */
#pragma once

#include "svc-runtime-fake/fake.h"

void snapshot_serve(struct fake *fake, const Bc__V1__RuntimeSnapshotRequest *request, struct rpc_call *call);
