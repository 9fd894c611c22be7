/* The contract of bc.v1.Runtime, told as tests over a real socket. A runtime has them run against itself
 * by a file with a struct contract_runtime and a main() that calls contract_run(). What is optional is
 * asked of Describe: a feature that is named must work, one that is not must answer UNIMPLEMENTED. */
#pragma once

#include "bc/v1/runtime.pb-c.h"
#include "lib/base/clock.h"
#include "lib/base/sha256.h"
#include "lib/loop/loop.h"
#include "lib/rpc/client.h"

#include <stddef.h>
#include <sys/types.h>

enum { CONTRACT_ARGS_MAX = 16 };
#define RUNTIME(member) RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, member)

struct contract;

/* What differs between runtimes. */
struct contract_runtime {
	const char *program;
	/* Writes c->config, and what the runtime needs to run. */
	void (*prepare)(struct contract *c);
	/* Makes the spec one that this runtime can boot here: boot, image_path. Given is a kernel boot of
	 * "/boot/vmlinuz". */
	void (*adapt)(const struct contract *c, Bc__V1__EnsureRequest *request);
	void (*cleanup)(struct contract *c); /* after the service ended; may be NULL */
	bool echoes;                         /* what the console is sent comes back */
};

struct contract {
	const struct contract_runtime *runtime; /* weak */
	char *dir;                              /* owned; private to this test */
	char config[160], socket[160], notify_env[192];
	int notify_fd; /* owned */
	pid_t pid;
	int pidfd; /* owned; -EBADF while the service does not run */
	struct loop *loop;
	struct rpc_channel *channel;
	void *userdata; /* the runtime's own */
};

/* Runs every test of the contract. */
int contract_run(const struct contract_runtime *runtime);
/* A directory and a running service for one test; NULL when it cannot be. */
struct contract *contract_new(const struct contract_runtime *runtime);
void contract_free(struct contract *c);
/* A test of cmocka with both around it; the test's *state is the contract. */
int contract_setup(void **state);
int contract_teardown(void **state);
#define CONTRACT_TEST(fn, runtime)                                                                           \
	cmocka_unit_test_prestate_setup_teardown(                                                            \
	        fn, contract_setup, contract_teardown, (void *)(uintptr_t)(runtime))

/* How long what must come is waited for. */
uint64_t contract_timeout_usec(void);

/* --- the service --- */

void contract_configure(struct contract *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void contract_start(struct contract *c);                                         /* until it says READY */
void contract_put(const struct contract *c, const char *name, const char *text); /* a file in its directory */
int contract_try_start(struct contract *c); /* the exit status of one that must not get ready */
void contract_kill(struct contract *c);     /* as a crash would */
void contract_end(struct contract *c);      /* SIGTERM; must exit with 0 */

/* --- calls --- */

/* NULL unless the answer was OK; the code in *ret_status, which may be NULL. Freed by the caller. */
void *contract_call(
        struct contract *c, struct rpc_method method, const void *request, struct rpc_status *ret_status);
void *contract_call_for(struct contract *c, struct rpc_method method, const void *request,
        uint64_t timeout_usec, struct rpc_status *ret_status);
/* A call that is under way while others are made. */
struct pending {
	struct contract *c;          /* weak */
	struct rpc_request *request; /* weak; while it is not done */
	struct rpc_status status;
	ProtobufCMessage *answer; /* owned; freed by the caller */
	bool done;
};
void contract_begin(struct contract *c, struct rpc_method method, const void *request, uint64_t timeout_usec,
        struct pending *ret);
grpc_status_code contract_await(struct pending *pending);
/* As a caller does that waits no longer; the code it ended with. */
grpc_status_code contract_give_up(struct pending *pending);
/* Fails the test unless the call ends with that code. */
void contract_refused(
        struct contract *c, struct rpc_method method, const void *request, grpc_status_code code);
bool contract_has(struct contract *c, const char *feature);

/* --- requests --- */

/* Of instance n: small, with no NIC and no volume. Owned by the caller. */
Bc__V1__EnsureRequest *ensure_new(const struct contract *c, unsigned n);
/* Boots from a disk of nothing instead: there is one to snapshot then. */
void ensure_give_disk(Bc__V1__EnsureRequest *request, const struct contract *c);
void ensure_add_volume(
        Bc__V1__EnsureRequest *request, const struct contract *c, const char *id, bool read_only);
/* A message on the heap, with its defaults. */
void *message_make(const ProtobufCMessageDescriptor *type);
void text_replace(char **slot, const char *text);
/* Freed by the caller; the test fails when it is refused. */
Bc__V1__Domain *contract_ensure(struct contract *c, const Bc__V1__EnsureRequest *request);
Bc__V1__Domain *contract_set_state(
        struct contract *c, const char *id, Bc__V1__InstanceSpec__DesiredState state);
/* That the wish is answered with this code and words. */
void contract_set_state_is(struct contract *c, const char *id, Bc__V1__InstanceSpec__DesiredState state,
        grpc_status_code code, const char *words);
/* The state as Get tells it; STATE_UNSPECIFIED when it is not there. */
Bc__V1__Domain__State contract_state(struct contract *c, const char *id);
bool contract_remove(struct contract *c, const char *id); /* whether it existed */
/* Ensure and start of instance n; id is for UUID_TEXT_MAX bytes. */
void contract_start_instance(struct contract *c, unsigned n, char *ret_id);

/* "sha256:…" of a file and its bytes. */
void file_digest(const char *path, char ret[static SHA256_DIGEST_MAX], uint64_t *ret_size);

/* --- streams --- */

struct stream;
struct stream *stream_open(struct contract *c, struct rpc_method method, const void *first);
/* The next message, freed by the caller; NULL when the stream ended. */
void *stream_next(struct stream *stream);
void stream_send(struct stream *stream, const void *message);
/* The status it ended with; waits for the end. */
grpc_status_code stream_end(struct stream *stream);
/* Of one that ended; the stream's own. */
const struct rpc_status *stream_status(const struct stream *stream);
/* Ends it if it lives. */
void stream_close(struct stream *stream);

/* --- consoles --- */

/* Asks for it; closed with stream_close(). */
struct stream *contract_console_open(struct contract *c, const char *id, bool take_over);
/* It is told that it is open. */
void contract_console_opened(struct stream *console);
/* Reads until it said text; what came with it is read, too. */
void contract_console_says(struct stream *console, const char *text);
void contract_console_type(struct stream *console, const char *text);
