/* A small network in a network namespace of the test's own: bridge br0 with the host's addresses on it,
 * NICs made by netd's own code with the test as their VMM, and a plain port that stands for the world
 * outside. Nothing here waits for a time: a frame did not arrive when one sent after it did. */
#pragma once

#include "svc-netd/link.h"
#include "svc-netd/nics.h"

#include "tests/netd/frame.h"

#include <stdbool.h>

#define LAN_BRIDGE "br0"
#define LAN_HOST_IP4 "10.0.0.1"
#define LAN_HOST_IP6 "fd00::1"

/* Where frames go in and come out: a TAP seen by its VMM, or a packet socket on an interface. */
struct port {
	int fd; /* owned by whoever opened it */
	bool packet;
};

struct lan {
	struct nics *nics; /* owned */
	struct mac bridge_mac;
	char bridge_mac_text[MAC_TEXT_MAX];
	struct port outside; /* the world's, a plain port of the bridge */
	struct port host;    /* what the host's own stack gets and sends over the bridge */
};

/* A namespace of its own for this thread and what it starts. False when the machine does not allow it. */
bool lan_enter_namespace(void);
/* The bridge alone, with the host's addresses on it. */
void lan_make_bridge(void);
/* With nics_options' before_step; NULL for none. Aborts on failure: a test cannot go on. */
void lan_open(struct lan *lan, const struct nics_options *options);
void lan_close(struct lan *lan);

/* Runs a command line by sh; aborts when it fails. */
void lan_run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool lan_try(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* What the kernel says of an interface that must be there. */
struct link lan_link(const char *ifname);

/* The VMM's side of a TAP that is there; fd is -errno on failure. */
struct port lan_attach(const char *ifname, bool multi_queue);
/* A TAP made by the test, for `ip link` to do something with; plain is put on the bridge. */
struct port lan_tap(const char *ifname);
struct port lan_plain(const char *ifname);
struct port lan_packet(const char *ifname);

void lan_send(struct port port, const struct frame *frame);
/* The next frame; false when none came for longer than anything takes. */
bool lan_receive(struct port port, struct frame *ret);

/* Sends frame at from, and behind it at witness a broadcast that passes; true when `to` saw frame before
 * that one. sentinel is an ARP request. */
bool lan_passes(struct port from, struct port to, const struct frame *frame, struct port witness,
        const struct frame *sentinel);

/* The same for a frame that was sent already, or comes out in another form. */
bool lan_saw(struct port to, const struct frame *frame, struct port witness, const struct frame *sentinel);

/* A request for NIC index of a fixed instance n, owned by root, one queue, on LAN_BRIDGE, filtered, with no
 * addresses. */
struct nic_request lan_request(unsigned instance, unsigned index, const char *mac);
const char *lan_instance(unsigned n);
void lan_address(struct nic_request *request, const char *address);
