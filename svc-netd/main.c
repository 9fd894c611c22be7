/* bc-netd: the one privileged hand on the network. */
#include "svc-netd/netd.h"

int main(int argc, char **argv)
{
	static struct netd netd;

	return netd_main(&netd, argc, argv);
}
