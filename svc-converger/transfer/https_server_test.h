/* An https server for tests, in a thread of its own: serves and takes files under a certificate made on the spot, and
 * misbehaves as told. Functions are called from the test's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct https_server;

enum https_certificate {
	CERTIFICATE_GOOD, /* for localhost */
	CERTIFICATE_EXPIRED,
	CERTIFICATE_OTHER_NAME,
};

/* Writes the authority's certificate to ca_path. Fails the test when it cannot. */
struct https_server *https_server_new(enum https_certificate certificate, const char *ca_path);
struct https_server *https_server_free(struct https_server *server);

/* "https://localhost:PORT/NAME"; valid until the next call. */
const char *https_server_url(struct https_server *server, const char *name);
/* What GET of /NAME gives: data is weak and must outlive the server. */
void https_server_serve(struct https_server *server, const char *name, const void *data, size_t n_data);
/* GET of /NAME leads to url instead; NULL ends it. */
void https_server_redirect(struct https_server *server, const char *url);

struct https_faults {
	bool no_ranges;    /* answers 200 with the whole, whatever is asked for */
	unsigned cuts;     /* the next so many answers break off… */
	size_t cut_bytes;  /* …behind so many bytes */
	unsigned refusals; /* the next so many requests get… */
	unsigned status;   /* …this status */
	bool hold;         /* answers stop behind cut_bytes until it is taken back */
};
void https_server_set_faults(struct https_server *server, const struct https_faults *faults);

struct https_seen {
	unsigned gets, puts;
	char range[64]; /* of the last GET; "" without one */
	size_t n_body;  /* of the last PUT that came whole */
	uint8_t *body;  /* weak */
};
struct https_seen https_server_seen(struct https_server *server);
