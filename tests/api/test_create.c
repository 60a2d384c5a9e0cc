/* SPDX-License-Identifier: MIT */
/* Creating caches: what is refused and with which errno, and names. */
#include <config.h>

#include <limits.h>

#include "../caches.h"
#include "../suite.h"

static struct pcpool_cache_attr attr_of(void)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	return attr;
}

START_TEST(test_refuses_names_and_sizes)
{
	expect_refused(pcpool_cache_create(NULL, 8, NULL), EINVAL);
	expect_refused(pcpool_cache_create("", 8, NULL), EINVAL);
	expect_refused(pcpool_cache_create("a", 0, NULL), EINVAL);
	expect_refused(pcpool_cache_create("a", PCPOOL_SIZE_MAX + 1, NULL),
		       EINVAL);
	expect_refused(pcpool_cache_create("a", SIZE_MAX, NULL), EINVAL);
	expect_refused(pcpool_cache_create("a", (size_t)1 << 63, NULL), EINVAL);
	must_destroy(pcpool_cache_create("a", 1, NULL));
	must_destroy(pcpool_cache_create("a", PCPOOL_SIZE_MAX, NULL));
}
END_TEST

START_TEST(test_refuses_alignments)
{
	static const size_t bad[] = { 3,
				      6,
				      7,
				      12,
				      24,
				      4095,
				      4097,
				      PCPOOL_ALIGN_MAX - 1,
				      PCPOOL_ALIGN_MAX + 1,
				      PCPOOL_ALIGN_MAX * 2,
				      (size_t)1 << 63,
				      SIZE_MAX };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pcpool_cache_attr attr = attr_of();

		attr.align = bad[i];
		expect_refused(pcpool_cache_create("a", 64, &attr), EINVAL);
		expect_refused(pcpool_cache_create("a", 1, &attr), EINVAL);
	}
	for (size_t align = 1; align <= PCPOOL_ALIGN_MAX; align *= 2) {
		struct pcpool_cache_attr attr = attr_of();
		struct pcpool_cache *cache;

		attr.align = align;
		cache = pcpool_cache_create("a", 40, &attr);
		expect(cache);
		must_destroy(cache);
	}
}
END_TEST

START_TEST(test_refuses_flags_and_numbers)
{
	struct pcpool_cache_attr attr;

	for (unsigned int bit = 4; bit < 32; bit++) {
		attr = attr_of();
		attr.flags = 1U << bit;
		expect_refused(pcpool_cache_create("a", 64, &attr), EINVAL);
		attr.flags |= PCPOOL_CHECK;
		expect_refused(pcpool_cache_create("a", 64, &attr), EINVAL);
	}
	/* A free cannot wait for readers before it destructs. */
	attr = attr_of();
	attr.flags = PCPOOL_TYPESAFE_BY_RCU | PCPOOL_DTOR_ON_FREE;
	expect_refused(pcpool_cache_create("a", 64, &attr), EINVAL);
	attr.flags |= PCPOOL_CHECK;
	expect_refused(pcpool_cache_create("a", 64, &attr), EINVAL);
	for (unsigned int check = 0; check < 2; check++) {
		attr.flags = PCPOOL_TYPESAFE_BY_RCU |
			     (check ? PCPOOL_CHECK : 0);
		attr.rcu_backlog = check ? SIZE_MAX : 1;
		must_destroy(pcpool_cache_create("a", 64, &attr));
	}
	attr = attr_of();
	attr.sheaf_capacity = PCPOOL_SHEAF_CAPACITY_MAX + 1;
	expect_refused(pcpool_cache_create("a", 64, &attr), EINVAL);
	attr.sheaf_capacity = UINT_MAX;
	expect_refused(pcpool_cache_create("a", 64, &attr), EINVAL);
	attr = attr_of();
	attr.min_partial = 65536;
	expect_refused(pcpool_cache_create("a", 64, &attr), EINVAL);
	attr.min_partial = UINT_MAX;
	expect_refused(pcpool_cache_create("a", 64, &attr), EINVAL);
	attr.min_partial = 65535;
	attr.sheaf_capacity = PCPOOL_SHEAF_CAPACITY_MAX;
	attr.flags = PCPOOL_CHECK | PCPOOL_DTOR_ON_FREE;
	must_destroy(pcpool_cache_create("a", 64, &attr));
}
END_TEST

START_TEST(test_refuses_attr_sizes)
{
	const size_t right = sizeof(struct pcpool_cache_attr);
	const size_t bad[] = { 0,	  1,	     8,		right - 1,
			       right + 1, right + 8, right * 2, SIZE_MAX };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pcpool_cache_attr attr[2] = { attr_of(), attr_of() };

		memset(&attr[1], 0, sizeof(attr[1]));
		attr[0].attr_size = bad[i];
		expect_refused(pcpool_cache_create("a", 64, attr), EINVAL);
	}
}
END_TEST

START_TEST(test_attr_is_copied_and_ctor_waits)
{
	struct sheet sheet = { .fill = 24 };
	struct pcpool_cache_attr *attr = malloc(sizeof(*attr));
	struct pcpool_cache *cache;
	void *obj;

	expect(attr);
	pcpool_cache_attr_init(attr);
	attr->ctor = sheet_ctor;
	attr->dtor = sheet_dtor;
	attr->arg = &sheet;
	cache = pcpool_cache_create("a", 24, attr);
	expect(cache);
	memset(attr, 0xff, sizeof(*attr));
	free(attr);
	expect_eq(atomic_load(&sheet.calls), 0);
	expect_eq(pcpool_cache_size(cache), 24);
	obj = must_alloc(cache);
	sheet_pattern_check(obj, 24);
	pcpool_free(cache, obj);
	destroy_balanced(cache, &sheet);
	expect(sheet.ok > 0);
}
END_TEST

START_TEST(test_null_queries)
{
	expect_eq(pcpool_cache_size(NULL), 0);
	expect(!strcmp(pcpool_cache_name(NULL), ""));
	expect_eq(pcpool_cache_destroy(NULL), EINVAL);
	expect_eq(pcpool_cache_shrink(NULL), EINVAL);
}
END_TEST

START_TEST(case_SHF_15_borrowed_name)
{
	char name[] = "stack-name-0815";
	struct pcpool_cache *cache = pcpool_cache_create(name, 64, NULL);
	char *text;

	expect(cache);
	memset(name, '#', sizeof(name) - 1);
	expect(!strcmp(pcpool_cache_name(cache), "stack-name-0815"));
	text = printed();
	expect(strstr(text, "stack-name-0815"));
	expect(!strstr(text, "####"));
	free(text);
	must_destroy(cache);
	text = printed();
	expect(!strstr(text, "stack-name-0815"));
	free(text);
}
END_TEST

START_TEST(case_SHF_15_same_name_again)
{
	struct pcpool_cache *a = pcpool_cache_create("twin-0815", 64, NULL);
	struct pcpool_cache *b = pcpool_cache_create("twin-0815", 64, NULL);
	struct pcpool_cache *c;
	char *text;

	expect(a && b && a != b);
	must_destroy(a);
	text = printed();
	expect_eq(occurrences(text, "twin-0815"), 1);
	free(text);
	c = pcpool_cache_create("twin-0815", 128, NULL);
	expect(c);
	text = printed();
	expect_eq(occurrences(text, "twin-0815"), 2);
	free(text);
	must_destroy(c);
	must_destroy(b);
}
END_TEST

START_TEST(case_SHF_15_long_name)
{
	char name[4001];
	struct pcpool_cache *cache;

	memset(name, 'n', 4000);
	name[4000] = '\0';
	cache = pcpool_cache_create(name, 64, NULL);
	expect(cache);
	expect_eq(strlen(pcpool_cache_name(cache)), 63);
	expect_eq(strspn(pcpool_cache_name(cache), "n"), 63);
	must_destroy(cache);
	name[63] = '\0';
	cache = pcpool_cache_create(name, 64, NULL);
	expect(!strcmp(pcpool_cache_name(cache), name));
	must_destroy(cache);
}
END_TEST

/* Each name must leave the text as many lines as a tame one, without a
 * character that a terminal or a parser acts upon. */
START_TEST(case_SHF_15_hostile_names)
{
	static const char *const names[] = {
		"%s%n%s%n%d",	    "new\nline", "quo\"te", "back\\slash",
		"\x1b[31mred",	    "tab\there", "\x7f",    "\r",
		"a\n\n\n\"b\" 1 2", " ",	 "'",	    "{\"x\":1}",
		"\xff\xfe",	    "\\",	 "\"",	    "ends in \\",
	};
	struct pcpool_cache *cache = pcpool_cache_create("tame", 64, NULL);
	char *text = printed();
	unsigned int lines = occurrences(text, "\n");

	free(text);
	must_destroy(cache);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cache = pcpool_cache_create(names[i], 64, NULL);
		expect(cache);
		expect(!strcmp(pcpool_cache_name(cache), names[i]));
		text = printed();
		expect_eq(occurrences(text, "\n"), lines);
		for (const char *p = text; *p; p++) {
			unsigned char c = (unsigned char)*p;

			if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
				fail_now("raw 0x%02x printed for name %zu", c,
					 i);
		}
		if (strchr(names[i], '"'))
			expect(strstr(text, "\\\"") || strstr(text, "\\x22") ||
			       strstr(text, "\\042"));
		free(text);
		must_destroy(cache);
	}
}
END_TEST

START_TEST(test_many_caches)
{
	enum { MANY = 300 };
	struct pcpool_cache *caches[MANY];
	struct rng rng;

	rng_seed(&rng, 1);
	for (int i = 0; i < MANY; i++) {
		caches[i] = pcpool_cache_create("many",
						1 + rng_below(&rng, 900), NULL);
		expect(caches[i]);
		for (int j = 0; j < 3; j++)
			pcpool_free(caches[i], must_alloc(caches[i]));
	}
	for (int i = 0; i < MANY; i += 2)
		must_destroy(caches[i]);
	for (int i = 1; i < MANY; i += 2)
		must_destroy(caches[i]);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("create", 60);

	tcase_add_test(tc, test_refuses_names_and_sizes);
	tcase_add_test(tc, test_refuses_alignments);
	tcase_add_test(tc, test_refuses_flags_and_numbers);
	tcase_add_test(tc, test_refuses_attr_sizes);
	tcase_add_test(tc, test_attr_is_copied_and_ctor_waits);
	tcase_add_test(tc, test_null_queries);
	tcase_add_test(tc, case_SHF_15_borrowed_name);
	tcase_add_test(tc, case_SHF_15_same_name_again);
	tcase_add_test(tc, case_SHF_15_long_name);
	tcase_add_test(tc, case_SHF_15_hostile_names);
	tcase_add_test(tc, test_many_caches);
	return suite_run(tc);
}
