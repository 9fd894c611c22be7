/* What bcctl doctor found out about one prerequisite. */
#pragma once

#include <stddef.h>

enum finding_level {
	FINDING_OK,
	FINDING_WARN, /* something will not work, or not well; the rest does */
	FINDING_FAIL, /* no VM will run */
};

struct finding {
	enum finding_level level;
	const char *what; /* weak: "KVM" */
	char detail[256];
	char mend[256]; /* what to do; "" when all is well */
};

struct findings {
	struct finding *items; /* owned */
	size_t n, n_room;
};

/* mend may be NULL. Running out of memory loses the finding and says so in none: a doctor without memory is no help. */
void findings_add(struct findings *findings, enum finding_level level, const char *what, const char *mend,
        const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void findings_done(struct findings *findings);
enum finding_level findings_worst(const struct findings *findings);
const char *finding_level_text(enum finding_level level); /* "OK", "WARN", "FAIL" */
