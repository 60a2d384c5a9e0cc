# SPDX-License-Identifier: MIT
"""The ratios pcpool is asked to reach, and what a run reached. Each compares
medians of one run, place by place: same threads, size and order. Of several
places all must hold, and the worst is shown. What a run does not have is
"not measured", with the reason."""
import jobs
import lines
from markup import number

MIB = 1 << 20


class Ask:
    """At most (or at least) limit times what `others` have: a tuple of variants,
    of which the best counts. `fits` says which places are meant."""

    def __init__(self, job, ours, others, limit, metrics, **more):
        self.job = job
        self.ours = ours
        self.others = others
        self.limit = limit
        self.metrics = metrics
        self.way = more.get("way", "ratio")
        self.at_least = more.get("at_least", False)
        self.fits = more.get("fits", lambda where: True)
        self.note = more.get("note", "")
        # Values of a key that must all be there: {"size": (32, 1024)}.
        self.needs = more.get("needs", {})
        self.against = more.get("against") or others[0]
        # Only shown where the build has our variant: nobody asked for it.
        self.extra = more.get("extra", False)

    @property
    def what(self):
        return "%s, %s" % (self.job, self.ours) + \
            (", " + self.note if self.note else "")

    @property
    def asked(self):
        return "%s %g" % ("≥" if self.at_least else "≤", self.limit)

    def holds(self, ours, base):
        """No division: a base of 0 is a figure too."""
        if self.at_least:
            return ours >= self.limit * base
        return ours <= self.limit * base


class Point:
    """One place: our figure, the other's, and whether that is enough."""

    def __init__(self, where, ours, base, name, holds):
        self.where = where
        self.ours = ours
        self.base = base
        self.name = name
        self.holds = holds
        self.ratio = ours / base if base > 0 else None

    @property
    def text(self):
        if self.ratio is None:
            return "%s against %s" % (number(self.ours), number(self.base))
        return "%.3f" % self.ratio if abs(self.ratio) < 0.1 else \
            "%.2f" % self.ratio


class Result:
    """What became of one Ask."""

    def __init__(self, ask):
        self.ask = ask
        self.points = []
        self.failed = []        # places where our variant failed
        self.alone = 0          # places where it has no other
        self.gaps = []          # what was asked for and is not there
        self.notes = []
        self.missing = None

    @property
    def verdict(self):
        if self.failed or any(not p.holds for p in self.points):
            return "not met"
        return "met" if self.points and not self.gaps else "not measured"

    @property
    def worst(self):
        """The place furthest from what is asked."""
        def badness(point):
            if point.ratio is None:
                return (not point.holds, 0)
            return (not point.holds,
                    -point.ratio if self.ask.at_least else point.ratio)
        return max(self.points, key=badness) if self.points else None

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)


def at(**wanted):
    """A place whose keys have one of these values."""
    return lambda where: all(where.get(k) in v for k, v in wanted.items())


def _pair():
    metrics = ("ns_per_pair",)
    mallocs = "best malloc"
    asks = []
    for ours, limits in (("pcpool-inline", (0.7, 0.45, 2.3)),
                         ("pcpool-resident", (0.6, 0.4, 2.0))):
        asks += [
            Ask("pair", ours, ("rte_mempool",), limits[0], metrics),
            Ask("pair", ours, jobs.MALLOCS, limits[1], metrics,
                against=mallocs),
            Ask("pair", ours, ("limit",), limits[2], metrics)]
    return asks + [Ask("pair", "pcpool", jobs.MALLOCS, 0.85, metrics,
                       against=mallocs)]


def _batch():
    more = {"fits": lambda where: 32 <= where["size"] <= 1024,
            "needs": {"size": (32, 1024), "order": ("lifo", "fifo")},
            "note": "32 to 1024 bytes"}
    metrics = ("ns_alloc", "ns_free")
    return [Ask("batch", "pcpool-inline", ("rte_mempool",), 1.0, metrics, **more),
            Ask("batch", "pcpool-inline", jobs.MALLOCS, 0.8, metrics,
                against="best malloc", **more)]


def _exec():
    def ask(ours, others, limit, threads, note, against=None):
        return Ask("exec", ours, others, limit, ("ns_per_cycle",),
                   fits=at(work=(0,), threads=threads), against=against,
                   note="bare cycle" + note)
    build = "best construct"
    every = (1, 2, 16)
    return [
        ask("pcpool", jobs.CONSTRUCTS, 0.1, (1,), ", 1 thread", build),
        ask("pcpool", jobs.CONSTRUCTS, 0.02, (2,), ", 2 threads", build),
        ask("pcpool", jobs.CONSTRUCTS, 0.02, (16,), ", 16 threads", build),
        ask("pcpool-inline", jobs.CONSTRUCTS, 0.05, (1,), ", 1 thread", build),
        ask("pcpool-inline", jobs.CONSTRUCTS, 0.01, (2,), ", 2 threads", build),
        ask("pcpool-inline", ("mutex-list",), 0.2, every, ""),
        ask("pcpool-inline", ("tls-list",), 2.3, every, "")]


def _oversub(ours, extra):
    mallocs = jobs.MALLOCS
    return [
        Ask("oversub", ours, mallocs, 1.2, ("ops_per_s",), at_least=True,
            against="best malloc", note="operations", extra=extra),
        Ask("oversub", ours, mallocs, 1.05, ("peak_growth",),
            against="best malloc", note="memory at the peak", extra=extra),
        Ask("oversub", ours, (), 1, ("growth_after_shrink",), way="bytes",
            against="1 MiB", note="memory after free and shrink", extra=extra)]


def asks():
    """Every ratio, in the order of the table."""
    # That mutex is uncontended: with two threads ours is not.
    mutex = {"fits": lambda where: where["size"] == 64 and
             where["threads"] == 1 and 1000 <= where.get("live", 0) <= 100000,
             "needs": {"live": (1000, 100000)},
             "note": "64 bytes, 1,000 to 100,000 alive, 1 thread"}
    remote = {"way": "less ring", "against": "best peer",
              "note": "less the bare ring"}
    return _pair() + _batch() + [
        Ask("remote", "pcpool", (), 0.8, ("ns_per_object",), **remote),
        Ask("remote", "pcpool-inline", (), 0.8, ("ns_per_object",), extra=True,
            **remote),
    ] + _exec() + [
        Ask("tc", "pcpool", ("construct",), 0.2, ("cpu_ns_per_cycle",),
            note="CPU time"),
        Ask("rcu", "pcpool", ("call_rcu-malloc",), 0.25, ("ns_per_object",)),
        Ask("percpu", "pcpool", ("mutex",), 4, ("ns_per_pair",), **mutex),
        Ask("percpu", "pcpool", (), 1.2, ("ns_per_pair",), way="flat",
            against="itself", fits=mutex["fits"], needs=mutex["needs"],
            note="the dearest against the cheapest number alive"),
        Ask("counter", "pcpool", ("tls",), 1.3, ("ns_per_add",)),
        Ask("counter", "pcpool", ("shared-atomic",), 0.35, ("ns_per_add",),
            fits=at(threads=(2,)), note="2 threads"),
    ] + _oversub("pcpool", False) + _oversub("pcpool-inline", True) + [
        Ask("conn", "pcpool", ("malloc",), 1.0, ("req_per_s",), at_least=True,
            note="requests"),
        Ask("conn", "pcpool", ("malloc",), 1.0, ("p99_us",), note="p99"),
        Ask("scale", "pcpool", (), 2, (), way="scale",
            against="itself at 2 slots",
            note="shared atomics and locks at 256 slots")]


# --- judging ------------------------------------------------------------------

def reading(row, metrics):
    """The sum of the medians, None where one is missing; and the error."""
    if row is None:
        return None, None
    values = [row.values.get(m) for m in metrics]
    for value in values:
        if value is not None and value.error is not None:
            return None, value.error
    if any(value is None for value in values):
        return None, None
    return sum(value.median for value in values), None


def absent(data, job, variant=None):
    """Why there are no figures of it."""
    if data.listed is None:
        return "%s: not in these lines" % (variant or job)
    if job not in data.listed or variant and variant not in data.listed[job]:
        return "%s: not in this build" % (variant or job)
    if job in data.failed:
        return "%s: %s" % (job, data.failed[job])
    return "%s: not run" % (variant or job)


def best(result, row_of, names, where):
    """(figure, name) of the best of these variants in one place."""
    ask = result.ask
    found = None
    for name in names:
        value, error = reading(row_of.get(name), ask.metrics)
        if error is not None:
            result.note("%s failed: %s" % (name, lines.describe(where)))
        if value is None:
            continue
        if found is None or (value > found[0]) == ask.at_least:
            found = (value, name)
    return found


def point_ratio(result, where, row_of, ours):
    found = best(result, row_of, result.ask.others, where)
    if not found:
        result.alone += 1
        return
    result.points.append(Point(where, ours, found[0], found[1],
                               result.ask.holds(ours, found[0])))


def point_bytes(result, where, row_of, ours):
    result.points.append(Point(where, ours, MIB, "1 MiB",
                               result.ask.holds(ours, MIB)))


def point_less_ring(result, where, row_of, ours):
    """Both less what the ring costs; every variant that is not ours and no bound
    is a peer."""
    peers = [n for n in row_of if jobs.family(n) in ("peer", "list")]
    ring, _ = reading(row_of.get("ring"), result.ask.metrics)
    found = best(result, row_of, peers, where)
    if ring is None or not found:
        result.alone += 1
        return
    if found[0] <= ring:
        result.note("no ratio where the ring takes as long as %s: %s" %
                    (found[1], lines.describe(where)))
        return
    ours, base = ours - ring, found[0] - ring
    result.points.append(Point(where, ours, base, found[1],
                               result.ask.holds(ours, base)))


POINTS = {"ratio": point_ratio, "bytes": point_bytes,
          "less ring": point_less_ring}


def judge_places(result, data):
    ask = result.ask
    for where, row_of in lines.groups(data.rows(ask.job)):
        if not ask.fits(where):
            continue
        ours, error = reading(row_of.get(ask.ours), ask.metrics)
        if error is not None:
            result.failed.append((where, error))
        if ours is not None:
            POINTS[ask.way](result, where, row_of, ours)


def judge_flat(result, data):
    """The dearest against the cheapest number of others alive."""
    ask = result.ask
    rows = [r for r in data.rows(ask.job)
            if r.variant == ask.ours and ask.fits(r.where)]
    for where, _ in lines.groups(rows, ("live",)):
        same = [r for r in rows
                if all(r.where.get(k) == v for k, v in where.items())]
        values = [reading(r, ask.metrics)[0] for r in same]
        values = [v for v in values if v is not None]
        if len(values) > 1:
            low, high = min(values), max(values)
            result.points.append(Point(where, high, low, ask.ours,
                                       ask.holds(high, low)))
            find_gaps(result, [r.where for r in same])


def is_shared(metric):
    """Shared atomics and locks per million operations. How often a lock was
    contended is chance, on few CPUs."""
    return metric.endswith("_per_Mop") and "contended" not in metric and \
        ("atomic" in metric or "lock" in metric or "mutex" in metric)


def judge_scale(result, data):
    """What is shared, atomics and locks together, at 256 slots and at 2: bursts that
    outgrow the barns change one for the other. In lock mode, if that was run:
    there alone slots are virtual. Threads may grow with the slots."""
    rows = data.rows(result.ask.job)
    rows = [r for r in rows if jobs.ours(r.variant)] or rows
    rows = [r for r in rows if r.variant.endswith("-lock")] or rows
    places = {}
    for row in rows:
        slots = row.where.get("slots")
        if slots not in (2, 256):
            continue
        spot = {k: v for k, v in row.where.items()
                if k not in ("slots", "threads")}
        spot["variant"] = row.variant
        for metric in filter(is_shared, row.values):
            value, error = reading(row, (metric,))
            if error is not None:
                result.failed.append((row.where, error))
            elif value is not None:
                found = places.setdefault(lines.place(spot), (spot, {}))
                found[1][slots] = found[1].get(slots, 0) + value
    for where, values in places.values():
        if len(values) == 2:
            result.points.append(
                Point(where, values[256], values[2], "2 slots",
                      result.ask.holds(values[256], values[2])))


def find_gaps(result, places):
    for key, wanted in result.ask.needs.items():
        have = {where.get(key) for where in places}
        for value in wanted:
            gap = lines.describe({key: value})
            if value not in have and gap not in result.gaps:
                result.gaps.append(gap)


def missing(result, data):
    """Why an Ask has no point."""
    ask = result.ask
    rows = data.rows(ask.job)
    have = {row.variant for row in rows}
    if not rows:
        return absent(data, ask.job)
    if ask.way != "scale" and ask.ours not in have:
        return absent(data, ask.job, ask.ours)
    needed = ("ring",) if ask.way == "less ring" else ask.others
    if needed and not have.intersection(needed):
        return "; ".join(absent(data, ask.job, name) for name in needed)
    return "; ".join(result.notes) or "no figures to compare"


def note_absent(result, data):
    """The best of some is not the best of all."""
    have = {row.variant for row in data.rows(result.ask.job)}
    why = {}
    for name in result.ask.others:
        if name not in have:
            reason = absent(data, result.ask.job, name).split(": ", 1)[1]
            why.setdefault(reason, []).append(name)
    for reason, names in why.items():
        result.note("without %s: %s" % (", ".join(names), reason))


def judge(ask, data):
    result = Result(ask)
    if ask.way == "flat":
        judge_flat(result, data)
    elif ask.way == "scale":
        judge_scale(result, data)
    else:
        judge_places(result, data)
        find_gaps(result, [p.where for p in result.points])
    if not result.points and not result.failed:
        result.missing = missing(result, data)
    else:
        note_absent(result, data)
    return result


def judge_all(data):
    results = [judge(ask, data) for ask in asks()]
    return [r for r in results if not r.ask.extra or r.points or r.failed]


def summary(results):
    """'12 of 30 ratios met, 3 not met, 15 not measured'"""
    count = {v: sum(r.verdict == v for r in results)
             for v in ("met", "not met", "not measured")}
    return "%d of %d ratios met, %d not met, %d not measured" % (
        count["met"], len(results), count["not met"], count["not measured"])
