/* SPDX-License-Identifier: MIT */
/* What the daemon answers. */
#ifndef CONN_RESPOND_H
#define CONN_RESPOND_H

#include <stdbool.h>

#include "conn.h"

/** Room that a response's head with the fixed body needs in conn->out. */
#define RESPOND_MAX 512U

/** Which page a request asks for. head: its first byte. */
enum conn_page respond_route(const struct http_parser *p, const char *head);

/** Put the response to the complete request into conn->out and conn->page. */
void respond(struct conn *c);

/** Put an error's response there, after which the connection is to close. */
void respond_error(struct conn *c, int status);

/** The whole response to one that is refused for want of room. */
extern const char respond_refusal[];
extern const unsigned int respond_refusal_len;

#endif /* CONN_RESPOND_H */
