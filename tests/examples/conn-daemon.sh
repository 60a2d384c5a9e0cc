#!/bin/sh
# SPDX-License-Identifier: MIT
# conn_daemon under real and unreal clients: responses, limits, pages, its end;
# with a cache in both modes, and without one. Only on 127.0.0.1, and all that is
# started here ends with it.
. "${top_srcdir:?}/tests/meta/lib.sh"

if [ "${CROSS_COMPILING-no}" = yes ]; then
	echo "curl here would talk to an emulated daemon"
	exit 77
fi
command -v curl >/dev/null || {
	echo "curl is not installed"
	exit 77
}
raw=$top_builddir/tests/examples/raw_client
folder=$top_builddir/examples/conn_daemon
cr=$(printf '\r')
daemon=
trap '[ -z "$daemon" ] || kill -KILL "$daemon"
	rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# What malloc returns is not zero, as in a program that runs for long.
MALLOC_PERTURB_=165
export MALLOC_PERTURB_

# --- starting and ending -----------------------------------------------------

# Poll for what must come to be, for a minute.
await()
{
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || return 1
		sleep 0.1
	done
}

has_begun()
{
	grep -qs " port " "$tmp/daemon" || ! kill -0 "$daemon" 2>/dev/null
}

# start OPTION...: $program on a free port.
start()
{
	rm -f "$tmp/daemon"
	PCPOOL_OPTIONS=mode:$mode "$program" --port 0 --threads 2 "$@" \
		>"$tmp/daemon" 2>&1 </dev/null &
	daemon=$!
	await has_begun
	port=$(sed -n 's/.* port \([0-9]*\)$/\1/p' "$tmp/daemon")
	[ -n "$port" ] || {
		cat "$tmp/daemon"
		bad "$what: did not start"
		finish
	}
	url=http://127.0.0.1:$port
}

# stop SIGNAL: it ends well, with an even balance.
stop()
{
	kill -"$1" "$daemon"
	wait "$daemon"
	status=$?
	daemon=
	[ $status -eq 0 ] || bad "$what: exit status $status"
	awk -F '[ ,]+' '
		/^balance: / { said++; even = $3 == $5 && $7 == "0" && NF == 7 }
		END { exit !(said == 1 && even) }' "$tmp/daemon" || {
		cat "$tmp/daemon"
		bad "$what: the balance is off"
	}
}

# --- asking ------------------------------------------------------------------

# get WANTED CURL-ARGUMENT...: what curl prints must match the pattern.
get()
{
	wanted=$1
	shift
	got=$(curl -s --max-time 60 "$@" 2>&1) || got="$got (curl: status $?)"
	# shellcheck disable=SC2254 # a pattern
	case $got in
	$wanted) ;;
	*) bad "$what: curl $*: '$got', not '$wanted'" ;;
	esac
}

# The statuses of the responses in a file, in order.
statuses()
{
	sed -n 's/^.*HTTP\/1\.1 \([1-5][0-9][0-9]\) .*/\1/p' "$1" |
		tr '\n' ' ' | sed 's/ $//'
}

# says WANTED REQUESTS: these bytes (a printf format) get responses with these
# statuses, and then the connection is closed; in one piece or byte by byte.
pieces='4096 1'
says()
{
	# shellcheck disable=SC2059 # the requests are a format
	printf "$2" >"$tmp/request"
	for piece in $pieces; do
		"$raw" "$port" $piece <"$tmp/request" >"$tmp/response" \
			2>"$tmp/err" || {
			cat "$tmp/err"
			bad "$what: raw client: status $? after $2"
		}
		got=$(statuses "$tmp/response")
		[ "$got" = "$1" ] ||
			bad "$what, $piece at a time: '$got', not '$1', for $2"
	done
}

# A number of the text page.
value()
{
	curl -s --max-time 60 "$url/stats" | sed -n "s/^$1 //p"
}

# --- groups of checks --------------------------------------------------------

check_curl()
{
	get 'Hello from conn_daemon.' "$url/"
	get 'Hello from conn_daemon.' "$url/?query"
	get '200 24 ' -o "$tmp/body" -w '%{http_code} %{size_download} ' "$url/"
	get '*Content-Length: 24*' -I "$url/"
	get '404 Not Found' "$url/none"
	get '405' -X PUT -o "$tmp/body" -w '%{http_code}' "$url/"
	get '*Allow: GET, HEAD*' -i -d x=y "$url/"
	# Kept alive, and not: connections made for each of two requests.
	get '1 0 ' -o "$tmp/body" -o "$tmp/body" -w '%{num_connects} ' \
		"$url/" "$url/"
	get '1 1 ' -o "$tmp/body" -o "$tmp/body" -w '%{num_connects} ' \
		-H 'Connection: close' "$url/" "$url/"
	get '*Connection: close*' -i -H 'Connection: close' "$url/"
	get '1 1 ' -0 -o "$tmp/body" -o "$tmp/body" -w '%{num_connects} ' \
		"$url/" "$url/"
	get '1 0 ' -0 -o "$tmp/body" -o "$tmp/body" -w '%{num_connects} ' \
		-H 'Connection: keep-alive' "$url/" "$url/"
	# A body that is waited for, and one that is not wanted.
	head -c 9000 /dev/zero >"$tmp/upload"
	get '405' -o "$tmp/body" -w '%{http_code}' -H 'Expect: 100-continue' \
		--data-binary "@$tmp/upload" "$url/"
	head -c 20000 /dev/zero >"$tmp/upload"
	get '413' -o "$tmp/body" -w '%{http_code}' \
		--data-binary "@$tmp/upload" "$url/"
}

h='Host: x\r\n'
last="GET / HTTP/1.1\r\n${h}Connection: close\r\n\r\n"

check_raw()
{
	says 200 "$last"
	says '200 404 200' \
		"GET / HTTP/1.1\r\n$h\r\nHEAD /no HTTP/1.1\r\n$h\r\n$last"
	says 200 "GET http://x/ HTTP/1.1\r\n${h}connection: a, CLOSE ,b\r\n\r\n"
	says 200 'GET / HTTP/1.0\r\n\r\n'
	says 200 "\r\n$last"
	says 404 "GET /STATS HTTP/1.1\r\n${h}Connection: close\r\n\r\n"
	# Bodies end where they should, or what follows would be garbled.
	says '405 200' "POST / HTTP/1.1\r\n${h}Content-Length: 5\r\n\r\nGET /$last"
	chunked="${h}Transfer-Encoding: chunked\r\n\r\n"
	says '405 200' "POST / HTTP/1.1\r\n${chunked}5\r\nGET /\r\n0\r\n\r\n$last"
	says '405 200' "POST / HTTP/1.1\r\n${chunked}00a;x=\"y\"\r\n0123456789\r\n1 \r\nz\r\n0\r\nT: r\r\nU: s\r\n\r\n$last"
	# Nothing is answered behind a Connection: close.
	pieces=4096
	says 200 "${last}$last"
	pieces='4096 1'
}

check_malformed()
{
	for request in '\r\n\r\n\001\r\n' 'GET\r\n' 'GET /\r\n' 'GET / \r\n' \
		'GET  / HTTP/1.1\r\n' ' GET / HTTP/1.1\r\n' \
		'GET / HTTP/1.1 \r\n' 'GET / HTTP/11\r\n' 'GET / http/1.1\r\n' \
		'G@T / HTTP/1.1\r\n' 'GET / HTTP/1.1\n' 'GET /\rx HTTP/1.1\r\n' \
		'GET /\000 HTTP/1.1\r\n' 'GET / HTTP/1.1\r\n\r\n' \
		'GET / HTTP/1.1\r\nHost: x\n' 'GET / HTTP/1.1\r\nHost : x\r\n' \
		'GET / HTTP/1.1\r\n: x\r\n' 'GET / HTTP/1.1\r\nHost\r\n' \
		'GET / HTTP/1.1\r\nA: \001\r\n' 'GET / HTTP/1.1\r\nA: \000\r\n' \
		"GET / HTTP/1.1\r\n${h}$h" "GET / HTTP/1.1\r\n${h} fold\r\n" \
		"GET / HTTP/1.1\r\n${h}Content-Length: -1\r\n" \
		"GET / HTTP/1.1\r\n${h}Content-Length: 1x\r\n" \
		"GET / HTTP/1.1\r\n${h}Content-Length:\r\n" \
		"GET / HTTP/1.1\r\n${h}Content-Length: 9999999999999999999\r\n" \
		"GET / HTTP/1.1\r\n${h}Content-Length: 1\r\nContent-Length: 1\r\n" \
		"POST / HTTP/1.1\r\n${h}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" \
		'POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n' \
		"POST / HTTP/1.1\r\n${chunked}x" \
		"POST / HTTP/1.1\r\n${chunked}\r" \
		"POST / HTTP/1.1\r\n${chunked}1\n" \
		"POST / HTTP/1.1\r\n${chunked}1\r\nab" \
		"POST / HTTP/1.1\r\n${chunked}00000000000000000000"; do
		says 400 "$request"
	done
	# What came before is answered first.
	says '200 400' "GET / HTTP/1.1\r\n$h\r\nnonsense\r\n"
	says 505 "GET / HTTP/2.0\r\n"
	says 501 "POST / HTTP/1.1\r\n${h}Transfer-Encoding: gzip\r\n"
	says 417 "GET / HTTP/1.1\r\n${h}Expect: wonders\r\n"
}

check_oversize()
{
	long=$(printf '%5000s' '' | tr ' ' a)
	says 414 "GET /$long HTTP/1.1\r\n"
	says 431 "GET / HTTP/1.1\r\n${h}A: $long\r\n"
	says 413 "POST / HTTP/1.1\r\n${h}Content-Length: 10001\r\n\r\n"
	says 413 "POST / HTTP/1.1\r\n${chunked}2711\r\n"
	says 413 "POST / HTTP/1.1\r\n${chunked}fffffffffffffff\r\n"
	says 400 "POST / HTTP/1.1\r\n${chunked}1;$long"
}

# Many at a time, with responses that no socket buffer holds: it has to wait for
# its client in the middle.
check_pipelined()
{
	requests=
	i=0
	while [ $i -lt 300 ]; do
		requests="${requests}GET /metrics HTTP/1.1\r\n${h}\r\n"
		i=$((i + 1))
	done
	# shellcheck disable=SC2059 # a format
	printf "$requests$last" | "$raw" "$port" >"$tmp/response" ||
		bad "$what: pipelined: raw client: status $?"
	n=$(grep -ac '^HTTP/1\.1 200 OK' "$tmp/response")
	ends=$(grep -ac '^# EOF$' "$tmp/response")
	# All but the first response follow a body without a line's end between.
	[ "$n" -eq 301 ] && [ "$ends" -eq 300 ] ||
		bad "$what: pipelined: $n responses, $ends pages"
}

# The text of the numbers, the same in three forms.
check_pages()
{
	get 'alloc *' "$url/stats"
	get '{*' "$url/stats.json"
	get '# TYPE *# EOF' "$url/metrics"
	get '{*' -H 'Accept: application/json' "$url/stats"
	get '# TYPE *' -H 'Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5' "$url/stats"
	get 'alloc *' -H 'Accept: text/plain, application/json;q=0.9' "$url/stats"
	get '{*' -H 'Accept: text/html, application/json ; Q=0.25,text/*;q=0.2' \
		"$url/stats"
	get 'alloc *' -H 'Accept: application/json;q=0, */*;q=0.001' \
		"$url/stats"
	get 'application/json' -o "$tmp/json" -w '%{content_type}' \
		"$url/stats.json"
	get 'application/openmetrics-text; version=1.0.0; charset=utf-8' \
		-o "$tmp/metrics" -w '%{content_type}' "$url/metrics"
	if command -v jq >/dev/null; then
		jq -e '.daemon.requests > 0 and .now.connections >= 1' \
			"$tmp/json" >/dev/null || bad "$what: JSON, by jq"
	elif python3 -c '' 2>/dev/null; then
		python3 -c 'import json, sys
d = json.load(sys.stdin)
assert d["daemon"]["requests"] > 0 and d["now"]["connections"] >= 1' \
			<"$tmp/json" || bad "$what: JSON, by python3"
	else
		grep -q '"requests":[1-9]' "$tmp/json" || bad "$what: JSON"
	fi
	# Each sample belongs to the type told before it, and counters say so.
	awk '
		/^# EOF$/ { ended = NR; next }
		/^# TYPE / { name = $3; type = $4; if (told[name]++) bad = 1; next }
		/^# HELP / { if ($3 != name) bad = 1; next }
		{
			suffix = type == "counter" ? "_total" : \
				type == "info" ? "_info" : ""
			sample = $1
			sub(/[{].*/, "", sample)
			if (sample != name suffix || $2 !~ /^[0-9]+$/ || NF != 2)
				bad = 1
			samples++
		}
		END { exit !(ended == NR && samples > 15 && !bad) }' \
		"$tmp/metrics" || bad "$what: not OpenMetrics"
}

is_active()
{
	[ "$(value now.connections)" = "$1" ]
}

# hold I: a connection that has its response and stays.
hold()
{
	# The end of its input is not the end of a raw client.
	rm -f "$tmp/held.$1"
	"$raw" "$port" <"$tmp/get" >"$tmp/held.$1" 2>&1 &
	holders="$holders $!"
	await grep -qs Hello "$tmp/held.$1" || bad "$what: holder $1 is not served"
}

is_free()
{
	[ "$(curl -s --max-time 60 "$url/")" = 'Hello from conn_daemon.' ]
}

# As many connections as there may be, held open; then one more.
check_limit()
{
	holders=
	# shellcheck disable=SC2059 # a format
	printf "GET / HTTP/1.1\r\n$h\r\n" >"$tmp/get"
	await is_active 1 || bad "$what: limit: connections are left"
	for i in 1 2 3 4 5 6 7 8; do
		hold $i
	done
	curl -si --max-time 60 "$url/" | tr -d '\r' >"$tmp/response"
	grep -q '^HTTP/1.1 503 ' "$tmp/response" &&
		grep -q '^Connection: close$' "$tmp/response" &&
		grep -q 'too many connections' "$tmp/response" || {
		cat "$tmp/response"
		bad "$what: limit: not the refusal it should be"
	}
	says 503 "GET / HTTP/1.1\r\n${h}\r\n"
	# They go, and there is room.
	# shellcheck disable=SC2086 # numbers
	kill $holders
	await is_free || bad "$what: limit: no room after they left"
	await is_active 1 || bad "$what: limit: connections are left"
	[ "$(value daemon.refused)" -ge 3 ] || bad "$what: refused is not counted"
	for i in $holders; do
		wait "$i" 2>/dev/null
	done
}

is_closed()
{
	! curl -s -o "$tmp/body" --max-time 60 "$url/"
}

# Ended in the middle of a request: that is finished, what is idle is closed, and
# nobody new comes in.
check_end()
{
	mkfifo "$tmp/slow"
	rm -f "$tmp/response"
	"$raw" "$port" <"$tmp/slow" >"$tmp/response" &
	slow=$!
	exec 9>"$tmp/slow"
	# shellcheck disable=SC2059 # a format
	printf "GET / HTTP/1.1\r\n$h\r\nGET / HTTP/1.1\r\nHo" >&9
	await grep -qs Hello "$tmp/response" || bad "$what: end: no response"
	"$raw" "$port" </dev/null >"$tmp/idle" &
	idle=$!
	await is_active 3 || bad "$what: end: not 3 connections"
	kill -TERM "$daemon"
	wait "$idle" || bad "$what: end: the idle connection was not closed"
	kill -0 "$daemon" || bad "$what: end: did not wait for the request"
	# The other loop may hear of it a little later.
	await is_closed || bad "$what: end: takes clients"
	printf 'st: x\r\n\r\n' >&9
	wait "$slow" || bad "$what: end: the request was not finished"
	exec 9>&-
	rm "$tmp/slow"
	[ "$(statuses "$tmp/response")" = '200 200' ] &&
		grep -q "^Connection: close$cr\$" "$tmp/response" ||
		bad "$what: end: the last response is strange"
}

# --- the daemon, three times -------------------------------------------------

one_daemon()
{
	start --max-connections 8 --idle-ms 120000 --drain-ms 120000 \
		--maintain-ms 50 --buffer 4096 --max-body 10000
	check_curl
	check_raw
	check_malformed
	check_oversize
	check_pipelined
	check_pages
	check_limit
	is_maintained()
	{
		[ "$(value daemon.maintain)" -gt 2 ]
	}
	await is_maintained || bad "$what: is not maintained"
	[ "$(value daemon.maintain_failed)" = 0 ] || bad "$what: maintenance fails"
	check_end
	stop TERM 2>/dev/null

	# Nothing and half a request: both time out.
	start --idle-ms 300
	says '' ''
	says '' 'GET / HTTP/1.1\r\n'
	has_timed_out()
	{
		[ "$(value daemon.timed_out)" -ge 4 ]
	}
	await has_timed_out || bad "$what: timed_out is off"
	stop INT

	# A second signal does not wait.
	start --drain-ms 120000
	mkfifo "$tmp/slow"
	"$raw" "$port" <"$tmp/slow" >"$tmp/response" 2>&1 &
	slow=$!
	exec 9>"$tmp/slow"
	printf 'GET' >&9
	await is_active 2 || bad "$what: second signal: not 2 connections"
	kill -INT "$daemon"
	sleep 0.2
	stop INT
	exec 9>&-
	wait "$slow"
	rm "$tmp/slow"
}

# Constructions that fail cost the client that one connection.
failing()
{
	start --fail-every 1
	says 503 "GET / HTTP/1.1\r\n${h}\r\n"
	stop INT
	start --fail-every 3
	for i in 1 2 3 4 5 6; do
		get '[Hh5]*' "$url/"
	done
	stop INT
}

for run in auto:conn_daemon lock:conn_daemon auto:conn_daemon_malloc; do
	mode=${run%:*}
	program=$folder/${run#*:}
	what="${run#*:}, mode:$mode"
	one_daemon
	failing
done

# --- bad arguments -----------------------------------------------------------

what="arguments"
for arguments in '--port x' '--port 65536' '--threads 0' '--buffer 10' \
	'--none' 'more' '--max-connections 0' '--port'; do
	# shellcheck disable=SC2086 # words
	"$program" $arguments >"$tmp/out" 2>&1 </dev/null
	[ $? -eq 2 ] || bad "$program $arguments: not refused"
done
"$program" --port 0 --address nowhere >"$tmp/out" 2>&1 </dev/null
[ $? -eq 1 ] || bad "an address that is none is accepted"
# A port that another daemon listens on is not shared with it.
start
"$program" --port "$port" >"$tmp/out" 2>&1 </dev/null
[ $? -eq 1 ] && grep -q bind "$tmp/out" || bad "a port was taken over"
stop INT
finish
