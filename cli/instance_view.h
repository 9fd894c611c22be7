/* How an instance's status looks in tables and lines. */
#pragma once

#include "cli/answer.h"

#include "bc/v1/status.pb-c.h"

enum style instance_state_style(Bc__V1__InstanceStatus__State state);
const char *instance_state_text(Bc__V1__InstanceStatus__State state, char buf[static ENUM_TEXT_MAX]);

/* Columns and rows of a table of instances. */
void instance_columns(struct table *table);
void instance_row(struct table *table, const Bc__V1__InstanceStatus *status, int64_t now_sec);
/* "ResourcesExhausted: needs …", with what is under way: "fetching image 43% of 512 MiB". Owned by the caller;
 * NULL without memory. */
char *instance_note(const Bc__V1__InstanceStatus *status, int64_t now_sec);
/* The first address with no prefix length, "" when there is none. Returns buf. */
char *instance_address(const Bc__V1__InstanceStatus *status, char *buf, size_t size);
