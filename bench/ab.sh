#!/bin/sh
# SPDX-License-Identifier: MIT
# What one feature of the library does to one job of pcpool-bench: the job runs
# with the feature off and on, window by window in turn, and what changed is
# printed as a table. See usage() below.
set -u

usage()
{
	cat <<'END'
usage: bench/ab.sh [--build DIR] [--rounds N] [--variant NAME]
                   JOB FEATURE [pcpool-bench options]

Runs JOB without and with FEATURE and prints a table for each number of threads,
size and order: metric, before, after, change in %. First the job's own metrics,
then every counter of the cache that is not zero in both: what the library counts,
per million operations, what it holds at the end, and sizes that differ.

  FEATURE      before            after
  parking      parking:off       parking:on
  barn_refill  barn_refill:off   barn_refill:on
  sheaf        sheaf:59          (adaptive)
  mode         mode:lock         mode:rseq
  A/B          A                 B, entries of PCPOOL_OPTIONS joined by +,
                                 as in sheaf:16/sheaf:59 or sheaf:59/

  --build DIR     the build folder (build)
  --rounds N      runs of pcpool-bench; each makes new processes and changes
                  who comes first (4)
  --variant NAME  the variant of the job (pcpool); with --slots take
                  pcpool-lock, since only lock mode uses virtual slots

Options of pcpool-bench: --threads, --size, --reps, --window, --slots, --work,
--batch. A figure is the median of the rounds' medians, each over --reps windows.

    bench/ab.sh mmap parking --variant pcpool-lock --slots 192
    bench/ab.sh batch sheaf --size 64,256 --threads 1

Exit status: 0, 1 when a run failed, 2 for bad arguments.
END
}

refuse()
{
	echo "ab.sh: $*" >&2
	echo "Try --help." >&2
	exit 2
}

build=build
rounds=4
variant=pcpool
job=
feature=
given=

# Own options may stand anywhere; the others stay in "$@" for pcpool-bench.
left=$#
while [ "$left" -gt 0 ]; do
	word=$1
	shift
	left=$((left - 1))
	case $word in
	--help)
		usage
		exit 0 ;;
	--build | --rounds | --variant | --threads | --size | --reps | \
		--window | --slots | --work | --batch)
		[ "$left" -gt 0 ] || refuse "$word needs a value"
		case $word in
		--build) build=$1 ;;
		--rounds) rounds=$1 ;;
		--variant) variant=$1 ;;
		*) set -- "$@" "$word" "$1" ;;
		esac
		shift
		left=$((left - 1)) ;;
	-*)
		refuse "unknown option $word" ;;
	*)
		given=$given+
		case $given in
		+) job=$word ;;
		++) feature=$word ;;
		*) refuse "one job and one feature, not \"$word\" too" ;;
		esac ;;
	esac
done
[ -n "$feature" ] || refuse "a job and a feature are needed"
case $rounds in
'' | *[!0-9]* | 0*) refuse "--rounds takes a number from 1, not \"$rounds\"" ;;
esac

case $feature in
parking | barn_refill) before=$feature:off after=$feature:on ;;
sheaf) before=sheaf:59 after= ;;
mode) before=mode:lock after=mode:rseq ;;
*/*/*) refuse "A/B has one slash" ;;
*/*) before=${feature%/*} after=${feature#*/} ;;
*) refuse "no feature \"$feature\"" ;;
esac
[ "$before" != "$after" ] || refuse "nothing differs"

bench=$build/bench/pcpool-bench
[ -x "$bench" ] || refuse "$bench is missing: build first, or say --build"

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

a=$variant${before:++$before}
b=$variant${after:++$after}
round=0
while [ $round -lt "$rounds" ]; do
	round=$((round + 1))
	order=$a,$b
	[ $((round % 2)) -eq 1 ] || order=$b,$a
	"$bench" "$job" "$@" --variants "$order" --counters \
		--json "$tmp/$round.json" >"$tmp/table" 2>"$tmp/err" </dev/null
	status=$?
	if [ $status -ne 0 ]; then
		cat "$tmp/table" "$tmp/err" >&2
		exit $status
	fi
	# The library only warns of what it does not know.
	if grep PCPOOL_OPTIONS "$tmp/err" >&2; then
		refuse "this library does not know the feature"
	fi
	cat "$tmp/err" >&2
	cat "$tmp/$round.json" >>"$tmp/all"
done

awk -v a="$a" -v b="$b" -v before="${before:-(default)}" \
	-v after="${after:-(default)}" -v rounds="$rounds" '
# The value of a key in a JSON line as pcpool-bench writes it.
function get(key,    rest)
{
	rest = $0
	if (!sub(".*\"" key "\":", "", rest))
		return ""
	if (rest ~ /^"/) {
		rest = substr(rest, 2)
		sub(/".*/, "", rest)
	} else
		sub(/[,}].*/, "", rest)
	return rest
}

# The median of the rounds of one side.
function middle(side, table, metric,    n, i, k, x, v)
{
	n = count[side, table, metric]
	for (i = 1; i <= n; i++) {
		x = value[side, table, metric, i]
		for (k = i - 1; k && v[k] > x; k--)
			v[k + 1] = v[k]
		v[k + 1] = x
	}
	return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

function number(x)
{
	return sprintf(x >= 1e4 ? "%.0f" : "%.2f", x)
}

function change(x, y)
{
	if (!x)
		return y ? "from 0" : "0.0 %"
	x = 100 * (y - x) / x
	return sprintf(x > -0.05 && x < 0.05 ? "0.0 %%" : "%+.1f %%", x)
}

# The metrics of one kind.
function rows(table, kind, heading,    i, m, x, y, said)
{
	for (i = 1; i <= nr_metrics; i++) {
		m = metrics[i]
		if (kinds[m] != kind || !((a, table, m) in count))
			continue
		x = middle(a, table, m)
		y = middle(b, table, m)
		if (!x && !y || kind == "shape" && x == y)
			continue
		if (!said++ && heading)
			printf "%s\n", heading
		printf "  %-24s %16s %16s %12s\n", m, number(x), number(y),
			change(x, y)
	}
}

/^{"machine"/ {
	if (NR == 1)
		machine = get("cpu") ", " get("cpus") " CPUs, Linux " \
			get("kernel") ", pcpool " get("pcpool")
	next
}
{
	side = get("variant")
	table = get("threads") " threads, " get("size") " bytes, " \
		get("slots") " slots"
	if (get("batch") != "")
		table = table ", batch " get("batch")
	if (get("work") != "")
		table = table ", work " get("work")
	if (get("order") != "")
		table = table ", " get("order")
	if (!(table in seen)) {
		seen[table] = 1
		tables[++nr_tables] = table
	}
	metric = get("metric")
	if (!(metric in kinds)) {
		kinds[metric] = get("kind")
		metrics[++nr_metrics] = metric
	}
	n = ++count[side, table, metric]
	value[side, table, metric, n] = get("median") + 0
	if (kinds[metric] == "" && !((table) in first))
		first[table] = metric
	if (metric == first[table]) {
		if (n == 1 || get("min") + 0 < least[side, table])
			least[side, table] = get("min") + 0
		if (n == 1 || get("max") + 0 > most[side, table])
			most[side, table] = get("max") + 0
		reps = get("reps")
	}
	job = get("job")
}
END {
	printf "%s\n%s: %s, before and after; medians of %d rounds of %d windows\n",
		machine, job, a " -> " b, rounds, reps
	for (t = 1; t <= nr_tables; t++) {
		table = tables[t]
		printf "\n%s\n\n", table
		printf "  %-24s %16s %16s %12s\n", "metric", before, after, "change"
		rows(table, "", "")
		rows(table, "per_Mop", "per million operations")
		rows(table, "held", "held at the end")
		rows(table, "shape", "sizes and limits")
		printf "%s of single windows: %s to %s before, %s to %s after\n",
			first[table], number(least[a, table]), number(most[a, table]),
			number(least[b, table]), number(most[b, table])
	}
}
' "$tmp/all"
