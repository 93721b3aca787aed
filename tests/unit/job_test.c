/* SPDX-License-Identifier: MIT */
/*
 * Subprocesses of a mount: inherited state, output on stderr, and how they are ended, also if
 * they ignore signals or write without end.
 */
#include "dist/launch/subprocess.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IN_TIME = 60000 }; /* msec */

static unsigned fds_count(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void shell_start(const char *script, struct ck_subprocess *job)
{
	char sh[] = "sh", c[] = "-c", text[512];
	char *argv[] = { sh, c, text, NULL };

	snprintf(text, sizeof(text), "%s", script);
	if (ck_subprocess_start(argv, NULL, job))
		abort();
}

/* Waits until its output ends with `last`, or the process has ended. */
static void hear(const struct ck_subprocess *job, char last,
		 struct ck_buf *said)
{
	struct pollfd ended = { .fd = job->ended, .events = POLLIN };
	uint64_t end = ck_msec_now() + IN_TIME;

	while ((said->len == 0 || said->data[said->len - 1] != last) &&
	       ended.revents == 0 && ck_msec_now() < end) {
		if (poll(&ended, 1, 2) < 0)
			abort();
		ck_subprocess_read(job, said);
	}
}

/* Waits until this many bytes can be read. */
static bool has_said(const struct ck_subprocess *job, int bytes)
{
	uint64_t end = ck_msec_now() + IN_TIME;
	int n = 0;

	while (ioctl(job->errors, FIONREAD, &n) == 0 && n < bytes &&
	       ck_msec_now() < end)
		usleep(5000);
	return n >= bytes;
}

static uint64_t cpu_msec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* True if this process has a child, alive or zombie. */
static bool has_children(void)
{
	return waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
}

/* True if took < most; always true in the default run. */
static bool took_less(uint64_t took, uint64_t most)
{
	printf("# %" PRIu64 " ms of %" PRIu64 "\n", took, most);
	return took < most || !tap_is_long();
}

/* Ends the process. Returns the duration in msec. */
static uint64_t end_timed(struct ck_subprocess *job, int msec)
{
	uint64_t begin = ck_msec_now();

	ck_subprocess_end(job, msec);
	return ck_msec_now() - begin;
}

/* --- starting ------------------------------------------------------------------------------- */

static void test_by_itself(void)
{
	unsigned fds = fds_count();
	struct ck_buf said = { 0 };
	struct ck_subprocess job;

	shell_start("echo out; printf one >&2; printf two. >&2; exec sleep 0.2",
		    &job);
	hear(&job, '.', &said);
	eq_mem(said.data, said.len, "onetwo.", 7);
	ck_subprocess_read(&job, &said); /* no more output: it does not block */
	eq_u64(said.len, 7);
	ok(took_less(end_timed(&job, IN_TIME), 1000));
	eq_i64(job.status, 0);
	ck_buf_fini(&said);

	shell_start("exit 7", &job);
	ck_subprocess_end(&job, IN_TIME);
	ok(WIFEXITED(job.status) && WEXITSTATUS(job.status) == 7);
	shell_start("kill -9 $$", &job);
	ck_subprocess_end(&job, IN_TIME);
	ok(WIFSIGNALED(job.status) && WTERMSIG(job.status) == SIGKILL);
	ok(!has_children());
	eq_u64(fds_count(), fds);
}

/* The working directory is /, so that the caller's can be unmounted. */
static void test_directory(void)
{
	struct ck_buf said = { 0 };
	struct ck_subprocess job;

	shell_start("printf \"$(pwd).\" >&2", &job);
	hear(&job, '.', &said);
	ck_subprocess_end(&job, IN_TIME);
	eq_text(said.data, "/.");
	ck_buf_fini(&said);
}

/* Children of the process end with it, if it has to be killed. */
static void end_with(const char *script)
{
	struct ck_buf said = { 0 };
	struct ck_subprocess job;
	pid_t child;

	shell_start(script, &job);
	hear(&job, '.', &said);
	child = (pid_t)strtol(said.data, NULL, 10);
	ok(child > 0);
	ck_subprocess_end(&job, 0);
	for (unsigned i = 0; i < 6000 && kill(child, 0) == 0; i++)
		usleep(10000);
	ok(kill(child, 0) && errno == ESRCH);
	ck_buf_fini(&said);
}

static void test_session(void)
{
	end_with("sleep 30 & printf \"$!.\" >&2; wait");
	end_with("trap '' TERM; sleep 30 & printf \"$!.\" >&2; "
		 "while :; do sleep 1; done");
}

static void test_environment(void)
{
	char sh[] = "/bin/sh", c[] = "-c", text[] = "printf \"$A,$HOME.\" >&2";
	char *argv[] = { sh, c, text, NULL };
	char a[] = "A=b";
	char *environment[] = { a, NULL };
	struct ck_buf said = { 0 };
	struct ck_subprocess job;

	eq_err(ck_subprocess_start(argv, environment, &job), 0);
	ck_subprocess_end(&job, IN_TIME);
	eq_i64(job.status, 0);
	eq_err(ck_subprocess_start(argv, environment, &job), 0);
	hear(&job, '.', &said);
	eq_mem(said.data, said.len, "b,.", 3);
	ck_subprocess_end(&job, IN_TIME);
	ck_buf_fini(&said);
}

static void test_not_found(void)
{
	char none[] = "/nonexistent/program", no_path[] = "ckptfs-no-such",
	     directory[] = "/tmp";
	char *programs[] = { none, no_path, directory };
	const int errors[] = { -ENOENT, -ENOENT, -EACCES };
	unsigned fds = fds_count();
	struct ck_subprocess job;

	/* The inherited PATH may have a directory that gives another error. */
	setenv("PATH", "/usr/bin:/bin", 1);
	for (size_t i = 0; i < CK_ARRAY_SIZE(programs); i++) {
		char *argv[] = { programs[i], NULL };

		eq_err(ck_subprocess_start(argv, NULL, &job), errors[i]);
		ok(!has_children());
	}
	eq_u64(fds_count(), fds);
}

/* --- inherited state -------------------------------------------------------------------------- */

/* A signal set of the process, from /proc. */
static uint64_t signals_of(const struct ck_subprocess *job, const char *which)
{
	uint64_t set = ~UINT64_C(0);
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", job->process);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, which, strlen(which)) == 0)
			set = strtoull(line + strlen(which), NULL, 16);
	if (f)
		fclose(f);
	return set;
}

static void sleep_start(struct ck_subprocess *job)
{
	char sleep[] = "sleep", long_time[] = "90";
	char *argv[] = { sleep, long_time, NULL };

	if (ck_subprocess_start(argv, NULL, job))
		abort();
}

static void test_signals(void)
{
	const int ours[] = { SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGUSR1 };
	sigset_t all, before;
	struct ck_subprocess job;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	for (size_t i = 0; i < CK_ARRAY_SIZE(ours); i++)
		signal(ours[i], SIG_IGN);
	sleep_start(&job);
	for (size_t i = 0; i < CK_ARRAY_SIZE(ours); i++)
		signal(ours[i], SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	eq_u64(signals_of(&job, "SigBlk:"), 0);
	/* posix_spawn(3) of glibc ignores its two internal signals. */
	eq_u64(signals_of(&job, "SigIgn:") & ~(UINT64_C(3) << 31), 0);
	/* SIGTERM ends it, though the caller ignores SIGTERM. */
	ok(took_less(end_timed(&job, 0), 1000));
	ok(WIFSIGNALED(job.status) && WTERMSIG(job.status) == SIGTERM);
}

/* The target of a descriptor of the process, or "". */
static void link_of(const struct ck_subprocess *job, int fd, char out[64])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", job->process, fd);
	n = readlink(path, out, 63);
	out[n > 0 ? n : 0] = 0;
}

static void test_descriptors(void)
{
	char link[64];
	int fd = open("/", O_RDONLY), high = fcntl(fd, F_DUPFD, 200);
	unsigned inherited = 0;
	struct ck_subprocess job;

	ok(fd >= 3 && high >= 200); /* neither has FD_CLOEXEC */
	sleep_start(&job);
	for (int i = 0; i < 2; i++) {
		link_of(&job, i, link);
		eq_text(link, "/dev/null");
	}
	link_of(&job, 2, link);
	ok(strncmp(link, "pipe:", 5) == 0);
	/* Descriptors of this process must not be inherited. */
	for (int i = 3; i <= high; i++) {
		link_of(&job, i, link);
		inherited += strcmp(link, "/") == 0 ||
			     strchr(link, ':') != NULL;
	}
	eq_u64(inherited, 0);
	/* It has its own session. */
	eq_i64(getsid(job.process), job.process);
	eq_i64(getpgid(job.process), job.process);
	ck_subprocess_end(&job, 0);
	close(fd);
	close(high);
}

/* Regression: the pipe may get one of the first three descriptors. Runs in a child that closes
 * some of them. */
static void without_descriptors(unsigned which)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct ck_buf said = { 0 };
		struct ck_subprocess job;

		for (int fd = 0; fd < 3; fd++)
			if (which & 1U << fd)
				close(fd);
		shell_start("printf '%s ' $(readlink /proc/$$/fd/0 "
			    "/proc/$$/fd/1) >&2; printf . >&2; exec sleep 90",
			    &job);
		hear(&job, '.', &said);
		ck_subprocess_end(&job, 0);
		_exit(!said.data ||
		      strcmp(said.data, "/dev/null /dev/null .") != 0);
	}
	waitpid(child, &status, 0);
	eq_i64(status, 0);
}

static void test_without_descriptors(void)
{
	for (unsigned which = 0; which < 8; which++)
		without_descriptors(which);
}

/* Regression: kill(2) was sent to a pid that could be reused. If SIGCHLD is ignored, the kernel
 * reaps children by itself. */
static void test_nobody_waits(void)
{
	struct ck_subprocess job;
	unsigned fds = fds_count();

	signal(SIGCHLD, SIG_IGN);
	shell_start("sleep 0.1; exit 3", &job);
	ok(took_less(end_timed(&job, IN_TIME), 1500));
	eq_i64(job.status, -1); /* the kernel drops the status */
	shell_start("exec sleep 90", &job);
	ok(took_less(end_timed(&job, 0), 1000));
	eq_i64(kill(job.process, 0), -1);
	signal(SIGCHLD, SIG_DFL);
	eq_u64(fds_count(), fds);
}

/* --- ending a process --------------------------------------------------------------------------- */

static void test_term(void)
{
	struct ck_buf said = { 0 };
	struct ck_subprocess job;
	uint64_t took;

	shell_start("exec sleep 90", &job);
	took = end_timed(&job, 200);
	ok(took >= 200 && took_less(took, 1100));
	ok(WIFSIGNALED(job.status) && WTERMSIG(job.status) == SIGTERM);

	/* It exits by itself on SIGTERM. */
	shell_start("trap 'exit 4' TERM; sleep 90 2>/dev/null & printf . >&2; "
		    "wait",
		    &job);
	hear(&job, '.', &said);
	took = end_timed(&job, 200);
	ok(took >= 200 && took_less(took, 1100));
	ok(WIFEXITED(job.status) && WEXITSTATUS(job.status) == 4);
	ok(!has_children());
	ck_buf_fini(&said);
}

static void test_kill(void)
{
	struct ck_buf said = { 0 };
	struct ck_subprocess job;
	siginfo_t stopped;
	uint64_t took;

	shell_start("trap '' TERM; printf . >&2; exec sleep 90", &job);
	hear(&job, '.', &said);
	took = end_timed(&job, 100);
	ok(took >= 1100 && took_less(took, 3000));
	ok(WIFSIGNALED(job.status) && WTERMSIG(job.status) == SIGKILL);

	shell_start("exec sleep 90", &job);
	kill(job.process, SIGSTOP);
	waitid(P_PID, (id_t)job.process, &stopped, WSTOPPED | WNOWAIT);
	took = end_timed(&job, 0);
	ok(took >= 1000 && took_less(took, 3000));
	ok(WIFSIGNALED(job.status) && WTERMSIG(job.status) == SIGKILL);
	ok(!has_children());
	ck_buf_fini(&said);
}

/* Regression: output was read until the pipe was empty, which may never happen. */
static void test_speaks_without_end(void)
{
	unsigned fds = fds_count();
	struct ck_buf said = { 0 };
	struct ck_subprocess job;
	uint64_t took;

	shell_start("trap '' TERM PIPE; exec cat /dev/zero >&2", &job);
	/* The pipe has more bytes than one call reads. */
	ok(fcntl(job.errors, F_SETPIPE_SZ, 1 << 20) > 0);
	ok(has_said(&job, 256 << 10));
	ck_subprocess_read(&job, &said);
	ok(said.len >= 4096 && said.len <= 80 << 10);
	took = end_timed(&job, 100);
	ok(took >= 100 && took_less(took, 3000));
	ok(WIFSIGNALED(job.status) && WTERMSIG(job.status) == SIGKILL);
	ok(!has_children());
	eq_u64(fds_count(), fds);
	ck_buf_fini(&said);

	/* Output larger than a pipe, and then exit. */
	shell_start("head -c 3000000 /dev/zero >&2; exit 5", &job);
	ok(took_less(end_timed(&job, IN_TIME), 5000));
	ok(WIFEXITED(job.status) && WEXITSTATUS(job.status) == 5);
}

static void test_closes_its_error(void)
{
	struct ck_subprocess job;
	uint64_t cpu, took;

	shell_start("exec sleep 0.4 2>&-", &job);
	usleep(50000);
	cpu = cpu_msec();
	took = end_timed(&job, IN_TIME);
	cpu = cpu_msec() - cpu;
	ok((took >= 200 && took < 3000 && cpu < 100) || !tap_is_long());
	eq_i64(job.status, 0);

	/* A grandchild keeps the pipe open longer. */
	shell_start("sleep 1 & exit 6", &job);
	ok(took_less(end_timed(&job, IN_TIME), 800));
	ok(WIFEXITED(job.status) && WEXITSTATUS(job.status) == 6);
}

static void test_many(void)
{
	unsigned fds = fds_count(), unended = 0;

	for (unsigned i = 0; i < 40; i++) {
		struct ck_subprocess job;

		shell_start(i % 2 ? "exit 1" : "exec sleep 90", &job);
		ck_subprocess_end(&job, i % 4 == 3 ? IN_TIME : 0);
		unended += job.status == -1;
	}
	eq_u64(unended, 0);
	ok(!has_children());
	eq_u64(fds_count(), fds);
}

/* --- inherited files ----------------------------------------------------------------------- */

static int pipe_with(const char *text)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) || write(ends[1], text, 2) != 2)
		abort();
	close(ends[1]);
	return ends[0];
}

/* It inherits the given files, in order, from descriptor 3 on, and no others. */
static void test_files(void)
{
	static const char script[] =
		"read a <&3; read b <&4; read c <&5; "
		"for i in 6 7 8 9 10 11 12 13 14 15 16; do "
		"[ ! -e /proc/$$/fd/$i ] || exit 3; done; "
		"[ $a$b$c = xyz ]";
	char sh[] = "sh", c[] = "-c", text[512];
	char *argv[] = { sh, c, text, NULL };
	unsigned fds = fds_count();
	int files[3];
	struct ck_subprocess job;

	snprintf(text, sizeof(text), "%s", script);
	files[2] = pipe_with("z\n");
	files[1] = pipe_with("y\n");
	files[0] = pipe_with("x\n");
	eq_err(ck_subprocess_start_beside(argv, files, 3, &job), 0);
	ck_subprocess_end(&job, IN_TIME);
	eq_i64(job.status, 0);
	for (size_t i = 0; i < 3; i++)
		close(files[i]);
	eq_err(ck_subprocess_start_beside(argv, files, 3, &job), -EBADF);
	eq_err(ck_subprocess_start_beside(argv, files,
					  CK_SUBPROCESS_FILES_MOST + 1, &job),
	       -EINVAL);
	eq_u64(fds_count(), fds);
}

int main(void)
{
	test_by_itself();
	test_directory();
	test_session();
	test_environment();
	test_not_found();
	test_signals();
	test_descriptors();
	test_without_descriptors();
	test_nobody_waits();
	test_term();
	test_kill();
	test_speaks_without_end();
	test_closes_its_error();
	test_many();
	test_files();
	return tap_done();
}
