/* SPDX-License-Identifier: MIT */
/* See common.h. */
#include <config.h>

#include "common.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Noreturn void test_fail(const char *file, int line, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n, m;

	n = snprintf(text, sizeof(text), "%s:%d: ", file, line);
	va_start(ap, fmt);
	m = vsnprintf(text + n, sizeof(text) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n += m < 0 ? 0 : m;
	if (n > (int)sizeof(text) - 2)
		n = (int)sizeof(text) - 2;
	text[n++] = '\n';
	if (write(STDERR_FILENO, text, (size_t)n) < 0)
		_exit(98);
	abort();
}

_Noreturn void skip_test(const char *why)
{
	fprintf(stderr, "skipped: %s\n", why);
	exit(TEST_SKIP);
}

unsigned long scaled(unsigned long count)
{
	const char *wrapper = getenv("PCP_TEST_WRAPPER");

	if (wrapper && *wrapper)
		count /= 20;
	else if (TEST_TSAN)
		count /= 4;
	return count ? count : 1;
}

/* --- CPUs and threads ---------------------------------------------------- */

/* Larger than cpu_set_t: a machine may have more CPUs than that. */
#define CPU_LIMIT 8192

static pthread_once_t start_once = PTHREAD_ONCE_INIT;
static cpu_set_t *start_set;
static unsigned int start_count;

static void remember_start(void)
{
	size_t size = CPU_ALLOC_SIZE(CPU_LIMIT);

	start_set = CPU_ALLOC(CPU_LIMIT);
	expect(start_set);
	CPU_ZERO_S(size, start_set);
	expect(!sched_getaffinity(0, size, start_set));
	start_count = (unsigned int)CPU_COUNT_S(size, start_set);
}

__attribute__((constructor)) static void remember_early(void)
{
	pthread_once(&start_once, remember_start);
}

unsigned int allowed_cpus(void)
{
	pthread_once(&start_once, remember_start);
	return start_count;
}

void pin_to(unsigned int nth)
{
	move_to(0, nth);
}

void move_to(pid_t tid, unsigned int nth)
{
	size_t size = CPU_ALLOC_SIZE(CPU_LIMIT);
	unsigned int left = nth % allowed_cpus();
	cpu_set_t *one = CPU_ALLOC(CPU_LIMIT);

	expect(one);
	CPU_ZERO_S(size, one);
	for (unsigned int cpu = 0; cpu < CPU_LIMIT; cpu++) {
		if (!CPU_ISSET_S(cpu, size, start_set))
			continue;
		if (!left--) {
			CPU_SET_S(cpu, size, one);
			break;
		}
	}
	/* An outer cpuset may shrink under us: staying put is good enough. */
	if (sched_setaffinity(tid, size, one) && errno != ESRCH)
		fprintf(stderr, "note: cannot pin: %s\n", strerror(errno));
	CPU_FREE(one);
}

void unpin(void)
{
	pthread_once(&start_once, remember_start);
	sched_setaffinity(0, CPU_ALLOC_SIZE(CPU_LIMIT), start_set);
}

struct start {
	struct worker worker;
	void (*fn)(const struct worker *);
	pthread_barrier_t *barrier;
};

static void *start_thread(void *p)
{
	struct start *start = p;

	pin_to(start->worker.id);
	pthread_barrier_wait(start->barrier);
	start->fn(&start->worker);
	return NULL;
}

void run_threads(unsigned int n, void (*fn)(const struct worker *), void *arg)
{
	pthread_t *threads = calloc(n, sizeof(*threads));
	struct start *starts = calloc(n, sizeof(*starts));
	pthread_barrier_t barrier;

	expect(threads && starts);
	expect(!pthread_barrier_init(&barrier, NULL, n));
	for (unsigned int i = 0; i < n; i++) {
		starts[i].worker = (struct worker){ i, n, arg };
		starts[i].fn = fn;
		starts[i].barrier = &barrier;
		expect(!pthread_create(&threads[i], NULL, start_thread,
				       &starts[i]));
	}
	for (unsigned int i = 0; i < n; i++)
		expect(!pthread_join(threads[i], NULL));
	pthread_barrier_destroy(&barrier);
	free(starts);
	free(threads);
}

/* --- random numbers ------------------------------------------------------ */

uint64_t rng_next(struct rng *rng)
{
	uint64_t x = rng->state += 0x9e3779b97f4a7c15U;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
	return x ^ (x >> 31);
}

void rng_seed(struct rng *rng, uint64_t seed)
{
	rng->state = seed;
	rng->state = rng_next(rng);
}

uint32_t rng_below(struct rng *rng, uint32_t n)
{
	return (uint32_t)(((rng_next(rng) >> 32) * n) >> 32);
}

/* --- children ------------------------------------------------------------- */

/* Not alarm(): the library blocks all signals while it starts a thread, and a
 * child that hangs there hangs for ever. */
void kill_after(unsigned int seconds)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGKILL };
	const struct itimerspec once = { .it_value.tv_sec = seconds };
	timer_t timer;

	expect(!timer_create(CLOCK_MONOTONIC, &event, &timer));
	expect(!timer_settime(timer, 0, &once, NULL));
}

bool was_hung(int status)
{
	return WIFSIGNALED(status) &&
	       (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGALRM);
}

static void write_to(int err)
{
	struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	if (dup2(err, STDERR_FILENO) < 0)
		_exit(97);
	close(err);
}

/* A grandchild that keeps the pipe open must not keep us for ever: once the
 * child is gone, what is in the pipe is all there is. */
static void collect(pid_t pid, int fd, struct child *child)
{
	bool ended = false;

	child->len = 0;
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char spill[4096];
		char *to = child->err + child->len;
		size_t room = sizeof(child->err) - 1 - child->len;
		ssize_t n;

		if (!ended && waitpid(pid, &child->status, WNOHANG) == pid)
			ended = true;
		if (poll(&p, 1, ended ? 0 : 20) <= 0) {
			if (ended)
				break;
			continue;
		}
		n = read(fd, room ? to : spill, room ? room : sizeof(spill));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (room)
			child->len += (size_t)n;
	}
	child->err[child->len] = '\0';
	while (!ended && waitpid(pid, &child->status, 0) < 0)
		expect_eq(errno, EINTR);
	close(fd);
}

void run_child(void (*fn)(void *), void *arg, unsigned int seconds,
	       struct child *child)
{
	int fds[2];
	pid_t pid;

	expect(!pipe(fds));
	fflush(NULL);
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		close(fds[0]);
		write_to(fds[1]);
		kill_after(seconds);
		fn(arg);
		_exit(0);
	}
	close(fds[1]);
	collect(pid, fds[0], child);
}

static void exec_self(const char *const *args, const char *options)
{
	static char path[4096];
	const char *given = getenv("PCPOOL_OPTIONS");
	const char *wrapper = getenv("PCP_TEST_WRAPPER");
	char *argv[24], text[1024];
	size_t n = 0;

	if (options) {
		snprintf(text, sizeof(text), "%s%s%s", given ? given : "",
			 given && *given ? "," : "", options);
		setenv("PCPOOL_OPTIONS", text, 1);
	}
	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		_exit(96);
	if (wrapper && *wrapper) {
		argv[n++] = (char *)"sh";
		argv[n++] = (char *)"-c";
		argv[n++] = (char *)"exec $PCP_TEST_WRAPPER \"$0\" \"$@\"";
	}
	argv[n++] = path;
	for (; *args && n < 23; args++)
		argv[n++] = (char *)(uintptr_t)*args;
	argv[n] = NULL;
	execv(wrapper && *wrapper ? "/bin/sh" : path, argv);
	_exit(95);
}

void run_self(const char *const *args, const char *options,
	      unsigned int seconds, struct child *child)
{
	int fds[2];
	pid_t pid;

	expect(!pipe(fds));
	fflush(NULL);
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		close(fds[0]);
		write_to(fds[1]);
		/* Of the two what exec(2) keeps. */
		signal(SIGALRM, SIG_DFL);
		alarm(seconds);
		exec_self(args, options);
	}
	close(fds[1]);
	collect(pid, fds[0], child);
}

static void describe(const struct child *child)
{
	if (WIFSIGNALED(child->status))
		fprintf(stderr, "child: killed by signal %d%s\n",
			WTERMSIG(child->status),
			was_hung(child->status) ? " (hung)" : "");
	else
		fprintf(stderr, "child: exit status %d\n",
			WEXITSTATUS(child->status));
	fprintf(stderr, "child's stderr:\n%s\n", child->err);
}

void expect_child_exit(const struct child *child, int status)
{
	/* The address sanitizer's allocator may be locked by another thread at
	 * the fork, and then is for ever in the child. Other builds say whether
	 * the library hangs. */
	if (TEST_ASAN && was_hung(child->status)) {
		fprintf(stderr, "a child hung, perhaps in the sanitizer\n");
		return;
	}
	if (WIFEXITED(child->status) && WEXITSTATUS(child->status) == status)
		return;
	describe(child);
	fail_now("expected the child to end with status %d", status);
}

void expect_child_abort(const struct child *child, ...)
{
	const char *text;
	va_list ap;

	if (!WIFSIGNALED(child->status) || WTERMSIG(child->status) != SIGABRT) {
		describe(child);
		fail_now("expected the child to abort");
	}
	va_start(ap, child);
	while ((text = va_arg(ap, const char *))) {
		if (strstr(child->err, text))
			continue;
		describe(child);
		fail_now("expected \"%s\" in the child's last words", text);
	}
	va_end(ap);
}

/* --- the balance sheet -----------------------------------------------------
 */

static unsigned char pattern(const void *obj, size_t i)
{
	return (unsigned char)(((uintptr_t)obj * 31 + i * 7 + 0xa5) ^
			       ((uintptr_t)obj >> 8));
}

void sheet_pattern_check(const void *obj, size_t size)
{
	const unsigned char *bytes = obj;

	for (size_t i = 0; i < size; i++)
		if (bytes[i] != pattern(obj, i))
			fail_now("object %p of %zu bytes: byte %zu is 0x%02x, "
				 "the constructor wrote 0x%02x",
				 obj, size, i, bytes[i], pattern(obj, i));
}

int sheet_ctor(void *obj, void *arg)
{
	struct sheet *sheet = arg;
	unsigned long long call = atomic_fetch_add(&sheet->calls, 1) + 1;
	unsigned long long every = atomic_load(&sheet->fail_every);
	unsigned long long from = atomic_load(&sheet->fail_from);
	unsigned char *bytes = obj;

	if ((every && call % every == 0) || (from && call >= from)) {
		int error = atomic_load(&sheet->error);

		atomic_fetch_add(&sheet->failed, 1);
		return error ? error : EXDEV;
	}
	for (size_t i = 0; i < sheet->fill; i++)
		bytes[i] = pattern(obj, i);
	if (sheet->clear)
		memset(obj, 0, sheet->clear);
	atomic_fetch_add(&sheet->ok, 1);
	return 0;
}

void sheet_dtor(void *obj, void *arg)
{
	struct sheet *sheet = arg;

	if (atomic_load(&sheet->no_dtor))
		fail_now("a destructor ran where none may");
	if (!sheet->clear && sheet->fill)
		sheet_pattern_check(obj, sheet->fill);
	atomic_fetch_add(&sheet->dtor, 1);
}

void sheet_reset(void *obj, void *arg)
{
	struct sheet *sheet = arg;

	(void)obj;
	atomic_fetch_add(&sheet->reset, 1);
}

unsigned long long sheet_built(struct sheet *sheet)
{
	return atomic_load(&sheet->ok) - atomic_load(&sheet->dtor);
}

void sheet_balanced(struct sheet *sheet)
{
	unsigned long long ok = atomic_load(&sheet->ok);
	unsigned long long dtor = atomic_load(&sheet->dtor);

	if (ok != dtor)
		fail_now("built %llu, destructed %llu", ok, dtor);
	expect_eq(ok + atomic_load(&sheet->failed), atomic_load(&sheet->calls));
}

/* --- owners ----------------------------------------------------------------
 */

static void change_owner(void *obj, uint64_t from, uint64_t to)
{
	uint64_t found = from;

	/* Relaxed: it is the library that has to order one owner's use of an
	 * object before the next one's, and nobody shall do it for it. */
	if (!__atomic_compare_exchange_n((uint64_t *)obj, &found, to, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		fail_now("object %p: owner is %llu, expected %llu", obj,
			 (unsigned long long)found, (unsigned long long)from);
}

void owner_take(void *obj, uint64_t id)
{
	change_owner(obj, 0, id);
}

void owner_leave(void *obj, uint64_t id)
{
	change_owner(obj, id, 0);
}
