#include "svc-converger/transfer/wire.h"

#include "lib/base/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_line(const char *s)
{
	return !strpbrk(s, "\r\n");
}

int transfer_order_write(const struct transfer_order *order, char buf[static TRANSFER_ORDER_TEXT_MAX])
{
	int n;

	if (!is_line(order->url) || !is_line(order->digest) || !is_line(order->ca_path))
		return -EINVAL;
	n = snprintf(buf, TRANSFER_ORDER_TEXT_MAX,
	        "%s\nurl %s\noffset %" PRIu64 "\nsize %" PRIu64 "\nmax %" PRIu64
	        "\ndigest %s\nca %s\nstall %" PRIu64 "\nend\n",
	        order->upload ? "put" : "get", order->url, order->offset, order->size_bytes, order->max_bytes,
	        order->digest, order->ca_path, order->stall_sec);
	return n < 0 || n >= TRANSFER_ORDER_TEXT_MAX ? -EINVAL : 0;
}

/* Takes "name value\n" from the front of *text; the value is copied. */
static int take_string(const char **text, const char *name, char *ret, size_t size)
{
	size_t n_name = strlen(name);
	const char *end = strchr(*text, '\n');

	if (!end || strncmp(*text, name, n_name) != 0 || (*text)[n_name] != ' ')
		return -EINVAL;
	const char *value = *text + n_name + 1;

	if (value > end || (size_t)(end - value) >= size || memchr(value, '\r', (size_t)(end - value)))
		return -EINVAL;
	memcpy(ret, value, (size_t)(end - value));
	ret[end - value] = '\0';
	*text = end + 1;
	return 0;
}

static int number_read(const char *s, uint64_t *ret)
{
	char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long value = strtoull(s, &end, 10);

	if (errno || *end)
		return -EINVAL;
	*ret = value;
	return 0;
}

static int take_number(const char **text, const char *name, uint64_t *ret)
{
	char value[24];
	int r = take_string(text, name, value, sizeof(value));

	return r < 0 ? r : number_read(value, ret);
}

int transfer_order_read(const char *text, struct transfer_order *ret)
{
	struct transfer_order order = { 0 };
	int r = 0;

	if (strncmp(text, "put\n", 4) == 0)
		order.upload = true;
	else if (strncmp(text, "get\n", 4) != 0)
		return -EINVAL;
	text += 4;
	r = r < 0 ? r : take_string(&text, "url", order.url, sizeof(order.url));
	r = r < 0 ? r : take_number(&text, "offset", &order.offset);
	r = r < 0 ? r : take_number(&text, "size", &order.size_bytes);
	r = r < 0 ? r : take_number(&text, "max", &order.max_bytes);
	r = r < 0 ? r : take_string(&text, "digest", order.digest, sizeof(order.digest));
	r = r < 0 ? r : take_string(&text, "ca", order.ca_path, sizeof(order.ca_path));
	r = r < 0 ? r : take_number(&text, "stall", &order.stall_sec);
	if (r < 0 || strcmp(text, "end\n") != 0)
		return -EINVAL;
	*ret = order;
	return 0;
}

void transfer_report_write(const struct transfer_report *report, char buf[static TRANSFER_LINE_MAX])
{
	switch (report->kind) {
	case TRANSFER_PROGRESS:
		(void)snprintf(buf, TRANSFER_LINE_MAX, "progress %" PRIu64 " %" PRIu64 "\n",
		        report->done_bytes, report->total_bytes);
		return;
	case TRANSFER_DONE:
		(void)snprintf(buf, TRANSFER_LINE_MAX, "done %" PRIu64 "\n", report->done_bytes);
		return;
	case TRANSFER_FAILED:
		(void)snprintf(buf, TRANSFER_LINE_MAX, "failed %d %d %s\n", -report->r, report->permanent,
		        report->text);
		for (char *c = buf; c[0] && c[1]; c++)
			if (*c == '\n' || *c == '\r')
				*c = ' ';
		return;
	}
}

static int failure_read(const char *s, struct transfer_report *ret)
{
	int code, permanent, n = 0;

	if (sscanf(s, "%6d %1d %n", &code, &permanent, &n) != 2 || n == 0 || code <= 0 || code > 4095)
		return -EINVAL;
	ret->kind = TRANSFER_FAILED;
	ret->r = -code;
	ret->permanent = permanent != 0;
	(void)snprintf(ret->text, sizeof(ret->text), "%s", s + n);
	return 0;
}

int transfer_report_read(const char *line, struct transfer_report *ret)
{
	char first[24], *space;
	int r;

	*ret = (struct transfer_report){ 0 };
	if (strncmp(line, "failed ", 7) == 0)
		return failure_read(line + 7, ret);
	if (strncmp(line, "done ", 5) == 0) {
		ret->kind = TRANSFER_DONE;
		return number_read(line + 5, &ret->done_bytes);
	}
	if (strncmp(line, "progress ", 9) != 0 || strlen(line + 9) >= 2 * sizeof(first))
		return -EINVAL;
	ret->kind = TRANSFER_PROGRESS;
	space = strchr(line + 9, ' ');
	if (!space || (size_t)(space - line - 9) >= sizeof(first))
		return -EINVAL;
	memcpy(first, line + 9, (size_t)(space - line - 9));
	first[space - line - 9] = '\0';
	r = number_read(first, &ret->done_bytes);
	return r < 0 ? r : number_read(space + 1, &ret->total_bytes);
}

char *transfer_url_shown(const char *url, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%.*s", (int)strcspn(url, "?#"), url);
	return buf;
}
