/* The boot sector of the smallest disk: says so on the first serial port and halts for ever. */
	.code16
	.globl _start
_start:
	ljmp $0, $main
main:
	xorw %ax, %ax
	movw %ax, %ds
	movw $text, %si
	movw $0x3f8, %dx
next:
	lodsb
	testb %al, %al
	jz halt
	outb %al, %dx
	jmp next
halt:
	hlt
	jmp halt
text:
	.asciz "GUEST-READY smallest\r\n"
	.org 510
	.word 0xaa55
