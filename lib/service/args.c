#include "lib/service/args.h"

#include "lib/service/service.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { OPTION_CONFIG = 1, OPTION_SOCKET, OPTION_DATA_DIR, OPTION_PRINT_CONFIG, OPTION_VERSION, OPTION_HELP };

static const struct option OPTIONS[] = {
	{ "config", required_argument, NULL, OPTION_CONFIG },
	{ "socket", required_argument, NULL, OPTION_SOCKET },
	{ "data-dir", required_argument, NULL, OPTION_DATA_DIR },
	{ "print-config", no_argument, NULL, OPTION_PRINT_CONFIG },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ 0 },
};

static void help_print(const char *name)
{
	(void)printf(
	        "usage: bc-%s [options]\n"
	        "\n"
	        "  --config FILE    read FILE (and FILE.d/*.conf), not /etc/bc/%s.conf\n"
	        "  --socket PATH    listen on PATH, whatever the configuration says\n"
	        "  --data-dir DIR   keep data below DIR, whatever the configuration says\n"
	        "  --print-config   print the configuration in effect, with what each key takes, and exit\n"
	        "  --version, --help\n"
	        "\n"
	        "BC_LOG_LEVEL (error, warning, notice, info, debug) has the last word on the log level.\n",
	        name, name);
}

static int path_check(const char *option, const char *path, size_t max)
{
	if (path[0] == '/' && strlen(path) <= max)
		return 0;
	(void)fprintf(stderr, "%s '%s': write an absolute path of at most %zu bytes\n", option, path, max);
	return -EINVAL;
}

int service_args_parse(const char *name, int argc, char **argv, struct service_args *ret)
{
	struct service_args args = { 0 };
	int option, r = 0;

	optind = 1;
	while (r == 0 && (option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
		switch (option) {
		case OPTION_CONFIG:
			args.config = optarg;
			break;
		case OPTION_SOCKET:
			args.socket = optarg;
			r = path_check("--socket", optarg, SERVICE_SOCKET_MAX);
			break;
		case OPTION_DATA_DIR:
			args.data_dir = optarg;
			r = path_check("--data-dir", optarg, SERVICE_DIR_MAX);
			break;
		case OPTION_PRINT_CONFIG:
			args.print_config = true;
			break;
		case OPTION_VERSION:
			(void)printf("bc-%s %s\n", name, BC_VERSION);
			return 1;
		case OPTION_HELP:
			help_print(name);
			return 1;
		default: /* getopt said it */
			return -EINVAL;
		}
	}
	if (r == 0 && optind < argc) {
		(void)fprintf(stderr, "unexpected argument '%s'; see bc-%s --help\n", argv[optind], name);
		return -EINVAL;
	}
	if (r == 0)
		*ret = args;
	return r;
}
