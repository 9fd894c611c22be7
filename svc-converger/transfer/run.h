/* One transfer from its order to its last report: what bc-transfer does between reading and exiting. */
#pragma once

#include "svc-converger/transfer/wire.h"

/* fd is the file to fill (read-write) or to send. report gets progress at most five times a second and, last, DONE or
 * FAILED. Blocks for as long as the transfer takes. */
void transfer_run(const struct transfer_order *order, int fd,
        void (*report)(const struct transfer_report *report, void *userdata), void *userdata);
