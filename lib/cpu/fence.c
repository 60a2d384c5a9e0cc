/* SPDX-License-Identifier: MIT */
/* Fences against restartable sections. See fence.h. */
#include <config.h>

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "cpu/fence.h"
#include "cpu/index.h"

/* From <linux/membarrier.h>, spelled out so that old headers do. */
enum {
	CMD_PRIVATE_EXPEDITED_RSEQ = 1 << 7,
	CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ = 1 << 8,
	CMD_FLAG_CPU = 1 << 0,
};

static int membarrier(int cmd, unsigned int flags, int cpu)
{
#ifdef SYS_membarrier
	int saved = errno;
	int err = syscall(SYS_membarrier, cmd, flags, cpu) ? errno : 0;

	errno = saved;
	return err;
#else
	(void)cmd;
	(void)flags;
	(void)cpu;
	return ENOSYS;
#endif
}

int pcp_fence_init(void)
{
	return membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
}

static int fence(unsigned int flags, int cpu)
{
	if (PCP_FAULT(PCP_FAULT_FENCE))
		return ENOMEM;
	if (PCP_FAULT(PCP_FAULT_NO_FENCE))
		return 0;
	return membarrier(CMD_PRIVATE_EXPEDITED_RSEQ, flags, cpu);
}

int pcp_fence_slot(unsigned int index)
{
	return pcp_index.cid ? pcp_fence_all()
			     : fence(CMD_FLAG_CPU, (int)index);
}

int pcp_fence_all(void)
{
	return fence(0, 0);
}
