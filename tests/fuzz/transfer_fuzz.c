/* The lines that bc-converger and bc-transfer exchange. */
#include "svc-converger/transfer/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	char *text = malloc(n_data + 1), again[TRANSFER_ORDER_TEXT_MAX], line[TRANSFER_LINE_MAX];
	struct transfer_order order, back;
	struct transfer_report report;

	if (!text)
		return 0;
	memcpy(text, data, n_data);
	text[n_data] = '\0';
	/* What is taken can be written, and is the same when read again. */
	if (transfer_order_read(text, &order) == 0 &&
	        (transfer_order_write(&order, again) != 0 || transfer_order_read(again, &back) != 0 ||
	                memcmp(&order, &back, sizeof(order)) != 0))
		abort();
	if (transfer_report_read(text, &report) == 0)
		transfer_report_write(&report, line);
	free(text);
	return 0;
}
