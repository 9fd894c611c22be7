/* One action of one instance, carried out call by call. An instance has at most one. */
#pragma once

#include "svc-converger/converger.h"
#include "svc-converger/instance_view.h"

/* Begins what the machine decided from view. Its end marks the instance for another look; a failure becomes its
 * trouble. */
void operation_begin(struct converger *converger, struct instance *instance, enum machine_action action,
        const struct instance_view *view);
enum machine_action operation_action(const struct operation *operation);
/* The wish has changed: what is under way for a start is given up, its outcome is seen, not assumed. */
void operation_give_up(struct operation *operation);
/* The service ends: it ends soon, with whatever outcome. */
void operation_abort(struct operation *operation);
