/* The contract of bc.v1.Runtime, kept by bc-runtime-plugin over the sample plugin. */
#include "tests/contract/contract.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* What is not meant to run out is as long as it may be. */
static void plugin_prepare(struct contract *c)
{
	contract_configure(c,
	        "[service]\nlog_level=warning\n"
	        "[plugin]\nid=sample\nsocket=%s/plugin.sock\nexecutable=%s %s/state\n"
	        "poll=200ms\ntimeout=10min\nstart_timeout=60s\n",
	        c->dir, BC_PLUGIN, c->dir);
}

TEST_SUITE(contract_test)
{
	static const struct contract_runtime PLUGIN = { .program = BC_RUNTIME, .prepare = plugin_prepare };

	return contract_run(&PLUGIN);
}
