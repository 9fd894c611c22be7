#include "svc-converger/transfer/https.h"

#include "lib/base/cleanup.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>

enum { REDIRECTS_MAX = 5, CONNECT_SEC = 30, STALL_BYTES_PER_SEC = 1024 };

/* One use of libcurl: the handle, and the failure of ours that made a callback stop it. */
struct use {
	CURL *curl; /* owned */
	char text[CURL_ERROR_SIZE];
	struct err err; /* of a callback */
	int r;          /* likewise; 0: none */
	struct sink *sink;
	struct source *source;
	void (*on_total)(uint64_t total_bytes, void *userdata);
	void *userdata;
	bool total_known;
};

static void use_done(struct use *use)
{
	if (use->curl)
		curl_easy_cleanup(use->curl);
}

static size_t on_data(char *data, size_t one, size_t n, void *userdata)
{
	struct use *use = userdata;
	curl_off_t left;

	(void)one;
	if (!use->total_known && use->on_total &&
	        curl_easy_getinfo(use->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &left) == CURLE_OK &&
	        left > 0) {
		use->total_known = true;
		use->on_total(use->sink->done_bytes + (uint64_t)left, use->userdata);
	}
	use->r = sink_add(use->sink, data, n, &use->err);
	return use->r < 0 ? 0 : n; /* fewer than n: libcurl stops */
}

static size_t on_wanted(char *buf, size_t one, size_t n, void *userdata)
{
	struct use *use = userdata;
	ssize_t got = source_read(use->source, buf, one * n, &use->err);

	if (got < 0) {
		use->r = (int)got;
		return CURL_READFUNC_ABORT;
	}
	return (size_t)got;
}

static int on_seek(void *userdata, curl_off_t offset, int origin)
{
	struct use *use = userdata;

	if (offset != 0 || origin != SEEK_SET)
		return CURL_SEEKFUNC_CANTSEEK;
	return source_rewind(use->source) < 0 ? CURL_SEEKFUNC_FAIL : CURL_SEEKFUNC_OK;
}

/* What both directions share. */
static int use_open(struct use *use, const struct transfer_order *order)
{
	CURLcode c = CURLE_OK;

	use->curl = curl_easy_init();
	if (!use->curl)
		return -ENOMEM;
#define SET(option, value) c = c ? c : curl_easy_setopt(use->curl, option, value)
	SET(CURLOPT_URL, order->url);
	SET(CURLOPT_PROTOCOLS_STR, "https");
	SET(CURLOPT_REDIR_PROTOCOLS_STR, "https");
	SET(CURLOPT_FOLLOWLOCATION, 1L);
	SET(CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
	SET(CURLOPT_FAILONERROR, 1L);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (order->ca_path[0])
		SET(CURLOPT_CAINFO, order->ca_path);
	SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SEC);
	SET(CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES_PER_SEC);
	SET(CURLOPT_LOW_SPEED_TIME, (long)order->stall_sec);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_ERRORBUFFER, use->text);
	SET(CURLOPT_USERAGENT, "bcd/" BC_VERSION);
	return c ? -EINVAL : 0;
}

/* The -errno of an answer that is no success. */
static int http_failed(const char *shown, long code, bool *ret_permanent, struct err *err)
{
	/* Too early, too many and too slow pass by themselves, and so do faults of the server. */
	*ret_permanent = code >= 400 && code < 500 && code != 408 && code != 425 && code != 429;
	return err_set(err,
	        code == 404 || code == 410           ? -ENOENT
	                : code == 401 || code == 403 ? -EACCES
	                                             : -EIO,
	        "%s: the server answers %ld", shown, code);
}

static int use_failed(
        struct use *use, const struct transfer_order *order, CURLcode c, bool *ret_permanent, struct err *err)
{
	char shown[256];
	long http = 0;
	const char *words = use->text[0] ? use->text : curl_easy_strerror(c);

	*ret_permanent = false;
	transfer_url_shown(order->url, shown, sizeof(shown));
	if (use->r < 0) {
		*ret_permanent = use->r == -EBADMSG || use->r == -EFBIG;
		return err_set(err, use->r, "%s: %s", shown, err_text(&use->err, use->r));
	}
	switch (c) {
	case CURLE_HTTP_RETURNED_ERROR:
		(void)curl_easy_getinfo(use->curl, CURLINFO_RESPONSE_CODE, &http);
		if (http == 416)
			return -ERANGE;
		return http_failed(shown, http, ret_permanent, err);
	case CURLE_RANGE_ERROR:
	case CURLE_BAD_DOWNLOAD_RESUME:
		return -ERANGE;
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(err, -ETIMEDOUT, "%s: %s", shown, words);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
		return err_set(err, -EHOSTUNREACH, "%s: %s", shown, words);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		*ret_permanent = true;
		return err_set(err, -EACCES, "%s: the server is not who it should be: %s", shown, words);
	case CURLE_UNSUPPORTED_PROTOCOL:
		*ret_permanent = true;
		return err_set(err, -EACCES, "%s: leads to an address that is not https: %s", shown, words);
	case CURLE_TOO_MANY_REDIRECTS:
	case CURLE_URL_MALFORMAT:
		*ret_permanent = true;
		return err_set(err, -EINVAL, "%s: %s", shown, words);
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	default:
		return err_set(err, -EIO, "%s: %s", shown, words);
	}
}

int https_get(const struct transfer_order *order, struct sink *sink,
        void (*on_total)(uint64_t total_bytes, void *userdata), void *userdata, bool *ret_permanent,
        struct err *err)
{
	struct use use __attribute__((
	        cleanup(use_done))) = { .sink = sink, .on_total = on_total, .userdata = userdata };
	CURLcode c = CURLE_OK;
	int r = use_open(&use, order);

	*ret_permanent = false;
	if (r < 0)
		return r;
	c = c ? c : curl_easy_setopt(use.curl, CURLOPT_WRITEFUNCTION, on_data);
	c = c ? c : curl_easy_setopt(use.curl, CURLOPT_WRITEDATA, &use);
	c = c ? c : curl_easy_setopt(use.curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)sink->done_bytes);
	c = c ? c : curl_easy_perform(use.curl);
	return c ? use_failed(&use, order, c, ret_permanent, err) : 0;
}

int https_put(const struct transfer_order *order, struct source *source, bool *ret_permanent, struct err *err)
{
	struct use use __attribute__((cleanup(use_done))) = { .source = source };
	CURLcode c = CURLE_OK;
	int r = use_open(&use, order);

	*ret_permanent = false;
	if (r < 0)
		return r;
	c = c ? c : curl_easy_setopt(use.curl, CURLOPT_UPLOAD, 1L);
	c = c ? c : curl_easy_setopt(use.curl, CURLOPT_READFUNCTION, on_wanted);
	c = c ? c : curl_easy_setopt(use.curl, CURLOPT_READDATA, &use);
	c = c ? c : curl_easy_setopt(use.curl, CURLOPT_SEEKFUNCTION, on_seek);
	c = c ? c : curl_easy_setopt(use.curl, CURLOPT_SEEKDATA, &use);
	c = c ? c : curl_easy_setopt(use.curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)source->size_bytes);
	c = c ? c : curl_easy_perform(use.curl);
	return c ? use_failed(&use, order, c, ret_permanent, err) : 0;
}
