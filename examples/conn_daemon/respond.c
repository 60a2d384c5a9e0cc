/* SPDX-License-Identifier: MIT */
/* Responses: which page, in which form, with which head. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "respond.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pages.h"
#include "server.h"
#include "stats.h"

#define TEXT_TYPE "text/plain; charset=utf-8"

static const char root_body[] = "Hello from conn_daemon.\n";

#define REFUSAL_BODY "503 Service Unavailable: too many connections\n"

const char respond_refusal[] = "HTTP/1.1 503 Service Unavailable\r\n"
			       "Content-Type: " TEXT_TYPE "\r\n"
			       "Content-Length: 46\r\n"
			       "Retry-After: 1\r\n"
			       "Connection: close\r\n\r\n" REFUSAL_BODY;
const unsigned int respond_refusal_len = sizeof(respond_refusal) - 1;
_Static_assert(sizeof(REFUSAL_BODY) - 1 == 46, "Content-Length above");

/* A part of a string that is not terminated. */
struct piece {
	const char *s;
	size_t len;
};

static bool is(struct piece p, const char *word)
{
	return p.len == strlen(word) && !strncasecmp(p.s, word, p.len);
}

/* Paths mind the case, types and names do not. */
static bool is_path(struct piece p, const char *path)
{
	return p.len == strlen(path) && !memcmp(p.s, path, p.len);
}

/* Cut off what stands before the first separator, without blanks around it. */
static struct piece cut(struct piece *rest, char separator)
{
	const char *end = memchr(rest->s, separator, rest->len);
	struct piece p = { rest->s, end ? (size_t)(end - rest->s) : rest->len };
	size_t gone = p.len + (end ? 1 : 0);

	rest->s += gone;
	rest->len -= gone;
	while (p.len && strchr(" \t", p.s[0]))
		p.s++, p.len--;
	while (p.len && strchr(" \t", p.s[p.len - 1]))
		p.len--;
	return p;
}

/* "0.25" as 250; 1 in all but a well-formed smaller weight. */
static unsigned int weight(struct piece p)
{
	unsigned int value = 0, unit = 100;

	if (!p.len || p.s[0] != '0' || (p.len > 1 && p.s[1] != '.'))
		return 1000;
	for (size_t i = 2; i < p.len && unit; i++, unit /= 10) {
		if (p.s[i] < '0' || p.s[i] > '9')
			return 1000;
		value += unit * (unsigned int)(p.s[i] - '0');
	}
	return value;
}

/* Of the forms of /stats; anything else for a type it does not come in. */
static enum conn_page page_of_type(struct piece type)
{
	if (is(type, "application/json") || is(type, "application/*"))
		return PAGE_STATS_JSON;
	if (is(type, "application/openmetrics-text"))
		return PAGE_METRICS;
	if (is(type, "text/plain") || is(type, "text/*") || is(type, "*/*"))
		return PAGE_STATS_TEXT;
	return PAGE_NOT_FOUND;
}

/* The form of /stats that an Accept field likes best; text where it says
 * nothing of these. */
static enum conn_page negotiate(struct piece accept)
{
	enum conn_page best = PAGE_STATS_TEXT;
	unsigned int best_weight = 0;

	while (accept.len) {
		struct piece range = cut(&accept, ',');
		struct piece type = cut(&range, ';');
		unsigned int w = 1000;
		enum conn_page page;

		while (range.len) {
			struct piece parameter = cut(&range, ';');
			struct piece name = cut(&parameter, '=');

			if (is(name, "q"))
				w = weight(parameter);
		}
		page = page_of_type(type);
		if (page != PAGE_NOT_FOUND && w > best_weight) {
			best_weight = w;
			best = page;
		}
	}
	return best;
}

enum conn_page respond_route(const struct http_parser *p, const char *head)
{
	struct piece target = { head + p->target.at, p->target.len };
	struct piece path = cut(&target, '?');
	struct piece accept = { head + p->accept.at, p->accept.len };
	enum conn_page page = PAGE_NOT_FOUND;

	/* Of "http://name" nothing is left, and it means the root. */
	if (!path.len || is_path(path, "/"))
		page = PAGE_ROOT;
	else if (is_path(path, "/stats"))
		page = negotiate(accept);
	else if (is_path(path, "/stats.json"))
		page = PAGE_STATS_JSON;
	else if (is_path(path, "/metrics"))
		page = PAGE_METRICS;
	if (p->method == HTTP_OTHER && page != PAGE_NOT_FOUND)
		page = PAGE_NO_METHOD;
	return page;
}

/* A response's head, and of the body what fits: that of a HEAD request, or one
 * that follows as conn->page, is left out. */
static void put(struct conn *c, int status, const char *type, size_t len,
		const char *body)
{
	char *at = c->out + c->out_end;
	int n;

	n = snprintf(at, RESPOND_MAX,
		     "HTTP/1.1 %d %s\r\n%sContent-Type: %s\r\n"
		     "Content-Length: %zu\r\n%s%s\r\n",
		     status, http_reason(status), loop_date(c->loop), type, len,
		     status == 405 ? "Allow: GET, HEAD\r\n" : "",
		     c->closing		? "Connection: close\r\n"
		     : c->parser.is_1_0 ? "Connection: keep-alive\r\n"
					: "");
	/* All the parts are bounded, and so are the short bodies. */
	if (n < 0 || (size_t)n + (body ? len : 0) > RESPOND_MAX)
		abort();
	if (body && c->parser.method != HTTP_HEAD) {
		memcpy(at + n, body, len);
		n += (int)len;
	}
	c->out_end += (size_t)n;
	if (status < 400)
		count(ok);
	else if (status < 500)
		count(bad);
	else
		count(failed);
}

static void put_error(struct conn *c, int status)
{
	char body[80];
	int n = snprintf(body, sizeof(body), "%d %s\n", status,
			 http_reason(status));

	put(c, status, TEXT_TYPE, (size_t)n, body);
}

/* Errors end the connection, so that what the parser understood of the request
 * does not matter. */
void respond_error(struct conn *c, int status)
{
	put_error(c, status);
}

static void put_page(struct conn *c, enum page_form form, const char *type)
{
	size_t len;
	char *page = page_render(form, &len);

	if (!page) {
		put_error(c, 500);
		return;
	}
	put(c, 200, type, len, NULL);
	if (c->parser.method == HTTP_HEAD) {
		free(page);
		return;
	}
	c->page = page;
	c->page_len = len;
}

void respond(struct conn *c)
{
	switch (c->wanted) {
	case PAGE_ROOT:
		put(c, 200, TEXT_TYPE, sizeof(root_body) - 1, root_body);
		break;
	case PAGE_STATS_TEXT:
		put_page(c, PAGE_FORM_TEXT, TEXT_TYPE);
		break;
	case PAGE_STATS_JSON:
		put_page(c, PAGE_FORM_JSON, "application/json");
		break;
	case PAGE_METRICS:
		put_page(c, PAGE_FORM_OPENMETRICS,
			 "application/openmetrics-text; version=1.0.0; "
			 "charset=utf-8");
		break;
	case PAGE_NOT_FOUND:
		put_error(c, 404);
		break;
	case PAGE_NO_METHOD:
		put_error(c, 405);
		break;
	}
}
