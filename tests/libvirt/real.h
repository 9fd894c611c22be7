/* A runtime on libvirt's embedded driver, in this process, for tests with real guests. One per process: libvirt knows
 * one root. Calls wait by running the loop. */
#pragma once

#include "bc/v1/runtime.pb-c.h"
#include "svc-runtime-libvirt/guest.h"
#include "svc-runtime-libvirt/lifecycle.h"
#include "svc-runtime-libvirt/snapshots.h"
#include "tests/libvirt/root.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct real {
	struct loop *loop;
	struct runtime *runtime;
	struct runtime_conf conf;
	struct root root;
	const char *guest_dir; /* BC_GUEST_DIR */
	unsigned next_id;
	bool connected;
	/* of the last answer */
	int r;
	struct err err;
	bool answered;
	struct domain_memory memory;
	uint64_t bytes;
	/* where the serial output of the last runs began */
	struct {
		char id[UUID_TEXT_MAX];
		uint64_t offset;
	} runs[16];
	size_t n_runs;
	struct slow *snapshot;                  /* weak */
	void (*at_progress)(struct real *real); /* whenever a snapshot tells how far it is */
	const char *at_progress_id;
	char digest[SHA256_DIGEST_MAX];
};

int real_setup(void **state);    /* group setup: opens the driver, waits for it */
int real_teardown(void **state); /* removes every instance and the directories */
/* Stops the runtime and opens it anew on the same root, as a restarted service would. */
void real_restart(struct real *real);

/* A request that can be changed before it is used; lives in static storage until the next one of its kind. */
struct real_request {
	Bc__V1__EnsureRequest ensure;
	Bc__V1__InstanceSpec spec;
	Bc__V1__Boot boot;
	Bc__V1__ImageBoot image;
	Bc__V1__KernelBoot kernel;
	char id[UUID_TEXT_MAX];
	char path[3][256];
	char cmdline[256];
	Bc__V1__VolumeAttachment volumes[2];
	Bc__V1__VolumeAttachment *volume_list[2];
	Bc__V1__VolumePath volume_paths[2];
	Bc__V1__VolumePath *volume_path_list[2];
	Bc__V1__Nic nics[2];
	Bc__V1__Nic *nic_list[2];
	Bc__V1__PreparedNic prepared[2];
	Bc__V1__PreparedNic *prepared_list[2];
	Bc__V1__BridgeAttachment bridge;
	Bc__V1__MacvtapAttachment macvtap;
	Bc__V1__UserAttachment user;
	Bc__V1__NicPorts ports;
	Bc__V1__NicPorts *ports_list[1];
	Bc__V1__PortMapping mapping;
	Bc__V1__PortMapping *mapping_list[1];
	Bc__V1__Balloon balloon;
	Bc__V1__Placement placement;
	char volume_path[2][256];
	char ifname[2][IFNAME_MAX];
};
/* The Linux guest of tests/guest, booted directly. */
void real_request_kernel(struct real *real, struct real_request *ret, const char *cmdline);
/* smallest.elf: says GUEST-READY and halts, within milliseconds. */
void real_request_smallest(struct real *real, struct real_request *ret);
/* name is a disk of tests/guest: "disk.raw", "disk.qcow2", "smallest.raw". */
void real_request_image(struct real *real, struct real_request *ret, const char *name);

/* One more volume, a new file of bytes below the root. */
void real_request_volume(struct real *real, struct real_request *request, const char *id, uint64_t bytes);
/* One more NIC; its interface, if the kind has one, must be made before a start: request->ifname. */
void real_request_nic(struct real_request *request, enum nic_kind kind, uint32_t queues);

/* Each returns 0 or -errno; words in real->err. */
int real_ensure(struct real *real, const struct real_request *request);
int real_run(struct real *real, const char *id);
int real_pause(struct real *real, const char *id);
int real_stop(struct real *real, const char *id, uint64_t grace_usec);
int real_remove(struct real *real, const char *id);
int real_get_memory(struct real *real, const char *id, struct domain_memory *ret);
int real_set_memory(struct real *real, const char *id, uint64_t bytes, struct domain_memory *ret);
int real_grow_volume(struct real *real, const char *id, const char *volume_id, uint64_t bytes, uint64_t *ret);
int real_rebind(
        struct real *real, const char *id, const char *ref, const char *payload, uint64_t timeout_usec);

int real_snapshot(struct real *real, const char *id, bool with_memory, const char *path);
/* The same in two steps. */
void real_snapshot_begin(struct real *real, const char *id, bool with_memory, const char *path);
int real_snapshot_end(struct real *real);

struct domain_entry *real_find(struct real *real, const char *id);
/* Runs the loop until it holds; fails the test after a minute. */
void real_wait(struct real *real, bool (*holds)(struct real *real, void *arg), void *arg);
void real_wait_state(struct real *real, const char *id, enum domain_state state);
/* Until the guest has written text to its serial port since it was started. */
void real_wait_output(struct real *real, const char *id, const char *text);
void real_type(struct real *real, const char *id, const char *text);
/* Only what is said from now on counts for real_wait_output(). */
void real_mark(struct real *real, const char *id);
/* For real_wait(): the instance arg has no open serial port; no job is under way. */
bool real_port_is_closed(struct real *real, void *arg);
bool real_is_idle(struct real *real, void *arg);
/* A shell command; fails the test unless it succeeds. */
void real_shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
