/* The smallest kernel: a PVH ELF file for QEMU's -kernel that says so on the first serial port and halts. */
	.section .note.Xen, "a", @note
	.long 4, 4, 18 /* XEN_ELFNOTE_PHYS32_ENTRY */
	.asciz "Xen"
	.long _start

	.section .text, "ax", @progbits
	.code32
	.globl _start
_start:
	movl $text, %esi
	movw $0x3f8, %dx
next:
	movb (%esi), %al
	incl %esi
	testb %al, %al
	jz halt
	outb %al, %dx
	jmp next
halt:
	hlt
	jmp halt
text:
	.asciz "GUEST-READY smallest\r\n"
