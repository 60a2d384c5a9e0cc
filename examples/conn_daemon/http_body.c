/* SPDX-License-Identifier: MIT */
/* The body of a request, with a length or in chunks. Nobody wants it; it has to
 * be skipped exactly, for the next request begins behind it. */
#include "http.h"

/* Bytes of chunk extensions and trailers that a client may make us skip. */
#define EXTRA_MAX 4096U

static enum http_result bad(struct http_parser *p, int status)
{
	p->status = status;
	return HTTP_BAD;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static enum http_result chunk_size(struct http_parser *p, char c)
{
	int digit = hex(c);

	if (digit >= 0) {
		p->body_left = p->body_left * 16 + (unsigned int)digit;
		/* The sum does not overflow: both parts are bounded here. */
		if (p->body_total + p->body_left > p->max_body)
			return bad(p, 413);
		/* Leading zeros could go on for ever. */
		return ++p->digits > 16 ? bad(p, 400) : HTTP_MORE;
	}
	if (!p->digits)
		return bad(p, 400);
	if (c == '\r')
		p->phase = HTTP_PHASE_CHUNK_LF;
	else if (c == ';' || c == ' ' || c == '\t')
		p->phase = HTTP_PHASE_CHUNK_EXTENSION;
	else
		return bad(p, 400);
	return HTTP_MORE;
}

/* What is skipped up to the end of its line. */
static enum http_result skip(struct http_parser *p, char c,
			     enum http_phase next)
{
	if (c == '\r') {
		p->phase = next;
		return HTTP_MORE;
	}
	if (c == '\n' || ++p->extra > EXTRA_MAX)
		return bad(p, 400);
	return HTTP_MORE;
}

static enum http_result expect(struct http_parser *p, char c, char wanted,
			       enum http_phase next)
{
	if (c != wanted)
		return bad(p, 400);
	p->phase = next;
	return HTTP_MORE;
}

static enum http_result chunk_lf(struct http_parser *p, char c)
{
	enum http_phase next =
		p->body_left ? HTTP_PHASE_CHUNK_DATA : HTTP_PHASE_TRAILER;

	p->body_total += p->body_left;
	p->digits = 0;
	return expect(p, c, '\n', next);
}

/* One byte that is not data. */
static enum http_result framing(struct http_parser *p, char c)
{
	switch (p->phase) {
	case HTTP_PHASE_CHUNK_SIZE:
		return chunk_size(p, c);
	case HTTP_PHASE_CHUNK_EXTENSION:
		return skip(p, c, HTTP_PHASE_CHUNK_LF);
	case HTTP_PHASE_CHUNK_LF:
		return chunk_lf(p, c);
	case HTTP_PHASE_DATA_CR:
		return expect(p, c, '\r', HTTP_PHASE_DATA_LF);
	case HTTP_PHASE_DATA_LF:
		return expect(p, c, '\n', HTTP_PHASE_CHUNK_SIZE);
	case HTTP_PHASE_TRAILER:
		p->phase = HTTP_PHASE_TRAILER_LINE;
		return skip(p, c, HTTP_PHASE_LAST_LF);
	case HTTP_PHASE_TRAILER_LINE:
		return skip(p, c, HTTP_PHASE_TRAILER_LF);
	case HTTP_PHASE_TRAILER_LF:
		return expect(p, c, '\n', HTTP_PHASE_TRAILER);
	case HTTP_PHASE_LAST_LF:
		return expect(p, c, '\n', HTTP_PHASE_END);
	default:
		/* http_body() without a head before it. */
		return bad(p, 500);
	}
}

static size_t data_skip(struct http_parser *p, size_t len)
{
	size_t n = p->body_left < len ? (size_t)p->body_left : len;

	p->body_left -= n;
	if (!p->body_left)
		p->phase = p->chunked ? HTTP_PHASE_DATA_CR : HTTP_PHASE_END;
	return n;
}

enum http_result http_body(struct http_parser *p, const char *data, size_t len,
			   size_t *used)
{
	size_t at = 0;

	*used = 0;
	while (p->phase != HTTP_PHASE_END && at < len) {
		if (p->phase == HTTP_PHASE_LENGTH ||
		    p->phase == HTTP_PHASE_CHUNK_DATA)
			at += data_skip(p, len - at);
		else if (framing(p, data[at++]) == HTTP_BAD)
			return HTTP_BAD;
	}
	*used = at;
	return p->phase == HTTP_PHASE_END ? HTTP_DONE : HTTP_MORE;
}
