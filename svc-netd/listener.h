/* Sockets of this host's own processes that wait for others at a port. One whose port is published would hear of
 * nobody any more: the host's rules come before its sockets. */
#pragma once

#include "svc-netd/element.h"

#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct listener {
	uint8_t protocol; /* IPPROTO_TCP or IPPROTO_UDP */
	struct ip at;     /* all zeroes: at every address of that family */
	bool both;        /* … and of IPv4 beside IPv6 */
	uint16_t port;
	uid_t uid; /* of whoever made it */
};

/* 1 and the first listener that one of the ports would be taken from, *ret_port of them; 0 when there is none. Else nobody
 * knows: -ENOENT where the kernel was built without sock_diag. */
int listener_find(const struct publication *ports, size_t n, size_t *ret_port, struct listener *ret);

enum { LISTENER_TEXT_MAX = 80 };
/* "0.0.0.0:80", "[::]:80" */
void listener_text(const struct listener *listener, char ret[static LISTENER_TEXT_MAX]);

bool listener_hinders(const struct listener *listener, const struct publication *p);
/* One answer of the kernel's, to a question for sockets of that protocol; -EBADMSG when it is no whole one. */
int listener_parse(const struct nlmsghdr *message, uint8_t protocol, struct listener *ret);
