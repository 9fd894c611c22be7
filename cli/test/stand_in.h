/* Services that say what a test wants: every method of the four services, answered from scripts, over real sockets. */
#pragma once

#include "lib/loop/loop.h"

#include <grpc/status.h>
#include <stdbool.h>

enum { SCRIPT_REPLIES_MAX = 6 };

/* How a method answers. The first script of a method that is not used up counts. */
struct script {
	const char *method; /* "bc.v1.Converger/GetStatus" */
	const char *replies
	        [SCRIPT_REPLIES_MAX]; /* YAML of its output, as many as there are; a unary one has one */
	grpc_status_code code;        /* how it ends, behind the replies; OK: well */
	const char *text;             /* the words of that */
	bool hang;                    /* it does not end */
	bool echo;                    /* bidirectional: Console's input comes back as its output */
	unsigned uses;                /* 0: any number of times */
};

struct stand_in;

/* Serves converger.sock, netd.sock, runtime-fake.sock and intelligence.sock in dir. Fails the test when it cannot. */
struct stand_in *stand_in_new(struct loop *loop, const char *dir);
/* Runs the loop until all is down. */
struct stand_in *stand_in_free(struct stand_in *stand_in);
/* scripts is ended by a NULL method, and copied. */
void stand_in_play(struct stand_in *stand_in, const struct script *scripts);
/* The last request to a method as JSON; for bidirectional ones the last message. "" when there was none. */
const char *stand_in_heard(const struct stand_in *stand_in, const char *method);
/* Counts the calls of a method. */
unsigned stand_in_calls(const struct stand_in *stand_in, const char *method);
