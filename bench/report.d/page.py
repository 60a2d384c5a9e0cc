# SPDX-License-Identifier: MIT
"""The page: ratios first, then the machine, then each job."""
import os
import re

import jobs
import lines
import plots
import ratios
from markup import Markup, number, tag

LONG = 60                       # rows from which a table is folded away


def style():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "style.css")
    with open(path, encoding="utf-8") as file:
        # The page is one file, and the comments are the source's.
        return Markup(re.sub(r"/\*.*?\*/\s*", "", file.read(), flags=re.S))


def slug(*names):
    return "-".join(re.sub(r"[^a-z0-9]+", "-", str(n).lower()).strip("-")
                    for n in names)


def box(table, label):
    """A table that scrolls by itself; the keyboard reaches it, too."""
    return tag("div", table, class_="box", tabindex="0", role="region",
               aria_label=label)


def head(*names, texts=(0,)):
    """texts: the columns that hold words and not figures."""
    return tag("thead", tag("tr", [
        tag("th", name, scope="col", class_="text" if i in texts else None)
        for i, name in enumerate(names)]))


# --- ratios -------------------------------------------------------------------

def verdict(result):
    text = result.verdict
    sign, class_ = {"met": ("✓ ", "met"), "not met": ("✗ ", "unmet"),
                    "not measured": ("– ", "soft")}[text]
    return tag("td", sign + text, class_=class_ + " text verdict", role="cell")


def reached(result):
    """The worst place, and how many there were."""
    if result.missing:
        return result.missing
    said = []
    worst = result.worst
    if worst:
        said.append(worst.text)
        n = len(result.points)
        bad = sum(not p.holds for p in result.points)
        if n > 1:
            said.append("worst of %d%s" % (n, ", %d not met" % bad if bad else ""))
    if result.failed:
        said.append("failed in %d" % len(result.failed))
    if result.alone:
        said.append("no other in %d" % result.alone)
    if result.gaps:
        said.append("not measured at " + ", ".join(result.gaps))
    said += result.notes
    return "; ".join(said)


def ratio_table(results):
    """On a narrow page its rows become blocks, of which browsers make no table
    any more: the roles say that it is one."""
    names = ("job", "verdict", "asked", "against", "reached")
    rows = []
    for r in results:
        job = tag("a", r.ask.what, href="#job-" + slug(r.ask.job))
        cells = [tag("th", job, scope="row", role="rowheader"), verdict(r)]
        for name, text in zip(names[2:], (r.ask.asked, r.ask.against, reached(r))):
            cells.append(tag("td", text, class_="text " + name, role="cell"))
        rows.append(tag("tr", cells, role="row"))
    top = tag("tr", [tag("th", name, scope="col", role="columnheader",
                         class_="text") for name in names], role="row")
    return box(tag("table", tag("caption", "Ratios asked and reached"),
                   tag("thead", top, role="rowgroup"),
                   tag("tbody", rows, role="rowgroup"), class_="ratios",
                   role="table"), "Ratios asked and reached")


def point_rows(result, varies):
    rows = []
    for p in result.points:
        where = lines.describe(p.where, varies)
        rows.append(tag("tr", tag("th", where or "all", scope="row"),
                        tag("td", number(p.ours)),
                        tag("td", "%s, %s" % (number(p.base), p.name)),
                        tag("td", p.text),
                        tag("td", "✓ yes" if p.holds else "✗ no",
                            class_="met text" if p.holds else "unmet text")))
    for where, error in result.failed:
        rows.append(tag("tr", tag("th", lines.describe(where, varies) or "all",
                                  scope="row"),
                        tag("td", "failed: " + error, colspan=4, class_="text")))
    return rows


def ratio_points(results, data):
    """Each place a ratio was taken in."""
    bodies = []
    for r in results:
        if not r.points and not r.failed:
            continue
        varies = lines.varying(data.rows(r.ask.job)) | {"threads", "variant", "metric"}
        title = "%s, against %s, %s" % (r.ask.what, r.ask.against, r.ask.asked)
        bodies.append(tag("tbody", tag("tr", tag("th", title, scope="rowgroup",
                                                 colspan=5)),
                          point_rows(r, varies)))
    if not bodies:
        return ""
    return tag("details", tag("summary", "Every place behind these ratios"),
               box(tag("table", tag("caption", "Medians compared"),
                       head("where", "pcpool", "the other", "ratio", "met",
                            texts=(0, 4)),
                       bodies), "Medians compared"))


# --- the machine --------------------------------------------------------------

def load(values):
    if isinstance(values, list) and \
            all(isinstance(v, (int, float)) for v in values):
        return " ".join("%.2f" % v for v in values)
    return None


def span(first, last):
    """What held at the run's start and at its end."""
    if first is None and last is None:
        return "not recorded"
    return "%s at the start, %s at the end" % (first or "not recorded",
                                               last or "not recorded")


def machine_facts(m):
    peers = m.get("peers")
    peers = ", ".join("%s %s" % p for p in peers.items()) \
        if isinstance(peers, dict) else "not recorded"
    index = ", index %s" % m["index"] if "index" in m else ""
    return [("CPU", "%s, %s usable" % (m.get("cpu"), m.get("cpus"))),
            ("kernel", "Linux %s" % m.get("kernel")),
            ("libc", m.get("libc")),
            ("pcpool", "%s, %s mode%s" % (m.get("pcpool", "version unknown"),
                                          m.get("mode"), index)),
            ("peers", peers)]


def busy(data):
    """A warning when the machine had other work before the run."""
    load_begin = data.info.get("load")
    cpus = data.machines[0].get("cpus") if data.machines else None
    if load(load_begin) is None or not load_begin or not isinstance(cpus, int) or \
            load_begin[0] <= cpus / 2:
        return ""
    return tag("p", "This machine had other work: its load average was %.2f on %d "
               "CPUs before the run began. Ratios of such a run can be far off." %
               (load_begin[0], cpus), class_="warn")


def machine(data):
    info = data.info
    facts = []
    for m in data.machines:
        facts += machine_facts(m)
    facts += [("load average", span(load(info.get("load")),
                                    load(info.get("load_end")))),
              ("measured", span(info.get("began"), info.get("ended")))]
    if "command" in info:
        facts.append(("command", info["command"]))
    out = [tag("dl", [[tag("dt", k), tag("dd", v)] for k, v in facts])]
    if len(data.machines) > 1:
        out.append(tag("p", "These lines come from more than one machine or "
                       "mode: they cannot be compared with each other.",
                       class_="warn"))
    if data.replaced:
        out.append(tag("p", "%d figures came twice; the later ones count." %
                       data.replaced, class_="warn"))
    return out


# --- a job --------------------------------------------------------------------

def scaled(value, metric):
    divisor = jobs.metric(metric)[2]
    return tuple(x / divisor for x in (value.median, value.min, value.max))


def value_cells(value, metric):
    if value.error is not None:
        return [tag("td", "failed: " + value.error, colspan=4, class_="text")]
    return [tag("td", number(x)) for x in scaled(value, metric)] + \
        [tag("td", value.reps)]


def row_class(variant):
    return "ours" if jobs.ours(variant) else None


def metric_table(job, metric, rows, varies):
    """A table of one metric, with a group of rows for each place."""
    bodies = []
    for where, row_of in lines.groups(r for r in rows if metric in r.values):
        cells = [tag("tr", tag("th", variant, scope="row"),
                     value_cells(row.values[metric], metric),
                     class_=row_class(variant))
                 for variant, row in row_of.items()]
        bodies.append(tag("tbody", tag("tr", tag(
            "th", lines.describe(where, varies), scope="rowgroup", colspan=5)),
            cells))
    name = "%s: %s" % (job.name, jobs.heading(metric))
    table = box(tag("table", tag("caption", name),
                    head("variant", "median", "min", "max", "reps"), bodies), name)
    n = sum(metric in r.values for r in rows)
    if n < LONG:
        return table
    return tag("details", tag("summary", "%s: table of %d rows" % (name, n)), table)


def counters(job, rows, varies, names):
    """What the library counted: one table, folded away."""
    silent = [n for n in names if all(
        r.values[n].error is None and r.values[n].max == 0
        for r in rows if n in r.values)]
    bodies = []
    for where, row_of in lines.groups(rows):
        for variant, row in row_of.items():
            cells = [tag("tr", tag("th", n, scope="row"),
                         value_cells(row.values[n], n))
                     for n in names if n in row.values and n not in silent]
            if cells:
                bodies.append(tag("tbody", tag("tr", tag(
                    "th", "%s, %s" % (variant, lines.describe(where, varies)),
                    scope="rowgroup", colspan=5)), cells))
    name = "%s: what the library counted" % job.name
    out = [tag("summary", name)]
    if bodies:
        out.append(box(tag("table", tag("caption", name),
                           head("counter", "median", "min", "max", "reps"),
                           bodies), name))
    if silent:
        out.append(tag("p", "Always 0: " + ", ".join(silent) + ".",
                       class_="soft"))
    return tag("details", out)


def figure(svg, caption):
    return tag("figure", tag("figcaption", caption), svg)


def plotted(row, metrics):
    """The sum of these metrics as (median, min, max), or None: it failed."""
    values = [row.values[m] for m in metrics]
    if any(v.error is not None for v in values):
        return None
    return tuple(sum(part) for part in
                 zip(*(scaled(v, m) for v, m in zip(values, metrics))))


def has(row, metrics):
    return all(m in row.values for m in metrics)


def bar_figures(job, metrics, rows, varies):
    """One plot for each place; those that differ only in threads and size share
    their axis."""
    out = []
    for _, family in by_place(rows, ("threads", "size")):
        values = [plotted(r, metrics) for r in family]
        axis = plots.axis_for([v for v in values if v])
        for where, row_of in lines.groups(family):
            items = [(name, jobs.family(name), plotted(row, metrics))
                     for name, row in row_of.items()]
            caption = plot_caption(metrics, where, varies, axis)
            out.append(figure(plots.bars(
                slug("plot", job.name, *metrics, *where.values()),
                "%s: %s" % (job.name, caption), items, axis), caption))
    return out


def plot_caption(metrics, where, varies, axis):
    place = lines.describe(where, varies)
    labels = " + ".join(jobs.metric(m)[0] for m in metrics)
    _, unit, _, more = jobs.metric(metrics[0])
    return labels + (", " + unit if unit else "") + \
        (", " + place if place else "") + \
        ("; more is better" if more else "") + \
        ("; log scale" if axis.log else "")


def by_place(rows, ignore):
    """[(where, rows)]: rows that differ in the ignored keys and the variant."""
    found = {}
    for row in rows:
        where = {k: v for k, v in row.where.items() if k not in ignore}
        found.setdefault(lines.place(where), (where, []))[1].append(row)
    return list(found.values())


X_UNITS = {"size": "bytes", "live": "others alive", "slots": "slots"}


def line_figures(job, metrics, rows, varies):
    """Over job.over, one line for each variant."""
    ignore = (job.over,) + (("threads",) if job.over == "slots" else ())
    names = list(dict.fromkeys(r.variant for r in rows))
    peers = [n for n in names if not jobs.ours(n)]
    own = [n for n in names if jobs.ours(n)]
    out = []
    for where, family in by_place(rows, ignore):
        series = []
        for name in own + peers:
            values = {r.where[job.over]: plotted(r, metrics) for r in family
                      if r.variant == name}
            values = {x: v for x, v in values.items() if v}
            if values:
                index = (own if name in own else peers).index(name)
                series.append((name, index, name in own, values))
        if not series:
            continue
        axis = plots.axis_for([v for s in series for v in s[3].values()])
        caption = plot_caption(metrics, where, varies, axis)
        out.append(figure(plots.lines(
            slug("plot", job.name, *metrics, *where.values()),
            "%s: %s" % (job.name, caption), series, axis,
            X_UNITS.get(job.over, job.over)), caption))
    return out


def job_plots(job, rows, metrics, varies):
    """Of the leading metrics; of all where none is known to lead."""
    sets = [(m,) for m in job.lead if m in metrics]
    if job.both and all(m in metrics for m in job.both):
        sets.append(tuple(job.both))
    if not sets:
        sets = [(m,) for m in metrics]
    out = []
    for chosen in sets:
        fit = [r for r in rows if has(r, chosen)]
        over = job.over and len({r.where.get(job.over) for r in fit}) > 1 and \
            all(isinstance(r.where.get(job.over), int) for r in fit)
        draw = line_figures if over else bar_figures
        out += draw(job, chosen, fit, varies)
    return tag("div", out, class_="plots") if out else ""


def lacking(job, data):
    """Variants of a complete build that have no line, with the reason."""
    have = {r.variant for r in data.rows(job.name)}
    told = [ratios.absent(data, job.name, v) for v in job.variants
            if v not in have]
    return tag("p", "Not measured: %s." % "; ".join(told), class_="soft") \
        if told else ""


def section(name, data):
    job = jobs.find(name)
    rows = data.rows(name)
    out = [tag("h2", name), tag("p", job.sentence)]
    if name in data.failed:
        out.append(tag("p", "This job did not run to its end: %s" %
                       data.failed[name], class_="warn"))
    for late, variant, error in data.late:
        if late == name:
            out.append(tag("p", "%s failed: %s" % (variant, error), class_="warn"))
    if not rows:
        if name not in data.failed:
            out.append(tag("p", "Not measured: %s." %
                           ratios.absent(data, name).split(": ", 1)[1]))
        return tag("section", out, id="job-" + slug(name))
    # Threads are always said; what never differs is said once.
    varies = lines.varying(rows) | {"threads", "size"}
    same = {k: v for k, v in rows[0].where.items() if k not in varies}
    if same:
        out.append(tag("p", "All rows: %s." % lines.describe(same), class_="soft"))
    names = list(dict.fromkeys(m for r in rows for m in r.values))
    counted = [n for n in names if any(
        n in r.values and r.values[n].kind for r in rows)]
    metrics = [n for n in names if n not in counted]
    out.append(job_plots(job, rows, metrics, varies))
    leading = [m for m in job.lead + job.both if m in metrics] or metrics[:1]
    out.append(tag("div", [metric_table(job, m, rows, varies) for m in leading],
                   class_="tables"))
    others = [m for m in metrics if m not in leading]
    if others:
        out.append(tag("details", tag("summary", "%s: other metrics" % name),
                       [metric_table(job, m, rows, varies) for m in others]))
    if counted:
        out.append(counters(job, rows, varies, counted))
    out.append(lacking(job, data))
    return tag("section", out, id="job-" + slug(name))


# --- the whole ----------------------------------------------------------------

KEYS = (("ours", "pcpool"), ("peer", "other allocators"),
        ("list", "home-made lists"), ("bound", "bounds, not allocators"))


def names_of(data):
    """Jobs of the data, of the build, and those a ratio is asked of."""
    names = set(data.jobs) | set(data.failed) | set(data.listed or ()) | \
        {job.name for job in jobs.JOBS}
    return jobs.order(names)


def page(data):
    results = ratios.judge_all(data)
    names = names_of(data)
    content = [
        tag("h1", "pcpool-bench"),
        tag("p", ratios.summary(results), class_="lead"), busy(data),
        tag("p", "Medians of one run, compared place by place; a ratio is met "
            "where every place meets it. Lower is better where it says ≤."),
        ratio_table(results), ratio_points(results, data),
        tag("h2", "Machine"), machine(data),
        tag("h2", "Jobs"),
        tag("nav", [tag("a", n, href="#job-" + slug(n)) for n in names],
            aria_label="Jobs"),
        tag("p", "Whiskers reach from the least to the greatest window; an arrow "
            "says that they go on. Bars on a log scale show order, not "
            "proportion."),
        tag("p", [tag("span", tag("span", "", class_="key " + k), text)
                  for k, text in KEYS], class_="keys"),
        [section(n, data) for n in names]]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return "<!DOCTYPE html>\n" + tag(
        "html",
        tag("head", tag("meta", charset="utf-8"),
            tag("meta", name="viewport",
                content="width=device-width, initial-scale=1"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", "pcpool-bench: " + ratios.summary(results)),
            tag("style", style())),
        tag("body", tag("main", content)), lang="en") + "\n"
