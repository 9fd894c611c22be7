/* The NoCloud seed: the ISO with which an instance learns who it is (cloud-init's "cidata" disk). It always holds
 * meta-data, user-data (which may be empty: without the file the whole seed would be ignored) and network-config. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/secret.h"
#include "lib/image/new_file.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	SEED_USER_DATA_MAX = 64 * 1024, /* bytes */
	SEED_HOSTNAME_MAX = 64,         /* bytes, without the NUL */
	SEED_NICS_MAX = 100,
};
#define SEED_LABEL "cidata"

/* All weak. Addresses are CIDR; a NIC without any asks DHCP. */
struct seed_nic {
	const char *mac;
	const char *const *addresses;
	size_t n_addresses; /* at most 16 */
	const char *const *gateways;
	size_t n_gateways; /* at most 2 */
	const char *const *nameservers;
	size_t n_nameservers; /* at most 8 */
};

struct seed {
	const char *instance_id; /* canonical UUID */
	const char *
	        allocation_id; /* with instance_id the seed's own instance-id: constant over stop and start */
	const char *hostname;  /* "" or NULL: "i-" and the UUID's first eight digits */
	struct secret *user_data;    /* weak; NULL: empty */
	const struct seed_nic *nics; /* in guest order */
	size_t n_nics;
};

/* Writes the ISO, whole or not at all, over what is at path. The user data goes from the secret straight into the
 * file; no other copy is made. -EINVAL names the field that cannot be. */
int seed_write(const char *path, const struct seed *seed, struct file_perm perm, struct err *err);
/* Makes the ISO at path say what seed says, when it does not: *ret_written tells whether it was written over. Without user
 * data (NULL) it keeps its own; then what is no such ISO is left alone, as nobody knows what it would have to keep. */
int seed_renew(
        const char *path, const struct seed *seed, struct file_perm perm, bool *ret_written, struct err *err);

/* The texts, owned by the caller. */
int seed_meta_data(const struct seed *seed, char **ret, struct err *err);
int seed_network_config(const struct seed *seed, char **ret, struct err *err);
