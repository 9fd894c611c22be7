#include "svc-runtime-plugin/plugin_json.h"

#include "lib/base/ids.h"
#include "lib/base/quote.h"
#include "lib/text/base64.h"
#include "lib/text/proto_read.h"
#include "lib/text/proto_write.h"

#include <string.h>

const char *plugin_state_word(Bc__V1__InstanceSpec__DesiredState state)
{
	switch (state) {
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING:
		return "RUNNING";
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED:
		return "STOPPED";
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED:
		return "PAUSED";
	default:
		return NULL;
	}
}

/* --- arguments --- */

int plugin_instance_text(const Bc__V1__EnsureRequest *record, char **ret)
{
	Bc__V1__PluginInstance instance = BC__V1__PLUGIN_INSTANCE__INIT;

	instance.spec = record->spec;
	instance.n_nics = record->n_nics;
	instance.nics = record->nics;
	instance.n_ports = record->n_ports;
	instance.ports = record->ports;
	instance.image_path = record->image_path;
	instance.n_volumes = record->n_volumes;
	instance.volumes = record->volumes;
	instance.n_gpus = record->n_gpus;
	instance.gpus = record->gpus;
	instance.restored_from = record->restored_from;
	return proto_write_json(&instance.base, PROTO_WRITE_COMPACT, ret);
}

/* A JSON string, or null. Not by asprintf(), which leaves copies behind where it grew. */
static int user_data_text(struct secret *user_data, char **ret)
{
	char *text, *quoted;
	size_t n;

	if (!user_data) {
		*ret = strdup("null");
		return *ret ? 0 : -ENOMEM;
	}
	text = base64_encode((uint8_t *)secret_data(user_data), secret_size(user_data));
	if (!text)
		return -ENOMEM;
	n = strlen(text);
	quoted = malloc(n + sizeof("\"\""));
	if (quoted) {
		quoted[0] = '"';
		memcpy(quoted + 1, text, n);
		memcpy(quoted + 1 + n, "\"", sizeof("\""));
	}
	explicit_bzero(text, n);
	free(text);
	*ret = quoted;
	return quoted ? 0 : -ENOMEM;
}

static int url_text(const char *path, char **ret)
{
	CLEANUP_FREE char *url = NULL;
	json_t *json;

	if (!path || !*path) {
		*ret = strdup("null");
		return *ret ? 0 : -ENOMEM;
	}
	if (asprintf(&url, "file://%s", path) < 0)
		return -ENOMEM;
	json = json_string(url);
	*ret = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
	json_decref(json);
	return *ret ? 0 : -ENOMEM;
}

int plugin_apply_arguments(const Bc__V1__EnsureRequest *record, Bc__V1__InstanceSpec__DesiredState state,
        struct secret *user_data, const char *restore_path, struct secret **ret, struct err *err)
{
	CLEANUP_FREE char *instance = NULL, *data = NULL, *url = NULL;
	struct secret *text = NULL;
	size_t size;
	int r = plugin_instance_text(record, &instance);

	if (r == 0)
		r = url_text(restore_path, &url);
	if (r == 0)
		r = user_data_text(user_data, &data);
	if (r < 0)
		return r;
	size = strlen(instance) + strlen(data) + strlen(url) + sizeof("[,\"RUNNING\",,]");
	r = size > PLUGIN_ARGUMENTS_MAX
	        ? err_set(err, -EFBIG,
	                  "the instance takes %zu bytes of JSON, at most %d can be told to a plugin", size,
	                  PLUGIN_ARGUMENTS_MAX)
	        : secret_new_empty(size, &text);
	if (r == 0) {
		(void)snprintf(secret_data(text), size, "[%s,\"%s\",%s,%s]", instance,
		        plugin_state_word(state), data, url);
		*ret = text;
	}
	explicit_bzero(data, strlen(data));
	return r;
}

/* --- results --- */

static int domain_check(const Bc__V1__PluginDomain *domain, const char *path, struct err *err)
{
	if (!uuid_is_valid(domain->id))
		return err_set(err, -EBADMSG, "%s.id: '%s' is no instance id", path, QUOTED(domain->id));
	if (domain->state == BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED)
		return err_set(
		        err, -EBADMSG, "%s.state: write STOPPED, RUNNING, PAUSED, STOPPING or CRASHED", path);
	if (domain->n_taps > PLUGIN_TAPS_MAX)
		return err_set(
		        err, -EBADMSG, "%s.taps: %zu, at most %d", path, domain->n_taps, PLUGIN_TAPS_MAX);
	for (size_t i = 0; i < domain->n_taps; i++)
		if (!ifname_is_valid(domain->taps[i]))
			return err_set(err, -EBADMSG, "%s.taps[%zu]: '%s' is no name of an interface", path,
			        i, QUOTED(domain->taps[i]));
	if (domain->n_vmm_pids > PLUGIN_PIDS_MAX)
		return err_set(err, -EBADMSG, "%s.vmmPids: %zu, at most %d", path, domain->n_vmm_pids,
		        PLUGIN_PIDS_MAX);
	return 0;
}

static int domain_read_node(
        const struct doc_node *node, const char *path, Bc__V1__PluginDomain **ret, struct err *err)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "the plugin's result" };
	ProtobufCMessage *message = NULL;
	int r = proto_read_node(node, path, &bc__v1__plugin_domain__descriptor, &message, &problems);

	if (r == 0)
		r = domain_check((Bc__V1__PluginDomain *)message, path, err);
	else if (r == -EINVAL)
		r = err_set(err, -EBADMSG, "%s", problems.texts[0] ? problems.texts[0] : "it cannot be read");
	if (r == 0)
		*ret = (Bc__V1__PluginDomain *)message;
	else if (message)
		protobuf_c_message_free_unpacked(message, NULL);
	return r;
}

static int result_parse(const char *text, struct doc **ret, struct err *err)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "the plugin's result" };
	int r = doc_parse(text, strlen(text), ret, &problems);

	return r == -EINVAL
	        ? err_set(err, -EBADMSG, "%s", problems.texts[0] ? problems.texts[0] : "it is no JSON")
	        : r;
}

int plugin_read_domain(const char *text, Bc__V1__PluginDomain **ret, struct err *err)
{
	CLEANUP(doc) struct doc *doc = NULL;
	int r = result_parse(text, &doc, err);

	return r < 0 ? r : domain_read_node(doc_root(doc), "result", ret, err);
}

void plugin_domains_free(Bc__V1__PluginDomain **domains, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bc__v1__plugin_domain__free_unpacked(domains[i], NULL);
	free(domains);
}

static int id_compare(const void *a, const void *b)
{
	return strcmp((*(Bc__V1__PluginDomain *const *)a)->id, (*(Bc__V1__PluginDomain *const *)b)->id);
}

int plugin_read_domains(const char *text, Bc__V1__PluginDomain ***ret, size_t *ret_n, struct err *err)
{
	CLEANUP(doc) struct doc *doc = NULL;
	Bc__V1__PluginDomain **domains;
	const struct doc_node *root, *node;
	size_t n = 0;
	char path[32];
	int r = result_parse(text, &doc, err);

	if (r < 0)
		return r;
	root = doc_root(doc);
	if (root->kind != DOC_LIST || root->n_items > PLUGIN_DOMAINS_MAX)
		return err_set(err, -EBADMSG, "list answers a list of at most %d domains, not %s",
		        PLUGIN_DOMAINS_MAX, root->kind == DOC_LIST ? "more" : doc_kind_text(root->kind));
	domains = calloc(root->n_items + 1, sizeof(*domains));
	if (!domains)
		return -ENOMEM;
	for (node = root->first; r == 0 && node; node = node->next) {
		(void)snprintf(path, sizeof(path), "result[%zu]", n);
		r = domain_read_node(node, path, &domains[n], err);
		n += r == 0;
	}
	if (r == 0)
		qsort(domains, n, sizeof(*domains), id_compare);
	for (size_t i = 1; r == 0 && i < n; i++)
		if (strcmp(domains[i - 1]->id, domains[i]->id) == 0)
			r = err_set(err, -EBADMSG, "it lists instance %s twice", domains[i]->id);
	if (r < 0) {
		plugin_domains_free(domains, n);
		return r;
	}
	*ret = domains;
	*ret_n = n;
	return 0;
}
