#include "lib/rpc/descriptor_pool.h"

#include "lib/base/cleanup.h"
#include "lib/rpc/varint.h"

#include <errno.h>
#include <google/protobuf/descriptor.pb-c.h>
#include <string.h>

typedef Google__Protobuf__FileDescriptorProto file_proto;
typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__EnumDescriptorProto enum_proto;

enum { FILES_MAX = 256, NESTING_MAX = 16, FILE_SET_FIELD = 1, WIRE_BYTES = 2 };

struct descriptor_pool {
	size_t n_files;
	struct descriptor_file files[FILES_MAX];
};

int descriptor_pool_new(const void *data, size_t n, struct descriptor_pool **ret)
{
	const uint8_t *p = data;
	const uint8_t *end = p + n;
	CLEANUP_FREE struct descriptor_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	while (p < end) {
		uint64_t tag;
		uint64_t size;
		if (varint_read(&p, end, &tag) < 0 || tag != (FILE_SET_FIELD << 3 | WIRE_BYTES) ||
		        varint_read(&p, end, &size) < 0 || size > (uint64_t)(end - p) ||
		        pool->n_files == FILES_MAX)
			return -EBADMSG;
		pool->files[pool->n_files++] = (struct descriptor_file){ p, (size_t)size };
		p += size;
	}
	*ret = TAKE_PTR(pool);
	return 0;
}

struct descriptor_pool *descriptor_pool_free(struct descriptor_pool *pool)
{
	free(pool);
	return NULL;
}

/* What follows "scope." in symbol, or NULL. */
static const char *scope_strip(const char *symbol, const char *scope)
{
	size_t n = strlen(scope);

	if (n == 0)
		return symbol;
	return strncmp(symbol, scope, n) == 0 && symbol[n] == '.' ? symbol + n + 1 : NULL;
}

static bool enums_have(enum_proto *const *enums, size_t n, const char *rest)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(enums[i]->name, rest) == 0)
			return true;
	return false;
}

/* depth bounds nested definitions of our own files */
static bool messages_have(message_proto *const *messages, size_t n, const char *rest, int depth)
{
	for (size_t i = 0; i < n && depth > 0; i++) {
		const message_proto *m = messages[i];
		if (strcmp(m->name, rest) == 0)
			return true;
		const char *inner = scope_strip(rest, m->name);
		if (inner &&
		        (enums_have(m->enum_type, m->n_enum_type, inner) ||
		                messages_have(m->nested_type, m->n_nested_type, inner, depth - 1)))
			return true;
	}
	return false;
}

static bool services_have(const file_proto *file, const char *rest)
{
	for (size_t i = 0; i < file->n_service; i++) {
		const Google__Protobuf__ServiceDescriptorProto *s = file->service[i];
		if (strcmp(s->name, rest) == 0)
			return true;
		const char *method = scope_strip(rest, s->name);
		for (size_t k = 0; method && k < s->n_method; k++)
			if (strcmp(s->method[k]->name, method) == 0)
				return true;
	}
	return false;
}

static bool file_has_symbol(const file_proto *file, const char *symbol)
{
	const char *rest = scope_strip(symbol, file->package ? file->package : "");

	return rest &&
	        (messages_have(file->message_type, file->n_message_type, rest, NESTING_MAX) ||
	                enums_have(file->enum_type, file->n_enum_type, rest) || services_have(file, rest));
}

static bool file_has_name(const file_proto *file, const char *name)
{
	return file->name && strcmp(file->name, name) == 0;
}

static int file_find(const struct descriptor_pool *pool, bool (*matches)(const file_proto *, const char *),
        const char *what, struct descriptor_file *ret)
{
	for (size_t i = 0; i < pool->n_files; i++) {
		const struct descriptor_file *f = &pool->files[i];
		file_proto *file = google__protobuf__file_descriptor_proto__unpack(NULL, f->n, f->data);
		if (!file)
			return -EBADMSG;
		bool found = matches(file, what);
		google__protobuf__file_descriptor_proto__free_unpacked(file, NULL);
		if (found) {
			*ret = *f;
			return 0;
		}
	}
	return -ENOENT;
}

int descriptor_pool_find_file(
        const struct descriptor_pool *pool, const char *name, struct descriptor_file *ret)
{
	return file_find(pool, file_has_name, name, ret);
}

int descriptor_pool_find_symbol(
        const struct descriptor_pool *pool, const char *symbol, struct descriptor_file *ret)
{
	return file_find(pool, file_has_symbol, symbol, ret);
}

static int streams_read(const file_proto *file, const ProtobufCServiceDescriptor *service,
        const char *service_name, struct method_streams *ret)
{
	const char *rest = scope_strip(service_name, file->package ? file->package : "");

	for (size_t i = 0; rest && i < file->n_service; i++) {
		const Google__Protobuf__ServiceDescriptorProto *s = file->service[i];
		if (strcmp(s->name, rest) != 0 || s->n_method != service->n_methods)
			continue;
		for (size_t k = 0; k < s->n_method; k++) {
			if (strcmp(s->method[k]->name, service->methods[k].name) != 0)
				return -ENOENT;
			ret[k] = (struct method_streams){ s->method[k]->client_streaming,
				s->method[k]->server_streaming };
		}
		return 0;
	}
	return -ENOENT;
}

int descriptor_pool_streams(const struct descriptor_pool *pool, const ProtobufCServiceDescriptor *service,
        const char *service_name, struct method_streams *ret, size_t n_ret)
{
	struct descriptor_file f;

	if (n_ret < service->n_methods)
		return -EINVAL;
	int r = descriptor_pool_find_symbol(pool, service_name, &f);
	if (r < 0)
		return r;
	file_proto *file = google__protobuf__file_descriptor_proto__unpack(NULL, f.n, f.data);
	if (!file)
		return -EBADMSG;
	r = streams_read(file, service, service_name, ret);
	google__protobuf__file_descriptor_proto__free_unpacked(file, NULL);
	return r;
}
