#include "lib/base/ids.h"

#include "lib/base/quote.h"

#include <errno.h>
#include <string.h>

static const char LOWER_HEX[] = "0123456789abcdef";
static const char VOLUME_ID_CHARS[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
static const char SERIAL_CHARS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

/* True when s has 1…max bytes, all of them from chars. */
static bool made_of(const char *s, const char *chars, size_t max)
{
	if (!s)
		return false;
	size_t n = strspn(s, chars);
	return s[n] == '\0' && n >= 1 && n <= max;
}

bool uuid_is_valid(const char *s)
{
	if (!s || strnlen(s, UUID_TEXT_MAX) != UUID_TEXT_MAX - 1)
		return false;
	for (size_t i = 0; i < UUID_TEXT_MAX - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : !strchr(LOWER_HEX, s[i]))
			return false;
	}
	return true;
}

bool digest_is_valid(const char *s)
{
	static const char PREFIX[] = "sha256:";

	if (!s || strncmp(s, PREFIX, sizeof(PREFIX) - 1) != 0)
		return false;
	s += sizeof(PREFIX) - 1;
	return strnlen(s, 65) == 64 && made_of(s, LOWER_HEX, 64);
}

bool volume_id_is_valid(const char *s)
{
	return made_of(s, VOLUME_ID_CHARS, VOLUME_ID_MAX - 1);
}

bool serial_is_valid(const char *s)
{
	return made_of(s, SERIAL_CHARS, SERIAL_MAX - 1);
}

bool ifname_is_valid(const char *s)
{
	if (!s || !s[0] || strnlen(s, IFNAME_MAX) == IFNAME_MAX || strcmp(s, ".") == 0 ||
	        strcmp(s, "..") == 0)
		return false;
	for (; *s; s++)
		/* '%' is legal in a name, but TUNSETIFF expands "%d" in it. */
		if (*s <= ' ' || *s >= 0x7f || strchr("/:%", *s))
			return false;
	return true;
}

static int checked(bool valid, const char *what, const char *s, const char *right, struct err *err)
{
	if (valid)
		return 0;
	return err_set(err, -EINVAL, "%s: '%s' is not %s", what, QUOTED(s), right);
}

int uuid_check(const char *what, const char *s, struct err *err)
{
	return checked(uuid_is_valid(s), what, s,
	        "a UUID; write 8-4-4-4-12 lower-case hex digits, such as "
	        "6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11",
	        err);
}

int digest_check(const char *what, const char *s, struct err *err)
{
	return checked(
	        digest_is_valid(s), what, s, "a digest; write sha256: and 64 lower-case hex digits", err);
}

int volume_id_check(const char *what, const char *s, struct err *err)
{
	return checked(volume_id_is_valid(s), what, s,
	        "a volume id; write 1 to 64 characters of a-z, 0-9 and '-'", err);
}

int serial_check(const char *what, const char *s, struct err *err)
{
	return checked(serial_is_valid(s), what, s,
	        "a disk serial; write 1 to 20 characters of A-Z, a-z, 0-9, '.', '_' and '-'", err);
}

int ifname_check(const char *what, const char *s, struct err *err)
{
	return checked(ifname_is_valid(s), what, s,
	        "an interface name; write 1 to 15 printable characters without '/', ':' and '%'", err);
}
