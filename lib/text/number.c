#include "lib/text/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPONENT_MAX = 400 };

/* sign, digits and a power of ten; the digits are those of the text without the point. */
struct decimal {
	bool negative;
	const char *whole, *fraction;
	size_t n_whole, n_fraction;
	long exponent;
};

static size_t digits_count(const char *p)
{
	return strspn(p, "0123456789");
}

/* The grammar of JSON numbers. */
static bool decimal_scan(const char *p, struct decimal *ret)
{
	struct decimal d = { .negative = *p == '-' };

	p += d.negative;
	d.whole = p;
	d.n_whole = digits_count(p);
	if (d.n_whole == 0 || (d.whole[0] == '0' && d.n_whole > 1))
		return false;
	p += d.n_whole;
	if (*p == '.') {
		d.fraction = ++p;
		d.n_fraction = digits_count(p);
		if (d.n_fraction == 0)
			return false;
		p += d.n_fraction;
	}
	if (*p == 'e' || *p == 'E') {
		p++;
		if (*p != '+' && *p != '-' && (*p < '0' || *p > '9'))
			return false;
		char *end;
		errno = 0;
		d.exponent = strtol(p, &end, 10);
		if (end == p || errno == ERANGE || d.exponent > EXPONENT_MAX || d.exponent < -EXPONENT_MAX)
			return false;
		p = end;
	}
	*ret = d;
	return *p == '\0';
}

static char decimal_digit(const struct decimal *d, size_t i)
{
	if (i < d->n_whole)
		return d->whole[i];
	i -= d->n_whole;
	return i < d->n_fraction ? d->fraction[i] : '0';
}

/* The whole number it comes to, without its sign. */
static int decimal_magnitude(const struct decimal *d, uint64_t *ret)
{
	long n_kept = (long)d->n_whole + d->exponent;
	size_t n_all = d->n_whole + d->n_fraction;
	uint64_t value = 0;

	/* What falls behind the point must be zeros. */
	for (size_t i = n_kept > 0 ? (size_t)n_kept : 0; i < n_all; i++)
		if (decimal_digit(d, i) != '0')
			return -EINVAL;
	for (long i = 0; i < n_kept; i++) {
		uint64_t digit = (uint64_t)(decimal_digit(d, (size_t)i) - '0');

		if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
		        __builtin_add_overflow(value, digit, &value))
			return -ERANGE;
	}
	*ret = value;
	return 0;
}

static int integer_parse(const char *text, uint64_t *ret_magnitude, bool *ret_negative)
{
	struct decimal d;

	if (!decimal_scan(text, &d))
		return -EINVAL;
	*ret_negative = d.negative;
	return decimal_magnitude(&d, ret_magnitude);
}

int number_parse_u64(const char *text, uint64_t *ret)
{
	uint64_t magnitude;
	bool negative;
	int r = integer_parse(text, &magnitude, &negative);

	if (r < 0)
		return r;
	if (negative && magnitude > 0)
		return -ERANGE;
	*ret = magnitude;
	return 0;
}

int number_parse_i64(const char *text, int64_t *ret)
{
	uint64_t magnitude;
	bool negative;
	int r = integer_parse(text, &magnitude, &negative);

	if (r < 0)
		return r;
	if (magnitude > (uint64_t)INT64_MAX + negative)
		return -ERANGE;
	*ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	return 0;
}

/* strtod without the locale's decimal point. */
static double double_of(const char *text)
{
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	double value = strtod_l(text, NULL, c_locale);

	freelocale(c_locale);
	return value;
}

int number_parse_double(const char *text, double *ret)
{
	struct decimal d;

	if (strcmp(text, "NaN") == 0) {
		*ret = (double)NAN;
	} else if (strcmp(text, "Infinity") == 0) {
		*ret = HUGE_VAL;
	} else if (strcmp(text, "-Infinity") == 0) {
		*ret = -HUGE_VAL;
	} else {
		if (!decimal_scan(text, &d))
			return -EINVAL;
		double value = double_of(text);
		if (isinf(value))
			return -ERANGE;
		*ret = value;
	}
	return 0;
}

bool number_guess_size(const char *text, uint64_t *ret)
{
	static const char UNITS[] = "kmgtKMGT";
	char digits[32];
	size_t n = strspn(text, "0123456789.");
	const char *unit = text + n;

	if (n == 0 || n >= sizeof(digits))
		return false;
	memcpy(digits, text, n);
	digits[n] = '\0';
	unit += *unit == ' ';
	const char *which = *unit ? strchr(UNITS, *unit) : NULL;
	if (!which ||
	        (unit[1] && strcmp(unit + 1, "B") != 0 && strcmp(unit + 1, "i") != 0 &&
	                strcmp(unit + 1, "iB") != 0))
		return false;
	double value = double_of(digits) * (double)(UINT64_C(1) << (10 * ((which - UNITS) % 4 + 1)));
	if (!(value < 9e18))
		return false;
	*ret = (uint64_t)value;
	return true;
}

int number_digits_double(double value)
{
	char text[40];

	for (int digits = 15; digits < 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			return digits;
	}
	return 17;
}

int number_digits_float(float value)
{
	char text[40];

	for (int digits = 6; digits < 9; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, (double)value);
		if (strtof(text, NULL) == value)
			return digits;
	}
	return 9;
}
