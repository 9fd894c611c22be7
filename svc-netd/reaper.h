/* Interfaces that are gone for everybody but the kernel. Deleting one makes the kernel wait some 15 ms for
 * readers that could still see it; deleting many at once makes it wait once. So an interface is only taken
 * out of the way on the path of whoever removes it, and dies here, in company. Every function may be called
 * from any thread. */
#pragma once

#include <stddef.h>

struct link;
struct netlink;
struct reaper;

struct reaper *reaper_new(void);                   /* NULL: out of memory */
struct reaper *reaper_free(struct reaper *reaper); /* what still waits is found again by the next netd */

/* Renames the interface and marks it for the next deletion. From here on its name is free and it passes
 * nothing. */
int reaper_doom(struct reaper *reaper, struct netlink *nl, const struct link *link);
/* Takes over what an earlier life left (link_is_doomed). */
void reaper_adopt(struct reaper *reaper, const struct link *link);
size_t reaper_pending(struct reaper *reaper);
/* Deletes what waits, some at a time, so that others get at the kernel's one lock in between. Returns how
 * many or -errno; those are tried again next time. */
int reaper_run(struct reaper *reaper, struct netlink *nl);
