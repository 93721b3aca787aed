/* SPDX-License-Identifier: MIT */
/*
 * privileges: a daemon of root reads untrusted files for days. It keeps the
 * capability to read and, with a writable mount, to write and to change owners.
 * It has mounted before, and another process unmounts (see detacher.c). So an
 * attacker who controls the daemon cannot start a program, inspect another
 * process, open a socket or mount. Capabilities and filter belong to the
 * calling thread and are inherited by the threads that it starts.
 */
#include "privileges.h"
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#ifdef CK_CALL_FILTER
#include <seccomp.h>
#endif

/* --- capabilities ------------------------------------------------------------- */

enum { KEPT = 5 };

static const struct {
	int n;
	cap_value_t kept[KEPT];
} roles[] = {
	[CK_ROLE_READER] = { 1, { CAP_DAC_READ_SEARCH } },
	[CK_ROLE_WRITER] = { 5,
			     { CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE, CAP_CHOWN,
			       CAP_FOWNER, CAP_FSETID } },
	/* Rights with regard to files are those of root, until it acts as another user. */
	[CK_ROLE_CREATOR] = { 5,
			      { CAP_SETUID, CAP_SETGID, CAP_DAC_OVERRIDE,
				CAP_FSETID, CAP_MKNOD } },
	/* The directories above the mount point may be private to a user. */
	[CK_ROLE_DETACHER] = { 2, { CAP_SYS_ADMIN, CAP_DAC_READ_SEARCH } },
	[CK_ROLE_BACKING] = { 1, { CAP_SYS_ADMIN } },
};

static bool is_kept(enum ck_role role, cap_value_t cap)
{
	for (int i = 0; i < roles[role].n; i++)
		if (roles[role].kept[i] == cap)
			return true;
	return false;
}

/* Reduces the bounding set, which limits gains by execve(2). Without
 * CAP_SETPCAP the set cannot be reduced, which is harmless: PR_SET_NO_NEW_PRIVS
 * already prevents gains by execve(2). */
static void drop_bounds(enum ck_role role)
{
	for (cap_value_t cap = 0; CAP_IS_SUPPORTED(cap); cap++)
		if (!is_kept(role, cap))
			(void)cap_drop_bound(cap);
	(void)cap_reset_ambient();
}

/* Keeps the capabilities of the role that the process has; the inheritable set
 * becomes empty. */
static int drop_sets(enum ck_role role)
{
	cap_t have = cap_get_proc(), want = cap_init();
	cap_flag_value_t has;
	int rc = have && want ? 0 : -ENOMEM;

	for (int i = 0; rc == 0 && i < roles[role].n; i++) {
		const cap_value_t *cap = &roles[role].kept[i];

		if (cap_get_flag(have, *cap, CAP_PERMITTED, &has) ||
		    has != CAP_SET)
			continue;
		cap_set_flag(want, CAP_PERMITTED, 1, cap, CAP_SET);
		cap_set_flag(want, CAP_EFFECTIVE, 1, cap, CAP_SET);
	}
	if (rc == 0 && cap_set_proc(want))
		rc = -errno;
	cap_free(have);
	cap_free(want);
	return rc;
}

/* --- system calls ------------------------------------------------------------- */

#ifdef CK_CALL_FILTER

static const int refused[] = {
	/* programs and processes */
	SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
	SCMP_SYS(process_madvise), SCMP_SYS(pidfd_getfd), SCMP_SYS(kcmp),
	/* mounts, root directories and namespaces */
	SCMP_SYS(mount), SCMP_SYS(umount), SCMP_SYS(mount_setattr),
	SCMP_SYS(move_mount), SCMP_SYS(fsopen), SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount), SCMP_SYS(fspick), SCMP_SYS(open_tree),
	SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns),
	SCMP_SYS(unshare), SCMP_SYS(open_by_handle_at),
	/* large kernel interfaces behind one call; io_uring can open sockets */
	SCMP_SYS(io_uring_setup), SCMP_SYS(bpf), SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd), SCMP_SYS(keyctl), SCMP_SYS(add_key),
	SCMP_SYS(request_key), SCMP_SYS(init_module), SCMP_SYS(finit_module),
	SCMP_SYS(delete_module), SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load)
};

/* Makes a call fail with EPERM. libseccomp's -EDOM, for a call that this
 * machine does not have, is not an error. */
static int refuse(scmp_filter_ctx filter, int call)
{
	int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);

	return rc == -EDOM ? 0 : rc;
}

static int refuse_sockets(scmp_filter_ctx filter, enum ck_sockets but)
{
	if (but == CK_SOCKETS_ALL)
		return 0;
	if (but == CK_SOCKETS_NONE)
		return refuse(filter, SCMP_SYS(socket));
	return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket),
				1, SCMP_A0(SCMP_CMP_NE, AF_UNIX, 0));
}

/* clone(2) creates threads as well as processes in new namespaces; the flags
 * differ. A filter cannot read the flags of clone3(2), which lie in memory:
 * with ENOSYS the C library falls back to clone(2). */
static int refuse_namespaces(scmp_filter_ctx filter)
{
	static const uint64_t flags[] = { CLONE_NEWNS,	 CLONE_NEWCGROUP,
					  CLONE_NEWUTS,	 CLONE_NEWIPC,
					  CLONE_NEWUSER, CLONE_NEWPID,
					  CLONE_NEWNET };
	int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS),
				  SCMP_SYS(clone3), 0);

	for (size_t i = 0; rc == 0 && i < CK_ARRAY_SIZE(flags); i++)
		rc = seccomp_rule_add(
			filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
			SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
	return rc;
}

static int fill(scmp_filter_ctx filter, enum ck_role role,
		enum ck_sockets sockets)
{
	int rc = refuse_sockets(filter, sockets);

	if (rc == 0)
		rc = refuse_namespaces(filter);
	for (size_t i = 0; rc == 0 && i < CK_ARRAY_SIZE(refused); i++)
		rc = refuse(filter, refused[i]);
	if (rc == 0 && role != CK_ROLE_DETACHER)
		rc = refuse(filter, SCMP_SYS(umount2));
	return rc;
}

/* System calls with the numbers of another architecture kill the process. */
static void filter_calls(enum ck_role role, enum ck_sockets sockets)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int rc = filter ? fill(filter, role, sockets) : -ENOMEM;

	if (rc == 0)
		rc = seccomp_load(filter);
	if (filter)
		seccomp_release(filter);
	if (rc)
		ck_log("cannot install the seccomp filter: %s", strerror(-rc));
}

#else

static void filter_calls(enum ck_role role, enum ck_sockets sockets)
{
	(void)role, (void)sockets;
}

#endif

int ck_privileges_drop(enum ck_role role, enum ck_sockets sockets,
		       struct ck_diag *d)
{
	int rc;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return ck_fail(d, errno, "no_new_privs: %s", strerror(errno));
	drop_bounds(role);
	rc = drop_sets(role);
	if (rc)
		return ck_fail(d, -rc, "capabilities: %s", strerror(-rc));
	filter_calls(role, sockets);
	return 0;
}

/* --- threads that are started before the drop ------------------------------------ */

/* Lies on the stack of the starting thread; valid until `done` is posted. */
struct beginning {
	const struct ck_thread_init *first;
	void *(*run)(void *arg);
	void *arg;
	sem_t done;
	int rc; /* result of the hook; valid when `done` is posted */
};

static void *begin(void *arg)
{
	struct beginning *b = arg;
	void *(*run)(void *) = b->run;
	void *its = b->arg;
	int rc = b->rc = b->first->run(b->first->arg);

	(void)sem_post(&b->done);
	return rc ? NULL : run(its);
}

int ck_thread_start_init(pthread_t *out, const struct ck_thread_init *first,
			 void *(*run)(void *arg), void *arg)
{
	struct beginning b = { .first = first, .run = run, .arg = arg };
	int rc;

	if (!first->run)
		return ck_thread_start(out, run, arg);
	if (sem_init(&b.done, 0, 0))
		return -errno;
	rc = ck_thread_start(out, begin, &b);
	if (rc == 0) {
		while (sem_wait(&b.done))
			; /* EINTR */
		rc = b.rc;
		if (rc)
			pthread_join(*out, NULL);
	}
	sem_destroy(&b.done);
	return rc;
}
