/* The lock files of serial ports, in the old manner of modem programs: "LCK.._pts_3" with a pid in it. libvirt makes
 * one for each console it opens, and one that a killed process left behind keeps everybody from the next port of that
 * number, for as long as anybody lives whose pid is that. Pids come back soon where few processes are: in a container. */
#pragma once

#define PORT_LOCK_DIR "/var/lock"

/* Removes the lock of port ("/dev/pts/3") in dir when it is older than the port is. 1: removed; 0: there is none, or it
 * is of this port; else -errno. */
int port_lock_drop_stale(const char *dir, const char *port);
