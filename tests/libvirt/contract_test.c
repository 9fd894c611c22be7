/* The contract of bc.v1.Runtime, kept by bc-runtime-libvirt. */
#include "tests/libvirt/service.h"

int main(void)
{
	return contract_run(&libvirt_service);
}
