#include "svc-converger/event_message.h"

#include "lib/base/clock.h"

static Bc__V1__Event__Severity severity_of(enum event_severity severity)
{
	switch (severity) {
	case EVENT_INFO:
		return BC__V1__EVENT__SEVERITY__INFO;
	case EVENT_WARNING:
		return BC__V1__EVENT__SEVERITY__WARNING;
	case EVENT_ERROR:
		return BC__V1__EVENT__SEVERITY__ERROR;
	}
	return BC__V1__EVENT__SEVERITY__SEVERITY_UNSPECIFIED;
}

void event_message_init(const struct event *event, struct event_message *ret)
{
	Bc__V1__Event *message = &ret->message;

	bc__v1__event__init(message);
	google__protobuf__timestamp__init(&ret->time);
	ret->time.seconds = (int64_t)(event->time_usec / USEC_PER_SEC);
	ret->time.nanos = (int32_t)(event->time_usec % USEC_PER_SEC * NSEC_PER_USEC);
	message->sequence = event->sequence;
	message->time = &ret->time;
	message->instance_id = (char *)event->instance_id;
	message->severity = severity_of(event->severity);
	message->reason = (char *)event->reason;
	message->message = event->message ? event->message : (char *)"";
}
