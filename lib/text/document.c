#include "lib/text/document.h"

#include "lib/base/quote.h"
#include "lib/text/json_escapes.h"

#include <string.h>
#include <yaml.h>

enum { CHUNK_SIZE = 64 * 1024 };

/* Memory of the tree, given back all at once. */
struct chunk {
	struct chunk *next;
	char data[];
};

struct doc {
	struct chunk *chunks; /* owned */
	size_t n_free;        /* bytes at free_data */
	char *free_data;      /* weak: in the newest chunk */
	const struct doc_node *root;
};

/* An open list or map. */
struct level {
	struct doc_node *node;
	struct doc_node *last;
	bool has_key; /* a map's key was read, its value comes next */
	const char *key;
	uint32_t n_key, key_line, key_column;
};

struct builder {
	struct doc *doc;
	struct problems *problems;
	const struct json_edits *edits;
	struct json_cursor cursor;
	struct level levels[DOC_DEPTH_MAX];
	size_t n_levels;
	size_t n_nodes;
};

static void *doc_alloc(struct doc *doc, size_t size, size_t alignment)
{
	size_t n_pad = -(uintptr_t)doc->free_data & (alignment - 1);

	if (doc->free_data && n_pad + size <= doc->n_free) {
		char *p = doc->free_data + n_pad;

		doc->free_data = p + size;
		doc->n_free -= n_pad + size;
		return p;
	}
	/* A large text gets a chunk to itself; the started one is used further. */
	bool own = size > CHUNK_SIZE / 4;
	struct chunk *chunk = malloc(sizeof(*chunk) + (own ? size : CHUNK_SIZE));
	if (!chunk)
		return NULL;
	chunk->next = doc->chunks;
	doc->chunks = chunk;
	if (!own) {
		doc->free_data = chunk->data + size;
		doc->n_free = CHUNK_SIZE - size;
	}
	return chunk->data;
}

static const char *text_copy(struct doc *doc, const char *text, size_t n)
{
	char *copy = doc_alloc(doc, n + 1, 1);

	if (copy) {
		memcpy(copy, text, n);
		copy[n] = '\0';
	}
	return copy;
}

static unsigned mark_line(const yaml_mark_t *mark)
{
	return (unsigned)mark->line + 1;
}

static unsigned mark_column(struct builder *b, const yaml_mark_t *mark)
{
	return json_edits_column(b->edits, &b->cursor, mark_line(mark), (unsigned)mark->column + 1);
}

static int refuse(struct builder *b, const yaml_mark_t *mark, const char *what)
{
	problems_add(b->problems, mark_line(mark), mark_column(b, mark), "%s", what);
	return -EINVAL;
}

/* --- scalars --- */

static const char *skip_digits(const char *p)
{
	while (*p >= '0' && *p <= '9')
		p++;
	return p;
}

/* The grammar of JSON numbers. YAML's other forms (0x1f, 1_000, +1, .5) are text: readers of numbers
 * refuse them by name, readers of text take serials such as 0042 as they stand. */
static bool is_number(const char *p)
{
	p += *p == '-';
	const char *digits = p;
	p = skip_digits(p);
	if (p == digits || (digits[0] == '0' && p > digits + 1))
		return false;
	if (*p == '.') {
		digits = ++p;
		p = skip_digits(p);
		if (p == digits)
			return false;
	}
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '+' || *p == '-';
		digits = p;
		p = skip_digits(p);
		if (p == digits)
			return false;
	}
	return *p == '\0';
}

static enum doc_kind plain_kind(const char *text)
{
	if (!text[0] || strcmp(text, "null") == 0 || strcmp(text, "~") == 0)
		return DOC_NULL;
	if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
		return DOC_BOOL;
	return is_number(text) ? DOC_NUMBER : DOC_STRING;
}

/* --- the tree --- */

static int key_take(struct builder *b, struct level *level, const yaml_event_t *event)
{
	if (event->type != YAML_SCALAR_EVENT)
		return refuse(b, &event->start_mark,
		        "a list or mapping stands where a key is expected; keys are text");
	level->key = text_copy(b->doc, (const char *)event->data.scalar.value, event->data.scalar.length);
	if (!level->key)
		return -ENOMEM;
	level->n_key = (uint32_t)event->data.scalar.length;
	level->key_line = mark_line(&event->start_mark);
	level->key_column = mark_column(b, &event->start_mark);
	level->has_key = true;
	return 0;
}

static void node_attach(struct builder *b, struct doc_node *node)
{
	if (b->n_levels == 0) {
		b->doc->root = node;
		return;
	}
	struct level *level = &b->levels[b->n_levels - 1];
	if (level->node->kind == DOC_MAP) {
		node->key = level->key;
		node->n_key = level->n_key;
		node->key_line = level->key_line;
		node->key_column = level->key_column;
		level->has_key = false;
	}
	if (level->last)
		level->last->next = node;
	else
		level->node->first = node;
	level->last = node;
	level->node->n_items++;
}

static int node_new(struct builder *b, const yaml_event_t *event, enum doc_kind kind, struct doc_node **ret)
{
	if (++b->n_nodes > DOC_NODES_MAX) {
		problems_add(b->problems, mark_line(&event->start_mark), mark_column(b, &event->start_mark),
		        "the text has more than %d values; split it", DOC_NODES_MAX);
		return -EINVAL;
	}
	struct doc_node *node = doc_alloc(b->doc, sizeof(*node), _Alignof(struct doc_node));
	if (!node)
		return -ENOMEM;
	*node = (struct doc_node){ .kind = kind, .line = mark_line(&event->start_mark) };
	node->column = mark_column(b, &event->start_mark);
	node_attach(b, node);
	*ret = node;
	return 0;
}

static int scalar_take(struct builder *b, const yaml_event_t *event)
{
	const char *value = (const char *)event->data.scalar.value;
	size_t n = event->data.scalar.length;
	bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	struct doc_node *node;

	int r = node_new(b, event, plain ? plain_kind(value) : DOC_STRING, &node);
	if (r < 0)
		return r;
	node->text = text_copy(b->doc, value, n);
	node->n_text = (uint32_t)n;
	return node->text ? 0 : -ENOMEM;
}

static int level_open(struct builder *b, const yaml_event_t *event, enum doc_kind kind)
{
	struct doc_node *node;

	if (b->n_levels == DOC_DEPTH_MAX) {
		problems_add(b->problems, mark_line(&event->start_mark), mark_column(b, &event->start_mark),
		        "the text is nested deeper than %d levels", DOC_DEPTH_MAX);
		return -EINVAL;
	}
	int r = node_new(b, event, kind, &node);
	if (r < 0)
		return r;
	b->levels[b->n_levels++] = (struct level){ .node = node };
	return 0;
}

static int key_compare(const struct doc_node *a, const struct doc_node *b)
{
	uint32_t n = a->n_key < b->n_key ? a->n_key : b->n_key;
	int order = memcmp(a->key, b->key, n);

	if (order == 0)
		order = (a->n_key > b->n_key) - (a->n_key < b->n_key);
	return order;
}

/* Equal keys in order of the text. */
static int member_compare(const void *left, const void *right)
{
	const struct doc_node *a = *(const struct doc_node *const *)left;
	const struct doc_node *b = *(const struct doc_node *const *)right;
	int order = key_compare(a, b);

	if (order == 0)
		order = (a->key_line > b->key_line) - (a->key_line < b->key_line);
	if (order == 0)
		order = (a->key_column > b->key_column) - (a->key_column < b->key_column);
	return order;
}

static int keys_check(struct builder *b, const struct doc_node *map)
{
	CLEANUP_FREE const struct doc_node **members = NULL;
	size_t n = 0;

	if (map->n_items < 2)
		return 0;
	members = calloc(map->n_items, sizeof(const struct doc_node *));
	if (!members)
		return -ENOMEM;
	for (const struct doc_node *item = map->first; item; item = item->next)
		members[n++] = item;
	qsort(members, n, sizeof(const struct doc_node *), member_compare);
	for (size_t i = 1; i < n; i++)
		if (key_compare(members[i - 1], members[i]) == 0)
			problems_add(b->problems, members[i]->key_line, members[i]->key_column,
			        "key '%s' is given twice, first at line %u; remove one",
			        QUOTED(members[i]->key), members[i - 1]->key_line);
	return 0;
}

static int level_close(struct builder *b)
{
	const struct doc_node *node = b->levels[--b->n_levels].node;

	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the parser closes only what it has opened */
	return node->kind == DOC_MAP ? keys_check(b, node) : 0;
}

static int properties_check(
        struct builder *b, const yaml_event_t *event, const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor)
		return refuse(b, &event->start_mark,
		        "anchors ('&x') are not supported; write the value out where it is used");
	if (tag)
		return refuse(b, &event->start_mark,
		        "tags ('!x') are not supported; the field says what its type is");
	return 0;
}

static int event_take(struct builder *b, const yaml_event_t *event)
{
	struct level *level = b->n_levels > 0 ? &b->levels[b->n_levels - 1] : NULL;
	int r = 0;

	switch (event->type) {
	case YAML_SCALAR_EVENT:
		r = properties_check(b, event, event->data.scalar.anchor, event->data.scalar.tag);
		break;
	case YAML_SEQUENCE_START_EVENT:
		r = properties_check(
		        b, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
		break;
	case YAML_MAPPING_START_EVENT:
		r = properties_check(
		        b, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return level_close(b);
	case YAML_ALIAS_EVENT:
		return refuse(b, &event->start_mark, "aliases ('*x') are not supported; write the value out");
	case YAML_DOCUMENT_START_EVENT:
		if (b->doc->root)
			return refuse(
			        b, &event->start_mark, "a second document starts here; one is expected");
		return 0;
	default:
		return 0;
	}
	if (r < 0)
		return r;
	if (level && level->node->kind == DOC_MAP && !level->has_key)
		return key_take(b, level, event);
	if (event->type == YAML_SCALAR_EVENT)
		return scalar_take(b, event);
	return level_open(b, event, event->type == YAML_MAPPING_START_EVENT ? DOC_MAP : DOC_LIST);
}

/* --- libyaml --- */

/* Where a byte offset is: the reader's errors have no mark. */
static void offset_find(
        const char *text, size_t n_text, size_t offset, unsigned *ret_line, unsigned *ret_column)
{
	unsigned line = 1, column = 1;

	for (size_t i = 0; i < n_text && i < offset; i++) {
		column += (text[i] & 0xc0) != 0x80;
		if (text[i] == '\n') {
			line++;
			column = 1;
		}
	}
	*ret_line = line;
	*ret_column = column;
}

static int parser_refusal(struct builder *b, const yaml_parser_t *parser, const char *text, size_t n_text)
{
	const char *problem = parser->problem ? parser->problem : "cannot be read";
	unsigned line, column;

	if (parser->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (parser->error == YAML_READER_ERROR) {
		offset_find(text, n_text, parser->problem_offset, &line, &column);
		problems_add(b->problems, line, column,
		        "%s; the text must be UTF-8 without control characters", problem);
		return -EINVAL;
	}
	line = mark_line(&parser->problem_mark);
	column = mark_column(b, &parser->problem_mark);
	if (parser->context)
		problems_add(b->problems, line, column, "%s, %s that began at line %zu", problem,
		        parser->context, parser->context_mark.line + 1);
	else
		problems_add(b->problems, line, column, "%s", problem);
	return -EINVAL;
}

static int events_take(struct builder *b, yaml_parser_t *parser, const char *text, size_t n_text)
{
	for (;;) {
		yaml_event_t event;

		if (!yaml_parser_parse(parser, &event))
			return parser_refusal(b, parser, text, n_text);
		bool end = event.type == YAML_STREAM_END_EVENT;
		int r = event_take(b, &event);
		yaml_event_delete(&event);
		if (r < 0 || end)
			return r;
	}
}

static int text_parse(struct builder *b, const char *text, size_t n_text)
{
	yaml_parser_t parser;

	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, n_text);
	int r = events_take(b, &parser, text, n_text);
	yaml_parser_delete(&parser);
	if (r < 0)
		return r;
	if (!b->doc->root)
		problems_add(b->problems, 1, 1, "the text is empty");
	return b->problems->n > 0 ? -EINVAL : 0;
}

int doc_parse(const char *text, size_t n_text, struct doc **ret, struct problems *problems)
{
	CLEANUP(doc) struct doc *doc = calloc(1, sizeof(*doc));
	CLEANUP_FREE struct builder *b = calloc(1, sizeof(*b));
	CLEANUP_FREE char *rewritten = NULL;
	struct json_edits edits;
	size_t n_rewritten;

	if (!doc || !b)
		return -ENOMEM;
	if (n_text > TEXT_SIZE_MAX) {
		problems_add(
		        problems, 0, 0, "the text has %zu bytes; at most %d are read", n_text, TEXT_SIZE_MAX);
		return -EINVAL;
	}
	int r = json_escapes_rewrite(text, n_text, &rewritten, &n_rewritten, &edits);
	if (r < 0)
		return r;
	*b = (struct builder){ .doc = doc, .problems = problems, .edits = &edits };
	r = text_parse(b, rewritten ? rewritten : text, rewritten ? n_rewritten : n_text);
	json_edits_done(&edits);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(doc);
	return 0;
}

const struct doc_node *doc_root(const struct doc *doc)
{
	return doc->root;
}

struct doc *doc_free(struct doc *doc)
{
	if (!doc)
		return NULL;
	for (struct chunk *chunk = doc->chunks, *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(doc);
	return NULL;
}

const struct doc_node *doc_get(const struct doc_node *map, const char *key)
{
	size_t n = strlen(key);

	if (!map || map->kind != DOC_MAP)
		return NULL;
	for (const struct doc_node *item = map->first; item; item = item->next)
		if (item->n_key == n && memcmp(item->key, key, n) == 0)
			return item;
	return NULL;
}

const char *doc_kind_text(enum doc_kind kind)
{
	switch (kind) {
	case DOC_NULL:
		return "null";
	case DOC_BOOL:
		return "true or false";
	case DOC_NUMBER:
		return "a number";
	case DOC_STRING:
		return "text";
	case DOC_LIST:
		return "a list";
	case DOC_MAP:
		return "a mapping";
	}
	return NULL;
}
