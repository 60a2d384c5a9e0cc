/* SPDX-License-Identifier: MIT */
/* Declared per-CPU fields. See fields.h. */
#include <config.h>

#include <errno.h>
#include <stdalign.h>

#include <pcpool/percpu.h>

#include "base/osmem.h"
#include "percpu/region.h"
#include "slab/fields.h"
#include "slab/slab.h"

#define FIELD_ALIGN ((size_t)8) /* where none is asked for */

static size_t round_up(size_t n, size_t align)
{
	return (n + align - 1) & ~(align - 1);
}

static size_t align_of(const struct pcpool_percpu_field *field)
{
	return field->align > FIELD_ALIGN ? field->align : FIELD_ALIGN;
}

static bool field_valid(const struct pcpool_percpu_field *field,
			size_t object_size)
{
	return field->size && field->size <= PCPOOL_PERCPU_SIZE_MAX &&
	       !(field->align & (field->align - 1)) &&
	       field->align <= PCPOOL_PERCPU_ALIGN_MAX &&
	       field->offset % alignof(void *) == 0 &&
	       object_size >= sizeof(void *) &&
	       field->offset <= object_size - sizeof(void *);
}

/* Where a field's bytes lie after those of the ones before it. */
static size_t place_of(const struct pcpool_percpu_field *field, size_t end)
{
	return round_up(end, align_of(field));
}

static size_t end_of(const struct pcpool_percpu_field *list, size_t count)
{
	size_t end = 0, align = FIELD_ALIGN;

	for (size_t i = 0; i < count; i++) {
		end = place_of(&list[i], end) + list[i].size;
		if (align_of(&list[i]) > align)
			align = align_of(&list[i]);
	}
	return round_up(end, align);
}

bool pcp_fields_valid(const struct pcpool_percpu_field *list, size_t count,
		      size_t object_size)
{
	if (!count)
		return true;
	if (!list || count > PCPOOL_PERCPU_FIELDS_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!field_valid(&list[i], object_size))
			return false;
		for (size_t j = 0; j < i; j++)
			if (list[i].offset == list[j].offset)
				return false;
	}
	return end_of(list, count) <= PCPOOL_PERCPU_SIZE_MAX;
}

struct pcp_fields *pcp_fields_new(const struct pcpool_percpu_field *list,
				  size_t count)
{
	struct pcp_fields *fields =
		pcp_meta_alloc(sizeof(*fields) + count * sizeof(fields->field[0]),
			       alignof(struct pcp_fields));
	size_t end = 0;

	if (!fields)
		return NULL;
	fields->align = FIELD_ALIGN;
	fields->count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		fields->field[i].offset = list[i].offset;
		fields->field[i].place = place_of(&list[i], end);
		end = fields->field[i].place + list[i].size;
		if (align_of(&list[i]) > fields->align)
			fields->align = align_of(&list[i]);
	}
	fields->stride = end_of(list, count);
	/* No valid list comes below this. */
	if (fields->stride < FIELD_ALIGN)
		fields->stride = FIELD_ALIGN;
	fields->per_region =
		(uint32_t)(PCPOOL_PERCPU_SIZE_MAX / fields->stride);
	return fields;
}

static uint32_t regions_of(const struct pcp_fields *fields, uint32_t objects)
{
	return (objects + fields->per_region - 1) / fields->per_region;
}

/* One region if a slab needs only one, which is no larger than it must be; else
 * all are of the largest size. */
static size_t region_size(const struct pcp_fields *fields, uint32_t objects)
{
	uint32_t n = objects < fields->per_region ? objects
						  : fields->per_region;

	return n * fields->stride;
}

int pcp_fields_take(struct pcp_slab *slab)
{
	const struct pcp_fields *fields = slab->kind->fields;
	uint32_t objects = slab->kind->layout.objects;
	uint32_t n = regions_of(fields, objects);
	int err;

	slab->regions = pcp_meta_alloc(n * sizeof(*slab->regions),
				       alignof(void *));
	if (!slab->regions)
		return ENOMEM;
	err = pcp_region_alloc_bulk(n, region_size(fields, objects),
				    fields->align, slab->regions);
	if (err) {
		pcp_meta_free(slab->regions);
		slab->regions = NULL;
	}
	return err;
}

void pcp_fields_give(struct pcp_slab *slab)
{
	const struct pcp_kind *kind = slab->kind;

	pcp_region_free_bulk(regions_of(kind->fields, kind->layout.objects),
			     slab->regions, NULL);
	pcp_meta_free(slab->regions);
	slab->regions = NULL;
}

/* An object's part, in the first copy. */
static char *part_of(const struct pcp_slab *slab, uint32_t index)
{
	const struct pcp_fields *fields = slab->kind->fields;

	return (char *)slab->regions[index / fields->per_region] +
	       index % fields->per_region * fields->stride;
}

void pcp_fields_set(struct pcp_slab *slab, uint32_t index)
{
	const struct pcp_fields *fields = slab->kind->fields;
	char *part = part_of(slab, index);
	char *obj = pcp_slab_object(slab, index);

	for (uint32_t i = 0; i < fields->count; i++)
		*(void **)(void *)(obj + fields->field[i].offset) =
			part + fields->field[i].place;
}

void pcp_fields_zero(struct pcp_slab *slab, uint32_t index)
{
	pcp_region_zero(part_of(slab, index), slab->kind->fields->stride);
}
