#include "protos/descriptor_set.h"

/* clang-format off */
__asm__(".section .rodata\n"
	".global bc_descriptor_set, bc_descriptor_set_end\n"
	".hidden bc_descriptor_set_end\n"
	"bc_descriptor_set: .incbin \"" BC_DESCRIPTOR_SET "\"\n"
	"bc_descriptor_set_end: .byte 0\n"
	".balign 8\n"
	".global bc_descriptor_set_size\n"
	"bc_descriptor_set_size: .quad bc_descriptor_set_end - bc_descriptor_set\n"
	".previous\n");
/* clang-format on */
