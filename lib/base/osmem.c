/* SPDX-License-Identifier: MIT */
/* Memory from the system. See osmem.h. */
#include <config.h>

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/fault.h"
#include "base/osmem.h"

/* From <linux/mempolicy.h> and <linux/mman.h>, where not every libc's headers
 * carry them. */
#define PCP_MPOL_PREFERRED 1
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

/* Present in a process that runs under the leak checker, also when the
 * library itself was built without it. */
#pragma weak __lsan_register_root_region
#pragma weak __lsan_unregister_root_region
void __lsan_register_root_region(const void *p, size_t size);
void __lsan_unregister_root_region(const void *p, size_t size);

size_t pcp_page_size(void)
{
	static size_t size;
	size_t known = pcp_load(&size);

	if (pcp_unlikely(!known)) {
		long page = sysconf(_SC_PAGESIZE);

		known = page > 0 ? (size_t)page : 4096;
		pcp_store(&size, known);
	}
	return known;
}

static void *map_none(size_t size)
{
	void *p = mmap(NULL, size, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void *pcp_os_reserve(size_t size, size_t align)
{
	uintptr_t start, aligned;
	size_t whole, head;
	char *p;

	if (PCP_FAULT(PCP_FAULT_RESERVE) ||
	    __builtin_add_overflow(size, align, &whole)) {
		errno = ENOMEM;
		return NULL;
	}
	/* Often enough the kernel's own choice, next to the last mapping of
	 * the same alignment, fits, and half the address space is not asked
	 * for in vain under a tight limit. */
	p = map_none(size);
	if (!p || !((uintptr_t)p & (align - 1)))
		return p;
	munmap(p, size);
	p = map_none(whole);
	if (!p)
		return NULL;
	start = (uintptr_t)p;
	aligned = (start + align - 1) & ~(uintptr_t)(align - 1);
	head = aligned - start;
	/* Trimming may need a map entry more than there are. What then stays is
	 * address space without access, and no memory. */
	if (head)
		(void)munmap(p, head);
	if (whole - head > size)
		(void)munmap(p + head + size, whole - head - size);
	return p + head;
}

int pcp_os_commit(void *p, size_t size)
{
	if (PCP_FAULT(PCP_FAULT_COMMIT))
		return ENOMEM;
	return mprotect(p, size, PROT_READ | PROT_WRITE) ? errno : 0;
}

int pcp_os_discard(void *p, size_t size)
{
	int saved = errno, err = 0;

	if (PCP_FAULT(PCP_FAULT_DISCARD))
		return ENOMEM;
	/* The second kind is for a process that locked all its memory. */
	if (madvise(p, size, MADV_DONTNEED) &&
	    madvise(p, size, MADV_DONTNEED_LOCKED))
		err = errno;
	errno = saved;
	return err;
}

int pcp_os_unmap(void *p, size_t size)
{
	int saved = errno;
	int err = munmap(p, size) ? errno : 0;

	errno = saved;
	return err;
}

void pcp_os_bind(void *p, size_t size, unsigned int node)
{
	enum { BITS = sizeof(unsigned long) * CHAR_BIT, WORDS = 1024 / BITS };
	unsigned long mask[WORDS] = { 0 };
	int saved = errno;

	if (PCP_FAULT(PCP_FAULT_BIND) || node >= WORDS * BITS)
		return;
	mask[node / BITS] = 1UL << (node % BITS);
#ifdef SYS_mbind
	/* Best effort: memory from elsewhere beats none. */
	(void)syscall(SYS_mbind, p, size, PCP_MPOL_PREFERRED, mask,
		      (unsigned long)(WORDS * BITS), 0UL);
#else
	(void)p;
	(void)size;
#endif
	errno = saved;
}

void pcp_os_no_hugepage(void *p, size_t size)
{
	int saved = errno;

	/* EINVAL where the kernel has no huge pages: nothing to avoid. */
	(void)madvise(p, size, MADV_NOHUGEPAGE);
	errno = saved;
}

void *pcp_meta_alloc(size_t size, size_t align)
{
	void *p;

	if (PCP_FAULT(PCP_FAULT_META) || posix_memalign(&p, align, size)) {
		errno = ENOMEM;
		return NULL;
	}
	return memset(p, 0, size);
}

void pcp_meta_free(void *p)
{
	free(p);
}

void pcp_lsan_add_root(const void *p, size_t size)
{
	if (__lsan_register_root_region)
		__lsan_register_root_region(p, size);
}

void pcp_lsan_del_root(const void *p, size_t size)
{
	if (__lsan_unregister_root_region)
		__lsan_unregister_root_region(p, size);
}
