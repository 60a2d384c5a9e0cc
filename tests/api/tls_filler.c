/* SPDX-License-Identifier: MIT */
/* A library with a little thread-local memory of the kind that must be found
 * in the space set aside when the process started. */
#include <config.h>

int tls_filler(void);

/* A name that goes when the library is unloaded. */
extern const char filler_name[];
const char filler_name[] = "name-of-a-plug-in";

static __thread __attribute__((tls_model("initial-exec"))) int word[4];

int tls_filler(void)
{
	return ++word[0];
}
