/* What the kernel holds, as other programs than ours tell it: interfaces from ip, rules from nft. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct kernel {
	json_t *links; /* owned; by name, as `ip -j -d link` has them */
	json_t *named; /* owned; by the interface that any element of our tables names, how often */
	json_t *pairs; /* owned; "SET INTERFACE ADDRESS" and "SET INTERFACE" of our tables */
	json_t *ports; /* owned; host ports that are published */
};

/* While netd runs: nft 1.0.6 prints the flags of a table that persists without its owner from beyond an array. */
void kernel_read(struct kernel *ret);
void kernel_read_links(struct kernel *ret); /* links alone, at any time */
void kernel_done(struct kernel *kernel);

/* "bc" + 10 hex digits + "n" + index, or "bcx…", which waits for its deletion. */
bool kernel_is_ours_by_name(const char *name);
bool kernel_has(const struct kernel *kernel, const char *set, const char *ifname, const char *address);
bool kernel_publishes(const struct kernel *kernel, unsigned port);
