/* The files of an instance, below instances_dir/<id>. What only one file knows of has its name there. */
#pragma once

#define INSTANCE_DISK "disk.qcow2"
#define INSTANCE_SEED "seed.iso"
#define INSTANCE_NVRAM "nvram.fd"
#define INSTANCE_SERIAL_LOG "serial.log"
#define INSTANCE_CONSOLE_RING "console.ring"
#define INSTANCE_COMPLETED "completed"   /* a job said so; until it is started again */
#define INSTANCE_STOPPING "stopping"     /* it was told to stop; until it is told to run again */
#define INSTANCE_MEMORY "restore.memory" /* of a snapshot, until the first start */

/* The directory (file NULL) or a file of an instance; owned by the caller, NULL for want of memory. */
char *instance_path(const char *instances_dir, const char *id, const char *file);
