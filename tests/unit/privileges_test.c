/* SPDX-License-Identifier: MIT */
/*
 * privileges: each role runs in a process of its own. System calls and capabilities that
 * the role has dropped fail there, and cannot be acquired again.
 */
#include "base/system/privileges.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SANITIZED (TAP_ADDRESSES || TAP_THREADS)

static void is_int(int got, int want, const char *who, const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: %s", who, what);
	if (!tap_result(got == want, __FILE__, __LINE__, text))
		printf("# got %d, want %d\n", got, want);
}

/* Calls of an attacker who controls the process. Their arguments are harmless if the call
 * is permitted. */
static const struct call {
	const char *name;
	long number;
	long args[3];
	bool unlike; /* fails otherwise in a process of root without the filter */
} calls[] = {
	{ "execve", SYS_execve, { 0 }, true },
	{ "execveat", SYS_execveat, { -1 }, true },
	{ "ptrace", SYS_ptrace, { PTRACE_TRACEME }, true },
	{ "process_vm_readv", SYS_process_vm_readv, { 1, 0, 0 }, true },
	{ "process_vm_writev", SYS_process_vm_writev, { 1, 0, 0 }, true },
	{ "socket, local", SYS_socket, { AF_UNIX, SOCK_DGRAM }, true },
	{ "socket, network", SYS_socket, { AF_INET, SOCK_DGRAM }, true },
	{ "socket, netlink", SYS_socket, { AF_NETLINK, SOCK_RAW }, true },
	{ "mount", SYS_mount, { 0 }, false },
	{ "umount2", SYS_umount2, { 0 }, false },
	{ "mount_setattr", SYS_mount_setattr, { -1 }, false },
	{ "move_mount", SYS_move_mount, { -1 }, false },
	{ "fsopen", SYS_fsopen, { 0 }, false },
	{ "fsconfig", SYS_fsconfig, { -1 }, false },
	{ "fsmount", SYS_fsmount, { -1 }, false },
	{ "fspick", SYS_fspick, { -1 }, false },
	{ "open_tree", SYS_open_tree, { -1 }, false },
	{ "pivot_root", SYS_pivot_root, { 0 }, false },
	{ "chroot", SYS_chroot, { 0 }, true },
	{ "setns", SYS_setns, { -1 }, true },
	{ "unshare", SYS_unshare, { 0 }, true },
	/* CLONE_SIGHAND without CLONE_VM is invalid: no process is created. */
	{ "clone", SYS_clone, { CLONE_NEWUSER | CLONE_SIGHAND }, true },
	{ "clone, several",
	  SYS_clone,
	  { CLONE_NEWNS | CLONE_NEWPID | CLONE_SIGHAND },
	  true },
	{ "open_by_handle_at", SYS_open_by_handle_at, { -1 }, false },
	{ "io_uring_setup", SYS_io_uring_setup, { 0 }, false },
	{ "bpf", SYS_bpf, { -1 }, false },
	{ "perf_event_open", SYS_perf_event_open, { 0 }, false },
	{ "keyctl", SYS_keyctl, { -1 }, false },
};

/* Runs `what` in a process that has taken a role, and returns its exit status. */
static int as_role(enum ck_role role, enum ck_sockets sockets,
		   int (*what)(const void *arg), const void *arg)
{
	pid_t child = fork();
	struct ck_diag d = { 0 };
	int status = 0;

	if (child == 0) {
		if (ck_privileges_drop(role, sockets, &d))
			_exit(100);
		_exit(what(arg));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The errno of a call, or 0. */
static int do_call(const void *arg)
{
	const struct call *c = arg;

	return syscall(c->number, c->args[0], c->args[1], c->args[2], 0L, 0L,
		       0L) < 0
		       ? errno
		       : 0;
}

static int call_freely(const struct call *c)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0)
		_exit(do_call(c));
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_calls(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(calls); i++) {
		const struct call *c = &calls[i];

		is_int(as_role(CK_ROLE_READER, CK_SOCKETS_NONE, do_call, c),
		       EPERM, "a reader", c->name);
		is_int(as_role(CK_ROLE_WRITER, CK_SOCKETS_NONE, do_call, c),
		       EPERM, "a writer", c->name);
		if (c->unlike)
			is_int(call_freely(c) == EPERM, 0, "canary", c->name);
	}
}

static void *do_nothing(void *arg)
{
	return arg;
}

/* Threads can be created. clone3(2) fails with ENOSYS: a filter cannot read its flags. */
static int make_thread(const void *arg)
{
	pthread_t thread;

	(void)arg;
	if (pthread_create(&thread, NULL, do_nothing, NULL))
		return 1;
	pthread_join(thread, NULL);
	return syscall(SYS_clone3, NULL, 0L) == -1 ? errno : 0;
}

static void test_threads(void)
{
	is_int(as_role(CK_ROLE_READER, CK_SOCKETS_NONE, make_thread, NULL),
	       ENOSYS, "a reader", "threads, and no clone3");
}

static const struct call *find_call(const char *name)
{
	const struct call *c = calls;

	while (strcmp(c->name, name) != 0)
		c++;
	return c;
}

/* syslog(3) may have to reconnect, so local sockets remain permitted. */
static void test_syslog(void)
{
	is_int(as_role(CK_ROLE_READER, CK_SOCKETS_UNIX, do_call,
		       find_call("socket, local")),
	       0, "syslog", "a local socket");
	is_int(as_role(CK_ROLE_READER, CK_SOCKETS_UNIX, do_call,
		       find_call("socket, network")),
	       EPERM, "syslog", "no other");
	is_int(as_role(CK_ROLE_READER, CK_SOCKETS_UNIX, do_call,
		       find_call("socket, netlink")),
	       EPERM, "syslog", "no netlink socket");
}

/* A process that communicates with other hosts may open sockets later, but must not start
 * a program. */
static void test_hosts(void)
{
	is_int(as_role(CK_ROLE_READER, CK_SOCKETS_ALL, do_call,
		       find_call("socket, network")),
	       0, "hosts", "a socket");
	is_int(as_role(CK_ROLE_READER, CK_SOCKETS_ALL, do_call,
		       find_call("execve")),
	       EPERM, "hosts", "no program");
}

static int count_kept(const void *arg)
{
	cap_t have = cap_get_proc();
	cap_flag_value_t on, inherited;
	int n = 0;

	(void)arg;
	for (cap_value_t cap = 0; CAP_IS_SUPPORTED(cap); cap++) {
		cap_get_flag(have, cap, CAP_PERMITTED, &on);
		cap_get_flag(have, cap, CAP_INHERITABLE, &inherited);
		if (inherited == CAP_SET)
			return 99;
		n += on == CAP_SET;
	}
	cap_free(have);
	return n;
}

static int has_cap(const void *arg)
{
	const cap_value_t *cap = arg;
	cap_t have = cap_get_proc();
	cap_flag_value_t on = CAP_CLEAR;

	cap_get_flag(have, *cap, CAP_EFFECTIVE, &on);
	cap_free(have);
	return on == CAP_SET;
}

static int is_bound(const void *arg)
{
	(void)arg;
	return cap_get_bound(CAP_SYS_ADMIN);
}

static int no_new_privs(const void *arg)
{
	(void)arg;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

static int raise_again(const void *arg)
{
	cap_t want = cap_init();
	cap_value_t cap = CAP_SYS_PTRACE;
	int rc;

	(void)arg;
	cap_set_flag(want, CAP_PERMITTED, 1, &cap, CAP_SET);
	rc = cap_set_proc(want) ? errno : 0;
	cap_free(want);
	return rc;
}

/* Runs as root with all capabilities that the test needs. */
static void test_capabilities(void)
{
	static const cap_value_t override = CAP_DAC_OVERRIDE,
				 admin = CAP_SYS_ADMIN;

	is_int(as_role(CK_ROLE_READER, CK_SOCKETS_NONE, count_kept, NULL), 1,
	       "a reader", "keeps one");
	is_int(as_role(CK_ROLE_READER, CK_SOCKETS_NONE, has_cap, &override), 0,
	       "a reader", "may not write files of others");
	is_int(as_role(CK_ROLE_WRITER, CK_SOCKETS_NONE, count_kept, NULL), 5,
	       "a writer", "keeps five");
	is_int(as_role(CK_ROLE_WRITER, CK_SOCKETS_NONE, has_cap, &override), 1,
	       "a writer", "may write files of others");
	is_int(as_role(CK_ROLE_WRITER, CK_SOCKETS_NONE, has_cap, &admin), 0,
	       "a writer", "may not mount");
	is_int(as_role(CK_ROLE_CREATOR, CK_SOCKETS_NONE, count_kept, NULL), 5,
	       "the creator", "keeps five");
	is_int(as_role(CK_ROLE_CREATOR, CK_SOCKETS_NONE, has_cap, &admin), 0,
	       "the creator", "may not mount");
	is_int(as_role(CK_ROLE_BACKING, CK_SOCKETS_NONE, count_kept, NULL), 1,
	       "the process for passthrough", "keeps one");
	is_int(as_role(CK_ROLE_BACKING, CK_SOCKETS_NONE, has_cap, &override), 0,
	       "the process for passthrough", "may not write files of others");
	is_int(as_role(CK_ROLE_DETACHER, CK_SOCKETS_NONE, has_cap, &admin), 1,
	       "the detacher", "may unmount");
	is_int(as_role(CK_ROLE_WRITER, CK_SOCKETS_NONE, is_bound, NULL), 0,
	       "a writer", "nor can execve give it");
	is_int(as_role(CK_ROLE_WRITER, CK_SOCKETS_NONE, raise_again, NULL),
	       EPERM, "a writer", "cannot raise a dropped capability");
}

/* --- threads with an init hook ------------------------------------------------- */

static int fail_first(void *ran)
{
	*(bool *)ran = true;
	return -EACCES;
}

static void *count_runs(void *runs)
{
	++*(int *)runs;
	return NULL;
}

static void test_first_fails(void)
{
	bool ran = false;
	int runs = 0;
	const struct ck_thread_init first = { fail_first, &ran }, empty = { 0 };
	pthread_t thread;

	is_int(ck_thread_start_init(&thread, &first, count_runs, &runs),
	       -EACCES, "the hook fails", "so does the start");
	is_int(ran && runs == 0, 1, "the hook fails", "nothing else runs");
	is_int(ck_thread_start_init(&thread, &empty, count_runs, &runs), 0,
	       "no hook", "a thread");
	pthread_join(thread, NULL);
	is_int(runs, 1, "no hook", "the thread has run");
}

struct dropper {
	pthread_t thread; /* that dropped its privileges */
	bool ran;
	int kept; /* capabilities after the drop */
};

static int drop_first(void *arg)
{
	struct dropper *d = arg;
	struct ck_diag diag = { 0 };

	d->thread = pthread_self();
	d->ran = true;
	return ck_privileges_drop(CK_ROLE_READER, CK_SOCKETS_NONE, &diag);
}

static void *count_in_thread(void *arg)
{
	struct dropper *d = arg;

	if (pthread_equal(d->thread, pthread_self()))
		d->kept = count_kept(NULL);
	return NULL;
}

/* Runs in a process of its own. Its first thread keeps its capabilities. */
static int start_dropper(void)
{
	struct dropper d = { 0 };
	const struct ck_thread_init first = { drop_first, &d };
	int before = count_kept(NULL);
	pthread_t thread;

	if (ck_thread_start_init(&thread, &first, count_in_thread, &d))
		return 1;
	if (!d.ran)
		return 2;
	pthread_join(thread, NULL);
	if (d.kept != 1)
		return 3;
	return count_kept(NULL) == before && before > 1 && !no_new_privs(NULL)
		       ? 0
		       : 4;
}

static void test_first_drops(void)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(start_dropper());
	waitpid(child, &status, 0);
	is_int(status, 0, "a hook that drops privileges",
	       "only its thread has dropped them");
}

int main(void)
{
	test_first_fails();
	is_int(as_role(CK_ROLE_READER, CK_SOCKETS_NONE, no_new_privs, NULL), 1,
	       "a reader", "no_new_privs");
	/* A sanitizer needs calls, and only root has capabilities. */
	if (!SANITIZED) {
		test_calls();
		test_threads();
		test_syslog();
		test_hosts();
	}
	if (geteuid() == 0) {
		test_capabilities();
		test_first_drops();
	}
	return tap_done();
}
