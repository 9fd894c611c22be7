#include "cli/progress.h"

#include "cli/human.h"
#include "cli/style.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR = 24 };

void progress_init(struct progress *progress, struct cli *cli)
{
	const char *term = getenv("TERM");

	*progress = (struct progress){
		.cli = cli,
		.terminal = isatty(fileno(cli->err)) && term && strcmp(term, "dumb") != 0,
	};
}

static void show(struct progress *progress, const char *text, const char *identity)
{
	char *safe;

	if (!progress->terminal && strcmp(progress->last, identity) == 0)
		return;
	(void)snprintf(progress->last, sizeof(progress->last), "%s", identity);
	safe = style_safe(text);
	(void)fprintf(progress->cli->err, "%s%s%s", progress->terminal ? "\r\033[K" : "", safe ? safe : "",
	        progress->terminal ? "" : "\n");
	(void)fflush(progress->cli->err);
	progress->open = progress->terminal;
	free(safe);
}

void progress_bytes(struct progress *progress, const char *what, uint64_t done_bytes, uint64_t total_bytes)
{
	char text[256], bar[BAR + 1], done[HUMAN_MAX], total[HUMAN_MAX];

	if (total_bytes == 0) {
		(void)snprintf(text, sizeof(text), "%.100s  %s", what, human_bytes(done_bytes, done));
	} else {
		uint64_t filled = done_bytes < total_bytes
		        ? (uint64_t)((double)BAR * (double)done_bytes / (double)total_bytes)
		        : BAR;

		for (size_t i = 0; i < BAR; i++)
			bar[i] = i < filled ? '=' : ' ';
		bar[BAR] = '\0';
		(void)snprintf(text, sizeof(text), "%.100s  [%s] %s of %s", what, bar,
		        human_bytes(done_bytes, done), human_bytes(total_bytes, total));
	}
	show(progress, text, what);
}

void progress_text(struct progress *progress, const char *text)
{
	show(progress, text, text);
}

void progress_done(struct progress *progress)
{
	if (progress->open)
		(void)fputc('\n', progress->cli->err);
	progress->open = false;
}
