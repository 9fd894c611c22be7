#include "tests/proto/surface.h"

#include "lib/base/cleanup.h"

#include <google/protobuf/descriptor.pb-c.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Google__Protobuf__FileDescriptorSet file_set;
typedef Google__Protobuf__DescriptorProto message_desc;
typedef Google__Protobuf__EnumDescriptorProto enum_desc;
typedef Google__Protobuf__FieldDescriptorProto field_desc;

static int line_add(struct surface *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int line_add(struct surface *s, const char *fmt, ...)
{
	char buf[SURFACE_LINE_MAX];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(buf) || s->n_lines == SURFACE_LINES_MAX)
		return -E2BIG;
	char **lines = realloc(s->lines, (s->n_lines + 1) * sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	s->lines = lines;
	lines[s->n_lines] = strdup(buf);
	if (!lines[s->n_lines])
		return -ENOMEM;
	s->n_lines++;
	return 0;
}

static const char *type_name(const field_desc *f)
{
	if (f->type_name)
		return f->type_name + (f->type_name[0] == '.');
	const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(
	        &google__protobuf__field_descriptor_proto__type__descriptor, f->type);
	return v ? v->name + strlen("TYPE_") : "?";
}

static int enum_add(struct surface *s, const char *scope, const enum_desc *e)
{
	int r = 0;

	for (size_t i = 0; i < e->n_value && r == 0; i++)
		r = line_add(s, "value %s.%s/%d\t%s", scope, e->name, e->value[i]->number, e->value[i]->name);
	for (size_t i = 0; i < e->n_reserved_range && r == 0; i++)
		for (int n = e->reserved_range[i]->start; n <= e->reserved_range[i]->end && r == 0; n++)
			r = line_add(s, "reserved %s.%s/%d\t", scope, e->name, n);
	return r;
}

static int field_add(struct surface *s, const char *message, const message_desc *m, const field_desc *f)
{
	const char *label = f->label == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED
	        ? "repeated"
	        : "singular";

	return line_add(s, "field %s/%d\t%s %s %s%s%s", message, f->number, f->name, type_name(f), label,
	        f->has_oneof_index ? " oneof " : "",
	        f->has_oneof_index ? m->oneof_decl[f->oneof_index]->name : "");
}

/* depth bounds nested message definitions, which only our own proto files write */
static int message_add(struct surface *s, const char *scope, const message_desc *m, int depth)
{
	char name[SURFACE_LINE_MAX];
	int r = 0;

	if (depth == 0 || snprintf(name, sizeof(name), "%s.%s", scope, m->name) >= (int)sizeof(name))
		return -E2BIG;
	for (size_t i = 0; i < m->n_field && r == 0; i++)
		r = field_add(s, name, m, m->field[i]);
	for (size_t i = 0; i < m->n_reserved_range && r == 0; i++)
		for (int n = m->reserved_range[i]->start; n < m->reserved_range[i]->end && r == 0; n++)
			r = line_add(s, "reserved %s/%d\t", name, n);
	for (size_t i = 0; i < m->n_enum_type && r == 0; i++)
		r = enum_add(s, name, m->enum_type[i]);
	for (size_t i = 0; i < m->n_nested_type && r == 0; i++)
		r = message_add(s, name, m->nested_type[i], depth - 1);
	return r;
}

static int service_add(
        struct surface *s, const char *package, const Google__Protobuf__ServiceDescriptorProto *d)
{
	int r = 0;

	for (size_t i = 0; i < d->n_method && r == 0; i++) {
		const Google__Protobuf__MethodDescriptorProto *m = d->method[i];
		r = line_add(s, "rpc %s.%s/%s\t%s%s -> %s%s", package, d->name, m->name,
		        m->client_streaming ? "stream " : "", m->input_type + 1,
		        m->server_streaming ? "stream " : "", m->output_type + 1);
	}
	return r;
}

static int line_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void surface_sort(struct surface *s)
{
	if (s->n_lines)
		qsort(s->lines, s->n_lines, sizeof(*s->lines), line_compare);
}

static int set_add(struct surface *s, const file_set *set, const char *prefix)
{
	int r = 0;

	for (size_t i = 0; i < set->n_file && r == 0; i++) {
		const Google__Protobuf__FileDescriptorProto *f = set->file[i];
		if (!f->package || strncmp(f->package, prefix, strlen(prefix)) != 0)
			continue;
		for (size_t k = 0; k < f->n_message_type && r == 0; k++)
			r = message_add(s, f->package, f->message_type[k], 16);
		for (size_t k = 0; k < f->n_enum_type && r == 0; k++)
			r = enum_add(s, f->package, f->enum_type[k]);
		for (size_t k = 0; k < f->n_service && r == 0; k++)
			r = service_add(s, f->package, f->service[k]);
	}
	return r;
}

int surface_from_descriptor_set(const void *data, size_t n, const char *package_prefix, struct surface *ret)
{
	struct surface s = { 0 };
	file_set *set = google__protobuf__file_descriptor_set__unpack(NULL, n, data);

	if (!set)
		return -EBADMSG;
	int r = set_add(&s, set, package_prefix);
	google__protobuf__file_descriptor_set__free_unpacked(set, NULL);
	if (r < 0) {
		surface_done(&s);
		return r;
	}
	surface_sort(&s);
	*ret = s;
	return 0;
}

int surface_from_text(const char *text, struct surface *ret)
{
	struct surface s = { 0 };

	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		int r = n == 0 || *p == '#' ? 0 : line_add(&s, "%.*s", (int)n, p);
		if (r < 0) {
			surface_done(&s);
			return r;
		}
		p += n + (p[n] == '\n');
	}
	surface_sort(&s);
	*ret = s;
	return 0;
}

void surface_done(struct surface *s)
{
	for (size_t i = 0; i < s->n_lines; i++)
		free(s->lines[i]);
	free(s->lines);
	*s = (struct surface){ 0 };
}

/* Lines are "kind name\tmeaning"; n is the length of the key, tab included. */
static const char *line_find(const struct surface *s, const char *key, size_t n)
{
	for (size_t i = 0; i < s->n_lines; i++)
		if (strncmp(s->lines[i], key, n) == 0)
			return s->lines[i];
	return NULL;
}

static bool number_reserved(const struct surface *now, const char *line)
{
	char key[SURFACE_LINE_MAX];
	const char *name = strchr(line, ' ');

	if (!name)
		return false;
	int n = snprintf(key, sizeof(key), "reserved%.*s\t", (int)strcspn(name, "\t"), name);
	return n > 0 && (size_t)n < sizeof(key) && line_find(now, key, (size_t)n);
}

const char *surface_broken(
        const struct surface *base, const struct surface *now, char reason[SURFACE_LINE_MAX])
{
	for (size_t i = 0; i < base->n_lines; i++) {
		const char *line = base->lines[i];
		const char *found = line_find(now, line, strcspn(line, "\t") + 1);
		if (found && strcmp(found, line) == 0)
			continue;
		if (found) {
			(void)snprintf(reason, SURFACE_LINE_MAX, "is now '%.400s'", strchr(found, '\t') + 1);
			return line;
		}
		if (number_reserved(now, line))
			continue;
		(void)snprintf(reason, SURFACE_LINE_MAX, "is gone, and its number is not reserved");
		return line;
	}
	return NULL;
}
