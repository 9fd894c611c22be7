/* bc-runtime-fake: bc.v1.Runtime over domains that exist in a file only, for development and tests. */
#include "svc-runtime-fake/fake.h"

int main(int argc, char **argv)
{
	static struct fake fake;
	const struct conf_table table = { .keys = fake_keys, .n_keys = n_fake_keys, .target = &fake.conf };

	return service_main(argc, argv,
	        &(struct service_options){ .name = "runtime-fake",
	                .tables = &table,
	                .n_tables = 1,
	                .start = fake_start,
	                .drain = fake_drain,
	                .stop = fake_stop,
	                .userdata = &fake });
}
