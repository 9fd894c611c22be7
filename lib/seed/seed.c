#include "lib/seed/seed.h"

#include "lib/base/cleanup.h"
#include "lib/base/fd_io.h"
#include "lib/base/ids.h"
#include "lib/base/ip.h"
#include "lib/base/mac.h"
#include "lib/base/quote.h"
#include "lib/base/sha256.h"
#include "lib/seed/iso.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { ADDRESSES_MAX = 16, GATEWAYS_MAX = 2, NAMESERVERS_MAX = 8 };

/* Labels of letters, digits and '-', joined by dots: fit for a YAML plain scalar too. */
static bool hostname_is_valid(const char *s)
{
	size_t n = strlen(s);
	char before = '.';

	if (n == 0 || n > SEED_HOSTNAME_MAX)
		return false;
	for (; *s; before = *s++) {
		bool alnum = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');

		if (!alnum && *s != '-' && *s != '.')
			return false;
		if ((before == '.' && !alnum) || (*s == '.' && before == '-'))
			return false;
	}
	return before != '.' && before != '-';
}

int seed_meta_data(const struct seed *seed, char **ret, struct err *err)
{
	uint8_t sum[SHA256_SIZE];
	char hex[SHA256_HEX_MAX];
	char hostname[SEED_HOSTNAME_MAX + 1];
	const char *given = seed->hostname && seed->hostname[0] ? seed->hostname : NULL;
	int r = uuid_check("instance id", seed->instance_id, err);

	if (r < 0)
		return r;
	if (given && !hostname_is_valid(given))
		return err_set(err, -EINVAL,
		        "hostname '%s' is not valid: labels of letters, digits and '-', at most %d bytes",
		        QUOTED(given), SEED_HOSTNAME_MAX);
	(void)snprintf(
	        hostname, sizeof(hostname), given ? "%s" : "i-%.8s", given ? given : seed->instance_id);
	r = sha256(seed->allocation_id, strlen(seed->allocation_id), sum);
	if (r < 0)
		return r;
	sha256_to_hex(sum, hex);
	if (asprintf(ret, "instance-id: %s-%.16s\nlocal-hostname: %s\n", seed->instance_id, hex, hostname) <
	        0)
		return -ENOMEM;
	return 0;
}

/* --- network-config, version 2. Every scalar is parsed and printed anew, so none needs escaping. --- */

struct nic_words {
	const struct seed_nic *nic; /* weak */
	char what[40];              /* the field's path, for messages */
};

static const char *what_set(struct nic_words *words, size_t i_nic, const char *field, size_t i)
{
	(void)snprintf(words->what, sizeof(words->what), "nics[%zu].%s[%zu]", i_nic, field, i);
	return words->what;
}

static int addresses_print(FILE *f, struct nic_words *words, size_t i_nic, struct err *err)
{
	const struct seed_nic *nic = words->nic;
	char text[IP_TEXT_MAX];
	struct ip ip;

	if (nic->n_addresses == 0)
		return fputs("    dhcp4: true\n", f) < 0 ? -ENOMEM : 0;
	(void)fputs("    dhcp4: false\n    dhcp6: false\n    addresses:\n", f);
	for (size_t i = 0; i < nic->n_addresses; i++) {
		int r = ip_parse_cidr(what_set(words, i_nic, "addresses", i), nic->addresses[i], &ip, err);

		if (r < 0)
			return r;
		ip_format_cidr(&ip, text);
		(void)fprintf(f, "    - \"%s\"\n", text);
	}
	return 0;
}

/* A gateway that no address of the NIC is on a network with (a /32, say) is reached over the link itself. */
static bool gateway_is_on_link(const struct seed_nic *nic, const struct ip *gateway)
{
	if (gateway->family == AF_INET6 && gateway->bytes[0] == 0xfe && (gateway->bytes[1] & 0xc0) == 0x80)
		return false; /* link-local: always reachable */
	for (size_t i = 0; i < nic->n_addresses; i++) {
		struct ip ip;

		if (ip_parse_cidr("", nic->addresses[i], &ip, NULL) < 0)
			continue;
		ip = ip_network(&ip);
		if (ip_contains(&ip, gateway))
			return false;
	}
	return true;
}

static int routes_print(FILE *f, struct nic_words *words, size_t i_nic, struct err *err)
{
	const struct seed_nic *nic = words->nic;
	char text[IP_TEXT_MAX];
	struct ip ip;

	/* Without addresses the routes come with the lease. */
	if (nic->n_gateways == 0 || nic->n_addresses == 0)
		return 0;
	(void)fputs("    routes:\n", f);
	for (size_t i = 0; i < nic->n_gateways; i++) {
		int r = ip_parse(what_set(words, i_nic, "gateways", i), nic->gateways[i], &ip, err);

		if (r < 0)
			return r;
		ip_format(&ip, text);
		/* "to: default" is not known to every renderer of cloud-init. */
		(void)fprintf(f, "    - to: \"%s\"\n      via: \"%s\"\n",
		        ip.family == AF_INET ? "0.0.0.0/0" : "::/0", text);
		if (gateway_is_on_link(nic, &ip))
			(void)fputs("      on-link: true\n", f);
	}
	return 0;
}

static int nameservers_print(FILE *f, struct nic_words *words, size_t i_nic, struct err *err)
{
	const struct seed_nic *nic = words->nic;
	char text[IP_TEXT_MAX];
	struct ip ip;

	if (nic->n_nameservers == 0)
		return 0;
	(void)fputs("    nameservers:\n      addresses:\n", f);
	for (size_t i = 0; i < nic->n_nameservers; i++) {
		int r = ip_parse(what_set(words, i_nic, "nameservers", i), nic->nameservers[i], &ip, err);

		if (r < 0)
			return r;
		ip_format(&ip, text);
		(void)fprintf(f, "      - \"%s\"\n", text);
	}
	return 0;
}

static int nic_print(FILE *f, const struct seed_nic *nic, size_t i_nic, struct err *err)
{
	struct nic_words words = { .nic = nic };
	char text[MAC_TEXT_MAX];
	struct mac mac;
	int r;

	if (nic->n_addresses > ADDRESSES_MAX || nic->n_gateways > GATEWAYS_MAX ||
	        nic->n_nameservers > NAMESERVERS_MAX)
		return err_set(err, -EINVAL,
		        "nics[%zu]: more than %d addresses, %d gateways or %d nameservers", i_nic,
		        ADDRESSES_MAX, GATEWAYS_MAX, NAMESERVERS_MAX);
	(void)snprintf(words.what, sizeof(words.what), "nics[%zu].mac", i_nic);
	r = mac_parse(words.what, nic->mac, &mac, err);
	if (r < 0)
		return r;
	mac_format(&mac, text);
	(void)fprintf(f, "  nic%zu:\n    match:\n      macaddress: \"%s\"\n", i_nic, text);
	r = addresses_print(f, &words, i_nic, err);
	if (r >= 0)
		r = routes_print(f, &words, i_nic, err);
	if (r >= 0)
		r = nameservers_print(f, &words, i_nic, err);
	return r;
}

int seed_network_config(const struct seed *seed, char **ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t n_text = 0;
	FILE *f;
	int r = 0;

	if (seed->n_nics > SEED_NICS_MAX)
		return err_set(err, -EINVAL, "nics: %zu are more than %d", seed->n_nics, SEED_NICS_MAX);
	f = open_memstream(&text, &n_text);
	if (!f)
		return -ENOMEM;
	(void)fputs(seed->n_nics ? "version: 2\nethernets:\n" : "version: 2\nethernets: {}\n", f);
	for (size_t i = 0; r >= 0 && i < seed->n_nics; i++)
		r = nic_print(f, &seed->nics[i], i, err);
	if (fclose(f) != 0 && r >= 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(text);
	return 0;
}

int seed_write(const char *path, const struct seed *seed, struct file_perm perm, struct err *err)
{
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	CLEANUP_FREE char *meta_data = NULL;
	CLEANUP_FREE char *network_config = NULL;
	size_t n_user_data = seed->user_data ? secret_size(seed->user_data) : 0;
	int r = 0;

	if (n_user_data > SEED_USER_DATA_MAX)
		return err_set(
		        err, -EINVAL, "user data of %zu bytes is over %d", n_user_data, SEED_USER_DATA_MAX);
	r = seed_meta_data(seed, &meta_data, err);
	if (r >= 0)
		r = seed_network_config(seed, &network_config, err);
	if (r < 0)
		return r;
	struct iso_member members[] = {
		{ .name = "meta-data", .data = meta_data, .n_data = strlen(meta_data), .mode = 0444 },
		{ .name = "network-config",
		        .data = network_config,
		        .n_data = strlen(network_config),
		        .mode = 0444 },
		{ .name = "user-data", .n_data = n_user_data, .mode = 0400 },
	};
	r = new_file_open(path, perm, &file);
	if (r >= 0)
		r = iso_write(file.fd, SEED_LABEL, members, ARRAY_SIZE(members), err);
	if (r >= 0 && n_user_data > 0)
		r = fd_write_all_at(file.fd, secret_data(seed->user_data), n_user_data, members[2].offset);
	if (r >= 0)
		r = new_file_commit(&file, true);
	return r < 0 ? err_set(err, r, "cannot write seed '%s': %s", path, strerror(-r)) : 0;
}

/* --- what an ISO has --- */

/* Whether its file of that name is this text. -ENOENT, -EINVAL: it has none. */
static int member_is(int fd, const char *name, const char *text, size_t n_text, bool *ret)
{
	CLEANUP(secret) struct secret *has = NULL;
	uint64_t offset, bytes;
	int r = iso_find(fd, name, &offset, &bytes);

	if (r < 0)
		return r;
	*ret = false;
	if (bytes != n_text)
		return 0;
	r = secret_new_empty(n_text, &has);
	if (r >= 0)
		r = fd_read_all_at(fd, secret_data(has), n_text, offset);
	if (r < 0)
		return r;
	*ret = memcmp(secret_data(has), text, n_text) == 0;
	return 0;
}

static int user_data_of(int fd, struct secret **ret)
{
	CLEANUP(secret) struct secret *user_data = NULL;
	uint64_t offset, bytes;
	int r = iso_find(fd, "user-data", &offset, &bytes);

	if (r >= 0 && bytes > SEED_USER_DATA_MAX)
		r = -EINVAL;
	if (r >= 0)
		r = secret_new_empty(bytes, &user_data);
	if (r >= 0)
		r = fd_read_all_at(fd, secret_data(user_data), bytes, offset);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(user_data);
	return 0;
}

static int is_current(int fd, const struct seed *seed, bool *ret, struct err *err)
{
	CLEANUP_FREE char *meta_data = NULL;
	CLEANUP_FREE char *network_config = NULL;
	int r = seed_meta_data(seed, &meta_data, err);

	if (r >= 0)
		r = seed_network_config(seed, &network_config, err);
	if (r < 0)
		return r;
	const struct {
		const char *name, *text;
		size_t n_text;
	} members[] = {
		{ "meta-data", meta_data, strlen(meta_data) },
		{ "network-config", network_config, strlen(network_config) },
		{ "user-data", secret_data(seed->user_data), secret_size(seed->user_data) },
	};
	*ret = true;
	for (size_t i = 0; *ret && i < ARRAY_SIZE(members); i++)
		if (member_is(fd, members[i].name, members[i].text, members[i].n_text, ret) < 0)
			*ret = false;
	return 0;
}

int seed_renew(
        const char *path, const struct seed *seed, struct file_perm perm, bool *ret_written, struct err *err)
{
	CLEANUP(secret) struct secret *kept = NULL;
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct seed whole = *seed;
	bool current;

	*ret_written = false;
	if (fd < 0)
		return err_set(err, -errno, "cannot open seed '%s': %s", path, strerror(errno));
	if (!whole.user_data) {
		int r = user_data_of(fd, &kept);
		if (r < 0)
			return r == -ENOMEM ? r : 0;
		whole.user_data = kept;
	}
	int r = is_current(fd, &whole, &current, err);
	if (r < 0 || current)
		return r;
	r = seed_write(path, &whole, perm, err);
	*ret_written = r >= 0;
	return r;
}
