/* A TLS door in front of a Unix socket, for tests: it demands a client certificate and speaks HTTP/2 only. And the
 * certificates to open it, or not. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct tls_door;

/* PEM texts, owned by whoever holds the struct. */
struct tls_pem {
	char *certificate, *key;
};

/* An authority of its own: self-signed. */
struct tls_pem tls_authority(const char *name);
/* A certificate for a DNS name or an IPv4 address, signed by an authority; expired: its time ended yesterday. */
struct tls_pem tls_certificate(const struct tls_pem *authority, const char *name, bool expired);
void tls_pem_done(struct tls_pem *pem);

/* Listens on a port of its own on 127.0.0.1; its thread runs until it is freed. client_ca is who may come in. */
struct tls_door *tls_door_new(
        const char *unix_path, const struct tls_pem *certificate, const char *client_ca);
struct tls_door *tls_door_free(struct tls_door *door);
unsigned tls_door_port(const struct tls_door *door);
/* The next connections are judged by these. */
void tls_door_change(struct tls_door *door, const struct tls_pem *certificate, const char *client_ca);
void tls_door_cut(struct tls_door *door);               /* breaks what is open */
unsigned tls_door_refused(const struct tls_door *door); /* handshakes that failed */
unsigned tls_door_opened(const struct tls_door *door);
unsigned tls_door_pings(const struct tls_door *door); /* that came in, of all connections */
