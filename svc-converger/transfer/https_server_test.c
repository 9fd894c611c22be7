#include "svc-converger/transfer/https_server_test.h"

#include "lib/base/cleanup.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct https_server {
	struct MHD_Daemon *daemon;
	uint16_t port;
	char url[256];
	pthread_mutex_t lock; /* over what follows */
	pthread_cond_t changed;
	char name[64], redirect[256];
	const uint8_t *data; /* weak */
	size_t n_data;
	struct https_faults faults;
	struct https_seen seen;
};

/* --- certificates --- */

struct identity {
	EVP_PKEY *key;
	X509 *certificate;
};

static void extension_add(X509 *certificate, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, certificate, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);

	assert_non_null(extension);
	assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

static struct identity identity_new(const char *name, const char *alt_name, const struct identity *issuer,
        long serial, long not_after_sec)
{
	struct identity self = { .key = EVP_EC_gen("P-256"), .certificate = X509_new() };

	assert_true(self.key && self.certificate);
	(void)X509_set_version(self.certificate, 2);
	(void)ASN1_INTEGER_set(X509_get_serialNumber(self.certificate), serial);
	(void)X509_gmtime_adj(X509_getm_notBefore(self.certificate), -86400 * 2);
	(void)X509_gmtime_adj(X509_getm_notAfter(self.certificate), not_after_sec);
	(void)X509_NAME_add_entry_by_txt(X509_get_subject_name(self.certificate), "CN", MBSTRING_ASC,
	        (const unsigned char *)name, -1, -1, 0);

	const struct identity *by = issuer ? issuer : &self;

	(void)X509_set_issuer_name(self.certificate, X509_get_subject_name(by->certificate));
	(void)X509_set_pubkey(self.certificate, self.key);
	extension_add(self.certificate, by->certificate, NID_basic_constraints,
	        issuer ? "CA:FALSE" : "critical,CA:TRUE");
	if (alt_name)
		extension_add(self.certificate, by->certificate, NID_subject_alt_name, alt_name);
	assert_true(X509_sign(self.certificate, by->key, EVP_sha256()) > 0);
	return self;
}

static void identity_done(struct identity *identity)
{
	EVP_PKEY_free(identity->key);
	X509_free(identity->certificate);
}

static char *pem_text(BIO *bio)
{
	char *data;
	long n = BIO_get_mem_data(bio, &data);
	char *text = strndup(data, (size_t)n);

	assert_non_null(text);
	BIO_free(bio);
	return text;
}

static char *certificate_pem(X509 *certificate)
{
	BIO *bio = BIO_new(BIO_s_mem());

	assert_int_equal(PEM_write_bio_X509(bio, certificate), 1);
	return pem_text(bio);
}

static char *key_pem(EVP_PKEY *key)
{
	BIO *bio = BIO_new(BIO_s_mem());

	assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
	return pem_text(bio);
}

static void text_write(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* --- answers --- */

struct answer {
	struct https_server *server; /* weak */
	const uint8_t *data;         /* weak */
	size_t n_data;
	size_t cut; /* SIZE_MAX: not cut */
	bool hold;
};

static ssize_t answer_read(void *userdata, uint64_t at, char *buf, size_t size)
{
	struct answer *answer = userdata;
	size_t end = answer->cut < answer->n_data ? answer->cut : answer->n_data;

	if (at >= end && answer->hold) {
		pthread_mutex_lock(&answer->server->lock);
		while (answer->server->faults.hold)
			pthread_cond_wait(&answer->server->changed, &answer->server->lock);
		pthread_mutex_unlock(&answer->server->lock);
		answer->cut = SIZE_MAX;
		answer->hold = false;
		end = answer->n_data;
	}
	if (at >= end)
		return answer->cut < answer->n_data ? MHD_CONTENT_READER_END_WITH_ERROR
		                                    : MHD_CONTENT_READER_END_OF_STREAM;
	size = size < end - at ? size : end - (size_t)at;
	memcpy(buf, answer->data + at, size);
	return (ssize_t)size;
}

/* Made with the server's lock held and queued without it: libmicrohttpd has locks of its own, and calls answer_read()
 * with one of them held. */
struct reply {
	unsigned status;
	struct MHD_Response *response;
};

static struct reply reply_empty(unsigned status)
{
	return (struct reply){ status,
		MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT) };
}

static struct reply reply_file(struct https_server *server, struct MHD_Connection *connection)
{
	const char *range = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Range");
	unsigned long long from = 0;
	unsigned status = MHD_HTTP_OK;

	(void)snprintf(server->seen.range, sizeof(server->seen.range), "%s", range ? range : "");
	if (range && !server->faults.no_ranges && sscanf(range, "bytes=%llu-", &from) == 1) {
		if (from >= server->n_data)
			return reply_empty(MHD_HTTP_RANGE_NOT_SATISFIABLE);
		status = MHD_HTTP_PARTIAL_CONTENT;
	}
	struct answer *answer = malloc(sizeof(*answer));

	assert_non_null(answer);
	*answer = (struct answer){ .server = server,
		.data = server->data + from,
		.n_data = server->n_data - from,
		.cut = SIZE_MAX };
	if (server->faults.hold || server->faults.cuts) {
		answer->cut = server->faults.cut_bytes;
		answer->hold = server->faults.hold;
		server->faults.cuts -= server->faults.cuts > 0;
	}
	struct MHD_Response *response =
	        MHD_create_response_from_callback(answer->n_data, 16384, answer_read, answer, free);

	if (status == MHD_HTTP_PARTIAL_CONTENT) {
		char text[96];

		(void)snprintf(
		        text, sizeof(text), "bytes %llu-%zu/%zu", from, server->n_data - 1, server->n_data);
		(void)MHD_add_response_header(response, "Content-Range", text);
	}
	return (struct reply){ status, response };
}

static struct reply reply_get(
        struct https_server *server, struct MHD_Connection *connection, const char *path)
{
	server->seen.gets++;
	if (server->faults.refusals) {
		server->faults.refusals--;
		return reply_empty(server->faults.status);
	}
	if (server->redirect[0]) {
		struct reply found = reply_empty(MHD_HTTP_FOUND);

		(void)MHD_add_response_header(found.response, "Location", server->redirect);
		return found;
	}
	if (strcmp(path + 1, server->name) != 0)
		return reply_empty(MHD_HTTP_NOT_FOUND);
	return reply_file(server, connection);
}

/* The body of a PUT while it comes. */
struct body {
	uint8_t *data;
	size_t n_data;
};

static struct reply reply_put(struct https_server *server, struct body *body)
{
	server->seen.puts++;
	if (server->faults.refusals) {
		server->faults.refusals--;
		return reply_empty(server->faults.status);
	}
	free(server->seen.body);
	server->seen.body = TAKE_PTR(body->data);
	server->seen.n_body = body->n_data;
	return reply_empty(MHD_HTTP_CREATED);
}

static enum MHD_Result on_request(void *userdata, struct MHD_Connection *connection, const char *path,
        const char *method, const char *version, const char *data, size_t *n_data, void **state)
{
	struct https_server *server = userdata;
	struct body *body = *state;

	(void)version;
	if (!body) { /* only the headers have come */
		*state = calloc(1, sizeof(struct body));
		return *state ? MHD_YES : MHD_NO;
	}
	if (*n_data) {
		body->data = realloc(body->data, body->n_data + *n_data);
		assert_non_null(body->data);
		memcpy(body->data + body->n_data, data, *n_data);
		body->n_data += *n_data;
		*n_data = 0;
		return MHD_YES;
	}
	pthread_mutex_lock(&server->lock);
	struct reply reply =
	        strcmp(method, "PUT") == 0 ? reply_put(server, body) : reply_get(server, connection, path);
	pthread_mutex_unlock(&server->lock);
	enum MHD_Result r = MHD_queue_response(connection, reply.status, reply.response);
	MHD_destroy_response(reply.response);
	return r;
}

static void on_request_end(
        void *userdata, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
	struct body *body = *state;

	(void)userdata;
	(void)connection;
	(void)code;
	if (body)
		free(body->data);
	free(body);
}

static void on_log(void *userdata, const char *fmt, va_list ap)
{
	(void)userdata;
	(void)fmt;
	(void)ap; /* clients that break off are what the tests are about */
}

/* --- the server --- */

struct https_server *https_server_new(enum https_certificate certificate, const char *ca_path)
{
	struct https_server *server = calloc(1, sizeof(*server));
	struct identity ca = identity_new("test authority", NULL, NULL, 1, 86400);
	struct identity self = identity_new("server",
	        certificate == CERTIFICATE_OTHER_NAME ? "DNS:elsewhere.example"
	                                              : "DNS:localhost,IP:127.0.0.1",
	        &ca, 2, certificate == CERTIFICATE_EXPIRED ? -86400 : 86400);
	CLEANUP_FREE char *key = key_pem(self.key);
	CLEANUP_FREE char *cert = certificate_pem(self.certificate);
	CLEANUP_FREE char *ca_cert = certificate_pem(ca.certificate);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	assert_non_null(server);
	text_write(ca_path, ca_cert);
	(void)pthread_mutex_init(&server->lock, NULL);
	(void)pthread_cond_init(&server->changed, NULL);
	server->daemon = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
	                MHD_USE_TLS | MHD_USE_ERROR_LOG,
	        0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
	        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_HTTPS_MEM_KEY, key,
	        MHD_OPTION_HTTPS_MEM_CERT, cert, MHD_OPTION_NOTIFY_COMPLETED, on_request_end, NULL,
	        MHD_OPTION_END);
	assert_non_null(server->daemon);
	server->port = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
	identity_done(&self);
	identity_done(&ca);
	return server;
}

struct https_server *https_server_free(struct https_server *server)
{
	struct https_faults none = { 0 };

	if (!server)
		return NULL;
	https_server_set_faults(server, &none);
	MHD_stop_daemon(server->daemon);
	free(server->seen.body);
	(void)pthread_mutex_destroy(&server->lock);
	(void)pthread_cond_destroy(&server->changed);
	free(server);
	return NULL;
}

const char *https_server_url(struct https_server *server, const char *name)
{
	(void)snprintf(server->url, sizeof(server->url), "https://localhost:%u/%s", server->port, name);
	return server->url;
}

void https_server_serve(struct https_server *server, const char *name, const void *data, size_t n_data)
{
	pthread_mutex_lock(&server->lock);
	(void)snprintf(server->name, sizeof(server->name), "%s", name);
	server->data = data;
	server->n_data = n_data;
	pthread_mutex_unlock(&server->lock);
}

void https_server_redirect(struct https_server *server, const char *url)
{
	pthread_mutex_lock(&server->lock);
	(void)snprintf(server->redirect, sizeof(server->redirect), "%s", url ? url : "");
	pthread_mutex_unlock(&server->lock);
}

void https_server_set_faults(struct https_server *server, const struct https_faults *faults)
{
	pthread_mutex_lock(&server->lock);
	server->faults = *faults;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
}

struct https_seen https_server_seen(struct https_server *server)
{
	struct https_seen seen;

	pthread_mutex_lock(&server->lock);
	seen = server->seen;
	pthread_mutex_unlock(&server->lock);
	return seen;
}
