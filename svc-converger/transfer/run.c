#include "svc-converger/transfer/run.h"

#include "lib/base/clock.h"
#include "svc-converger/transfer/https.h"
#include "svc-converger/transfer/local_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define REPORT_PERIOD_USEC (UINT64_C(200) * USEC_PER_MSEC)

struct run {
	const struct transfer_order *order; /* weak */
	void (*report)(const struct transfer_report *report, void *userdata);
	void *userdata;
	uint64_t total_bytes; /* 0: unknown */
	uint64_t next_report_usec;
};

static void on_total(uint64_t total_bytes, void *userdata)
{
	struct run *run = userdata;

	run->total_bytes = total_bytes;
}

static void on_progress(uint64_t done_bytes, void *userdata)
{
	struct run *run = userdata;
	uint64_t now = clock_monotonic_usec();

	if (now < run->next_report_usec)
		return;
	run->next_report_usec = now + REPORT_PERIOD_USEC;
	run->report(&(struct transfer_report){ .kind = TRANSFER_PROGRESS,
	                    .done_bytes = done_bytes,
	                    .total_bytes = run->total_bytes },
	        run->userdata);
}

static bool is_file(const struct transfer_order *order)
{
	return strncmp(order->url, "file:", 5) == 0;
}

/* *ret_size is the file's when all of it is there and right. */
static int download_from(
        struct run *run, int fd, uint64_t offset, uint64_t *ret_size, bool *ret_permanent, struct err *err)
{
	const struct transfer_order *order = run->order;
	struct sink sink __attribute__((cleanup(sink_done))) = { 0 };
	int r = sink_open(fd, offset, order->max_bytes, &sink, err);

	if (r < 0)
		return r;
	sink.on_progress = on_progress;
	sink.userdata = run;
	/* A file that is there in full is only to be compared. */
	if (order->size_bytes == 0 || sink.done_bytes < order->size_bytes)
		r = (is_file(order) ? local_file_get : https_get)(
		        order, &sink, on_total, run, ret_permanent, err);
	/* "Nothing after that" may mean that all of it is there. */
	if (r == -ERANGE && sink.done_bytes > 0 &&
	        sink_finish(&sink, order->size_bytes, order->digest, NULL) == 0)
		r = 0;
	else if (r == 0)
		r = sink_finish(&sink, order->size_bytes, order->digest, err);
	if (r == -EBADMSG)
		*ret_permanent = true;
	if (r == 0)
		*ret_size = sink.done_bytes;
	return r;
}

static int download(struct run *run, int fd, uint64_t *ret_size, bool *ret_permanent, struct err *err)
{
	uint64_t offset = run->order->offset;
	int r = download_from(run, fd, offset, ret_size, ret_permanent, err);

	/* What an earlier attempt left may be of another file, or the server cannot go on from it. */
	if (offset > 0 && (r == -EBADMSG || r == -ERANGE || r == -EFBIG)) {
		*err = (struct err){ 0 };
		*ret_permanent = false;
		r = download_from(run, fd, 0, ret_size, ret_permanent, err);
	}
	return r == -ERANGE ? err_set(err, -EIO, "the server refuses to send the file from its beginning")
	                    : r;
}

static int upload(struct run *run, int fd, uint64_t *ret_size, bool *ret_permanent, struct err *err)
{
	const struct transfer_order *order = run->order;
	struct source source __attribute__((cleanup(source_done))) = { 0 };
	int r = source_open(fd, order->size_bytes, order->digest, &source, err);

	if (r < 0) {
		*ret_permanent = r == -EBADMSG;
		return r;
	}
	source.on_progress = on_progress;
	source.userdata = run;
	run->total_bytes = order->size_bytes;
	*ret_size = order->size_bytes;
	return is_file(order) ? local_file_put(order, &source, ret_permanent, err)
	                      : https_put(order, &source, ret_permanent, err);
}

void transfer_run(const struct transfer_order *order, int fd,
        void (*report)(const struct transfer_report *report, void *userdata), void *userdata)
{
	struct run run = {
		.order = order, .report = report, .userdata = userdata, .total_bytes = order->size_bytes
	};
	struct transfer_report last = { .kind = TRANSFER_DONE };
	struct err err = { 0 };
	int r = order->upload ? upload(&run, fd, &last.done_bytes, &last.permanent, &err)
	                      : download(&run, fd, &last.done_bytes, &last.permanent, &err);

	if (r < 0) {
		last.kind = TRANSFER_FAILED;
		last.r = r;
		(void)snprintf(last.text, sizeof(last.text), "%s", err_text(&err, r));
	}
	report(&last, userdata);
}
