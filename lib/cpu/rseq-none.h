/* SPDX-License-Identifier: MIT */
/*
 * A machine (or libc) without sections: every one refuses, and the mode is
 * never rseq.
 */
#ifndef PCP_CPU_RSEQ_NONE_H
#define PCP_CPU_RSEQ_NONE_H

PCP_INLINE enum pcp_section pcp_rseq_pop(const void *slots, void **obj)
{
	(void)slots;
	(void)obj;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_push(const void *slots, void *obj)
{
	(void)slots;
	(void)obj;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_push_at(const void *slots, size_t offset,
					     void *obj, const void *closed)
{
	(void)slots;
	(void)offset;
	(void)obj;
	(void)closed;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_pop_many(const void *slots, size_t n,
					      void **objs, size_t *done)
{
	(void)slots;
	(void)n;
	(void)objs;
	(void)done;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_push_many(const void *slots, size_t n,
					       void *const *objs, size_t *done)
{
	(void)slots;
	(void)n;
	(void)objs;
	(void)done;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_commit(void *slots, long expected_index,
					    size_t offset, const void *expect,
					    void *desired, const void *closed)
{
	(void)slots;
	(void)expected_index;
	(void)offset;
	(void)expect;
	(void)desired;
	(void)closed;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_add_u64(void *p, size_t stride,
					     uint64_t value)
{
	(void)p;
	(void)stride;
	(void)value;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_add_u32(void *p, size_t stride,
					     uint32_t value)
{
	(void)p;
	(void)stride;
	(void)value;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_add_within(void *p, size_t stride,
						int64_t value, uint64_t span)
{
	(void)p;
	(void)stride;
	(void)value;
	(void)span;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_xchg_u64(void *p, size_t stride,
					      uint64_t value, uint64_t *old)
{
	(void)p;
	(void)stride;
	(void)value;
	(void)old;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_xchg_u32(void *p, size_t stride,
					      uint32_t value, uint32_t *old)
{
	(void)p;
	(void)stride;
	(void)value;
	(void)old;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_cmpxchg_u64(void *p, size_t stride,
						 uint64_t expected,
						 uint64_t desired,
						 uint64_t *old)
{
	(void)p;
	(void)stride;
	(void)expected;
	(void)desired;
	(void)old;
	return PCP_REFUSED;
}

PCP_INLINE enum pcp_section pcp_rseq_cmpxchg_u32(void *p, size_t stride,
						 uint32_t expected,
						 uint32_t desired,
						 uint32_t *old)
{
	(void)p;
	(void)stride;
	(void)expected;
	(void)desired;
	(void)old;
	return PCP_REFUSED;
}

#endif /* PCP_CPU_RSEQ_NONE_H */
