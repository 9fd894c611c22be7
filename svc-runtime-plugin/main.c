/* bc-runtime-plugin: bc.v1.Runtime over a plugin that a manifest names. */
#include "svc-runtime-plugin/plugin.h"

int main(int argc, char **argv)
{
	static struct plugin plugin;
	const struct conf_table table = {
		.keys = plugin_keys, .n_keys = n_plugin_keys, .target = &plugin.conf
	};

	return service_main(argc, argv,
	        &(struct service_options){ .name = "runtime-plugin",
	                .tables = &table,
	                .n_tables = 1,
	                .check = plugin_check,
	                .start = plugin_start,
	                .drain = plugin_drain,
	                .stop = plugin_stop,
	                .userdata = &plugin });
}
