#include "svc-converger/test/tls_door.h"

#include "lib/base/cleanup.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* --- certificates --- */

static char *bio_text(BIO *bio)
{
	char *data;
	long n = BIO_get_mem_data(bio, &data);
	char *text = strndup(data, (size_t)n);

	BIO_free(bio);
	return text;
}

static void add_extension(X509 *x, int nid, const char *value)
{
	X509V3_CTX ctx;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert(extension);
	X509_add_ext(x, extension, -1);
	X509_EXTENSION_free(extension);
}

static struct tls_pem make(const char *name, const struct tls_pem *issuer, bool expired)
{
	static long serial = 1;
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	struct tls_pem pem;
	char san[128];

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
	X509_gmtime_adj(X509_getm_notBefore(x), -7L * 86400);
	X509_gmtime_adj(X509_getm_notAfter(x), expired ? -86400L : 86400L);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(
	        X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	if (issuer) {
		BIO *in = BIO_new_mem_buf(issuer->certificate, -1);
		X509 *ca = PEM_read_bio_X509(in, NULL, NULL, NULL);
		BIO_free(in);
		in = BIO_new_mem_buf(issuer->key, -1);
		EVP_PKEY *ca_key = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);
		BIO_free(in);
		X509_set_issuer_name(x, X509_get_subject_name(ca));
		(void)snprintf(
		        san, sizeof(san), "%s:%s", name[0] >= '0' && name[0] <= '9' ? "IP" : "DNS", name);
		add_extension(x, NID_subject_alt_name, san);
		assert(X509_sign(x, ca_key, EVP_sha256()));
		X509_free(ca);
		EVP_PKEY_free(ca_key);
	} else {
		X509_set_issuer_name(x, X509_get_subject_name(x));
		add_extension(x, NID_basic_constraints, "critical,CA:TRUE");
		assert(X509_sign(x, key, EVP_sha256()));
	}
	BIO *out = BIO_new(BIO_s_mem());
	PEM_write_bio_X509(out, x);
	pem.certificate = bio_text(out);
	out = BIO_new(BIO_s_mem());
	PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
	pem.key = bio_text(out);
	X509_free(x);
	EVP_PKEY_free(key);
	return pem;
}

struct tls_pem tls_authority(const char *name)
{
	return make(name, NULL, false);
}

struct tls_pem tls_certificate(const struct tls_pem *authority, const char *name, bool expired)
{
	return make(name, authority, expired);
}

void tls_pem_done(struct tls_pem *pem)
{
	free(pem->certificate);
	free(pem->key);
	*pem = (struct tls_pem){ 0 };
}

/* --- the door: a thread, one connection at a time --- */

struct tls_door {
	pthread_t thread;
	pthread_mutex_t mutex;
	SSL_CTX *ctx;           /* owned; under the mutex */
	int listen_fd, wake_fd; /* owned */
	unsigned port;
	char unix_path[108];
	atomic_bool stops, cuts;
	atomic_uint refused, opened, pings;
};

/* Where a connection is in the frames of HTTP/2 that came in. */
struct frames {
	size_t n_skip; /* bytes that are no frame's head */
	uint8_t head[9];
	size_t n_head;
};

enum { PREFACE = 24, FRAME_PING = 6, FLAG_ACK = 1 };

static void frames_take(struct tls_door *door, struct frames *f, const char *data, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++) {
		if (f->n_skip > 0) {
			f->n_skip--;
			continue;
		}
		f->head[f->n_head++] = (uint8_t)data[i];
		if (f->n_head < sizeof(f->head))
			continue;
		f->n_head = 0;
		f->n_skip = (size_t)f->head[0] << 16 | (size_t)f->head[1] << 8 | f->head[2];
		door->pings += f->head[3] == FRAME_PING && !(f->head[4] & FLAG_ACK);
	}
}

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *n_out, const unsigned char *in,
        unsigned n_in, void *arg)
{
	static const unsigned char h2[] = "\x02h2";

	(void)ssl;
	(void)arg;
	return SSL_select_next_proto((unsigned char **)out, n_out, h2, 3, in, n_in) == OPENSSL_NPN_NEGOTIATED
	        ? SSL_TLSEXT_ERR_OK
	        : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *ctx_make(const struct tls_pem *pem, const char *client_ca)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	BIO *in = BIO_new_mem_buf(pem->certificate, -1);
	X509 *x = PEM_read_bio_X509(in, NULL, NULL, NULL);

	BIO_free(in);
	in = BIO_new_mem_buf(pem->key, -1);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);
	BIO_free(in);
	assert(SSL_CTX_use_certificate(ctx, x) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1);
	X509_free(x);
	EVP_PKEY_free(key);
	in = BIO_new_mem_buf(client_ca, -1);
	x = PEM_read_bio_X509(in, NULL, NULL, NULL);
	BIO_free(in);
	X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), x);
	X509_free(x);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
	/* With TLS 1.3 a client learns only after its handshake that it was refused; both are to be met. */
	return ctx;
}

static bool write_all(int fd, const char *data, ssize_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, data, (size_t)n);

		if (done <= 0)
			return false;
		data += done;
		n -= done;
	}
	return true;
}

static void door_pump(struct tls_door *door, SSL *ssl, int tls_fd, int unix_fd)
{
	static _Thread_local char buf[65536];
	struct frames frames = { .n_skip = PREFACE };

	while (!door->stops && !door->cuts) {
		struct pollfd fds[] = { { .fd = tls_fd, .events = POLLIN },
			{ .fd = unix_fd, .events = POLLIN }, { .fd = door->wake_fd, .events = POLLIN } };
		ssize_t n;

		if (!SSL_pending(ssl) && poll(fds, 3, -1) < 0)
			return;
		if (SSL_pending(ssl) || fds[0].revents) {
			n = SSL_read(ssl, buf, sizeof(buf));
			if (n <= 0 || !write_all(unix_fd, buf, n))
				return;
			frames_take(door, &frames, buf, n);
		}
		if (fds[1].revents) {
			n = read(unix_fd, buf, sizeof(buf));
			if (n <= 0 || SSL_write(ssl, buf, (int)n) != n)
				return;
		}
	}
}

static void door_serve(struct tls_door *door, int fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEANUP_CLOSE int unix_fd = -EBADF;
	SSL *ssl;

	(void)pthread_mutex_lock(&door->mutex);
	ssl = SSL_new(door->ctx);
	(void)pthread_mutex_unlock(&door->mutex);
	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) != 1) {
		door->refused++;
		SSL_free(ssl);
		return;
	}
	unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", door->unix_path);
	if (connect(unix_fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
		door->opened++;
		door_pump(door, ssl, fd, unix_fd);
	}
	SSL_free(ssl);
}

static void *door_run(void *arg)
{
	struct tls_door *door = arg;

	while (!door->stops) {
		struct pollfd fds[] = { { .fd = door->listen_fd, .events = POLLIN },
			{ .fd = door->wake_fd, .events = POLLIN } };
		eventfd_t n;

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents) {
			(void)eventfd_read(door->wake_fd, &n);
			door->cuts = false;
		}
		if (!fds[0].revents)
			continue;
		int fd = accept4(door->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			door_serve(door, fd);
			(void)close(fd);
		}
	}
	return NULL;
}

struct tls_door *tls_door_new(const char *unix_path, const struct tls_pem *certificate, const char *client_ca)
{
	struct tls_door *door = calloc(1, sizeof(*door));
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(address);

	assert(door);
	(void)pthread_mutex_init(&door->mutex, NULL);
	(void)snprintf(door->unix_path, sizeof(door->unix_path), "%s", unix_path);
	door->ctx = ctx_make(certificate, client_ca);
	door->wake_fd = eventfd(0, EFD_CLOEXEC);
	door->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(bind(door->listen_fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	assert(listen(door->listen_fd, 16) == 0);
	assert(getsockname(door->listen_fd, (struct sockaddr *)&address, &n) == 0);
	door->port = ntohs(address.sin_port);
	assert(pthread_create(&door->thread, NULL, door_run, door) == 0);
	return door;
}

struct tls_door *tls_door_free(struct tls_door *door)
{
	if (!door)
		return NULL;
	door->stops = true;
	(void)eventfd_write(door->wake_fd, 1);
	(void)pthread_join(door->thread, NULL);
	SSL_CTX_free(door->ctx);
	(void)pthread_mutex_destroy(&door->mutex);
	(void)close(door->listen_fd);
	(void)close(door->wake_fd);
	free(door);
	return NULL;
}

unsigned tls_door_port(const struct tls_door *door)
{
	return door->port;
}

void tls_door_change(struct tls_door *door, const struct tls_pem *certificate, const char *client_ca)
{
	SSL_CTX *ctx = ctx_make(certificate, client_ca);

	(void)pthread_mutex_lock(&door->mutex);
	SSL_CTX_free(door->ctx);
	door->ctx = ctx;
	(void)pthread_mutex_unlock(&door->mutex);
}

void tls_door_cut(struct tls_door *door)
{
	door->cuts = true;
	(void)eventfd_write(door->wake_fd, 1);
}

unsigned tls_door_refused(const struct tls_door *door)
{
	return door->refused;
}

unsigned tls_door_opened(const struct tls_door *door)
{
	return door->opened;
}

unsigned tls_door_pings(const struct tls_door *door)
{
	return door->pings;
}
