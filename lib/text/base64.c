#include "lib/text/base64.h"

#include "lib/base/cleanup.h"

#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

char *base64_encode(const uint8_t *data, size_t n_data)
{
	if (n_data > INT_MAX / 4 * 3 - 4)
		return NULL;
	char *text = malloc((n_data + 2) / 3 * 4 + 1);

	if (text)
		(void)EVP_EncodeBlock((unsigned char *)text, data, (int)n_data);
	return text;
}

static char standard_letter(char c)
{
	if (c == '-')
		return '+';
	return c == '_' ? '/' : c;
}

int base64_decode(const char *text, size_t n_text, uint8_t **ret_data, size_t *ret_size)
{
	static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_";
	size_t n_letters = n_text;

	while (n_letters > 0 && n_text - n_letters < 2 && text[n_letters - 1] == '=')
		n_letters--;
	if (n_letters % 4 == 1 || (n_letters != n_text && n_text % 4 != 0) || n_text > INT_MAX - 4)
		return -EINVAL;
	if (n_letters == 0) {
		*ret_data = NULL;
		*ret_size = 0;
		return n_text == 0 ? 0 : -EINVAL;
	}
	size_t n_padded = (n_letters + 3) / 4 * 4;
	CLEANUP_FREE char *padded = malloc(n_padded);
	CLEANUP_FREE uint8_t *data = malloc(n_padded / 4 * 3);
	if (!padded || !data)
		return -ENOMEM;
	memset(padded, '=', n_padded);
	for (size_t i = 0; i < n_letters; i++) {
		if (!text[i] || !strchr(LETTERS, text[i]))
			return -EINVAL;
		padded[i] = standard_letter(text[i]);
	}
	int n = EVP_DecodeBlock(data, (const unsigned char *)padded, (int)n_padded);
	if (n < 0)
		return -EINVAL;
	*ret_size = (size_t)n - (n_padded - n_letters);
	*ret_data = TAKE_PTR(data);
	return 0;
}
