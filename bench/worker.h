/* SPDX-License-Identifier: MIT */
/*
 * The worker side of pcpool-bench, and the messages between it and the driver.
 *
 * A worker is this program, started again with the hidden arguments
 * "--worker FD JOB VARIANT" (or "--worker FD"). It answers each request on FD,
 * a SOCK_SEQPACKET socket, with one reply, and ends when the driver hangs up.
 * Driver and worker are the same binary, so messages are plain structs.
 */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include "core.h"
#include "peers.h"

#define BENCH_WORKER_ARG "--worker"
#define BENCH_TEXT_MAX 64U

enum bench_command {
	BENCH_PROBE,  /**< say what this process has: bench_probe */
	BENCH_WINDOW, /**< run one window: bench_result */
	BENCH_CLOSE,  /**< close the variant and check: bench_result */
};

struct bench_request {
	uint32_t command;
	uint32_t peer; /**< BENCH_PROBE: the peer to look for too */
	struct bench_params params;
};

struct bench_result {
	int32_t error;		   /**< 0 or an errno value */
	char step[BENCH_TEXT_MAX]; /**< what failed */
	double value[BENCH_METRICS_MAX];
};

struct bench_peer_info {
	bool present;
	char version[BENCH_TEXT_MAX];
};

/** What a process with the workers' environment finds. A worker fills in one
 *  peer only: these libraries do not stand each other in one process. */
struct bench_probe {
	uint32_t cpus;
	uint32_t slots;
	uint32_t nodes;
	bool shared; /**< pcpool is called in a shared library */
	char mode[BENCH_TEXT_MAX];
	char index[BENCH_TEXT_MAX];
	char version[BENCH_TEXT_MAX];
	struct bench_peer_info peer[BENCH_PEERS_MAX]; /**< as bench_peers[] */
};

/** main() of a worker; argv as above. Returns its exit status. */
int bench_worker_main(int argc, char **argv);

#endif /* BENCH_WORKER_H */
