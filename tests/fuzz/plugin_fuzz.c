/* What a plugin answers is read or refused with words. */
#include "lib/base/cleanup.h"
#include "svc-runtime-plugin/plugin_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	CLEANUP_FREE char *text = strndup((const char *)data, n_data);
	Bc__V1__PluginDomain **domains = NULL, *domain = NULL;
	struct err err = { 0 };
	size_t n = 0;

	if (!text)
		abort();
	if (plugin_read_domains(text, &domains, &n, &err) == 0)
		plugin_domains_free(domains, n);
	else if (!err.text[0])
		abort();
	err = (struct err){ 0 };
	if (plugin_read_domain(text, &domain, &err) == 0)
		bc__v1__plugin_domain__free_unpacked(domain, NULL);
	else if (!err.text[0])
		abort();
	return 0;
}
