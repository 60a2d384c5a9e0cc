# SPDX-License-Identifier: MIT
"""What the page knows about the jobs: a sentence on one operation, how the matrix
runs it, which metrics lead, and which variants a complete build has. A job
that is not here runs with its own defaults and gets a table and bars too."""

MALLOCS = ("glibc", "jemalloc", "mimalloc", "tcmalloc")
CONSTRUCTS = ("construct", "construct-jemalloc", "construct-mimalloc",
              "construct-tcmalloc")
PLAIN = ("pcpool", "pcpool-inline", "pcpool-lock") + MALLOCS + (
    "apr", "rte_mempool", "mutex-list", "tls-list", "limit")

# Variants that are no allocator but a bound of what can be reached.
BOUNDS = ("limit", "ring", "plain", "tls", "tls-inline", "mutex")
LISTS = ("mutex-list", "tls-list")

# metric: (label, unit, divisor, whether more is better)
METRICS = {
    "ns_per_pair": ("time per pair", "ns", 1, False),
    "ns_alloc": ("allocate", "ns", 1, False),
    "ns_free": ("free", "ns", 1, False),
    "cycles_alloc": ("allocate", "ticks", 1, False),
    "cycles_free": ("free", "ticks", 1, False),
    "ns_per_object": ("time per object", "ns", 1, False),
    "cpu_ns_per_object": ("CPU time per object", "ns", 1, False),
    "peak_backlog": ("greatest backlog", "objects", 1, False),
    "ns_per_cycle": ("time per cycle", "ns", 1, False),
    "cpu_ns_per_cycle": ("CPU time per cycle", "ns", 1, False),
    "mutex_per_Mop": ("locks per million cycles", "", 1, False),
    "ops_per_s": ("operations per second", "millions", 1e6, True),
    "ns_per_op": ("time per operation", "ns", 1, False),
    "ns_per_add": ("time per add", "ns", 1, False),
    "cpu_ns_per_add": ("CPU time per add", "ns", 1, False),
    "cpu_ns_per_pair": ("CPU time per pair", "ns", 1, False),
    "peak_growth": ("memory at the peak", "MiB", 1 << 20, False),
    "growth_after_free": ("memory after all was freed", "MiB", 1 << 20, False),
    "growth_after_shrink": ("memory after shrinking", "MiB", 1 << 20, False),
    "req_per_s": ("requests per second", "", 1, True),
    "p99_us": ("slowest of 100 answers", "µs", 1, False),
    "cpu_ns_per_req": ("CPU time per request", "ns", 1, False),
    "rss_after": ("memory afterwards", "MiB", 1 << 20, False),
}


class Job:
    """over: the key that is the x axis of line plots. both: metrics whose sum is
    plotted. lead: those that are plotted apart."""

    def __init__(self, name, sentence, lead=(), both=(), over=None, runs=((),),
                 quick=None, variants=()):
        self.name = name
        self.sentence = sentence
        self.lead = lead
        self.both = both
        self.over = over
        self.runs = runs
        self.quick = runs if quick is None else quick
        self.variants = variants


JOBS = [
    Job("pair", "One operation: allocate an object, touch its first and last "
        "line, free it.", ("ns_per_pair",),
        runs=(("--size", "64,256,1024"),), quick=(("--size", "256"),),
        variants=PLAIN + ("pcpool-resident",)),
    Job("batch", "One operation: allocate and touch one of 10,000 objects, and "
        "later free one; in the order of the allocations (FIFO) or against it "
        "(LIFO).", both=("ns_alloc", "ns_free"), over="size",
        quick=(("--size", "32,256,1024"),), variants=PLAIN),
    Job("remote", "One operation: one thread allocates an object, another frees "
        "it; they pass through a ring in batches of 64.", ("ns_per_object",),
        variants=PLAIN + ("ring",)),
    Job("exec", "One operation: take an mm-like object with two per-CPU regions, "
        "do what an exec does, give it back; with work 0 only the bare cycle.",
        ("ns_per_cycle",),
        runs=(("--work", "0", "--threads", "1,2,16"), ("--work", "1")),
        quick=(("--work", "0", "--threads", "1,2,16"),),
        variants=CONSTRUCTS + LISTS + ("pcpool", "pcpool-inline", "pcpool-lock",
                                       "limit")),
    Job("tc", "One operation: take an action with three per-CPU regions, insert "
        "it into a table of filters, find and remove it, give it back.",
        ("cpu_ns_per_cycle", "ns_per_cycle"),
        variants=CONSTRUCTS + ("pcpool", "pcpool-declared", "pcpool-lock")),
    Job("mmap", "One operation: prefill a sheaf of 10 nodes, take 1 to 10 of them, "
        "free as many old ones by RCU, return the sheaf.", ("ns_per_op",),
        quick=(("--threads", "64"),)),
    Job("rcu", "One operation: allocate an object, touch it, free it after a "
        "grace period.", ("ns_per_object", "peak_backlog"),
        variants=("pcpool", "pcpool-lock", "call_rcu-malloc")),
    Job("percpu", "One operation: allocate a per-CPU region and free it, while "
        "others are alive. The mutex is an uncontended lock and unlock.",
        ("ns_per_pair",), over="live",
        runs=(("--live", "1000,10000,100000"),),
        variants=("pcpool", "pcpool-lock", "mutex")),
    Job("counter", "One operation: add 1 to a count that all threads share.",
        ("ns_per_add",),
        variants=("pcpool", "pcpool-lock", "shared-atomic", "tls", "plain")),
    Job("account", "One operation: allocate an object, charged to an account or "
        "not, touch it, free it.", ("ns_per_pair",),
        variants=("pcpool", "nobody", "account", "account-below",
                  "account-lock")),
    Job("oversub", "64 threads on few CPUs, 1,000 live objects each. One "
        "operation: replace one of them, at random.",
        ("ops_per_s", "peak_growth", "growth_after_free", "growth_after_shrink"),
        variants=("pcpool", "pcpool-lock", "tls-list") + MALLOCS),
    Job("conn", "One operation: answer one HTTP request; a daemon with a cache "
        "for its connections, or malloc, under wrk.",
        ("req_per_s", "p99_us", "rss_after"),
        quick=(("--threads", "2", "--reps", "1"),),
        variants=("malloc", "pcpool", "pcpool-lock")),
    Job("scale", "The work of other jobs on 2 to 256 virtual slots: what is "
        "shared between them, counted per million operations.", over="slots",
        runs=tuple(("--slots", n) for n in ("2", "16", "64", "256")),
        quick=tuple(("--slots", n) for n in ("2", "256"))),
]


def find(name):
    for job in JOBS:
        if job.name == name:
            return job
    return Job(name, "No description of this job here.")


def order(names):
    """Known jobs in the order above, others after them."""
    known = [job.name for job in JOBS]
    return [n for n in known if n in names] + \
        sorted(n for n in names if n not in known)


def metric(name):
    return METRICS.get(name, (name.replace("_", " "), "", 1, False))


def heading(name):
    label, unit, _, more = metric(name)
    return "%s%s%s" % (label, ", " + unit if unit else "",
                       "; more is better" if more else "")


def ours(variant):
    """pcpool, or pcpool without a feature (job mmap)."""
    return variant.startswith(("pcpool", "no-"))


def family(variant):
    """The colour of a variant: ours, a bound, a list, or another allocator."""
    name = variant.split("+")[0]
    if ours(name):
        return "ours"
    if name in BOUNDS:
        return "bound"
    return "list" if name in LISTS else "peer"
