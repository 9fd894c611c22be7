#include "cli/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void findings_add(struct findings *findings, enum finding_level level, const char *what, const char *mend,
        const char *fmt, ...)
{
	struct finding *finding;
	va_list ap;

	if (findings->n == findings->n_room) {
		size_t n = findings->n_room ? 2 * findings->n_room : 32;
		struct finding *items = reallocarray(findings->items, n, sizeof(*items));

		if (!items)
			return;
		findings->items = items;
		findings->n_room = n;
	}
	finding = &findings->items[findings->n++];
	finding->level = level;
	finding->what = what;
	va_start(ap, fmt);
	(void)vsnprintf(finding->detail, sizeof(finding->detail), fmt, ap);
	va_end(ap);
	(void)snprintf(finding->mend, sizeof(finding->mend), "%s", mend && level != FINDING_OK ? mend : "");
}

void findings_done(struct findings *findings)
{
	free(findings->items);
	*findings = (struct findings){ 0 };
}

enum finding_level findings_worst(const struct findings *findings)
{
	enum finding_level worst = FINDING_OK;

	for (size_t i = 0; i < findings->n; i++)
		worst = findings->items[i].level > worst ? findings->items[i].level : worst;
	return worst;
}

const char *finding_level_text(enum finding_level level)
{
	switch (level) {
	case FINDING_OK:
		return "OK";
	case FINDING_WARN:
		return "WARN";
	case FINDING_FAIL:
		return "FAIL";
	}
	return NULL;
}
