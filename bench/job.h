/* SPDX-License-Identifier: MIT */
/* Each job's description and its groups of variants, one file each. */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "core.h"

extern const struct bench_job bench_job_exec;
extern const struct bench_variant bench_exec_construct;
extern const struct bench_variant bench_exec_construct_jemalloc;
extern const struct bench_variant bench_exec_construct_mimalloc;
extern const struct bench_variant bench_exec_construct_tcmalloc;
extern const struct bench_variant bench_exec_mutex_list;
extern const struct bench_variant bench_exec_tls_list;
extern const struct bench_variant bench_exec_limit;
extern const struct bench_variant bench_exec_pcpool;
extern const struct bench_variant bench_exec_pcpool_lock;

extern const struct bench_job bench_job_pair;
extern const struct bench_variant bench_pair_glibc;
extern const struct bench_variant bench_pair_jemalloc;
extern const struct bench_variant bench_pair_mimalloc;
extern const struct bench_variant bench_pair_tcmalloc;
extern const struct bench_variant bench_pair_mutex_list;
extern const struct bench_variant bench_pair_tls_list;
extern const struct bench_variant bench_pair_limit;
extern const struct bench_variant bench_pair_pcpool;
extern const struct bench_variant bench_pair_pcpool_lock;

#endif /* BENCH_JOB_H */
