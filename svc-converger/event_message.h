/* An event as a message. */
#pragma once

#include "svc-converger/events.h"

#include "bc/v1/converger.pb-c.h"

struct event_message {
	Bc__V1__Event message;
	Google__Protobuf__Timestamp time;
};
/* Valid as long as the event. */
void event_message_init(const struct event *event, struct event_message *ret);
