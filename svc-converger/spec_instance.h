/* The rules for one InstanceSpec, as far as it can be judged alone. */
#pragma once

#include "svc-converger/spec_walk.h"

/* walk stands at the instance. */
void spec_check_instance(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec);
/* walk stands at the NIC; ssh_from_host_only is its instance's. */
void spec_check_nic(struct spec_walk *walk, const Bc__V1__Nic *nic, bool ssh_from_host_only);
/* "GPU-…", also of NodeSpec.gpus. */
void spec_check_gpu_id(struct spec_walk *walk, const char *field, const char *id);
