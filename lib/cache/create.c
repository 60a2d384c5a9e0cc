/* SPDX-License-Identifier: MIT */
/* pcpool_cache_create() and what only reads a cache's attributes. */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/options.h"
#include "base/osmem.h"
#include "cache/cache.h"
#include "cpu/init.h"
#include "slab/fields.h"

#define KNOWN_FLAGS                                                           \
	(PCPOOL_DTOR_ON_FREE | PCPOOL_CHECK | PCPOOL_TYPESAFE_BY_RCU |        \
	 PCPOOL_ACCOUNT)
#define CONTRARY_FLAGS (PCPOOL_DTOR_ON_FREE | PCPOOL_TYPESAFE_BY_RCU)
#define MIN_PARTIAL_MAX 65535U

/* How much free memory a node keeps in slabs of one cache by default. */
#define PARTIAL_BYTES ((size_t)1 << 18)

static bool valid(const char *name, size_t size,
		  const struct pcpool_cache_attr *attr)
{
	return name && *name && size && size <= PCPOOL_SIZE_MAX &&
	       attr->attr_size == sizeof(*attr) &&
	       !(attr->align & (attr->align - 1)) &&
	       attr->align <= PCPOOL_ALIGN_MAX &&
	       !(attr->flags & ~KNOWN_FLAGS) &&
	       /* A free cannot wait for readers. */
	       (attr->flags & CONTRARY_FLAGS) != CONTRARY_FLAGS &&
	       attr->sheaf_capacity <= PCPOOL_SHEAF_CAPACITY_MAX &&
	       attr->min_partial <= MIN_PARTIAL_MAX &&
	       pcp_fields_valid(attr->fields, attr->nr_fields, size);
}

/* 0: adapted to use. */
static uint32_t choose_capacity(const struct pcpool_cache_attr *attr)
{
	return attr->sheaf_capacity ? attr->sheaf_capacity : pcp_options.sheaf;
}

static void copy_name(struct pcpool_cache *cache, const char *name)
{
	size_t len = strnlen(name, PCP_NAME_MAX - 1);

	memcpy(cache->name, name, len);
	cache->name[len] = '\0';
	cache->stock.kind.name = cache->name;
}

/* An object's share of its slab, its regions, and what the user says. */
static uint64_t charge_of(const struct pcp_kind *kind, size_t more)
{
	const struct pcp_layout *layout = &kind->layout;
	uint64_t bytes = (layout->slab_size + layout->objects - 1) /
			 layout->objects;

	if (kind->fields)
		bytes += (uint64_t)kind->fields->stride * pcp_nr_slots();
	return bytes + more;
}

static uint32_t default_min_partial(const struct pcp_layout *layout)
{
	size_t slabs = PARTIAL_BYTES / layout->slab_size;

	return slabs ? (uint32_t)slabs : 1;
}

PCP_API struct pcpool_cache *
pcpool_cache_create(const char *name, size_t size,
		    const struct pcpool_cache_attr *attr)
{
	struct pcpool_cache_attr defaults = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	struct pcp_kind *kind;
	int err;

	pcp_init();
	if (!attr)
		attr = &defaults;
	if (!valid(name, size, attr)) {
		errno = EINVAL;
		return NULL;
	}
	cache = pcp_meta_alloc(sizeof(*cache) + pcp_index.nr_ids *
							sizeof(struct pcp_slot),
			       128);
	if (!cache)
		return NULL;
	copy_name(cache, name);
	kind = &cache->stock.kind;
	kind->ctor = attr->ctor;
	kind->dtor = attr->dtor;
	kind->reset = attr->reset;
	kind->arg = attr->arg;
	kind->flags = attr->flags;
	if (attr->nr_fields) {
		kind->fields = pcp_fields_new(attr->fields, attr->nr_fields);
		if (!kind->fields) {
			pcp_meta_free(cache);
			return NULL;
		}
	}
	if (pcp_options.debug)
		kind->flags |= PCPOOL_CHECK;
	err = pcp_stock_init(&cache->stock, size, attr->align,
			     choose_capacity(attr), attr->min_partial);
	if (err) {
		pcp_meta_free(cache);
		errno = err;
		return NULL;
	}
	pcp_defer_init(&cache->stock, attr->rcu, attr->rcu_backlog);
	cache->accounted = attr->flags & PCPOOL_ACCOUNT;
	cache->charge = charge_of(kind, attr->charge);
	for (unsigned int i = 0; !attr->min_partial && i < cache->stock.nr_nodes;
	     i++)
		cache->stock.nodes[i].min_partial =
			default_min_partial(&kind->layout);
	cache->fast = pcp_cache_fast(cache);
	pcp_registry_add(cache);
	return cache;
}

PCP_API size_t pcpool_cache_size(const struct pcpool_cache *cache)
{
	return cache ? cache->stock.kind.layout.size : 0;
}

PCP_API const char *pcpool_cache_name(const struct pcpool_cache *cache)
{
	return cache ? cache->name : "";
}
