#include "lib/rpc/listener.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
	BACKLOG = 128,
	CONNECTIONS_DEFAULT = 256,
	ACCEPTS_PER_WAKE = 16, /* then others get their turn */
	MODE_DEFAULT = 0660,
	UIDS_MAX = 256,
	LOCK_TRIES = 16,
	PAUSE_USEC = 100 * 1000, /* without accepting, when the process has no descriptor left */
};

struct connection {
	ino_t inode; /* of the socket: tells a living connection from a reused descriptor number */
	struct rpc_peer peer;
	uint64_t number; /* of those accepted: tells which is older */
	bool used;
	bool called; /* a call came over it */
};

struct listener {
	sd_event *event;         /* weak */
	sd_event_source *source; /* owned */
	sd_event_source *pause;  /* owned; ends a pause */
	int fd;                  /* owned */
	int lock_fd;             /* owned; -EBADF when systemd made the socket */
	char *path;              /* owned; set when bound here */
	ino_t path_inode;
	uid_t *allowed_uids; /* owned */
	size_t n_allowed_uids;
	bool any_uid;
	size_t n_connections_max;
	size_t n_connections;           /* used entries, dead ones not yet swept included */
	struct connection *connections; /* owned; indexed by descriptor */
	size_t n_slots;
	uint64_t n_accepted;
	void (*on_refuse)(const struct rpc_peer *peer, const char *why, void *userdata);
	void *refuse_userdata;
	listener_accept_fn fn;
	void *userdata;
};

static int path_set(struct sockaddr_un *address, const char *path, struct err *err)
{
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(address->sun_path))
		return err_set(err, -ENAMETOOLONG, "socket path '%s' has %zu bytes: 1 to %zu are possible",
		        path, n, sizeof(address->sun_path) - 1);
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path, path, n + 1);
	return 0;
}

static void holder_read(int lock_fd, char buf[static 32])
{
	ssize_t n = pread(lock_fd, buf, 31, 0);

	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

/* Locks "<path>.lock". The file is unlinked when its holder ends, so a lock on a file that is no longer at the path
 * is worth nothing: try again with the one that is. */
static int lock_take(const char *path, int *ret_fd, struct err *err)
{
	CLEANUP_FREE char *lock_path = NULL;
	char pid[32];
	struct stat at_path;
	struct stat held;

	if (asprintf(&lock_path, "%s.lock", path) < 0)
		return -ENOMEM;
	for (int i = 0; i < LOCK_TRIES; i++) {
		CLEANUP_CLOSE int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return err_set(err, -errno, "cannot open the lock file '%s': %s", lock_path,
			        strerror(errno));
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			holder_read(fd, pid);
			return err_set(err, -EADDRINUSE, "'%s' is served already, by process %s", path,
			        pid[0] ? pid : "unknown");
		}
		if (fstat(fd, &held) < 0 || stat(lock_path, &at_path) < 0 || held.st_ino != at_path.st_ino ||
		        held.st_dev != at_path.st_dev)
			continue;
		int n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
		if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)n, 0) != n)
			return err_set(err, -errno, "cannot write the lock file '%s': %s", lock_path,
			        strerror(errno));
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
	return err_set(err, -EADDRINUSE, "the lock file '%s' keeps changing: too many starters", lock_path);
}

static int socket_bind(struct listener *l, const struct rpc_server_options *options, struct err *err)
{
	struct sockaddr_un address;
	struct stat st;
	mode_t mode = options->mode ? options->mode : MODE_DEFAULT;
	int r = path_set(&address, options->path, err);

	if (r < 0)
		return r;
	r = lock_take(options->path, &l->lock_fd, err);
	if (r < 0)
		return r;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return -errno;
	if (lstat(options->path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return err_set(
			        err, -EEXIST, "'%s' exists and is no socket: move it away", options->path);
		(void)unlink(options->path); /* a dead holder's: the lock says so */
	}
	/* the mode of the descriptor becomes the mode of the path, less the umask, with no moment in between */
	mode_t mask = umask(0);
	r = fchmod(l->fd, mode) < 0 || bind(l->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno
	                                                                                             : 0;
	(void)umask(mask);
	if (r < 0)
		return err_set(err, r, "cannot bind '%s': %s", options->path, strerror(-r));
	l->path = strdup(options->path);
	if (!l->path)
		return -ENOMEM;
	if (stat(l->path, &st) == 0)
		l->path_inode = st.st_ino;
	return listen(l->fd, BACKLOG) < 0 ? -errno : 0;
}

static int uids_copy(struct listener *l, const struct rpc_server_options *options, struct err *err)
{
	if (options->n_allowed_uids > UIDS_MAX)
		return err_set(
		        err, -E2BIG, "%zu allowed uids: at most %d", options->n_allowed_uids, UIDS_MAX);
	l->any_uid = options->any_uid;
	if (options->n_allowed_uids == 0)
		return 0;
	l->allowed_uids = calloc(options->n_allowed_uids, sizeof(uid_t));
	if (!l->allowed_uids)
		return -ENOMEM;
	memcpy(l->allowed_uids, options->allowed_uids, options->n_allowed_uids * sizeof(uid_t));
	l->n_allowed_uids = options->n_allowed_uids;
	return 0;
}

int listener_new(
        sd_event *event, const struct rpc_server_options *options, struct listener **ret, struct err *err)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->event = event;
	l->fd = -EBADF;
	l->lock_fd = -EBADF;
	l->n_connections_max = options->n_connections_max ? options->n_connections_max : CONNECTIONS_DEFAULT;
	l->on_refuse = options->on_refuse;
	l->refuse_userdata = options->userdata;
	int r = uids_copy(l, options, err);
	if (r == 0 && options->listen_fd >= 0) {
		l->fd = options->listen_fd;
		int flags = fcntl(l->fd, F_GETFL);
		if (flags < 0 || fcntl(l->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
		        fcntl(l->fd, F_SETFD, FD_CLOEXEC) < 0)
			r = err_set(err, -errno, "descriptor %d is no listening socket", l->fd);
	} else if (r == 0) {
		r = socket_bind(l, options, err);
	}
	if (r < 0) {
		listener_free(l);
		return err_set(err, r, "cannot listen on '%s': %s", options->path ? options->path : "?",
		        strerror(-r));
	}
	*ret = l;
	return 0;
}

static bool uid_allowed(const struct listener *l, uid_t uid)
{
	if (l->any_uid || uid == 0 || uid == geteuid())
		return true;
	for (size_t i = 0; i < l->n_allowed_uids; i++)
		if (l->allowed_uids[i] == uid)
			return true;
	return false;
}

/* gRPC closes connections without telling; the socket's inode does. */
static void connections_sweep(struct listener *l)
{
	struct stat st;

	for (size_t i = 0; i < l->n_slots; i++) {
		struct connection *c = &l->connections[i];
		if (c->used && (fstat((int)i, &st) < 0 || st.st_ino != c->inode)) {
			c->used = false;
			l->n_connections--;
		}
	}
}

/* Whoever connects and says nothing must not keep others out: at the limit the oldest such connection ends. gRPC
 * owns the descriptor, and closes it when it reads the end. */
static void silent_connection_end(struct listener *l)
{
	struct connection *oldest = NULL;

	for (size_t i = 0; i < l->n_slots; i++) {
		struct connection *c = &l->connections[i];
		if (c->used && !c->called && (!oldest || c->number < oldest->number))
			oldest = c;
	}
	if (!oldest)
		return;
	(void)shutdown((int)(oldest - l->connections), SHUT_RDWR);
	oldest->used = false;
	l->n_connections--;
}

static int connection_note(struct listener *l, int fd, const struct rpc_peer *peer)
{
	struct stat st;
	size_t i = (size_t)fd;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (i >= l->n_slots) {
		size_t n = (i + 64) / 64 * 64;
		struct connection *c = reallocarray(l->connections, n, sizeof(*c));
		if (!c)
			return -ENOMEM;
		memset(c + l->n_slots, 0, (n - l->n_slots) * sizeof(*c));
		l->connections = c;
		l->n_slots = n;
	}
	if (l->connections[i].used)
		l->n_connections--; /* the number was closed, and is used again now */
	l->connections[i] = (struct connection){
		.inode = st.st_ino, .peer = *peer, .number = l->n_accepted++, .used = true
	};
	l->n_connections++;
	return 0;
}

static void refuse(const struct listener *l, const struct rpc_peer *peer, const char *why)
{
	if (l->on_refuse)
		l->on_refuse(peer, why, l->refuse_userdata);
}

/* A refused connection is closed without a byte. */
static void connection_accept(struct listener *l, int fd_consume)
{
	CLEANUP_CLOSE int fd = fd_consume;
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return;
	const struct rpc_peer peer = { cred.uid, cred.gid, cred.pid };
	if (!uid_allowed(l, peer.uid)) {
		refuse(l, &peer, "its uid is not among allowed_uids");
		return;
	}
	if (l->n_connections >= l->n_connections_max)
		connections_sweep(l);
	if (l->n_connections >= l->n_connections_max)
		silent_connection_end(l);
	if (l->n_connections >= l->n_connections_max || connection_note(l, fd, &peer) < 0) {
		refuse(l, &peer, "there are max_connections already");
		return;
	}
	l->fn(TAKE_FD(fd), l->userdata);
}

/* The backlog stays readable, so trying again at once would be a busy loop until somebody closes something. */
static void accepting_pause(struct listener *l)
{
	if (sd_event_source_set_time_relative(l->pause, PAUSE_USEC) < 0 ||
	        sd_event_source_set_enabled(l->pause, SD_EVENT_ONESHOT) < 0)
		return;
	(void)sd_event_source_set_enabled(l->source, SD_EVENT_OFF);
}

static int on_pause_over(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct listener *l = userdata;

	(void)s;
	(void)usec;
	(void)sd_event_source_set_enabled(l->source, SD_EVENT_ON);
	return 0;
}

static int on_connect(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	struct listener *l = userdata;

	(void)s;
	(void)revents;
	for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
		int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (c >= 0) {
			connection_accept(l, c);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			accepting_pause(l);
		break; /* EAGAIN: none left; what else there is concerns one connection */
	}
	return 0;
}

int listener_start(struct listener *l, listener_accept_fn fn, void *userdata)
{
	l->fn = fn;
	l->userdata = userdata;
	int r = sd_event_add_io(l->event, &l->source, l->fd, EPOLLIN, on_connect, l);
	/* made now: a first timer takes a descriptor, and when it is wanted there is none */
	if (r >= 0)
		r = sd_event_add_time_relative(
		        l->event, &l->pause, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, on_pause_over, l);
	if (r >= 0)
		r = sd_event_source_set_enabled(l->pause, SD_EVENT_OFF);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(l->source, "rpc-listener");
	(void)sd_event_source_set_description(l->pause, "rpc-listener-pause");
	return 0;
}

static void path_remove(struct listener *l)
{
	CLEANUP_FREE char *lock_path = NULL;
	struct stat st;

	if (l->path && l->path_inode && lstat(l->path, &st) == 0 && st.st_ino == l->path_inode)
		(void)unlink(l->path);
	if (l->path && l->lock_fd >= 0 && asprintf(&lock_path, "%s.lock", l->path) >= 0)
		(void)unlink(lock_path); /* still locked: who opened it before will see that it is gone */
	free(l->path);
	l->path = NULL;
}

void listener_stop(struct listener *l)
{
	l->source = sd_event_source_disable_unref(l->source);
	l->pause = sd_event_source_disable_unref(l->pause);
	path_remove(l);
	if (l->fd >= 0)
		(void)close(l->fd);
	l->fd = -EBADF;
	if (l->lock_fd >= 0)
		(void)close(l->lock_fd);
	l->lock_fd = -EBADF;
}

struct listener *listener_free(struct listener *l)
{
	if (!l)
		return NULL;
	listener_stop(l);
	free(l->allowed_uids);
	free(l->connections);
	free(l);
	return NULL;
}

const struct rpc_peer *listener_peer(struct listener *l, int fd)
{
	if (fd < 0 || (size_t)fd >= l->n_slots || !l->connections[fd].used)
		return NULL;
	l->connections[fd].called = true;
	return &l->connections[fd].peer;
}
