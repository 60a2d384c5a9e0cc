/* SPDX-License-Identifier: MIT */
/*
 * An incremental parser of HTTP/1.1 requests. It looks at each byte once,
 * however the bytes come in, allocates nothing, and refuses what different
 * programs might read differently (bare LF, folded lines, two lengths).
 *
 * Reference: RFC 9112, RFC 9110.
 */
#ifndef CONN_HTTP_H
#define CONN_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_OTHER, /**< a word that may be a method */
};

enum http_result {
	HTTP_MORE, /**< all that was there is fine, and not the end */
	HTTP_DONE,
	HTTP_BAD, /**< answer with parser->status, and read no further */
};

enum http_phase {
	HTTP_PHASE_LINE,
	HTTP_PHASE_HEADERS,
	HTTP_PHASE_LENGTH, /**< a body of body_left more bytes */
	HTTP_PHASE_CHUNK_SIZE,
	HTTP_PHASE_CHUNK_EXTENSION,
	HTTP_PHASE_CHUNK_LF,
	HTTP_PHASE_CHUNK_DATA,
	HTTP_PHASE_DATA_CR,
	HTTP_PHASE_DATA_LF,
	HTTP_PHASE_TRAILER,
	HTTP_PHASE_TRAILER_LINE,
	HTTP_PHASE_TRAILER_LF,
	HTTP_PHASE_LAST_LF,
	HTTP_PHASE_END,
};

/** A part of the head, by its place: the buffer may move between two calls. */
struct http_slice {
	size_t at;
	size_t len;
};

struct http_parser {
	/** Fixed by http_init(). */
	size_t max_body;

	enum http_phase phase;
	size_t line;	/**< where the line begins that is not complete */
	size_t scanned; /**< it has no LF before this */

	/* The request, as far as it is known. */
	enum http_method method;
	struct http_slice target; /**< path and query; means something until the
				   *   head is dropped from the buffer */
	struct http_slice accept; /**< the same; the last Accept there was */
	bool is_1_0;
	bool close;	 /**< asked for */
	bool keep_alive; /**< asked for */
	bool expects_continue;
	bool has_host;
	bool has_length;
	bool chunked;
	uint64_t body_left;  /**< of the body, or of the chunk */
	uint64_t body_total; /**< of the chunks so far */
	unsigned int digits; /**< of the chunk's size */
	unsigned int extra;  /**< bytes of chunk extensions and trailers */

	int status; /**< after HTTP_BAD: 400, 413, 414, … */
};

void http_init(struct http_parser *p, size_t max_body);

/** Be ready for the next request. */
void http_reset(struct http_parser *p);

/** Whether nothing of the next request has come yet, by the parser's word. */
bool http_at_start(const struct http_parser *p);

/**
 * Look at the head of a request; data is all that came of it, from its first
 * byte. HTTP_DONE: the head is complete, and *used bytes of data are it. What
 * follows is for http_body(), which must be called even if there is no body.
 */
enum http_result http_head(struct http_parser *p, const char *data, size_t len,
			   size_t *used);

/** Skip the body; data is what came since the last call. *used bytes of it were
 *  the body's. HTTP_DONE: the request is complete. */
enum http_result http_body(struct http_parser *p, const char *data, size_t len,
			   size_t *used);

/** After HTTP_DONE: whether the client may send another request. */
bool http_keeps_alive(const struct http_parser *p);

/** The word for a status the daemon gives. */
const char *http_reason(int status);

#endif /* CONN_HTTP_H */
