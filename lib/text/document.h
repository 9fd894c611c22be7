/* A YAML or JSON text as a tree that remembers lines. The bounds are those of every foreign text:
 * TEXT_SIZE_MAX bytes, DOC_DEPTH_MAX levels, DOC_NODES_MAX values. Anchors, aliases, tags and a second
 * document are refused: what is written is what is meant. Keys are unique within their mapping. */
#pragma once

#include "lib/base/cleanup.h"
#include "lib/text/problems.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_SIZE_MAX = 4 << 20, DOC_DEPTH_MAX = 64, DOC_NODES_MAX = 500000 };

enum doc_kind {
	DOC_NULL,   /* null, ~ or nothing */
	DOC_BOOL,   /* true or false; yes, no, on and off are strings */
	DOC_NUMBER, /* what JSON takes as a number; text is as written */
	DOC_STRING,
	DOC_LIST,
	DOC_MAP,
};

/* All of it lives as long as the doc; nothing is changed by readers. */
struct doc_node {
	enum doc_kind kind;
	uint32_t line, column; /* from 1, of the value */
	uint32_t n_text;       /* bytes */
	const char *text;      /* scalars: UTF-8, NUL-terminated; a string may also hold NULs */
	uint32_t n_items;      /* lists and maps */
	uint32_t n_key;        /* bytes */
	const char *key;       /* in a map: its name there */
	uint32_t key_line, key_column;
	const struct doc_node *first; /* lists and maps: the first item */
	const struct doc_node *next;  /* the next item beside this one */
};

struct doc;

/* 0, -EINVAL with the reasons in problems, or -ENOMEM. problems->file names the text in them. */
int doc_parse(const char *text, size_t n_text, struct doc **ret, struct problems *problems);
const struct doc_node *doc_root(const struct doc *doc); /* never NULL */
struct doc *doc_free(struct doc *doc);
CLEANUP_DEFINE(doc, doc_free)

/* The item of a map with that key, or NULL; also when map is NULL or no map. */
const struct doc_node *doc_get(const struct doc_node *map, const char *key);
/* "a mapping", "a list", "text", "a number", "true or false", "null": for messages. */
const char *doc_kind_text(enum doc_kind kind);
