/* A disk that fails when it is told to: SQLite's own VFS with a hand on every change of a file. It is the default of
 * databases opened while it stands. Any thread may use those. */
#pragma once

struct fault_vfs;

enum { FAULT_KILL = -1, FAULT_FOR_EVER = 1 << 30 };

struct fault_vfs *fault_vfs_new(void);
struct fault_vfs *fault_vfs_free(struct fault_vfs *vfs); /* every database is closed */
/* Of the changes (writes, truncations, syncs) from now on, n from the nth on fail with an SQLite code, or kill this
 * process before they happen. nth counts from 1. */
void fault_vfs_arm(struct fault_vfs *vfs, int code, unsigned nth, unsigned n);
/* Nothing fails any more. Returns how many did. */
unsigned fault_vfs_disarm(struct fault_vfs *vfs);
