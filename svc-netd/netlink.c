#include "svc-netd/netlink.h"

#include "lib/base/cleanup.h"

#include <errno.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

enum {
	RECEIVE_SIZE = 32768,        /* what the kernel fills in one piece of a dump */
	SEND_BUFFER_SIZE = 64 << 20, /* a whole rule set with 1,000 NICs goes in one transaction */
	MONITOR_BUFFER_SIZE = 8 << 20,
	WORDS_MAX = 160,
	POOL_MAX = 8, /* as many operations as run at once */
};

struct netlink {
	struct mnl_socket *socket; /* owned */
	uint32_t sequence;
	uint32_t portid;
	struct netlink_pool *pool; /* weak; NULL for none */
	bool spoiled;              /* what it was asked was not answered to the end */
	char words[WORDS_MAX];
	uint32_t culprit;
	_Alignas(struct nlmsghdr) char buffer[RECEIVE_SIZE];
};

struct netlink_pool {
	int protocol;
	pthread_mutex_t lock;
	struct netlink *idle[POOL_MAX]; /* owned */
	size_t n;
};

static int netlink_configure(struct netlink *nl)
{
	/* An answer is there when the send returns. The limit is for a kernel that forgets one. */
	struct timeval limit = { .tv_sec = 30 };
	int fd = mnl_socket_get_fd(nl->socket);
	int send_size = SEND_BUFFER_SIZE, on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_size, sizeof(send_size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_size, sizeof(send_size));
	/* Only words and brevity: refusals without them are still refusals. */
	(void)mnl_socket_setsockopt(nl->socket, NETLINK_EXT_ACK, &on, sizeof(on));
	(void)mnl_socket_setsockopt(nl->socket, NETLINK_CAP_ACK, &on, sizeof(on));
	nl->portid = mnl_socket_get_portid(nl->socket);
	return 0;
}

int netlink_open(int protocol, struct netlink **ret)
{
	struct netlink *nl = calloc(1, sizeof(*nl));
	int r;

	if (!nl)
		return -ENOMEM;
	nl->socket = mnl_socket_open2(protocol, SOCK_CLOEXEC);
	r = nl->socket && mnl_socket_bind(nl->socket, 0, MNL_SOCKET_AUTOPID) == 0 ? netlink_configure(nl)
	                                                                          : -errno;
	if (r < 0) {
		netlink_free(nl);
		return r;
	}
	*ret = nl;
	return 0;
}

int netlink_adopt(int fd_consume, struct netlink **ret)
{
	struct netlink *nl = calloc(1, sizeof(*nl));
	int r;

	if (nl)
		nl->socket = mnl_socket_fdopen(fd_consume);
	if (!nl || !nl->socket) {
		r = nl ? -errno : -ENOMEM;
		(void)close(fd_consume);
		free(nl);
		return r;
	}
	r = netlink_configure(nl);
	if (r < 0) {
		netlink_free(nl);
		return r;
	}
	while (recv(fd_consume, nl->buffer, sizeof(nl->buffer), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		;
	/* Sequences of the former life must not be taken for answers of this one. */
	nl->sequence = 1U << 30;
	*ret = nl;
	return 0;
}

static bool pool_put(struct netlink_pool *pool, struct netlink *nl)
{
	bool room;

	(void)pthread_mutex_lock(&pool->lock);
	room = pool->n < POOL_MAX;
	if (room)
		pool->idle[pool->n++] = nl;
	(void)pthread_mutex_unlock(&pool->lock);
	return room;
}

struct netlink *netlink_free(struct netlink *nl)
{
	if (!nl || (nl->pool && !nl->spoiled && pool_put(nl->pool, nl)))
		return NULL;
	if (nl->socket)
		(void)mnl_socket_close(nl->socket);
	free(nl);
	return NULL;
}

struct netlink_pool *netlink_pool_new(int protocol)
{
	struct netlink_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->protocol = protocol;
	(void)pthread_mutex_init(&pool->lock, NULL);
	return pool;
}

struct netlink_pool *netlink_pool_free(struct netlink_pool *pool)
{
	if (!pool)
		return NULL;
	for (size_t i = 0; i < pool->n; i++) {
		pool->idle[i]->pool = NULL;
		netlink_free(pool->idle[i]);
	}
	(void)pthread_mutex_destroy(&pool->lock);
	free(pool);
	return NULL;
}

int netlink_pool_take(struct netlink_pool *pool, struct netlink **ret)
{
	struct netlink *nl = NULL;
	int r = 0;

	(void)pthread_mutex_lock(&pool->lock);
	if (pool->n)
		nl = pool->idle[--pool->n];
	(void)pthread_mutex_unlock(&pool->lock);
	if (!nl)
		r = netlink_open(pool->protocol, &nl);
	if (r < 0)
		return r;
	nl->pool = pool;
	*ret = nl;
	return 0;
}

int netlink_fd(const struct netlink *nl)
{
	return mnl_socket_get_fd(nl->socket);
}

uint32_t netlink_portid(const struct netlink *nl)
{
	return nl->portid;
}

uint32_t netlink_sequence(struct netlink *nl, uint32_t n)
{
	uint32_t first = nl->sequence + 1;

	nl->sequence += n;
	return first;
}

const char *netlink_words(const struct netlink *nl)
{
	return nl->words;
}

uint32_t netlink_culprit(const struct netlink *nl)
{
	return nl->culprit;
}

static void words_take(struct netlink *nl, const struct nlmsghdr *h)
{
	const struct nlmsgerr *answer = mnl_nlmsg_get_payload(h);
	size_t offset = sizeof(*answer);
	const struct nlattr *attr;

	nl->words[0] = 0;
	nl->culprit = 0;
	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS))
		return;
	if (!(h->nlmsg_flags & NLM_F_CAPPED))
		offset += answer->msg.nlmsg_len - sizeof(answer->msg);
	if (mnl_nlmsg_get_payload_len(h) < offset)
		return;
	mnl_attr_for_each(attr, h, offset)
	{
		if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG &&
		        mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			(void)snprintf(nl->words, sizeof(nl->words), " (%s)", mnl_attr_get_str(attr));
		if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_OFFS &&
		        mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			nl->culprit = mnl_attr_get_u32(attr);
	}
}

/* The errno of an NLMSG_ERROR message, 0 for an acknowledgement. */
static int answer_errno(struct netlink *nl, const struct nlmsghdr *h)
{
	const struct nlmsgerr *answer = mnl_nlmsg_get_payload(h);

	if (mnl_nlmsg_get_payload_len(h) < sizeof(*answer) || answer->error > 0)
		return -EBADMSG;
	words_take(nl, h);
	return answer->error;
}

static int netlink_send(struct netlink *nl, const void *data, size_t size)
{
	return mnl_socket_sendto(nl->socket, data, size) < 0 ? -errno : 0;
}

/* Receives one datagram. */
static int netlink_fill(struct netlink *nl, int *ret_size)
{
	ssize_t n = mnl_socket_recvfrom(nl->socket, nl->buffer, sizeof(nl->buffer));

	if (n < 0) {
		nl->spoiled = true;
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	}
	*ret_size = (int)n;
	return 0;
}

int netlink_transact(
        struct netlink *nl, const void *messages, size_t size, uint32_t last, uint32_t *ret_refused)
{
	char words[WORDS_MAX] = "";
	uint32_t culprit = 0;
	int refusal = 0, r;

	nl->words[0] = 0;
	r = netlink_send(nl, messages, size);
	if (r < 0)
		return r;
	for (bool done = false; !done;) {
		const struct nlmsghdr *h = (const void *)nl->buffer;
		int n;

		r = netlink_fill(nl, &n);
		if (r < 0)
			return r;
		for (; mnl_nlmsg_ok(h, n); h = mnl_nlmsg_next(h, &n)) {
			if (h->nlmsg_type != NLMSG_ERROR)
				continue;
			r = answer_errno(nl, h);
			if (r < 0 && !refusal) {
				refusal = r;
				*ret_refused = h->nlmsg_seq;
				memcpy(words, nl->words, sizeof(words));
				culprit = nl->culprit;
			}
			done = done || h->nlmsg_seq == last;
		}
	}
	memcpy(nl->words, words, sizeof(words));
	nl->culprit = culprit;
	return refusal;
}

int netlink_request(struct netlink *nl, struct nlmsghdr *message)
{
	uint32_t refused;

	message->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	message->nlmsg_seq = netlink_sequence(nl, 1);
	return netlink_transact(nl, message, message->nlmsg_len, message->nlmsg_seq, &refused);
}

int netlink_query(struct netlink *nl, struct nlmsghdr *message, netlink_answer_fn fn, void *userdata)
{
	bool disturbed = false, dump = (message->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	int r, result = 0;

	nl->words[0] = 0;
	message->nlmsg_flags |= NLM_F_REQUEST;
	message->nlmsg_seq = netlink_sequence(nl, 1);
	r = netlink_send(nl, message, message->nlmsg_len);
	if (r < 0)
		return r;
	for (;;) {
		const struct nlmsghdr *h = (const void *)nl->buffer;
		int n;

		r = netlink_fill(nl, &n);
		if (r < 0)
			return r;
		for (; mnl_nlmsg_ok(h, n); h = mnl_nlmsg_next(h, &n)) {
			if (h->nlmsg_seq != message->nlmsg_seq)
				continue;
			if (h->nlmsg_type == NLMSG_ERROR) {
				r = answer_errno(nl, h);
				return result ?: r;
			}
			disturbed = disturbed || (h->nlmsg_flags & NLM_F_DUMP_INTR);
			if (h->nlmsg_type == NLMSG_DONE)
				return result ?: disturbed ? -EINTR : 0;
			/* After a refusal by fn the rest is read all the same: it must not meet the next
			 * request. */
			if (result == 0)
				result = fn(h, userdata);
			if (!dump)
				return result;
		}
	}
}

int netlink_join(struct netlink *nl, unsigned group)
{
	int size = MONITOR_BUFFER_SIZE;
	int fd = mnl_socket_get_fd(nl->socket);

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return mnl_socket_setsockopt(nl->socket, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0 ? -errno
	                                                                                            : 0;
}

int netlink_receive(struct netlink *nl, netlink_answer_fn fn, void *userdata)
{
	const struct nlmsghdr *h = (const void *)nl->buffer;
	ssize_t size = recv(mnl_socket_get_fd(nl->socket), nl->buffer, sizeof(nl->buffer), MSG_DONTWAIT);
	int n, r = 0;

	if (size < 0)
		return -errno;
	for (n = (int)size; mnl_nlmsg_ok(h, n); h = mnl_nlmsg_next(h, &n)) {
		r = fn(h, userdata);
		if (r < 0)
			return r;
	}
	return 0;
}
