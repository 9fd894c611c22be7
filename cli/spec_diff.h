/* What differs between two NodeSpecs, for people: instances, volumes, holds and GPUs are matched by their ids, so that
 * their order says nothing; the revision is left out. */
#pragma once

#include "bc/v1/node.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* old may be NULL. Prints "+", "-" and "~" lines and returns how many things differ; -ENOMEM. */
int spec_diff_print(const Bc__V1__NodeSpec *old_spec, const Bc__V1__NodeSpec *new_spec, FILE *to, bool color);
