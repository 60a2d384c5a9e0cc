/* SPDX-License-Identifier: MIT */
/* Each job's description and its groups of variants, one file each. */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "core.h"

extern const struct bench_job bench_job_account;
extern const struct bench_job bench_job_batch;
extern const struct bench_variant bench_batch_glibc;
extern const struct bench_variant bench_batch_jemalloc;
extern const struct bench_variant bench_batch_mimalloc;
extern const struct bench_variant bench_batch_tcmalloc;
extern const struct bench_variant bench_batch_mutex_list;
extern const struct bench_variant bench_batch_tls_list;
extern const struct bench_variant bench_batch_limit;
extern const struct bench_variant bench_batch_pcpool;
extern const struct bench_variant bench_batch_pcpool_inline;
extern const struct bench_variant bench_batch_pcpool_lock;
extern const struct bench_variant bench_batch_pcpool_resident;

extern const struct bench_job bench_job_conn;

extern const struct bench_job bench_job_counter;

extern const struct bench_job bench_job_exec;
extern const struct bench_variant bench_exec_construct;
extern const struct bench_variant bench_exec_construct_jemalloc;
extern const struct bench_variant bench_exec_construct_mimalloc;
extern const struct bench_variant bench_exec_construct_tcmalloc;
extern const struct bench_variant bench_exec_mutex_list;
extern const struct bench_variant bench_exec_tls_list;
extern const struct bench_variant bench_exec_limit;
extern const struct bench_variant bench_exec_pcpool;
extern const struct bench_variant bench_exec_pcpool_inline;
extern const struct bench_variant bench_exec_pcpool_lock;
extern const struct bench_variant bench_exec_pcpool_resident;

extern const struct bench_job bench_job_mmap;
extern const struct bench_variant bench_mmap_pcpool;
extern const struct bench_variant bench_mmap_pcpool_lock;
extern const struct bench_variant bench_mmap_no_barn_refill;
extern const struct bench_variant bench_mmap_no_barn_refill_lock;
extern const struct bench_variant bench_mmap_no_parking;
extern const struct bench_variant bench_mmap_no_parking_lock;

extern const struct bench_job bench_job_oversub;
extern const struct bench_variant bench_oversub_glibc;
extern const struct bench_variant bench_oversub_jemalloc;
extern const struct bench_variant bench_oversub_mimalloc;
extern const struct bench_variant bench_oversub_tcmalloc;
extern const struct bench_variant bench_oversub_tls_list;
extern const struct bench_variant bench_oversub_pcpool;
extern const struct bench_variant bench_oversub_pcpool_inline;
extern const struct bench_variant bench_oversub_pcpool_lock;
extern const struct bench_variant bench_oversub_pcpool_resident;

extern const struct bench_job bench_job_pair;
extern const struct bench_variant bench_pair_glibc;
extern const struct bench_variant bench_pair_jemalloc;
extern const struct bench_variant bench_pair_mimalloc;
extern const struct bench_variant bench_pair_tcmalloc;
extern const struct bench_variant bench_pair_mutex_list;
extern const struct bench_variant bench_pair_tls_list;
extern const struct bench_variant bench_pair_limit;
extern const struct bench_variant bench_pair_pcpool;
extern const struct bench_variant bench_pair_pcpool_inline;
extern const struct bench_variant bench_pair_pcpool_lock;
extern const struct bench_variant bench_pair_pcpool_resident;

extern const struct bench_job bench_job_percpu;
extern const struct bench_variant bench_percpu_mutex;
extern const struct bench_variant bench_percpu_pcpool;
extern const struct bench_variant bench_percpu_pcpool_bulk;
extern const struct bench_variant bench_percpu_pcpool_lock;

extern const struct bench_job bench_job_rcu;
extern const struct bench_variant bench_rcu_call_malloc;
extern const struct bench_variant bench_rcu_call_jemalloc;
extern const struct bench_variant bench_rcu_call_mimalloc;
extern const struct bench_variant bench_rcu_call_tcmalloc;
extern const struct bench_variant bench_rcu_pcpool;
extern const struct bench_variant bench_rcu_pcpool_lock;

extern const struct bench_job bench_job_remote;
extern const struct bench_variant bench_remote_glibc;
extern const struct bench_variant bench_remote_jemalloc;
extern const struct bench_variant bench_remote_mimalloc;
extern const struct bench_variant bench_remote_tcmalloc;
extern const struct bench_variant bench_remote_mutex_list;
extern const struct bench_variant bench_remote_tls_list;
extern const struct bench_variant bench_remote_limit;
extern const struct bench_variant bench_remote_ring;
extern const struct bench_variant bench_remote_pcpool;
extern const struct bench_variant bench_remote_pcpool_lock;
extern const struct bench_variant bench_remote_pcpool_inline;
extern const struct bench_variant bench_remote_pcpool_resident;

extern const struct bench_job bench_job_scale;

extern const struct bench_job bench_job_tc;
extern const struct bench_variant bench_tc_construct;
extern const struct bench_variant bench_tc_construct_jemalloc;
extern const struct bench_variant bench_tc_construct_mimalloc;
extern const struct bench_variant bench_tc_construct_tcmalloc;
extern const struct bench_variant bench_tc_pcpool;
extern const struct bench_variant bench_tc_pcpool_declared;
extern const struct bench_variant bench_tc_pcpool_lock;

#endif /* BENCH_JOB_H */
