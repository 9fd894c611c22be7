#include "svc-runtime-libvirt/domain_state.h"

#include <libvirt/libvirt.h>
#include <stddef.h>

#define CONDITION(s, r, m) ((struct domain_condition){ .state = (s), .reason = (r), .message = (m) })

static struct domain_condition paused(int reason)
{
	switch (reason) {
	case VIR_DOMAIN_PAUSED_IOERROR:
		return CONDITION(DOMAIN_PAUSED, "DiskError",
		        "a disk cannot be written (is the host's file system full?); resume it when it can");
	case VIR_DOMAIN_PAUSED_WATCHDOG:
		return CONDITION(DOMAIN_PAUSED, "Watchdog", "the guest's watchdog expired");
	case VIR_DOMAIN_PAUSED_SAVE:
	case VIR_DOMAIN_PAUSED_DUMP:
	case VIR_DOMAIN_PAUSED_SNAPSHOT:
		return CONDITION(DOMAIN_PAUSED, "Snapshotting", "paused while its state is saved");
	case VIR_DOMAIN_PAUSED_SHUTTING_DOWN:
		return CONDITION(DOMAIN_STOPPING, "", "");
	case VIR_DOMAIN_PAUSED_CRASHED:
		return CONDITION(DOMAIN_CRASHED, "GuestPanicked", "the guest's kernel panicked");
	case VIR_DOMAIN_PAUSED_STARTING_UP:
		return CONDITION(DOMAIN_PAUSED, "Starting", "QEMU is starting");
	default:
		return CONDITION(DOMAIN_PAUSED, "", "");
	}
}

static struct domain_condition shut_off(int reason, bool asked, bool panicked)
{
	if (asked)
		return CONDITION(DOMAIN_STOPPED, "", "");
	if (panicked)
		return CONDITION(DOMAIN_CRASHED, "GuestPanicked", "the guest's kernel panicked");
	switch (reason) {
	case VIR_DOMAIN_SHUTOFF_SHUTDOWN:
		return CONDITION(DOMAIN_STOPPED, "GuestShutdown", "the guest shut itself down");
	case VIR_DOMAIN_SHUTOFF_DESTROYED:
		return CONDITION(DOMAIN_STOPPED, "Destroyed", "somebody ended it through libvirt");
	case VIR_DOMAIN_SHUTOFF_CRASHED:
		return CONDITION(
		        DOMAIN_CRASHED, "VmmDied", "QEMU ended without being asked (killed, or it crashed)");
	case VIR_DOMAIN_SHUTOFF_SAVED:
		return CONDITION(DOMAIN_STOPPED, "Saved", "somebody saved it through libvirt");
	case VIR_DOMAIN_SHUTOFF_FAILED:
		return CONDITION(DOMAIN_CRASHED, "StartFailed", "QEMU did not start");
	case VIR_DOMAIN_SHUTOFF_DAEMON:
		return CONDITION(DOMAIN_CRASHED, "VmmDied", "QEMU was gone when libvirt came back");
	default:
		return CONDITION(DOMAIN_STOPPED, "", "");
	}
}

struct domain_condition domain_condition_from_virt(int virt_state, int virt_reason, bool asked, bool panicked)
{
	switch (virt_state) {
	case VIR_DOMAIN_RUNNING:
	case VIR_DOMAIN_BLOCKED:
		return CONDITION(DOMAIN_RUNNING, "", "");
	case VIR_DOMAIN_PAUSED:
		return paused(virt_reason);
	case VIR_DOMAIN_SHUTDOWN:
		return CONDITION(DOMAIN_STOPPING, "", "");
	case VIR_DOMAIN_SHUTOFF:
		return shut_off(virt_reason, asked, panicked);
	case VIR_DOMAIN_CRASHED:
		return CONDITION(DOMAIN_CRASHED, "GuestPanicked", "the guest's kernel panicked");
	case VIR_DOMAIN_PMSUSPENDED:
		return CONDITION(DOMAIN_PAUSED, "GuestSuspended", "the guest suspended itself");
	default:
		return CONDITION(DOMAIN_STOPPED, "Unknown", "libvirt does not know its state");
	}
}

bool domain_state_is_active(enum domain_state state)
{
	return state == DOMAIN_RUNNING || state == DOMAIN_PAUSED || state == DOMAIN_STOPPING;
}

const char *domain_state_to_string(enum domain_state state)
{
	switch (state) {
	case DOMAIN_STOPPED:
		return "STOPPED";
	case DOMAIN_RUNNING:
		return "RUNNING";
	case DOMAIN_PAUSED:
		return "PAUSED";
	case DOMAIN_STOPPING:
		return "STOPPING";
	case DOMAIN_CRASHED:
		return "CRASHED";
	}
	return NULL;
}
