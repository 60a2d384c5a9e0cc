# SPDX-License-Identifier: MIT
"""Reading the JSON lines of pcpool-bench, and those bench/report adds itself:
{"report":{…}} tells when, under what load and with which list of variants."""
import json
import math

# What a line says about its figures; all else says where they were measured.
OF_VALUE = {"job", "variant", "metric", "kind", "median", "min", "max", "reps",
            "error"}


class BadLine(Exception):
    """A line that is not what pcpool-bench prints."""


class Value:
    """One metric of one row: figures, or the error instead of them."""

    def __init__(self, line):
        self.error = line.get("error")
        self.kind = line.get("kind")
        self.reps = line.get("reps")
        if self.error is not None:
            if not isinstance(self.error, str):
                raise BadLine("an error that is no text")
            return
        self.median, self.min, self.max = (
            figure(line, key) for key in ("median", "min", "max"))
        if not self.min <= self.median <= self.max:
            raise BadLine("median %s outside of %s to %s" %
                          (self.median, self.min, self.max))
        if not isinstance(self.reps, int) or self.reps < 1:
            raise BadLine("no number of repetitions")


class Row:
    """What was measured of one variant in one place."""

    def __init__(self, job, variant, where):
        self.job = job
        self.variant = variant
        self.where = where
        self.values = {}


class Data:
    """All lines, by job."""

    def __init__(self):
        self.machines = []
        self.info = {}          # when, load, command
        self.listed = None      # job -> variants of the build, if recorded
        self.failed = {}        # job -> why it did not run to its end
        self.late = []          # (job, variant, error)
        self.jobs = {}          # job -> rows
        self.replaced = 0
        self._rows = {}

    def rows(self, job):
        return self.jobs.get(job, [])

    def errors(self):
        """Every failure, once: 'pair glibc: killed'."""
        found = ["%s: %s" % item for item in self.failed.items()]
        found += ["%s %s: %s" % item for item in self.late]
        for job, rows in self.jobs.items():
            found += ["%s %s: %s" % (job, row.variant, value.error)
                      for row in rows for value in row.values.values()
                      if value.error is not None]
        return list(dict.fromkeys(found))

    def add(self, text):
        try:
            line = json.loads(text, parse_constant=refuse)
        except ValueError as err:
            raise BadLine("not JSON: %s" % err) from None
        if not isinstance(line, dict):
            raise BadLine("not an object")
        if isinstance(line.get("machine"), dict):
            if line["machine"] not in self.machines:
                self.machines.append(line["machine"])
        elif isinstance(line.get("report"), dict):
            self._add_report(line["report"])
        else:
            self._add_figures(line)

    def _add_report(self, report):
        if "job" in report:
            self.failed[str(report["job"])] = str(report.get("error"))
            return
        if isinstance(report.get("listed"), dict):
            self.listed = {job: list(names)
                           for job, names in report["listed"].items()}
        self.info.update((k, v) for k, v in report.items() if k != "listed")

    def _add_figures(self, line):
        for key in ("job", "variant"):
            if not isinstance(line.get(key), str) or not line[key]:
                raise BadLine("no %s" % key)
        if "metric" not in line:
            # A variant that failed when its figures were out already.
            if not isinstance(line.get("error"), str):
                raise BadLine("neither a metric nor an error")
            self.jobs.setdefault(line["job"], [])
            self.late.append((line["job"], line["variant"], line["error"]))
            return
        where = {k: v for k, v in line.items() if k not in OF_VALUE}
        for key, value in where.items():
            if isinstance(value, (dict, list)):
                raise BadLine("%s is no plain value" % key)
        for key in ("threads", "size"):
            if not isinstance(where.get(key), int):
                raise BadLine("no %s" % key)
        row = self._row(line["job"], line["variant"], where)
        metric = str(line["metric"])
        if metric in row.values:
            self.replaced += 1
        row.values[metric] = Value(line)

    def _row(self, job, variant, where):
        key = (job, variant, place(where))
        if key not in self._rows:
            self._rows[key] = Row(job, variant, where)
            self.jobs.setdefault(job, []).append(self._rows[key])
        return self._rows[key]


def refuse(name):
    raise ValueError("%s is no number" % name)


def figure(line, key):
    x = line.get(key)
    if isinstance(x, bool) or not isinstance(x, (int, float)) or \
            not math.isfinite(x):
        raise BadLine("%s is no number" % key)
    return x


def place(where):
    """Where as a key."""
    return tuple(sorted(where.items(), key=lambda item: item[0]))


def read(paths):
    """The data of all files; BadLine names file and line."""
    data = Data()
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for n, text in enumerate(file, 1):
                if not text.strip():
                    continue
                try:
                    data.add(text)
                except BadLine as err:
                    raise BadLine("%s, line %d: %s" % (path, n, err)) from None
    return data


def groups(rows, ignore=()):
    """Rows by the place they share, in order: [(where, {variant: row})]."""
    found = {}
    for row in rows:
        where = {k: v for k, v in row.where.items() if k not in ignore}
        found.setdefault(place(where), (where, {}))[1][row.variant] = row
    return list(found.values())


def varying(rows):
    """The keys of where that differ between these rows."""
    seen = {}
    for row in rows:
        for key, value in row.where.items():
            seen.setdefault(key, set()).add(value)
    return {k for k, values in seen.items() if len(values) > 1}


def describe(where, keys=None):
    """'2 threads, 256 bytes, fifo', of the given keys or all."""
    parts = []
    for key, value in where.items():
        if keys is not None and key not in keys:
            continue
        if key == "threads":
            parts.append("%d thread%s" % (value, "" if value == 1 else "s"))
        elif key == "size":
            parts.append("%d bytes" % value)
        elif key == "order":
            parts.append(str(value).upper() if value in ("lifo", "fifo")
                         else str(value))
        elif key == "live":
            parts.append(format(value, ",") + " alive")
        elif key == "slots":
            parts.append("%s slots" % value)
        elif key in ("variant", "metric"):
            parts.append(str(value))
        else:
            parts.append("%s %s" % (key, value))
    return ", ".join(parts)
