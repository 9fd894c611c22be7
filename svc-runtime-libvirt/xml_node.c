#include "svc-runtime-libvirt/xml_node.h"

#include <errno.h>
#include <inttypes.h>
#include <libxml/parser.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(s) ((const xmlChar *)(s))

xmlNode *xml_add(xmlNode *parent, const char *name)
{
	return parent ? xmlNewChild(parent, NULL, X(name), NULL) : NULL;
}

xmlNode *xml_add_text(xmlNode *parent, const char *name, const char *text)
{
	return parent ? xmlNewTextChild(parent, NULL, X(name), X(text)) : NULL;
}

xmlNode *xml_add_u64(xmlNode *parent, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	return xml_add_text(parent, name, text);
}

void xml_set(xmlNode *node, const char *name, const char *value)
{
	if (node && value)
		(void)xmlNewProp(node, X(name), X(value));
}

void xml_set_u64(xmlNode *node, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	xml_set(node, name, text);
}

void xml_set_fmt(xmlNode *node, const char *name, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	xml_set(node, name, text);
}

static void on_xml_error(void *userdata, const char *fmt, ...)
{
	(void)userdata;
	(void)fmt;
}

int xml_parse(const char *text, size_t n_text, xmlDoc **ret, struct err *err)
{
	if (n_text > XML_TEXT_MAX)
		return err_set(err, -EFBIG, "XML of %zu bytes: at most %d are read", n_text, XML_TEXT_MAX);
	xmlParserCtxt *context = xmlNewParserCtxt();
	if (!context)
		return -ENOMEM;
	context->sax->error = on_xml_error;
	context->sax->warning = on_xml_error;
	xmlDoc *doc = xmlCtxtReadMemory(context, text, (int)n_text, NULL, NULL,
	        XML_PARSE_NONET | XML_PARSE_NOBLANKS | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
	int r = 0;
	if (!doc) {
		const char *why = context->lastError.message ? context->lastError.message : "it is not XML";
		r = err_set(err, -EINVAL, "XML, line %d: %.*s", context->lastError.line,
		        (int)strcspn(why, "\n"), why);
	} else if (doc->intSubset || doc->extSubset) {
		xmlFreeDoc(doc);
		r = err_set(err, -EINVAL, "XML with a document type is not accepted");
	} else {
		*ret = doc;
	}
	xmlFreeParserCtxt(context);
	return r;
}

static bool node_is(const xmlNode *node, const char *name, const char *ns_uri)
{
	if (node->type != XML_ELEMENT_NODE || strcmp((const char *)node->name, name) != 0)
		return false;
	if (!ns_uri)
		return true;
	return node->ns && node->ns->href && strcmp((const char *)node->ns->href, ns_uri) == 0;
}

static xmlNode *first_of(xmlNode *node, const char *name, const char *ns_uri)
{
	for (; node; node = node->next)
		if (node_is(node, name, ns_uri))
			return node;
	return NULL;
}

xmlNode *xml_child(const xmlNode *parent, const char *name)
{
	return parent ? first_of(parent->children, name, NULL) : NULL;
}

xmlNode *xml_child_ns(const xmlNode *parent, const char *name, const char *ns_uri)
{
	return parent ? first_of(parent->children, name, ns_uri) : NULL;
}

xmlNode *xml_next(const xmlNode *node, const char *name)
{
	return node ? first_of(node->next, name, NULL) : NULL;
}

xmlNode *xml_at(const xmlNode *node, const char *path)
{
	xmlNode *at = (xmlNode *)node;

	while (at && *path) {
		char name[64];
		size_t n = strcspn(path, "/");
		if (n >= sizeof(name))
			return NULL;
		memcpy(name, path, n);
		name[n] = '\0';
		at = xml_child(at, name);
		path += n + (path[n] == '/');
	}
	return at;
}

char *xml_attr_dup(const xmlNode *node, const char *name)
{
	xmlChar *value = node ? xmlGetNoNsProp(node, X(name)) : NULL;
	char *copy = value ? strdup((const char *)value) : NULL;

	xmlFree(value);
	return copy;
}

char *xml_text_dup(const xmlNode *node)
{
	xmlChar *value = node ? xmlNodeGetContent(node) : NULL;
	char *copy = value ? strdup((const char *)value) : NULL;

	xmlFree(value);
	return copy;
}

static int copy_into(char *value, char *buf, size_t size)
{
	int r = 0;

	buf[0] = '\0';
	if (value && strlen(value) >= size)
		r = -ENOBUFS;
	else if (value)
		strcpy(buf, value);
	free(value);
	return r;
}

int xml_attr(const xmlNode *node, const char *name, char *buf, size_t size)
{
	return copy_into(xml_attr_dup(node, name), buf, size);
}

int xml_text(const xmlNode *node, char *buf, size_t size)
{
	return copy_into(xml_text_dup(node), buf, size);
}

static uint64_t number_of(const char *text)
{
	char *end = NULL;

	if (text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	return errno || *end ? 0 : value;
}

uint64_t xml_attr_u64(const xmlNode *node, const char *name)
{
	char text[24];

	return xml_attr(node, name, text, sizeof(text)) < 0 ? 0 : number_of(text);
}

uint64_t xml_text_u64(const xmlNode *node)
{
	char text[24];

	return xml_text(node, text, sizeof(text)) < 0 ? 0 : number_of(text);
}

bool xml_attr_is(const xmlNode *node, const char *name, const char *value)
{
	xmlChar *text = node ? xmlGetNoNsProp(node, X(name)) : NULL;
	bool is = text && strcmp((const char *)text, value) == 0;

	xmlFree(text);
	return is;
}

static int dump(xmlDoc *doc, char **ret)
{
	xmlChar *text = NULL;
	int size = 0;

	xmlDocDumpFormatMemory(doc, &text, &size, 1);
	if (!text)
		return -ENOMEM;
	char *copy = strdup((const char *)text);
	xmlFree(text);
	if (!copy)
		return -ENOMEM;
	*ret = copy;
	return 0;
}

int xml_document_text(xmlDoc *doc, char **ret)
{
	return dump(doc, ret);
}

int xml_element_text(xmlNode *node, char **ret)
{
	xmlBuffer *buffer = xmlBufferCreate();
	int r = -ENOMEM;

	if (buffer && xmlNodeDump(buffer, node->doc, node, 0, 1) >= 0) {
		char *copy = strdup((const char *)xmlBufferContent(buffer));
		if (copy) {
			*ret = copy;
			r = 0;
		}
	}
	xmlBufferFree(buffer);
	return r;
}
