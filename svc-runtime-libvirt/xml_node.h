/* The little of libxml2 this service needs: build a tree, walk a tree, both without a string ever being pasted. */
#pragma once

#include "lib/base/err.h"

#include <libxml/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new child of parent, in parent's namespace's absence. Each returns NULL, or does nothing, when given NULL: a
 * failed allocation is found once, by xml_document_text(). */
xmlNode *xml_add(xmlNode *parent, const char *name);
xmlNode *xml_add_text(xmlNode *parent, const char *name, const char *text);
xmlNode *xml_add_u64(xmlNode *parent, const char *name, uint64_t value);
void xml_set(xmlNode *node, const char *name, const char *value); /* NULL value: nothing */
void xml_set_u64(xmlNode *node, const char *name, uint64_t value);
void xml_set_fmt(xmlNode *node, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Parses n_text bytes: no network, no entities, at most XML_TEXT_MAX bytes. -EINVAL with words. */
enum { XML_TEXT_MAX = 4 * 1024 * 1024 };
int xml_parse(const char *text, size_t n_text, xmlDoc **ret, struct err *err);

/* The first child element of that name; ns_uri NULL: whatever its namespace. NULL when there is none. */
xmlNode *xml_child(const xmlNode *parent, const char *name);
xmlNode *xml_child_ns(const xmlNode *parent, const char *name, const char *ns_uri);
xmlNode *xml_next(const xmlNode *node, const char *name); /* the next sibling element of that name */
/* Down a path of element names, "os/type". */
xmlNode *xml_at(const xmlNode *node, const char *path);

/* Copies an attribute, or an element's text, into buf: "" when it is not there, -ENOBUFS when it does not fit. */
int xml_attr(const xmlNode *node, const char *name, char *buf, size_t size);
int xml_text(const xmlNode *node, char *buf, size_t size);
char *xml_attr_dup(
        const xmlNode *node, const char *name); /* owned by the caller; NULL when it is not there */
char *xml_text_dup(const xmlNode *node);
/* 0 when it is not there or no number. */
uint64_t xml_attr_u64(const xmlNode *node, const char *name);
uint64_t xml_text_u64(const xmlNode *node);
bool xml_attr_is(const xmlNode *node, const char *name, const char *value);

/* The indented text of a document, or of one element with its namespaces; owned by the caller. -ENOMEM. */
int xml_document_text(xmlDoc *doc, char **ret);
int xml_element_text(xmlNode *node, char **ret);

static inline void cleanup_xml_doc(xmlDoc **doc)
{
	if (*doc)
		xmlFreeDoc(*doc);
}
#define CLEANUP_XML_DOC __attribute__((cleanup(cleanup_xml_doc)))
