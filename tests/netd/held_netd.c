/* bc-netd with a hand in its steps: NETD_HOLD=STEP/INTERFACE makes that step wait until the FIFO
 * NETD_HOLD_UNTIL has been opened for writing and closed. And on a kernel that lacks something: of the rules it loads,
 * the words named NETD_LACKS are misspelt, so that the kernel does not know them. */
#include "svc-netd/netd.h"

#include <libmnl/libmnl.h>

#include <fcntl.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int before_step(const char *step, const char *ifname, void *userdata)
{
	const char *hold = getenv("NETD_HOLD"), *until = getenv("NETD_HOLD_UNTIL");
	char here[128], byte;
	int fd;

	(void)userdata;
	(void)snprintf(here, sizeof(here), "%s/%s", step, ifname);
	if (!hold || !until || strcmp(hold, here) != 0)
		return 0;
	fd = open(until, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)!read(fd, &byte, 1);
		(void)close(fd);
	}
	return 0;
}

ssize_t __real_mnl_socket_sendto(const struct mnl_socket *socket, const void *data, size_t size);
ssize_t __wrap_mnl_socket_sendto(const struct mnl_socket *socket, const void *data, size_t size);

ssize_t __wrap_mnl_socket_sendto(const struct mnl_socket *socket, const void *data, size_t size)
{
	const char *lacks = getenv("NETD_LACKS");
	struct {
		struct nlattr attr;
		char name[32];
	} word = { .attr = { .nla_type = NFTA_EXPR_NAME } };
	size_t n = lacks ? strlen(lacks) + 1 : 0;
	char *copy, *at;
	ssize_t sent;

	if (!lacks || n > sizeof(word.name))
		return __real_mnl_socket_sendto(socket, data, size);
	word.attr.nla_len = (uint16_t)(sizeof(word.attr) + n);
	memcpy(word.name, lacks, n);
	copy = malloc(size);
	if (!copy)
		abort();
	memcpy(copy, data, size);
	for (at = copy; (at = memmem(at, size - (size_t)(at - copy), &word, word.attr.nla_len)); at++)
		at[sizeof(word.attr)] = '?';
	sent = __real_mnl_socket_sendto(socket, copy, size);
	free(copy);
	return sent;
}

int main(int argc, char **argv)
{
	static struct netd netd = { .before_step = before_step };

	return netd_main(&netd, argc, argv);
}
