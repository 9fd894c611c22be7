/* What --help prints, made from the table of commands. */
#pragma once

#include "cli/command.h"

#include <stdio.h>

void help_all(FILE *to);
/* group is the verb in front of it, or NULL. */
void help_command(const struct command *command, const char *group, FILE *to);
