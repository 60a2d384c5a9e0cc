/* SPDX-License-Identifier: MIT */
/* What the machine is: the part that does not need the library. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

struct bench_machine {
	char cpu[96]; /**< the processor's own name, or its architecture */
	char kernel[96];
	char libc[48];
};

/** Never fails; "unknown" stands for what cannot be learned. */
void bench_machine_read(struct bench_machine *m);

#endif /* BENCH_MACHINE_H */
