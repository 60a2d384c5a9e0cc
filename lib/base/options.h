/* SPDX-License-Identifier: MIT */
/*
 * PCPOOL_OPTIONS: tunables read once from the environment, by a table.
 *
 * "key:value,key:value". An unknown key or a value that does not fit prints a
 * warning and is ignored. Not read at all in a set-user-ID program.
 */
#ifndef PCP_BASE_OPTIONS_H
#define PCP_BASE_OPTIONS_H

#include <stdbool.h>

#include "base/compiler.h"

enum pcp_mode_option { PCP_MODE_AUTO, PCP_MODE_RSEQ, PCP_MODE_LOCK };
enum pcp_index_option { PCP_INDEX_AUTO, PCP_INDEX_CPU, PCP_INDEX_CID };

struct pcp_options {
	unsigned int mode;  /* enum pcp_mode_option */
	unsigned int index; /* enum pcp_index_option */
	unsigned int slots; /* synthetic number of CPUs; 0: the real one */
	unsigned int nodes; /* synthetic number of nodes; 0: the real one */
	unsigned int sheaf; /* default sheaf capacity; 0: from the size */
	unsigned int debug; /* every cache is a checking one */
	unsigned int no_parking; /* frees wait for a busy list_lock */
	unsigned int no_barn_refill; /* prefilled sheaves are topped up from
				      * slabs only */
};

extern PCP_HIDDEN struct pcp_options pcp_options;

/* Upper bounds of the synthetic topology. */
#define PCP_OPTION_SLOTS_MAX 4096U
#define PCP_OPTION_NODES_MAX 64U

/* Read PCPOOL_OPTIONS. Called once, by the library's initialisation. */
void pcp_options_init(void);

/* Apply one "key:value,…" text: pcp_options_init() without the environment,
 * for tests. Returns how many entries were refused. */
unsigned int pcp_options_parse(const char *text);

#endif /* PCP_BASE_OPTIONS_H */
