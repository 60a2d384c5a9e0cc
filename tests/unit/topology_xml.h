/* SPDX-License-Identifier: MIT */
/*
 * Machines as hwloc's XML tells them, for test_topology.c: node numbers with
 * holes, nodes without memory, nodes without CPUs.
 */
#ifndef TESTS_UNIT_TOPOLOGY_XML_H
#define TESTS_UNIT_TOPOLOGY_XML_H

/* clang-format off */
#define XML_HEAD                                                               \
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                         \
	"<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"                          \
	"<topology version=\"2.0\">\n"
#define XML_MACHINE(cpus, nodes)                                               \
	"<object type=\"Machine\" os_index=\"0\" cpuset=\"" cpus               \
	"\" complete_cpuset=\"" cpus "\" allowed_cpuset=\"" cpus               \
	"\" nodeset=\"" nodes "\" complete_nodeset=\"" nodes                   \
	"\" allowed_nodeset=\"" nodes "\" gp_index=\"1\">\n"
#define XML_NODE(os, cpus, nodes, gp, memory)                                  \
	"<object type=\"NUMANode\" os_index=\"" os "\" cpuset=\"" cpus         \
	"\" complete_cpuset=\"" cpus "\" nodeset=\"" nodes                     \
	"\" complete_nodeset=\"" nodes "\" gp_index=\"" gp                     \
	"\" local_memory=\"" memory "\"/>\n"
#define XML_PACKAGE(os, cpus, nodes, gp)                                       \
	"<object type=\"Package\" os_index=\"" os "\" cpuset=\"" cpus          \
	"\" complete_cpuset=\"" cpus "\" nodeset=\"" nodes                     \
	"\" complete_nodeset=\"" nodes "\" gp_index=\"" gp "\">\n"
#define XML_PU(os, cpus, nodes, gp)                                            \
	"<object type=\"PU\" os_index=\"" os "\" cpuset=\"" cpus               \
	"\" complete_cpuset=\"" cpus "\" nodeset=\"" nodes                     \
	"\" complete_nodeset=\"" nodes "\" gp_index=\"" gp "\"/>\n"
#define XML_END "</object>\n"

/* Nodes 1 and 3. */
static const char xml_odd_ids[] = XML_HEAD
	XML_MACHINE("0x3", "0xa")
	XML_PACKAGE("0", "0x1", "0x2", "2")
	XML_NODE("1", "0x1", "0x2", "3", "1073741824")
	XML_PU("0", "0x1", "0x2", "4")
	XML_END
	XML_PACKAGE("1", "0x2", "0x8", "5")
	XML_NODE("3", "0x2", "0x8", "6", "1073741824")
	XML_PU("1", "0x2", "0x8", "7")
	XML_END
	XML_END "</topology>\n";

/* Node 0 has CPU 0 but no memory; 1 and 2 have memory; node 2 is nearer. */
static const char xml_memoryless[] = XML_HEAD
	XML_MACHINE("0x7", "0x7")
	XML_PACKAGE("0", "0x1", "0x1", "2")
	XML_NODE("0", "0x1", "0x1", "3", "0")
	XML_PU("0", "0x1", "0x1", "4")
	XML_END
	XML_PACKAGE("1", "0x2", "0x2", "5")
	XML_NODE("1", "0x2", "0x2", "6", "1073741824")
	XML_PU("1", "0x2", "0x2", "7")
	XML_END
	XML_PACKAGE("2", "0x4", "0x4", "8")
	XML_NODE("2", "0x4", "0x4", "9", "1073741824")
	XML_PU("2", "0x4", "0x4", "10")
	XML_END
	XML_END
	"<distances2 type=\"NUMANode\" nbobjs=\"3\" kind=\"5\" "
	"name=\"NUMALatency\" indexing=\"os\">\n"
	"<indexes length=\"6\">0 1 2 </indexes>\n"
	"<u64values length=\"9\">10 30 20 </u64values>\n"
	"<u64values length=\"9\">30 10 30 </u64values>\n"
	"<u64values length=\"9\">20 30 10 </u64values>\n"
	"</distances2>\n</topology>\n";

/* A node without CPUs (2), CPUs whose only node has no memory and no distance
 * (0), and CPU numbers this machine need not have. */
static const char xml_cpuless[] = XML_HEAD
	"<object type=\"Machine\" os_index=\"0\" cpuset=\"0xc0000003\" "
	"complete_cpuset=\"0xc0000003\" allowed_cpuset=\"0xc0000002\" "
	"nodeset=\"0x7\" complete_nodeset=\"0x7\" allowed_nodeset=\"0x6\" "
	"gp_index=\"1\">\n"
	XML_NODE("2", "0x0", "0x4", "11", "1073741824")
	XML_PACKAGE("0", "0x40000001", "0x1", "2")
	XML_NODE("0", "0x40000001", "0x1", "3", "0")
	XML_PU("0", "0x1", "0x1", "4")
	XML_PU("30", "0x40000000", "0x1", "14")
	XML_END
	XML_PACKAGE("1", "0x80000002", "0x2", "5")
	XML_NODE("1", "0x80000002", "0x2", "6", "1073741824")
	XML_PU("1", "0x2", "0x2", "7")
	XML_PU("31", "0x80000000", "0x2", "17")
	XML_END
	XML_END "</topology>\n";

/* No node tells of memory. */
static const char xml_all_memoryless[] = XML_HEAD
	XML_MACHINE("0x3", "0x3")
	XML_PACKAGE("0", "0x1", "0x1", "2")
	XML_NODE("0", "0x1", "0x1", "3", "0")
	XML_PU("0", "0x1", "0x1", "4")
	XML_END
	XML_PACKAGE("1", "0x2", "0x2", "5")
	XML_NODE("1", "0x2", "0x2", "6", "0")
	XML_PU("1", "0x2", "0x2", "7")
	XML_END
	XML_END "</topology>\n";
/* clang-format on */

#endif /* TESTS_UNIT_TOPOLOGY_XML_H */
