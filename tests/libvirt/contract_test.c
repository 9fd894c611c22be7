/* The contract of bc.v1.Runtime, kept by bc-runtime-libvirt. */
#include "tests/harness/suite.h"
#include "tests/libvirt/service.h"

TEST_SUITE(contract_test)
{
	return contract_run(&libvirt_service);
}
