/* Netlink requests and their answers, for rtnetlink and nftables alike. The kernel does the work inside the
 * send, so nothing here waits for anybody. A socket is used by one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libmnl/libmnl.h>

struct netlink;

enum { NETLINK_MESSAGE_MAX = 8192 }; /* a buffer of this size holds any single request we make */

/* protocol is NETLINK_ROUTE, NETLINK_NETFILTER or NETLINK_SOCK_DIAG. */
int netlink_open(int protocol, struct netlink **ret);
/* Takes a socket that was bound in an earlier life of this service, with whatever answers nobody read. */
int netlink_adopt(int fd_consume, struct netlink **ret);
struct netlink *netlink_free(struct netlink *nl);

/* Sockets for one operation each, kept for the next: to make and close one costs as much as five requests. One from a
 * pool goes back with netlink_free(), unless an answer of its may still come; all are back before the pool goes. */
struct netlink_pool;
struct netlink_pool *netlink_pool_new(int protocol); /* NULL: out of memory */
struct netlink_pool *netlink_pool_free(struct netlink_pool *pool);
int netlink_pool_take(struct netlink_pool *pool, struct netlink **ret);

int netlink_fd(const struct netlink *nl);
uint32_t netlink_portid(const struct netlink *nl);
uint32_t netlink_sequence(struct netlink *nl, uint32_t n); /* the first of the next n */

/* Sends one message and waits for its acknowledgement: 0 or the kernel's -errno. */
int netlink_request(struct netlink *nl, struct nlmsghdr *message);

/* Sends one message and gives each answer to fn until the last; fn ends it early with a negative value,
 * which is returned. -EINTR when the kernel says that a dump was disturbed: what fn saw is then worth
 * nothing, ask again. */
typedef int (*netlink_answer_fn)(const struct nlmsghdr *message, void *userdata);
int netlink_query(struct netlink *nl, struct nlmsghdr *message, netlink_answer_fn fn, void *userdata);

/* Sends a run of messages as they are and collects acknowledgements until that of sequence last. The first
 * refusal is returned; *ret_refused is the sequence it was for. */
int netlink_transact(
        struct netlink *nl, const void *messages, size_t size, uint32_t last, uint32_t *ret_refused);

/* What the kernel said beside the errno of the last request, in parentheses and with a space before, or "".
 */
const char *netlink_words(const struct netlink *nl);
/* Where in the refused message, from its start in bytes, is what the kernel did not like; 0 when it does not say. */
uint32_t netlink_culprit(const struct netlink *nl);

/* For monitors: joins a multicast group; messages are then read with netlink_receive(). */
int netlink_join(struct netlink *nl, unsigned group);
/* One datagram without waiting: each message goes to fn. -EAGAIN when there is none, -ENOBUFS when some
 * were lost. */
int netlink_receive(struct netlink *nl, netlink_answer_fn fn, void *userdata);
