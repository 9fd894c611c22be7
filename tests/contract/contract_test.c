/* The contract of bc.v1.Runtime, kept by bc-runtime-fake. */
#include "tests/contract/contract.h"
#include "tests/harness/suite.h"

static void fake_prepare(struct contract *c)
{
	contract_configure(c, "[service]\nlog_level=warning\n");
}

TEST_SUITE(contract_test)
{
	static const struct contract_runtime FAKE = {
		.program = BC_RUNTIME, .prepare = fake_prepare, .echoes = true
	};

	return contract_run(&FAKE);
}
