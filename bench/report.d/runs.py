# SPDX-License-Identifier: MIT
"""Running pcpool-bench: its list, each job of the matrix, and the lines that say
when and under what load."""
import json
import os
import subprocess
import sys
import time

import jobs


class Failed(Exception):
    """The benchmark cannot be run at all."""


def listed(bench):
    """job -> variants of this build."""
    try:
        done = subprocess.run([bench, "--list"], stdout=subprocess.PIPE,
                              check=True, universal_newlines=True)
    except (OSError, subprocess.CalledProcessError) as err:
        raise Failed("%s --list: %s" % (bench, err)) from None
    found = {}
    for line in done.stdout.splitlines():
        job, _, variant = line.partition("\t")
        if variant:
            found.setdefault(job, []).append(variant)
    if not found:
        raise Failed("%s --list prints nothing" % bench)
    return found


def now():
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def load():
    return [round(x, 2) for x in os.getloadavg()]


def command(args):
    """What measured, without the folders of one machine."""
    words = ["bench/report"]
    if args.quick:
        words.append("--quick")
    for name in ("jobs", "reps", "window"):
        value = getattr(args, name)
        if value is not None:
            words += ["--" + name, str(value)]
    return " ".join(words)


def options(args, run):
    """Later options win over earlier ones in pcpool-bench, too: what the caller
    says over what the job needs, and that over --quick."""
    words = ["--reps", "3", "--window", "0.02"] if args.quick else []
    words += run
    for name in ("reps", "window"):
        if getattr(args, name) is not None:
            words += ["--" + name, str(getattr(args, name))]
    return words


def run_job(bench, words, path):
    """One run; its lines go to path. Returns None or why it failed."""
    terminal = sys.stderr.isatty()
    done = subprocess.run(
        [bench] + words + ["--json", path], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=None if terminal else subprocess.PIPE,
        errors="replace", universal_newlines=True, check=False)
    if terminal:
        sys.stderr.write("\r\033[K")
    # 1: a variant failed, which its line says.
    if done.returncode in (0, 1):
        if not terminal:
            sys.stderr.write(done.stderr)
        return None
    said = (done.stderr or "").strip().splitlines()
    how = "signal %d" % -done.returncode if done.returncode < 0 else \
        "exit status %d" % done.returncode
    return how + (": " + said[0] if said else "")


def run_matrix(args, bench, lines_path, scratch):
    """All jobs, one after the other; the lines are appended as they come, so
    that an interrupted run leaves those it has."""
    build = listed(bench)
    chosen = args.jobs.split(",") if args.jobs else list(build)
    unknown = [j for j in chosen if j not in build and
               j not in {job.name for job in jobs.JOBS}]
    if unknown:
        raise Failed("no job %s; pcpool-bench --list shows them" % unknown[0])
    with open(lines_path, "w", encoding="utf-8") as out:
        def say(**report):
            out.write(json.dumps({"report": report}) + "\n")
            out.flush()
        say(began=now(), load=load(), command=command(args), listed=build)
        runs = [(name, run) for name in jobs.order(chosen) if name in build
                for run in (jobs.find(name).quick if args.quick
                            else jobs.find(name).runs)]
        for n, (name, run) in enumerate(runs, 1):
            words = [name] + options(args, list(run))
            if sys.stderr.isatty():
                sys.stderr.write("%d of %d: %s\n" % (n, len(runs), " ".join(words)))
            why = run_job(bench, words, scratch)
            if why:
                say(job=name, error=why)
            if os.path.exists(scratch):
                with open(scratch, encoding="utf-8") as part:
                    out.write(part.read())
                out.flush()
                os.unlink(scratch)
        say(ended=now(), load_end=load())
