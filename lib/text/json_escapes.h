/* What JSON has and libyaml does not take, rewritten into what it does: the escapes "\/" and
 * "\ud83d\ude00" (a surrogate pair), characters that YAML wants escaped inside double quotes (DEL, C1
 * controls, U+2028, …), and tabs between tokens. Only in texts that are a JSON (or YAML flow) document. */
#pragma once

#include <stddef.h>

struct json_edit {
	unsigned line;   /* from 1 */
	unsigned column; /* from 1, in the rewritten text: the first one behind the edit */
	int n_gone;      /* columns the edit took away; below 0: that it added */
};

struct json_edits {
	struct json_edit *items; /* owned; in order of position */
	size_t n;
};

/* *ret_text is owned by the caller, NULL for a text of another kind. */
int json_escapes_rewrite(
        const char *text, size_t n_text, char **ret_text, size_t *ret_size, struct json_edits *ret_edits);
void json_edits_done(struct json_edits *edits);

/* Where the last question was: asking forward is cheap. Starts zeroed. */
struct json_cursor {
	size_t i;      /* edits before it are behind the position */
	unsigned line; /* that n_gone belongs to */
	int n_gone;    /* on this line, by edits before i */
};

/* The column in the original text of a position in the rewritten one. */
unsigned json_edits_column(
        const struct json_edits *edits, struct json_cursor *cursor, unsigned line, unsigned column);
