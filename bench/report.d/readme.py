# SPDX-License-Identifier: MIT
"""The README's figures as Markdown: the bare cycle of exec, and plain objects of
256 bytes, with the machine and the command they come from."""
import textwrap

import jobs
import lines
import ratios

BEGIN = "<!-- figures: bench/report --readme -->"
END = "<!-- end of figures -->"


class Lacking(Exception):
    """The lines do not hold what the README shows."""


def figure(x):
    return "%.0f" % x if x >= 1000 else "%.3g" % x if x >= 100 else "%.1f" % x


def escape(text):
    """For a cell of a table or a line of prose."""
    text = " ".join(str(text).split())
    for char in "\\`*_<>|[]":
        text = text.replace(char, "\\" + char)
    return text


def table(heads, rows):
    out = ["| %s |" % " | ".join(heads), "|%s" % ("---:|" * len(heads))]
    return out + ["| %s |" % " | ".join(row) for row in rows]


def medians(data, job, metric, fits):
    """{threads: {variant: value}} of the places that fit."""
    found = {}
    for row in data.rows(job):
        value = row.values.get(metric)
        if fits(row.where) and value is not None and value.error is None:
            found.setdefault(row.where["threads"], {})[row.variant] = value
    return dict(sorted(found.items()))


def exec_table(data):
    shown = [("construct", "built anew with malloc"),
             ("mutex-list", "a list behind a mutex"), ("pcpool", "pcpool"),
             ("pcpool-inline", "pcpool, inline")]
    found = medians(data, "exec", "ns_per_cycle", ratios.at(work=(0,)))
    shown = [s for s in shown if any(s[0] in row for row in found.values())]
    if not any("pcpool" in row and "construct" in row for row in found.values()):
        raise Lacking("no bare cycle of exec (--jobs exec)")
    rows = []
    for threads, row in found.items():
        cells = [figure(row[v].median) if v in row else "–" for v, _ in shown]
        times = "–"
        if "construct" in row and row.get("pcpool") and row["pcpool"].median > 0:
            times = row["construct"].median / row["pcpool"].median
            times = "%.*f times faster" % (times < 10, times) if times >= 1 \
                else "%.1f times slower" % (1 / times)
        rows.append([str(threads)] + cells + [times])
    heads = ["threads"] + [label for _, label in shown] + ["against building anew"]
    anew = [row["construct"] for threads, row in found.items()
            if threads > 1 and "construct" in row]
    said = []
    if anew:
        said = ["", "Building anew on several threads contends for the region "
                "allocator's lock: windows of it",
                "took from %s to %s ns." % (figure(min(v.min for v in anew)),
                                            figure(max(v.max for v in anew)))]
    return table(heads, rows) + said


def pair_table(data):
    found = medians(data, "pair", "ns_per_pair", ratios.at(size=(256,)))
    names = ["pcpool", "pcpool-inline"] + list(jobs.MALLOCS)
    names = [n for n in names if any(n in row for row in found.values())]
    if "pcpool" not in names:
        raise Lacking("no pair of 256 bytes (--jobs pair)")
    rows = [[str(threads)] +
            [figure(row[n].median) if n in row else "–" for n in names]
            for threads, row in found.items()]
    heads = ["threads"] + [n.replace("pcpool-inline", "pcpool, inline")
                           for n in names]
    return table(heads, rows)


def machine(data):
    # A run with virtual slots describes the same machine with other slots.
    machines = []
    for m in data.machines:
        m = {key: value for key, value in m.items() if key != "slots"}
        if m not in machines:
            machines.append(m)
    if len(machines) != 1:
        raise Lacking("%d machines in these lines, not 1" % len(machines))
    m = machines[0]
    peers = m.get("peers") if isinstance(m.get("peers"), dict) else {}
    peers = ", ".join("%s %s" % (escape(name), escape(peers[name]))
                      for name in jobs.MALLOCS[1:] if name in peers)
    out = ["Medians, on %s, %s CPUs, Linux %s, %s; %s mode%s." % (
        escape(m.get("cpu")), escape(m.get("cpus")),
        escape(m.get("kernel")).split("-")[0],
        escape(m.get("libc")), escape(m.get("mode")),
        "; " + peers if peers else "")]
    if "command" in data.info:
        out[0] += " Printed by"
    out = textwrap.wrap(out[0], 90, break_long_words=False, break_on_hyphens=False)
    if "command" in data.info:
        out += ["", "    " + " ".join(str(data.info["command"]).split())]
    return out


def figures(data):
    """The text between the marks."""
    return "\n".join([
        "One take, touch and give back of an object with a mutex, lists and two "
        "per-CPU regions",
        "(`examples/mm_struct.h`), in nanoseconds for each CPU:", ""] +
        exec_table(data) +
        ["", "Of plain memory, 256 bytes, against the `malloc` and `free` that "
         "programs use:", ""] + pair_table(data) + [""] + machine(data)) + "\n"


def split(text):
    """What is before, between and after the marks."""
    if text.count(BEGIN + "\n") != 1 or text.count(END + "\n") != 1 or \
            text.index(BEGIN) > text.index(END):
        raise Lacking("not one pair of marks: %s … %s" % (BEGIN, END))
    before, rest = text.split(BEGIN + "\n")
    between, after = rest.split(END + "\n")
    return before, between, after


def replaced(text, data):
    before, _, after = split(text)
    return "%s%s\n%s%s\n%s" % (before, BEGIN, figures(data), END, after)
