/* SPDX-License-Identifier: MIT */
/* The head of a request: line by line, as the lines get complete. The body is
 * in http_body.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "http.h"

#include <string.h>
#include <strings.h>

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{ 200, "OK" },
	{ 400, "Bad Request" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 417, "Expectation Failed" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 503, "Service Unavailable" },
	{ 505, "HTTP Version Not Supported" },
};

const char *http_reason(int status)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}

void http_init(struct http_parser *p, size_t max_body)
{
	p->max_body = max_body;
	http_reset(p);
}

void http_reset(struct http_parser *p)
{
	size_t max_body = p->max_body;

	*p = (struct http_parser){ .max_body = max_body };
}

bool http_at_start(const struct http_parser *p)
{
	return p->phase == HTTP_PHASE_LINE && !p->scanned;
}

bool http_keeps_alive(const struct http_parser *p)
{
	if (p->close)
		return false;
	return !p->is_1_0 || p->keep_alive;
}

static enum http_result bad(struct http_parser *p, int status)
{
	p->status = status;
	return HTTP_BAD;
}

/* A character of a token: method or field name. */
static bool is_token(unsigned char c)
{
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	    (c >= 'A' && c <= 'Z'))
		return true;
	return c && strchr("!#$%&'*+-.^_`|~", c);
}

static size_t token_len(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && is_token((unsigned char)s[n]))
		n++;
	return n;
}

static bool is(const char *s, size_t len, const char *word)
{
	return len == strlen(word) && !strncasecmp(s, word, len);
}

/* Whether a comma-separated list of words has one. */
static bool list_has(const char *s, size_t len, const char *word)
{
	size_t at = 0;

	while (at < len) {
		size_t n;

		while (at < len && strchr(" \t,", s[at]))
			at++;
		n = token_len(s + at, len - at);
		if (is(s + at, n, word))
			return true;
		while (at < len && s[at] != ',')
			at++;
	}
	return false;
}

/* Where the path begins in "http://name/path": clients of proxies send that. */
static size_t skip_authority(const char *s, size_t len)
{
	const char *slash;

	if (len < 7 || strncasecmp(s, "http://", 7))
		return 0;
	slash = memchr(s + 7, '/', len - 7);
	return slash ? (size_t)(slash - s) : len;
}

static enum http_result version(struct http_parser *p, const char *s,
				size_t len)
{
	if (len != 8 || strncmp(s, "HTTP/", 5) || s[5] < '0' || s[5] > '9' ||
	    s[6] != '.' || s[7] < '0' || s[7] > '9')
		return bad(p, 400);
	if (s[5] != '1')
		return bad(p, 505);
	p->is_1_0 = s[7] == '0';
	return HTTP_DONE;
}

/* "GET /path HTTP/1.1" */
static enum http_result request_line(struct http_parser *p, const char *data,
				     size_t at, size_t len)
{
	const char *s = data + at;
	size_t method = token_len(s, len);
	size_t target = method + 1;
	size_t end = target;
	size_t skip;

	if (!method || method >= len || s[method] != ' ')
		return bad(p, 400);
	while (end < len && (unsigned char)s[end] > ' ' && s[end] != 0x7f)
		end++;
	if (end == target || end >= len || s[end] != ' ')
		return bad(p, 400);
	if (method == 3 && !memcmp(s, "GET", 3))
		p->method = HTTP_GET;
	else if (method == 4 && !memcmp(s, "HEAD", 4))
		p->method = HTTP_HEAD;
	else
		p->method = HTTP_OTHER;
	skip = skip_authority(s + target, end - target);
	p->target.at = at + target + skip;
	p->target.len = end - target - skip;
	return version(p, s + end + 1, len - end - 1);
}

/* Digits only, and once: two lengths are how requests get smuggled. */
static enum http_result content_length(struct http_parser *p, const char *s,
				       size_t len)
{
	uint64_t value = 0;

	if (p->has_length || !len || len > 18)
		return bad(p, 400);
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return bad(p, 400);
		value = value * 10 + (uint64_t)(s[i] - '0');
	}
	p->has_length = true;
	p->body_left = value;
	return HTTP_DONE;
}

static enum http_result transfer_encoding(struct http_parser *p, const char *s,
					  size_t len)
{
	if (p->chunked || p->is_1_0)
		return bad(p, 400);
	if (!is(s, len, "chunked"))
		return bad(p, 501);
	p->chunked = true;
	return HTTP_DONE;
}

static enum http_result host(struct http_parser *p)
{
	if (p->has_host)
		return bad(p, 400);
	p->has_host = true;
	return HTTP_DONE;
}

/* A field, its value without blanks around it. Most do not concern us. */
static enum http_result field(struct http_parser *p, const char *name,
			      size_t name_len, const char *value, size_t len)
{
	if (is(name, name_len, "host"))
		return host(p);
	if (is(name, name_len, "content-length"))
		return content_length(p, value, len);
	if (is(name, name_len, "transfer-encoding"))
		return transfer_encoding(p, value, len);
	if (is(name, name_len, "connection")) {
		p->close |= list_has(value, len, "close");
		p->keep_alive |= list_has(value, len, "keep-alive");
	} else if (is(name, name_len, "expect") && !p->is_1_0) {
		if (!is(value, len, "100-continue"))
			return bad(p, 417);
		p->expects_continue = true;
	}
	return HTTP_DONE;
}

/* "Name: value". A blank before the colon, or a line that begins with one, is
 * no token and so refused. */
static enum http_result header_line(struct http_parser *p, const char *data,
				    size_t at, size_t len)
{
	const char *s = data + at;
	size_t name = token_len(s, len);
	size_t begin = name + 1;

	if (!name || name >= len || s[name] != ':')
		return bad(p, 400);
	for (size_t i = begin; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return bad(p, 400);
	}
	while (begin < len && strchr(" \t", s[begin]))
		begin++;
	while (len > begin && strchr(" \t", s[len - 1]))
		len--;
	if (is(s, name, "accept")) {
		p->accept.at = at + begin;
		p->accept.len = len - begin;
	}
	return field(p, s, name, s + begin, len - begin);
}

/* The empty line: what the fields say together. */
static enum http_result head_end(struct http_parser *p)
{
	if (!p->is_1_0 && !p->has_host)
		return bad(p, 400);
	if (p->chunked && p->has_length)
		return bad(p, 400);
	if (p->body_left > p->max_body)
		return bad(p, 413);
	p->phase = p->chunked	  ? HTTP_PHASE_CHUNK_SIZE
		   : p->body_left ? HTTP_PHASE_LENGTH
				  : HTTP_PHASE_END;
	if (p->phase == HTTP_PHASE_END)
		p->expects_continue = false;
	return HTTP_DONE;
}

/* A line without its end. HTTP_MORE: on to the next one. */
static enum http_result one_line(struct http_parser *p, const char *data,
				 size_t at, size_t len)
{
	enum http_result result;

	if (p->phase == HTTP_PHASE_LINE) {
		/* Some clients send an empty line behind a body. */
		if (!len)
			return HTTP_MORE;
		result = request_line(p, data, at, len);
		p->phase = HTTP_PHASE_HEADERS;
	} else if (!len) {
		return head_end(p);
	} else {
		result = header_line(p, data, at, len);
	}
	return result == HTTP_DONE ? HTTP_MORE : result;
}

enum http_result http_head(struct http_parser *p, const char *data, size_t len,
			   size_t *used)
{
	enum http_result result = HTTP_MORE;

	*used = 0;
	while (result == HTTP_MORE) {
		const char *lf =
			memchr(data + p->scanned, '\n', len - p->scanned);
		size_t begin = p->line;
		size_t end;

		if (!lf) {
			p->scanned = len;
			return HTTP_MORE;
		}
		end = (size_t)(lf - data);
		p->line = end + 1;
		p->scanned = end + 1;
		if (end == begin || data[end - 1] != '\r')
			return bad(p, 400);
		result = one_line(p, data, begin, end - 1 - begin);
	}
	if (result == HTTP_DONE)
		*used = p->line;
	return result;
}
