/* SPDX-License-Identifier: MIT */
/*
 * Possible CPUs and memory nodes. See topology.h.
 *
 * CPUs, the first source that speaks:
 *   /sys/devices/system/cpu/possible    the kernel's list;
 *   /proc/self/status                   Cpus_allowed is printed over as many
 *                                       bits as there can be CPUs, rounded up
 *                                       to four: an upper bound, good enough;
 *   a guess                             then known is false.
 * A source that contradicts what sched_getaffinity(2) tells (sandboxes put
 * files of their own there) is a guess, too.
 *
 * Nodes: a machine with node 0 alone is told from one small file, since loading
 * hwloc would cost a short-lived process more than all the rest of the library.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/options.h"
#include "base/osmem.h"
#include "cpu/topology.h"

#define CPUS_MAX 65536U
#define NODES_MAX 1024U /* what the kernel can be configured for */

/* hwloc does not check every allocation; with less room than this it is not
 * tried at all. */
#define HWLOC_ROOM ((size_t)8 << 20)

struct pcp_topology pcp_topology = {
	.nr_cpus = 1,
	.possible = 1,
	.nr_nodes = 1,
};

/* --- CPUs ----------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A decimal number below CPUS_MAX at *text, which moves past it. */
static bool parse_number(const char **text, unsigned int *out)
{
	const char *p = *text;
	unsigned int n = 0;

	if (!is_digit(*p))
		return false;
	for (; is_digit(*p); p++) {
		n = n * 10 + (unsigned int)(*p - '0');
		if (n >= CPUS_MAX)
			return false;
	}
	*text = p;
	*out = n;
	return true;
}

unsigned int pcp_parse_cpu_list(const char *text)
{
	unsigned int top = 0;

	for (;;) {
		unsigned int first, last;

		if (!parse_number(&text, &first))
			return 0;
		last = first;
		if (*text == '-') {
			text++;
			if (!parse_number(&text, &last) || last < first)
				return 0;
		}
		if (last >= top)
			top = last + 1;
		if (*text != ',')
			break;
		text++;
	}
	if (*text == '\n')
		text++;
	return *text ? 0 : top;
}

static int open_file(const char *path)
{
	int fd;

	do
		fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd < 0 && errno == EINTR);
	return fd;
}

/* Fill buf as far as the file goes. How many bytes, or -1. */
static ssize_t read_full(int fd, char *buf, size_t size)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, buf + len, size - len);

		if (n == 0)
			break;
		if (n > 0)
			len += (size_t)n;
		else if (errno != EINTR)
			return -1;
	}
	return (ssize_t)len;
}

/* Highest number + 1 of a file in list format; 0 when it tells none. */
static unsigned int list_file(const char *path)
{
	char buf[4096];
	ssize_t len;
	int fd = open_file(path);

	if (fd < 0)
		return 0;
	len = read_full(fd, buf, sizeof(buf));
	close(fd);
	/* A file that fills the buffer may have been cut in a number. */
	if (len <= 0 || (size_t)len == sizeof(buf))
		return 0;
	buf[len] = '\0';
	if (strlen(buf) != (size_t)len)
		return 0;
	return pcp_parse_cpu_list(buf);
}

/* Feeds on /proc/self/status byte by byte, for its Groups line has no bound. */
struct status_scan {
	size_t matched; /* bytes of the key; SIZE_MAX: not in this line */
	unsigned int digits;
	bool in_value;
	bool done;
};

static void scan_status(struct status_scan *scan, char c)
{
	static const char key[] = "Cpus_allowed:";

	if (c == '\n') {
		scan->done = scan->in_value;
		scan->matched = 0;
	} else if (scan->in_value) {
		scan->digits += is_digit(c) || (c >= 'a' && c <= 'f');
	} else if (scan->matched < sizeof(key) - 1 && c == key[scan->matched]) {
		scan->in_value = ++scan->matched == sizeof(key) - 1;
	} else {
		scan->matched = SIZE_MAX;
	}
}

static unsigned int status_width(void)
{
	struct status_scan scan = { .matched = 0 };
	char buf[1024];
	ssize_t len;
	int fd = open_file("/proc/self/status");

	if (fd < 0)
		return 0;
	do {
		len = read_full(fd, buf, sizeof(buf));
		for (ssize_t i = 0; i < len && !scan.done; i++)
			scan_status(&scan, buf[i]);
	} while (len == (ssize_t)sizeof(buf) && !scan.done);
	close(fd);
	return scan.done && scan.digits <= CPUS_MAX / 4 ? scan.digits * 4 : 0;
}

#define MASK_BITS (sizeof(unsigned long) * CHAR_BIT)

/* The system call, for it tells how much of the mask it filled and refuses one
 * that is too short for the CPUs there can be. */
static long get_affinity(unsigned long *mask, size_t bits)
{
	return syscall(SYS_sched_getaffinity, 0, bits / CHAR_BIT, mask);
}

/* Highest CPU this thread may run on + 1; 0 when that cannot be had. */
static unsigned int allowed_cpus(void)
{
	unsigned long mask[CPUS_MAX / MASK_BITS];
	long bytes = get_affinity(mask, CPUS_MAX);
	size_t i = bytes > 0 ? (size_t)bytes / sizeof(mask[0]) : 0;

	while (i-- > 0)
		if (mask[i])
			return (unsigned int)((i + 1) * MASK_BITS) -
			       (unsigned int)__builtin_clzl(mask[i]);
	return 0;
}

/* The kernel can have more CPUs than nr, rounded up to whole words. */
static bool contradicted(unsigned int nr)
{
	unsigned long mask[CPUS_MAX / MASK_BITS];
	size_t bits = (nr + MASK_BITS - 1) / MASK_BITS * MASK_BITS;

	return get_affinity(mask, bits) < 0 && errno == EINVAL;
}

static void count_cpus(struct pcp_topology *topology)
{
	unsigned int nr = list_file("/sys/devices/system/cpu/possible");
	unsigned int allowed = allowed_cpus();
	long configured;

	if (!nr)
		nr = status_width();
	topology->known = nr && allowed <= nr && !contradicted(nr);
	if (!topology->known) {
		configured = sysconf(_SC_NPROCESSORS_CONF);
		if (configured > (long)nr && configured <= (long)CPUS_MAX)
			nr = (unsigned int)configured;
		if (nr < allowed)
			nr = allowed;
		if (!nr)
			nr = 1;
	}
	topology->possible = nr;
	topology->nr_cpus = nr;
}

/* --- nodes ---------------------------------------------------------------- */

static uint16_t *map_alloc(unsigned int n)
{
	return pcp_meta_alloc(n * sizeof(uint16_t), sizeof(void *));
}

/* Contiguous blocks of CPUs, and no memory bound. */
static void synthetic_nodes(struct pcp_topology *topology, unsigned int nodes)
{
	unsigned int nr = topology->nr_cpus;
	uint16_t *map = nodes > 1 ? map_alloc(nr) : NULL;

	if (!map)
		return;
	for (unsigned int cpu = 0; cpu < nr; cpu++)
		map[cpu] = (uint16_t)((uint64_t)cpu * nodes / nr);
	topology->cpu_node = map;
	topology->nr_nodes = nodes;
}

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

static bool want_hwloc(void)
{
	/* hwloc takes files and plugins from the environment. */
	if (getauxval(AT_SECURE))
		return false;
	return is_set("HWLOC_SYNTHETIC") || is_set("HWLOC_XMLFILE") ||
	       is_set("HWLOC_FSROOT") ||
	       list_file("/sys/devices/system/node/online") > 1;
}

static bool has_room(void)
{
	void *p = mmap(NULL, HWLOC_ROOM, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return false;
	munmap(p, HWLOC_ROOM);
	return true;
}

static bool load_hwloc(hwloc_topology_t *out)
{
	unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
	hwloc_topology_t hw;

#if HWLOC_API_VERSION >= 0x00020500
	flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
#if HWLOC_API_VERSION >= 0x00020800
	flags |= HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
		 HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
	if (hwloc_topology_init(&hw))
		return false;
#if HWLOC_API_VERSION >= 0x00020100
	/* It visits every CPU in turn to ask it; the kernel knows, too. */
	(void)hwloc_topology_set_components(
		hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
#endif
	/* No type is filtered out: a node keeps its CPUs only by way of the
	 * package, cache or group it belongs to. */
	if (hwloc_topology_set_flags(hw, flags) || hwloc_topology_load(hw)) {
		hwloc_topology_destroy(hw);
		return false;
	}
	*out = hw;
	return true;
}

/* Everything the choice of a CPU's node needs. */
struct nodes {
	hwloc_topology_t hw;
	unsigned int nr;
	unsigned int os[NODES_MAX]; /* ascending; the index is our id */
	struct hwloc_distances_s *distances; /* may be NULL */
};

/* Nodes with memory or, should the system tell of none, all of them. */
static void collect_nodes(struct nodes *nodes)
{
	hwloc_bitmap_t with = hwloc_bitmap_alloc();
	hwloc_bitmap_t all = hwloc_bitmap_alloc();
	hwloc_obj_t obj = NULL;
	int os = -1;

	while (with && all &&
	       (obj = hwloc_get_next_obj_by_type(nodes->hw, HWLOC_OBJ_NUMANODE,
						 obj))) {
		if (obj->os_index > UINT16_MAX)
			continue;
		hwloc_bitmap_set(all, obj->os_index);
		if (obj->attr->numanode.local_memory)
			hwloc_bitmap_set(with, obj->os_index);
	}
	if (with && all) {
		if (hwloc_bitmap_iszero(with))
			hwloc_bitmap_copy(with, all);
		while (nodes->nr < NODES_MAX &&
		       (os = hwloc_bitmap_next(with, os)) >= 0)
			nodes->os[nodes->nr++] = (unsigned int)os;
	}
	hwloc_bitmap_free(with);
	hwloc_bitmap_free(all);
}

/* Our id of a node, or nodes->nr for one that is not ours. */
static unsigned int dense_id(const struct nodes *nodes, unsigned int os)
{
	unsigned int id = 0;

	while (id < nodes->nr && nodes->os[id] != os)
		id++;
	return id;
}

/* By the system's distances; 0 when there are none. */
static unsigned int nearest_node(const struct nodes *nodes, hwloc_obj_t from)
{
	const struct hwloc_distances_s *d = nodes->distances;
	hwloc_uint64_t best_distance = UINT64_MAX;
	unsigned int best = 0, row = 0;

	if (!d || !from)
		return 0;
	while (row < d->nbobjs && d->objs[row] != from)
		row++;
	for (unsigned int i = 0; row < d->nbobjs && i < d->nbobjs; i++) {
		hwloc_uint64_t distance = d->values[row * d->nbobjs + i];
		unsigned int id;

		if (!d->objs[i] || distance >= best_distance)
			continue;
		id = dense_id(nodes, d->objs[i]->os_index);
		if (id < nodes->nr) {
			best = id;
			best_distance = distance;
		}
	}
	return best;
}

/* The node with memory that fewest CPUs share with this one; nodes of the same
 * CPUs (another kind of memory) come after the ordinary one. */
static unsigned int node_of(const struct nodes *nodes, unsigned int cpu)
{
	hwloc_obj_t obj = NULL, own = NULL;
	int best_weight = INT_MAX;
	unsigned int best = nodes->nr;

	while ((obj = hwloc_get_next_obj_by_type(nodes->hw, HWLOC_OBJ_NUMANODE,
						 obj))) {
		unsigned int id = dense_id(nodes, obj->os_index);
		int weight;

		if (!obj->cpuset || !hwloc_bitmap_isset(obj->cpuset, cpu))
			continue;
		own = obj;
		weight = hwloc_bitmap_weight(obj->cpuset);
		if (id < nodes->nr && weight >= 0 && weight < best_weight) {
			best = id;
			best_weight = weight;
		}
	}
	return best < nodes->nr ? best : nearest_node(nodes, own);
}

static void fill_nodes(struct pcp_topology *topology, const struct nodes *nodes)
{
	uint16_t *cpu_node = map_alloc(topology->nr_cpus);
	uint16_t *os_node = NULL;
	hwloc_obj_t pu = NULL;

	if (!cpu_node)
		return;
	while ((pu = hwloc_get_next_obj_by_type(nodes->hw, HWLOC_OBJ_PU, pu)))
		if (pu->os_index < topology->nr_cpus)
			cpu_node[pu->os_index] =
				(uint16_t)node_of(nodes, pu->os_index);
	/* Another machine's numbers mean nothing to this one's kernel. */
	if (hwloc_topology_is_thissystem(nodes->hw))
		os_node = map_alloc(nodes->nr);
	for (unsigned int id = 0; os_node && id < nodes->nr; id++)
		os_node[id] = (uint16_t)nodes->os[id];
	topology->cpu_node = cpu_node;
	topology->os_node = os_node;
	topology->nr_nodes = nodes->nr;
}

static void find_nodes(struct pcp_topology *topology)
{
	/* hwloc has a lock, which stays locked in a child that was forked in
	 * the middle of this; that child does with one node. */
	static bool entered;
	struct nodes nodes = { .nr = 0 };
	unsigned int nr_distances = 1;

	if (entered || !has_room())
		return;
	pcp_store(&entered, true);
	if (load_hwloc(&nodes.hw)) {
		collect_nodes(&nodes);
		if (nodes.nr > 1) {
			(void)hwloc_distances_get_by_type(
				nodes.hw, HWLOC_OBJ_NUMANODE, &nr_distances,
				&nodes.distances,
				HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0);
			fill_nodes(topology, &nodes);
		}
		if (nodes.distances)
			hwloc_distances_release(nodes.hw, nodes.distances);
		hwloc_topology_destroy(nodes.hw);
	}
	pcp_store(&entered, false);
}

void pcp_topology_init(void)
{
	struct pcp_topology topology = { .nr_nodes = 1 };
	int saved = errno;

	count_cpus(&topology);
	if (pcp_options.slots)
		topology.nr_cpus = pcp_options.slots;
	topology.synthetic = pcp_options.slots || pcp_options.nodes;
	if (topology.synthetic)
		synthetic_nodes(&topology, pcp_options.nodes);
	else if (want_hwloc())
		find_nodes(&topology);
	pcp_topology = topology;
	errno = saved;
}
