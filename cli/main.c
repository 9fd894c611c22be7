#include "cli/cli.h"
#include "lib/base/std_fds.h"

int main(int argc, char **argv)
{
	struct cli cli;

	(void)std_fds_take();
	cli_init(&cli);
	int code = cli_main(&cli, argc, argv);

	cli_done(&cli);
	return code;
}
