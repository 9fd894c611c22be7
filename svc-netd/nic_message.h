/* NICs as messages. Each result is owned by the caller: protobuf_c_message_free_unpacked(). NULL: out of
 * memory. */
#pragma once

#include "svc-netd/nics.h"

#include <bc/v1/netd.pb-c.h>

Bc__V1__PreparedNic *nic_to_message(const struct nic *nic);
Bc__V1__RemoveReply *nic_removal_to_message(const struct nic_removal *removal);
/* instance_id "": all of them. */
Bc__V1__NetdListReply *nic_views_to_message(const struct nic_view *views, size_t n, const char *instance_id);
