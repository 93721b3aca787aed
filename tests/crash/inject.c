/* SPDX-License-Identifier: MIT */
/*
 * inject: the seam for system calls. Runs a command, stops it and all its
 * threads and children before every system call that names a file beneath a
 * directory, and asks on a pipe what to do:
 *
 *	inject EVENTS REPLIES DIRECTORY COMMAND [ARGUMENT...]
 *
 * EVENTS and REPLIES are open descriptors. An event and its reply are a line:
 *
 *	call TID NAME LENGTH PATH [PATH]	paths from DIRECTORY, "." itself,
 *						"-" elsewhere, %XX escapes
 *	go		lets it happen
 *	rest		lets it happen, and all calls after it, unasked
 *	watch		lets it happen and reports "done TID RESULT"
 *	return VALUE	it does not happen and returns VALUE (-errno: fails)
 *	short BYTES	it happens, with no more than BYTES of its data
 *	kill		SIGKILL to its process; it does not happen
 *	killall		the same to all processes
 *
 * "done" is answered with go, rest, kill or killall. Nothing is needed in the
 * command: ptrace does it, and a seccomp filter keeps all other calls at full
 * speed. Not seen: stores to mapped files, io_uring. The exit status is the
 * command's, 128 + N after signal N. inject itself has one thread: its long
 * buffers are static.
 */
#include "inject_calls.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_THREADS = 4096, LINE = 4 * PATH_MAX };

/* A thread that is followed. */
struct thread {
	pid_t tid; /* 0: the row is free */
	uint64_t iov,
		iov_len; /* a vector made shorter, to be mended; 0: none */
};

static struct {
	int events, replies;
	bool resting; /* nothing is asked any more */
	char dir[PATH_MAX];
	size_t dir_len;
	struct thread threads[MOST_THREADS];
	pid_t first;
	int status;
} state;

static void die(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	exit(125);
}

/* --- the other side of the pipes ------------------------------------------- */

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	static char line[LINE];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(line) ||
	    write(state.events, line, (size_t)len) != len)
		die("an event");
}

/* The word of a reply and its number. A closed pipe ends everything. */
static long hear(char word[16])
{
	char line[64] = "";
	long number = 0;

	for (size_t n = 0; n + 1 < sizeof(line); n++) {
		if (read(state.replies, line + n, 1) != 1)
			exit(125);
		if (line[n] == '\n')
			break;
	}
	if (sscanf(line, "%15s %ld", word, &number) < 1)
		die("a reply");
	return number;
}

/* --- the threads ------------------------------------------------------------ */

static struct thread *thread_of(pid_t tid)
{
	struct thread *free_row = NULL;

	for (size_t i = 0; i < MOST_THREADS; i++) {
		struct thread *t = &state.threads[i];

		if (t->tid == tid)
			return t;
		if (t->tid == 0 && !free_row)
			free_row = t;
	}
	if (!free_row)
		die("too many threads");
	*free_row = (struct thread){ .tid = tid };
	return free_row;
}

static void kill_all(void)
{
	for (size_t i = 0; i < MOST_THREADS; i++)
		if (state.threads[i].tid)
			kill(state.threads[i].tid, SIGKILL);
}

static bool copy_memory(pid_t tid, uint64_t at, void *buf, size_t len,
			bool into)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", tid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = into ? pwrite(fd, buf, len, (off_t)at)
		 : pread(fd, buf, len, (off_t)at);
	close(fd);
	return n > 0 && (into ? (size_t)n == len : true);
}

/* --- which file a call is about --------------------------------------------- */

static bool link_of(pid_t tid, const char *which, char *out, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, which);
	n = readlink(path, out, size - 1);
	if (n < 0)
		return false;
	out[n] = '\0';
	return true;
}

static bool path_of_fd(pid_t tid, uint64_t fd, char *out, size_t size)
{
	char which[32];

	if ((int)fd == AT_FDCWD)
		return link_of(tid, "cwd", out, size);
	snprintf(which, sizeof(which), "fd/%d", (int)fd);
	return link_of(tid, which, out, size);
}

/* A path in the thread's memory at `at`, taken from the directory `fd`. */
static bool path_at(pid_t tid, uint64_t fd, uint64_t at, char *out, size_t size)
{
	static char name[PATH_MAX + 1];
	size_t len;

	memset(name, 0, sizeof(name));
	if (at && !copy_memory(tid, at, name, PATH_MAX, false))
		return false;
	if (name[0] == '/') {
		snprintf(out, size, "%s", name);
		return true;
	}
	if (!path_of_fd(tid, fd, out, size))
		return false;
	len = strlen(out);
	if (name[0])
		snprintf(out + len, size - len, "/%s", name);
	return true;
}

static bool path_of(pid_t tid, struct file_arg f, const uint64_t *args,
		    char *out, size_t size)
{
	switch (f.how) {
	case BY_FD: return path_of_fd(tid, args[f.arg], out, size);
	case BY_PATH:
		return path_at(tid, (uint64_t)AT_FDCWD, args[f.arg], out, size);
	case BY_DIR:
		return path_at(tid, args[f.arg], args[f.arg + 1], out, size);
	case BY_NOTHING:
	default: return false;
	}
}

/* The part of `path` below the directory, escaped; false: elsewhere. */
static bool beneath(const char *path, char *out, size_t size)
{
	size_t n = 0;

	snprintf(out, size, "-");
	if (strncmp(path, state.dir, state.dir_len) != 0)
		return false;
	path += state.dir_len;
	if (path[0] != '\0' && path[0] != '/')
		return false;
	while (*path == '/')
		path++;
	if (!*path)
		path = ".";
	for (; *path && n + 4 < size; path++) {
		unsigned char c = (unsigned char)*path;

		if (c <= ' ' || c == '%' || c >= 0x7f)
			n += (size_t)snprintf(out + n, size - n, "%%%02X", c);
		else
			out[n++] = (char)c;
	}
	out[n] = '\0';
	return true;
}

/* --- carrying out a reply ---------------------------------------------------- */

static void resume(pid_t tid, bool to_end, int sig)
{
	/* The thread may have been killed meanwhile: ESRCH is no error. */
	ptrace(to_end ? PTRACE_SYSCALL : PTRACE_CONT, tid, NULL, (long)sig);
}

static void skip_call(pid_t tid, long result)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs))
		return;
	regs.orig_rax = (unsigned long long)-1;
	regs.rax = (unsigned long long)result;
	ptrace(PTRACE_SETREGS, tid, NULL, &regs);
}

static void set_arg(pid_t tid, int arg, uint64_t value)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs))
		return;
	switch (arg) {
	case 2: regs.rdx = value; break;
	case 3: regs.r10 = value; break;
	case 4: regs.r8 = value; break;
	default: errno = EINVAL; die("an argument");
	}
	ptrace(PTRACE_SETREGS, tid, NULL, &regs);
}

/* A vector is cut in the caller's memory, and mended when the call is over. */
static void shorten_vector(struct thread *t, uint64_t at, uint64_t len)
{
	struct iovec first;
	size_t most = sizeof(first);

	if (!copy_memory(t->tid, at, &first, most, false))
		return;
	t->iov = at + offsetof(struct iovec, iov_len);
	t->iov_len = first.iov_len;
	if (first.iov_len > len)
		first.iov_len = len;
	copy_memory(t->tid, t->iov, &first.iov_len, sizeof(first.iov_len),
		    true);
	set_arg(t->tid, 2, 1);
}

static void shorten(struct thread *t, const struct call *c,
		    const uint64_t *args, uint64_t len)
{
	if (c->length < 0)
		return;
	if (c->vector)
		shorten_vector(t, args[1], len);
	else if (args[c->length] > len)
		set_arg(t->tid, c->length, len);
}

static uint64_t length_of(pid_t tid, const struct call *c, const uint64_t *args)
{
	struct iovec v[64];
	uint64_t sum = 0;
	size_t n;

	if (c->length < 0)
		return 0;
	if (!c->vector)
		return args[c->length];
	n = args[2] < 64 ? args[2] : 64;
	if (!copy_memory(tid, args[1], v, n * sizeof(v[0]), false))
		return 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i].iov_len;
	return sum;
}

static void obey(struct thread *t, const struct call *c, const uint64_t *args)
{
	char word[16];
	long number = hear(word);
	bool watch = strcmp(word, "watch") == 0;

	if (strcmp(word, "killall") == 0)
		kill_all();
	else if (strcmp(word, "kill") == 0)
		kill(t->tid, SIGKILL);
	else if (strcmp(word, "rest") == 0)
		state.resting = true;
	else if (strcmp(word, "return") == 0)
		skip_call(t->tid, number);
	else if (strcmp(word, "short") == 0)
		shorten(t, c, args, (uint64_t)number);
	resume(t->tid, watch || t->iov, 0);
}

/* --- stops -------------------------------------------------------------------- */

static const struct call *call_of(uint64_t nr)
{
	for (size_t i = 0; i < CALLS; i++)
		if (calls[i].nr == nr)
			return &calls[i];
	return NULL;
}

static void on_call(struct thread *t)
{
	static char path[2 * PATH_MAX], shown[2][LINE / 4];
	struct __ptrace_syscall_info info;
	const struct call *c = NULL;
	bool touches = false;
	uint64_t args[6];

	if (!state.resting &&
	    ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, sizeof(info), &info) > 0)
		c = call_of(info.seccomp.nr);
	if (!c) {
		resume(t->tid, false, 0);
		return;
	}
	for (size_t i = 0; i < 6; i++)
		args[i] = info.seccomp.args[i];
	for (size_t i = 0; i < 2; i++) {
		shown[i][0] = '\0';
		if (c->files[i].how != BY_NOTHING &&
		    path_of(t->tid, c->files[i], args, path, sizeof(path)))
			touches |= beneath(path, shown[i], sizeof(shown[i]));
	}
	if (!touches) {
		resume(t->tid, false, 0);
		return;
	}
	say("call %d %s %llu %s %s\n", t->tid, c->name,
	    (unsigned long long)length_of(t->tid, c, args), shown[0], shown[1]);
	obey(t, c, args);
}

static void on_done(struct thread *t)
{
	struct user_regs_struct regs = { 0 };

	ptrace(PTRACE_GETREGS, t->tid, NULL, &regs);
	if (t->iov) {
		copy_memory(t->tid, t->iov, &t->iov_len, sizeof(t->iov_len),
			    true);
		t->iov = 0;
		resume(t->tid, false, 0);
		return;
	}
	say("done %d %lld\n", t->tid, (long long)regs.rax);
	obey(t, NULL, NULL);
}

static void on_stop(struct thread *t, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	if (event == PTRACE_EVENT_SECCOMP)
		on_call(t);
	else if (sig == (SIGTRAP | 0x80))
		on_done(t);
	else if (event == PTRACE_EVENT_STOP && sig != SIGTRAP)
		ptrace(PTRACE_LISTEN, t->tid, NULL, 0L);
	else
		resume(t->tid, false, event ? 0 : sig);
}

static int follow(void)
{
	struct thread *t;
	int status;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		t = thread_of(tid);
		if (WIFSTOPPED(status)) {
			on_stop(t, status);
			continue;
		}
		t->tid = 0;
		if (tid == state.first)
			state.status = WIFEXITED(status)
					       ? WEXITSTATUS(status)
					       : 128 + WTERMSIG(status);
	}
	return state.status;
}

/* --- starting the command ----------------------------------------------------- */

static void install_filter(void)
{
	struct sock_filter code[2 * CALLS + 5];
	struct sock_fprog program = { .filter = code };
	size_t n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						 AUDIT_ARCH_X86_64, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						 SECCOMP_RET_ALLOW);
	code[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < CALLS; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].nr, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							 SECCOMP_RET_TRACE);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						 SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
		return;
	/* Only root may do without this, which disables setuid helpers. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("seccomp");
}

static void run_command(int gate, char **argv)
{
	char ready;

	if (read(gate, &ready, 1) != 1)
		_exit(125);
	close(gate);
	install_filter();
	execvp(argv[0], argv);
	die(argv[0]);
}

static void start(char **argv)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
			     PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			     PTRACE_O_TRACEEXEC | PTRACE_O_TRACESECCOMP |
			     PTRACE_O_EXITKILL;
	int gate[2];

	if (pipe2(gate, O_CLOEXEC))
		die("pipe");
	state.first = fork();
	if (state.first < 0)
		die("fork");
	if (state.first == 0) {
		close(state.events);
		close(state.replies);
		run_command(gate[0], argv);
	}
	if (ptrace(PTRACE_SEIZE, state.first, NULL, options))
		die("ptrace");
	if (write(gate[1], "", 1) != 1)
		die("pipe");
	close(gate[0]);
	close(gate[1]);
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fputs("usage: inject EVENTS REPLIES DIRECTORY COMMAND...\n",
		      stderr);
		return 125;
	}
	state.events = atoi(argv[1]);
	state.replies = atoi(argv[2]);
	if (!realpath(argv[3], state.dir))
		die(argv[3]);
	state.dir_len = strlen(state.dir);
	start(argv + 4);
	return follow();
}
