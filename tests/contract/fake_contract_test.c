/* The contract of bc.v1.Runtime, kept by bc-runtime-fake. */
#include "tests/contract/contract.h"

static void fake_prepare(struct contract *c)
{
	contract_configure(c, "[service]\nlog_level=warning\n");
}

int main(void)
{
	static const struct contract_runtime FAKE = {
		.program = BC_RUNTIME, .prepare = fake_prepare, .echoes = true
	};

	return contract_run(&FAKE);
}
