#include "lib/text/json_escapes.h"

#include "lib/base/cleanup.h"
#include "lib/base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Where a scan is. A quote opens a quoted text only where a value may start; elsewhere it is a letter of a
 * plain one. */
enum place { VALUE_START, PLAIN, DOUBLE_QUOTED, SINGLE_QUOTED, AFTER_QUOTED, COMMENT };

struct rewriter {
	const char *p, *end; /* the rest of the input */
	char *out;           /* owned; as large as the input, which never grows */
	size_t n_out;
	size_t n_line_out; /* where the current line starts in out */
	unsigned line;
	struct json_edits edits;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool hex4(const char *p, const char *end, uint32_t *ret)
{
	uint32_t value = 0;

	if (end - p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		uint32_t digit;

		if (c >= '0' && c <= '9')
			digit = (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			digit = (uint32_t)((c | 0x20) - 'a') + 10;
		else
			return false;
		value = value << 4 | digit;
	}
	*ret = value;
	return true;
}

static unsigned columns(const char *text, size_t n)
{
	unsigned count = 0;

	for (size_t i = 0; i < n; i++)
		count += (text[i] & 0xc0) != 0x80;
	return count;
}

static int edit_add(struct rewriter *w, int n_gone)
{
	struct json_edits *edits = &w->edits;

	/* Grows at powers of two. */
	if ((edits->n & (edits->n - 1)) == 0) {
		size_t n_room = edits->n ? edits->n * 2 : 1;
		struct json_edit *grown = reallocarray(edits->items, n_room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		edits->items = grown;
	}
	edits->items[edits->n++] = (struct json_edit){
		.line = w->line,
		.column = columns(w->out + w->n_line_out, w->n_out - w->n_line_out) + 1,
		.n_gone = n_gone,
	};
	return 0;
}

static void copy(struct rewriter *w, size_t n)
{
	for (; n > 0 && w->p < w->end; n--, w->p++) {
		w->out[w->n_out++] = *w->p;
		if (*w->p == '\n') {
			w->line++;
			w->n_line_out = w->n_out;
		}
	}
}

/* At a backslash inside double quotes. */
static int escape_rewrite(struct rewriter *w)
{
	uint32_t high, low;

	if (w->end - w->p >= 2 && w->p[1] == '/') {
		w->out[w->n_out++] = '/';
		w->p += 2;
		return edit_add(w, 1);
	}
	if (w->end - w->p >= 12 && w->p[1] == 'u' && w->p[6] == '\\' && w->p[7] == 'u' &&
	        hex4(w->p + 2, w->end, &high) && hex4(w->p + 8, w->end, &low) && high >= 0xd800 &&
	        high <= 0xdbff && low >= 0xdc00 && low <= 0xdfff) {
		uint32_t code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);

		w->n_out += utf8_encode(code, w->out + w->n_out);
		w->p += 12;
		return edit_add(w, 11);
	}
	copy(w, 2);
	return 0;
}

/* The code point at p when YAML refuses it, or takes it for a line break, as it stands; else 0. */
static uint32_t unwelcome(const char *p, const char *end)
{
	const unsigned char *u = (const unsigned char *)p;

	if (u[0] == 0x7f)
		return 0x7f;
	if (u[0] == 0xc2 && end - p >= 2 && u[1] >= 0x80 && u[1] <= 0x9f)
		return u[1];
	if (end - p < 3)
		return 0;
	if (u[0] == 0xe2 && u[1] == 0x80 && (u[2] == 0xa8 || u[2] == 0xa9))
		return 0x2028 + u[2] - 0xa8;
	if (u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf)
		return 0xfeff;
	if (u[0] == 0xef && u[1] == 0xbf && (u[2] == 0xbe || u[2] == 0xbf))
		return 0xfffe + u[2] - 0xbe;
	return 0;
}

static int character_escape(struct rewriter *w, uint32_t code)
{
	int n = sprintf(w->out + w->n_out, "\\u%04x", code);

	w->n_out += (size_t)n;
	w->p += utf8_char_size(w->p, (size_t)(w->end - w->p));
	return edit_add(w, 1 - n);
}

/* One character inside double quotes; true in *ret_closed for the closing quote. */
static int quoted_rewrite(struct rewriter *w, bool *ret_closed)
{
	uint32_t code = unwelcome(w->p, w->end);

	*ret_closed = *w->p == '"';
	if (code)
		return character_escape(w, code);
	if (*w->p == '\\')
		return escape_rewrite(w);
	copy(w, 1);
	return 0;
}

static enum place outside_next(enum place place, char c, char next)
{
	if (is_blank(c))
		return next == '#' ? COMMENT : place;
	if (strchr("{}[],", c))
		return VALUE_START;
	if (c == ':' && (place == AFTER_QUOTED || is_blank(next)))
		return VALUE_START;
	if (place == VALUE_START && c == '"')
		return DOUBLE_QUOTED;
	if (place == VALUE_START && c == '\'')
		return SINGLE_QUOTED;
	if (place == VALUE_START && c == '#')
		return COMMENT;
	return PLAIN;
}

static int rewrite(struct rewriter *w)
{
	enum place place = VALUE_START;

	while (w->p < w->end) {
		char c = *w->p, next = w->p + 1 < w->end ? w->p[1] : ' ';
		bool closed = false;
		int r;

		switch (place) {
		case DOUBLE_QUOTED:
			r = quoted_rewrite(w, &closed);
			if (r < 0)
				return r;
			place = closed ? AFTER_QUOTED : place;
			continue;
		case SINGLE_QUOTED:
			/* '' inside is seen as an end and a start: the same in effect. */
			if (c == '\'')
				place = next == '\'' ? VALUE_START : AFTER_QUOTED;
			break;
		case COMMENT:
			place = c == '\n' ? VALUE_START : place;
			break;
		case VALUE_START:
		case PLAIN:
		case AFTER_QUOTED:
			place = outside_next(place, c, next);
			if (c == '\t' && place != PLAIN) {
				w->out[w->n_out++] = ' ';
				w->p++;
				continue;
			}
			break;
		}
		copy(w, 1);
	}
	return 0;
}

/* Room for the text with every character escaped that may have to be: six bytes instead of one to three. */
static size_t room_needed(const char *text, size_t n_text)
{
	size_t n = n_text + 1;

	for (size_t i = 0; i < n_text; i++)
		if (text[i] == 0x7f || text[i] == (char)0xc2 || text[i] == (char)0xe2 ||
		        text[i] == (char)0xef)
			n += 5;
	return n;
}

static bool is_flow_document(const char *text, size_t n_text)
{
	size_t i = 0;

	while (i < n_text && is_blank(text[i]))
		i++;
	return i < n_text && (text[i] == '{' || text[i] == '[');
}

int json_escapes_rewrite(
        const char *text, size_t n_text, char **ret_text, size_t *ret_size, struct json_edits *ret_edits)
{
	struct rewriter w = { .p = text, .end = text + n_text, .line = 1 };

	if (!is_flow_document(text, n_text)) {
		*ret_text = NULL;
		*ret_size = 0;
		*ret_edits = (struct json_edits){ 0 };
		return 0;
	}
	w.out = malloc(room_needed(text, n_text) + 1);
	if (!w.out)
		return -ENOMEM;
	int r = rewrite(&w);
	if (r < 0) {
		free(w.out);
		json_edits_done(&w.edits);
		return r;
	}
	w.out[w.n_out] = '\0';
	*ret_text = w.out;
	*ret_size = w.n_out;
	*ret_edits = w.edits;
	return 0;
}

void json_edits_done(struct json_edits *edits)
{
	free(edits->items);
	*edits = (struct json_edits){ 0 };
}

static bool is_behind(const struct json_edit *edit, unsigned line, unsigned column)
{
	return edit->line < line || (edit->line == line && edit->column <= column);
}

unsigned json_edits_column(
        const struct json_edits *edits, struct json_cursor *cursor, unsigned line, unsigned column)
{
	if (cursor->i > 0 && !is_behind(&edits->items[cursor->i - 1], line, column))
		*cursor = (struct json_cursor){ 0 };
	for (; cursor->i < edits->n && is_behind(&edits->items[cursor->i], line, column); cursor->i++) {
		const struct json_edit *edit = &edits->items[cursor->i];

		if (edit->line != cursor->line)
			cursor->n_gone = 0;
		cursor->line = edit->line;
		cursor->n_gone += edit->n_gone;
	}
	return cursor->line == line ? (unsigned)((int)column + cursor->n_gone) : column;
}
