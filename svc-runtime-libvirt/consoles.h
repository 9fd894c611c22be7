/* The consoles of the table's managed domains: made when one is first seen, open on the serial port of each that runs, and
 * telling the table what guests say of themselves. Loop thread. */
#pragma once

#include "svc-runtime-libvirt/runtime.h"

/* Gives entry a console, unless it has no directory here. */
void consoles_make(struct runtime *runtime, struct domain_entry *entry);
/* Opens the port of entry if it runs and its port is not open; consoles_attach_all() that of every one. */
void consoles_attach(struct runtime *runtime, struct domain_entry *entry);
void consoles_attach_all(struct runtime *runtime);
/* The same in a moment: somebody else has the port just now, or the guest is ending. */
void consoles_attach_later(struct runtime *runtime);
