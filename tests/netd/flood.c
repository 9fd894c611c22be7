#include "tests/netd/flood.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct flood {
	struct port from, to;
	struct frame frame;
	pthread_t sender, listener;
	_Atomic uint64_t sent, heard;
	atomic_bool stop, stop_listening;
};

static void *send_all(void *userdata)
{
	struct flood *flood = userdata;

	while (!flood->stop) {
		lan_send(flood->from, &flood->frame);
		flood->sent++;
	}
	return NULL;
}

static void hear(struct flood *flood)
{
	uint8_t buffer[10 + FRAME_MAX];
	ssize_t n;

	while ((n = read(flood->to.fd, buffer, sizeof(buffer))) > 0) {
		if ((size_t)n >= 10 + flood->frame.size &&
		        memcmp(buffer + 10, flood->frame.data, flood->frame.size) == 0)
			flood->heard++;
	}
}

static void *hear_all(void *userdata)
{
	struct flood *flood = userdata;

	while (!flood->stop_listening) {
		hear(flood);
		(void)sched_yield();
	}
	hear(flood);
	return NULL;
}

struct flood *flood_start(struct port from, struct port to, const struct frame *frame)
{
	struct flood *flood = calloc(1, sizeof(*flood));

	if (!flood)
		abort();
	flood->from = from;
	flood->to = to;
	flood->frame = *frame;
	if (pthread_create(&flood->listener, NULL, hear_all, flood) != 0 ||
	        pthread_create(&flood->sender, NULL, send_all, flood) != 0)
		abort();
	return flood;
}

void flood_wait(struct flood *flood, uint64_t n)
{
	uint64_t until = flood->sent + n;

	while (flood->sent < until)
		(void)sched_yield();
}

uint64_t flood_stop(struct flood *flood, uint64_t *ret_sent)
{
	uint64_t heard;

	flood->stop = true;
	(void)pthread_join(flood->sender, NULL);
	flood->stop_listening = true;
	(void)pthread_join(flood->listener, NULL);
	heard = flood->heard;
	if (ret_sent)
		*ret_sent = flood->sent;
	free(flood);
	return heard;
}
