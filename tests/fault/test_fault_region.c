/* SPDX-License-Identifier: MIT */
/*
 * Memory fails at every step of regions' life, and of objects whose constructor
 * takes regions: all or none, no region is lost, and it works again.
 */
#include <config.h>

#include "../suite.h"
#include "steps.h"

enum { REGIONS = 60 };

static void regions_life(struct steps *steps)
{
	uint64_t before = percpu_stats_of().regions;
	void *regions[REGIONS], *bulk[REGIONS];
	size_t n = 0;
	int err;

	for (int i = 0; i < REGIONS; i++) {
		size_t region_size = i % 10 == 9 ? 30000 : 8 + 40 * (size_t)i;

		errno = 0;
		regions[n] = pcpool_percpu_alloc(region_size, 8);
		if (!regions[n]) {
			step_failed(steps, errno);
			continue;
		}
		for (unsigned int s = 0; s < pcpool_nr_slots(); s++) {
			char *p = pcpool_percpu_ptr(regions[n], s);

			expect_eq(p[0] | p[region_size - 1], 0);
			p[0] = p[region_size - 1] = 1;
		}
		n++;
	}
	expect_eq(percpu_stats_of().regions, before + n);
	for (int i = 0; i < REGIONS; i++)
		bulk[i] = steps;
	err = pcpool_percpu_alloc_bulk(REGIONS, 3000, 64, bulk);
	for (int i = 0; i < REGIONS; i++)
		expect(err ? !bulk[i] : bulk[i] != NULL);
	if (err)
		step_failed(steps, err);
	expect_eq(percpu_stats_of().regions, before + n + (err ? 0 : REGIONS));
	/* Freeing needs nothing. */
	expect_eq(pcpool_percpu_free_bulk(REGIONS, bulk), 0);
	for (size_t i = 0; i < n; i++)
		pcpool_percpu_free(regions[i]);
	expect_eq(percpu_stats_of().regions, before);
}

static void at_point(enum pcp_fault_point point, void (*fn)(struct steps *),
		     bool must_fail)
{
	struct steps steps = fail_each(point, fn);
	struct steps often = fail_often(point, fn);

	printf("%s: %lu steps, %lu refused; often: %lu\n", point_names[point],
	       steps.hits, steps.failures, often.failures);
	fflush(stdout);
	if (must_fail)
		expect(steps.failures + often.failures > 0);
}

START_TEST(test_regions)
{
	/* A chunk is made of all three, whichever comes first. */
	at_point(PCP_FAULT_RESERVE, regions_life, true);
	at_point(PCP_FAULT_META, regions_life, true);
	at_point(PCP_FAULT_COMMIT, regions_life, false);
}
END_TEST

START_TEST(test_binding_is_a_preference)
{
	struct steps steps = fail_each(PCP_FAULT_BIND, regions_life);
	struct steps often = fail_often(PCP_FAULT_BIND, regions_life);

	expect_eq(steps.failures + often.failures, 0);
}
END_TEST

/* --- objects with two regions --------------------------------------------- */

static struct sheet sheet;

struct object {
	void *region[2];
};

static int object_ctor(void *obj, void *arg)
{
	struct object *object = obj;
	int err;

	object->region[0] = pcpool_percpu_alloc(200, 8);
	if (!object->region[0])
		return errno;
	object->region[1] = pcpool_percpu_alloc(64, 64);
	if (!object->region[1]) {
		err = errno;
		pcpool_percpu_free(object->region[0]);
		return err;
	}
	return sheet_ctor(obj, arg);
}

static void object_dtor(void *obj, void *arg)
{
	expect_eq(pcpool_percpu_free_bulk(2, ((struct object *)obj)->region),
		  0);
	sheet_dtor(obj, arg);
}

static void objects_life(struct steps *steps)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	uint64_t before = percpu_stats_of().regions;
	struct pcpool_cache *cache;
	void *objs[300], *more[100];
	size_t n = 0;
	int err;

	sheet = (struct sheet){ 0 };
	attr.ctor = object_ctor;
	attr.dtor = object_dtor;
	attr.arg = &sheet;
	errno = 0;
	cache = pcpool_cache_create("object", sizeof(struct object), &attr);
	if (!cache) {
		step_failed(steps, errno);
		return;
	}
	for (int i = 0; i < 300; i++) {
		errno = 0;
		objs[n] = pcpool_alloc(cache);
		if (objs[n])
			n++;
		else
			step_failed(steps, errno);
	}
	err = pcpool_alloc_bulk(cache, 100, more);
	if (err)
		step_failed(steps, err);
	expect_eq(percpu_stats_of().regions, before + 2 * sheet_built(&sheet));
	expect_eq(pcpool_free_bulk(cache, 100, more), 0);
	expect_eq(pcpool_free_bulk(cache, n, objs), 0);
	err = pcpool_cache_shrink(cache);
	if (err)
		step_failed(steps, err);
	else
		expect_eq(percpu_stats_of().regions, before);
	/* Destroying needs no memory, unless a fence is what fails. */
	must_destroy(cache);
	sheet_balanced(&sheet);
	expect_eq(percpu_stats_of().regions, before);
}

START_TEST(test_objects)
{
	at_point(PCP_FAULT_META, objects_life, true);
	at_point(PCP_FAULT_RESERVE, objects_life, false);
	at_point(PCP_FAULT_COMMIT, objects_life, false);
	at_point(PCP_FAULT_SLAB, objects_life, true);
}
END_TEST

/* Without memory for a chunk every corner is looked into, once: what is free in
 * the blocks of these regions is large enough, and aligned nowhere. */
static void fill_up(void *arg)
{
	unsigned int n = 0;

	(void)arg;
	expect(pcpool_percpu_alloc(8, 0));
	pcp_fault_set(PCP_FAULT_RESERVE, 1, true);
	for (size_t size = 512; pcpool_percpu_alloc(size, 4096); n++)
		size = size < 2048 ? size + 64 : 512;
	expect_errno(ENOMEM);
	expect_cmp(n, >, 0);
	for (size_t size = 8; size <= 65536; size *= 2)
		(void)pcpool_percpu_alloc(size, size < 4096 ? size : 4096);
	expect_refused(pcpool_percpu_alloc(2048, 4096), ENOMEM);
	_exit(0);
}

START_TEST(test_no_corner_left)
{
	static struct child child;

	run_child(fill_up, NULL, 20, &child);
	expect_child_exit(&child, 0);
}
END_TEST

/* --- from the environment, with the very first calls failing -------------- */

static int first_calls(void)
{
	struct pcpool_cache *cache;
	void *region;
	int refused = 0;

	do {
		errno = 0;
		cache = pcpool_cache_create("first", 64, NULL);
		if (!cache) {
			expect_errno(ENOMEM);
			expect(refused++ < 100);
		}
	} while (!cache);
	for (int got = 0; got < 1000;) {
		void *obj = pcpool_alloc(cache);

		if (!obj) {
			expect_errno(ENOMEM);
			expect(refused++ < 2000);
			continue;
		}
		memset(obj, 1, 64);
		pcpool_free(cache, obj);
		got++;
	}
	while (!(region = pcpool_percpu_alloc(8, 8))) {
		expect_errno(ENOMEM);
		expect(refused++ < 3000);
	}
	pcpool_percpu_free(region);
	for (int tries = 0; pcpool_cache_destroy(cache); tries++)
		expect(tries < 100);
	fprintf(stderr, "refused %d\n", refused);
	return 0;
}

START_TEST(test_first_calls)
{
	static const char *const args[] = { "--first", NULL };
	static struct child child;

	for (int point = 0; point < PCP_FAULT_COUNT; point++)
		for (int n = 1; n <= 8; n++) {
			char options[64];

			/* Not a failure but a fence left out. */
			if (point == PCP_FAULT_NO_FENCE)
				continue;
			/* Every so many only: a call that needs two in a row
			 * could never succeed with every second one. */
			snprintf(options, sizeof(options), "fault:%s%c%d",
				 point_names[point], n > 4 ? '%' : '/',
				 n > 4 ? 10 * n + 3 : n);
			run_self(args, options, 20, &child);
			if (child.status)
				fprintf(stderr, "with %s:\n", options);
			expect_child_exit(&child, 0);
		}
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc;

	if (argc > 1 && !strcmp(argv[1], "--first"))
		return first_calls();
	tc = suite_case("fault-region", 200);
	tcase_add_test(tc, test_regions);
	tcase_add_test(tc, test_no_corner_left);
	tcase_add_test(tc, test_binding_is_a_preference);
	tcase_add_test(tc, test_objects);
	tcase_add_test(tc, test_first_calls);
	return suite_run(tc);
}
