#include "lib/base/secret.h"

#include <string.h>
#include <sys/mman.h>

struct secret {
	size_t n_mapped; /* bytes, whole pages, this header included */
	size_t n_data;
	char data[];
};

int secret_new_empty(size_t n_data, struct secret **ret)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t n_mapped;

	if (__builtin_add_overflow(n_data, sizeof(struct secret) + page, &n_mapped))
		return -ENOMEM;
	n_mapped &= ~(page - 1);
	/* Pages of its own: their advice must not spill over to a neighbour on the heap. */
	void *p = mmap(NULL, n_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	(void)madvise(p, n_mapped, MADV_DONTDUMP);
	(void)mlock(p, n_mapped);
	struct secret *secret = p;
	secret->n_mapped = n_mapped;
	secret->n_data = n_data;
	*ret = secret;
	return 0;
}

int secret_new(const void *data, size_t n_data, struct secret **ret)
{
	int r = secret_new_empty(n_data, ret);

	if (r == 0 && n_data > 0)
		memcpy((*ret)->data, data, n_data);
	return r;
}

int secret_new_from(void *data, size_t n_data, struct secret **ret)
{
	int r = secret_new(data, n_data, ret);

	if (r == 0 && n_data > 0)
		explicit_bzero(data, n_data);
	return r;
}

char *secret_data(struct secret *secret)
{
	return secret->data;
}

size_t secret_size(const struct secret *secret)
{
	return secret->n_data;
}

struct secret *secret_free(struct secret *secret)
{
	if (!secret)
		return NULL;
	size_t n_mapped = secret->n_mapped;
	explicit_bzero(secret, n_mapped);
	(void)munmap(secret, n_mapped);
	return NULL;
}
