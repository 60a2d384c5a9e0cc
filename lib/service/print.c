/* SPDX-License-Identifier: MIT */
/*
 * pcpool_print(): everything as text, for a person or a simple script.
 *
 * Formatted in memory first: no write(2), which may block for long, happens
 * under the registry lock.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu/init.h"
#include "service/stats.h"

static void print_name(FILE *out, const char *name)
{
	putc('"', out);
	for (; *name; name++) {
		unsigned char c = (unsigned char)*name;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			fprintf(out, "\\x%02x", c);
		else
			putc(c, out);
	}
	putc('"', out);
}

/* Fields of a cache in the order they are printed. */
static const struct {
	const char *name;
	size_t offset;
} fields[] = {
#define FIELD(f) { #f, offsetof(struct pcpool_cache_stats, f) }
	FIELD(object_size),
	FIELD(stride),
	FIELD(slab_size),
	FIELD(objects_per_slab),
	FIELD(slab_overhead),
	FIELD(sheaf_capacity),
	FIELD(sheaf_capacity_max),
	FIELD(barn_limit),
	FIELD(slabs),
	FIELD(partial),
	FIELD(waiting),
	FIELD(total_objects),
	FIELD(objects),
	FIELD(live),
	FIELD(cached),
	FIELD(rcu_backlog),
	FIELD(rcu_backlog_peak),
	FIELD(built),
	FIELD(sheaves),
	FIELD(metadata_bytes),
	FIELD(ctor_ok),
	FIELD(ctor_fail),
	FIELD(dtor),
	FIELD(mem_fail),
	FIELD(lost_in_fork),
	FIELD(alloc_fastpath),
	FIELD(alloc_slowpath),
	FIELD(free_fastpath),
	FIELD(free_slowpath),
	FIELD(alloc_fail),
	FIELD(alloc_slab),
	FIELD(free_slab),
	FIELD(free_add_partial),
	FIELD(free_remove_partial),
	FIELD(cmpxchg_fail),
	FIELD(barn_get),
	FIELD(barn_get_fail),
	FIELD(barn_put),
	FIELD(barn_put_fail),
	FIELD(sheaf_alloc),
	FIELD(sheaf_free),
	FIELD(sheaf_refill),
	FIELD(sheaf_flush),
	FIELD(rseq_abort),
	FIELD(bypass),
	FIELD(drain),
	FIELD(drain_retry),
	FIELD(drain_fail),
	FIELD(sheaf_prefill_fast),
	FIELD(sheaf_prefill_slow),
	FIELD(sheaf_prefill_oversize),
	FIELD(sheaf_return_fast),
	FIELD(sheaf_return_slow),
	FIELD(slot_miss),
	FIELD(free_rcu_sheaf),
	FIELD(free_rcu_sheaf_fail),
	FIELD(rcu_hurry),
	FIELD(capacity_up),
	FIELD(capacity_down),
	FIELD(barn_limit_up),
	FIELD(maintained),
	FIELD(park_slab),
	FIELD(unpark_slab),
	FIELD(unpark_event),
	FIELD(list_lock),
	FIELD(list_lock_contended),
	FIELD(shared_atomic),
	FIELD(other_lock),
#undef FIELD
};

static void print_cache(struct pcpool_cache *cache, void *arg)
{
	struct pcpool_cache_stats s = { .stats_size = sizeof(s) };
	FILE *out = arg;

	pcp_cache_stats(cache, &s);
	fputs("cache ", out);
	print_name(out, cache->name);
	putc('\n', out);
	for (size_t i = 0; i < PCP_ARRAY_SIZE(fields); i++)
		fprintf(out, "  %s %" PRIu64 "\n", fields[i].name,
			*(const uint64_t *)(const void *)((const char *)&s +
							  fields[i].offset));
}

static void print_percpu(FILE *out)
{
	struct pcpool_percpu_stats p = { .stats_size = sizeof(p) };

	pcpool_percpu_get_stats(&p);
	fprintf(out,
		"percpu\n  slots %" PRIu64 "\n  unit_size %" PRIu64
		"\n  chunks %" PRIu64 "\n  regions %" PRIu64
		"\n  region_bytes %" PRIu64 "\n  block_bytes %" PRIu64
		"\n  populated_bytes %" PRIu64 "\n  mutex %" PRIu64
		"\n  map_lock %" PRIu64 "\n  chunk_alloc %" PRIu64
		"\n  chunk_free %" PRIu64 "\n  alloc_fail %" PRIu64
		"\n  discarded_bytes %" PRIu64 "\n",
		p.slots, p.unit_size, p.chunks, p.regions, p.region_bytes,
		p.block_bytes, p.populated_bytes, p.mutex, p.map_lock,
		p.chunk_alloc, p.chunk_free, p.alloc_fail, p.discarded_bytes);
	for (unsigned int i = 0; i < PCPOOL_PERCPU_SIZES; i++)
		if (p.sizes[i])
			fprintf(out, "  regions_of_%u %" PRIu64 "\n", 8U << i,
				p.sizes[i]);
}

static void print_process(FILE *out)
{
	struct pcpool_memory_stats m = { .stats_size = sizeof(m) };

	pcpool_memory_get_stats(&m);
	fprintf(out, "pcpool %s mode %s index %s\n", pcpool_version(),
		pcpool_mode(), pcpool_index());
	fprintf(out, "  reason %s\n", pcpool_mode_reason());
	print_percpu(out);
	fprintf(out,
		"memory\n  arenas %" PRIu64 "\n  slab_bytes %" PRIu64
		"\n  idle_bytes %" PRIu64 "\n",
		m.arenas, m.slab_bytes, m.idle_bytes);
}

static int write_all(int fd, const char *buf, size_t len)
{
	while (len) {
		ssize_t n = write(fd, buf, len);

		if (!n)
			return EIO;
		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0) {
			buf += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int print(int fd)
{
	int err;
	char *buf = NULL;
	FILE *out;
	size_t len = 0;

	pcp_init();
	out = open_memstream(&buf, &len);
	if (!out)
		return ENOMEM;
	print_process(out);
	pcp_registry_each(print_cache, out);
	err = ferror(out) ? ENOMEM : 0;
	if (fclose(out))
		err = ENOMEM;
	if (!err)
		err = write_all(fd, buf, len);
	free(buf);
	return err;
}

PCP_API int pcpool_print(int fd)
{
	int saved = errno, err, cancel;

	/* A cancelled write would leave the text behind. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = print(fd);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return err;
}
