/* A JSON tree as YAML for people: block style, texts of several lines as literals, quotes only where a
 * reader of YAML 1.1 or 1.2 would take a text for something else. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* *ret_text is owned by the caller. -ENOMEM. */
int yaml_text(const json_t *tree, char **ret_text);

/* True when a plain scalar of that text would be read as null, a boolean, a number or a date by some
 * version of YAML. */
bool yaml_text_is_ambiguous(const char *text);
