/* SPDX-License-Identifier: MIT */
/*
 * umount: unmounts mounts of type fuse.ckptfs and no others, so that a wrong path cannot
 * unmount a disk. A mount whose daemon is dead is detached at once. Before a mount with a
 * live daemon is unmounted, its status is read: uncommitted tensors prevent unmounting.
 * Calls that a hung mount can block are made in child processes. One thread.
 */
#include "ckptfs/fs.h"
#include "commands.h"
#include "mount_report.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* Retries while the mount is busy: another command may be examining it. */
enum { BUSY_TRIES = 5, BUSY_USEC = 100000 };

/* Attempts to see the end of the daemon, which closes files and frees memory: 3 s, or 10 s
 * if the mount is in no mount namespace. */
enum { END_TRIES = 300, LONG_END_TRIES = 1000, END_USEC = 10000 };

enum { UNMOUNT_MSEC = 30000, FUSECTL_MAGIC = 0x65735543 };

struct ending {
	const char *name; /* the operand, escaped for messages */
	struct ck_mount mount;
	struct ck_mount_record daemon;
	bool lazy;
	struct ck_buf dropped; /* scratch files: "2 scratch files: a, b" */
};

/* --- state of the daemon --------------------------------------------------- */

enum state {
	ANSWERS,
	NOT_ASKED, /* the mount does not admit the caller, or another error */
	SILENT,	   /* no answer within 2 s, and the daemon is not known dead */
	DEAD,
};

/* The mount's answer decides. The record of the daemon counts only if the mount does not
 * answer or does not admit the caller. */
static enum state look(struct ending *e)
{
	int rc = ck_mount_ping(&e->mount, CK_PROBE_MSEC);

	ck_mount_record_read(&e->mount, &e->daemon);
	if (rc == 0)
		return ANSWERS;
	if (rc == -ENOTCONN || rc == -ECONNABORTED)
		return DEAD;
	if ((rc == -ETIMEDOUT || rc == -EACCES) &&
	    ck_mount_record_life(&e->daemon) == CK_LIFE_DEAD)
		return DEAD;
	return rc == -ETIMEDOUT ? SILENT : NOT_ASKED;
}

/* --- unmounting ----------------------------------------------------------- */

struct fusermount {
	const char *point;
	bool lazy;
};

/* Runs fusermount3, the only program that can unmount for an ordinary user. The answer is
 * its stderr and one more byte: `y` if it succeeded, else `n`. Returns 0, or an errno of
 * pipe2(2), fork(2) or waitpid(2). */
static int fusermount_work(void *arg, struct ck_buf *answer)
{
	const struct fusermount *f = arg;
	char bytes[512];
	int ends[2], status = 0;
	pid_t child;
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		setenv("LC_ALL", "C", 1);
		execlp("fusermount3", "fusermount3", f->lazy ? "-uz" : "-u",
		       "--", f->point, NULL);
		dprintf(STDERR_FILENO, "fusermount3: %s%s", strerror(errno),
			errno == ENOENT ? "; install the package fuse3" : "");
		_exit(CK_EXIT_TROUBLE);
	}
	close(ends[1]);
	while (child > 0 && (n = read(ends[0], bytes, sizeof(bytes))) > 0)
		ck_buf_add(answer, bytes, (size_t)n);
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return -errno;
	ck_buf_printf(answer, "%c", status == 0 ? 'y' : 'n');
	return answer->err;
}

/* why: receives the error message, one line. Returns 0, or: -EBUSY if the mount is in use;
 * -EIO for other errors. */
static int user_unmount(const char *point, bool lazy, struct ck_buf *why)
{
	struct fusermount f = { .point = point, .lazy = lazy };
	int rc = ck_probe(fusermount_work, &f, UNMOUNT_MSEC, NULL, why);

	if (rc || why->len == 0) {
		ck_buf_printf(why, "fusermount3: %s", strerror(-rc));
		return -EIO;
	}
	if (why->data[--why->len] == 'y')
		return 0;
	while (why->len && strchr("\n ", why->data[why->len - 1]))
		why->len--;
	why->data[why->len] = '\0';
	return strstr(why->data, "busy") ? -EBUSY : -EIO;
}

struct ending_order {
	const struct ck_mount *mount;
	int flags; /* of umount2(2) */
};

static int root_work(void *arg, struct ck_buf *answer)
{
	const struct ending_order *o = arg;

	(void)answer;
	return ck_mount_end(o->mount, o->flags);
}

/* Like user_unmount(), by umount2(2) in a child process: a directory above the mount may be
 * in a file system that does not answer. */
static int root_unmount(const struct ck_mount *m, int flags, struct ck_buf *why)
{
	struct ending_order o = { .mount = m, .flags = flags };
	int rc = ck_probe(root_work, &o, UNMOUNT_MSEC, NULL, why);

	if (rc == 0)
		return 0;
	ck_buf_text(why, ck_why_silent(rc));
	return rc == -EBUSY ? -EBUSY : -EIO;
}

/* fusermount3 finds no entry of its table for a mount of another user. */
static int fail_others(const struct ending *e)
{
	ck_trouble("%s: cannot unmount: mounted by user %u; only that user and "
		   "root can unmount it",
		   e->name, e->mount.user);
	return -EIO;
}

static int unmount(const struct ending *e, bool lazy, int flags)
{
	struct ck_buf why = { 0 };
	int rc = 0, tries = BUSY_TRIES;

	if (geteuid() != 0 && e->mount.user != geteuid())
		return fail_others(e);
	do {
		why.len = 0;
		if (rc)
			usleep(BUSY_USEC);
		if (geteuid() != 0)
			rc = user_unmount(e->mount.point, lazy, &why);
		else
			rc = root_unmount(&e->mount,
					  flags | (lazy ? MNT_DETACH : 0),
					  &why);
	} while (rc == -EBUSY && --tries > 0);
	if (rc == -EIO)
		ck_trouble("%s: cannot unmount: %s", e->name,
			   ck_show((struct ck_str){ why.data, why.len }));
	ck_buf_fini(&why);
	return rc;
}

static int say_busy(const struct ending *e)
{
	struct ck_buf who = { 0 };
	struct ck_mounts all;
	int rc = ck_mounts_read(&all);

	if (rc == 0) {
		ck_busy_procs_print(&all, &e->mount, &who);
		ck_mounts_fini(&all);
	}
	rc = ck_trouble("%s: busy%s", e->name,
			who.len && !who.err ? who.data : "");
	ck_buf_fini(&who);
	return rc;
}

/* --- mounts with a dead daemon ---------------------------------------------- */

#define CONNECTIONS "/sys/fs/fuse/connections"

static bool has_connections(void)
{
	struct statfs st;

	return statfs(CONNECTIONS, &st) == 0 && st.f_type == FUSECTL_MAGIC;
}

/* True if the kernel has no FUSE connection of the mount: no namespace has it mounted. */
static bool is_unreachable(const struct ck_mount *m)
{
	char name[64];

	snprintf(name, sizeof(name), CONNECTIONS "/%u", m->minor);
	return has_connections() && access(name, F_OK) && errno == ENOENT;
}

/* Aborts the FUSE connection, after it has verified that fusectl is mounted at that path.
 * The open root keeps the mount, so its device number cannot be reused meanwhile. */
static int abort_work(void *arg, struct ck_buf *answer)
{
	const struct ck_mount *m = arg;
	ck_auto_fd int root = ck_mount_enter(m);
	ck_auto_fd int fd = -1;
	char name[64];

	if (root < 0 || !has_connections())
		return root < 0 ? root : -ENOENT;
	snprintf(name, sizeof(name), CONNECTIONS "/%u/abort", m->minor);
	fd = open(name, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1", 1) != 1)
		return -errno;
	return answer->err;
}

/* Fails all requests that wait for the dead daemon. */
static void abort_connection(const struct ck_mount *m)
{
	struct ck_mount copy = *m;
	struct ck_buf none = { 0 };

	(void)!ck_probe(abort_work, &copy, CK_PROBE_MSEC, NULL, &none);
	ck_buf_fini(&none);
}

static int detach_dead(const struct ending *e)
{
	struct ck_mounts all;
	int rc;

	abort_connection(&e->mount);
	rc = unmount(e, true, MNT_FORCE);
	if (rc == 0 && ck_mounts_read(&all) == 0) {
		ck_mount_records_clean(&all);
		ck_mounts_fini(&all);
	}
	return rc ? CK_EXIT_TROUBLE : CK_EXIT_FINE;
}

/* --- mounts with a live daemon ---------------------------------------------- */

static void keep_dropped(struct ending *e, const struct ck_buf *status)
{
	struct ck_buf n = { 0 }, names = { 0 };

	if (ck_status_field(status, "scratch files", &n) &&
	    strcmp(n.data, "0") != 0) {
		bool one = strcmp(n.data, "1") == 0;

		ck_buf_printf(&e->dropped, "%s scratch file%s", n.data,
			      one ? "" : "s");
		if (ck_status_field(status, "scratch", &names))
			ck_buf_printf(&e->dropped, ": %s", names.data);
	}
	ck_buf_fini(&n);
	ck_buf_fini(&names);
}

/* Refuses to unmount while tensors are staged, since they would be lost. With -l it prints how
 * many are lost. Returns the exit status. */
static int settle_staged(const struct ending *e, const struct ck_buf *status)
{
	struct ck_buf staged = { 0 };
	bool some = ck_status_field(status, "staged tensors", &staged) &&
		    strcmp(staged.data, "0") != 0;
	int rc = CK_EXIT_FINE;

	if (some && !e->lazy)
		rc = ck_trouble("%s: tensors are staged and not committed: "
				"%s; commit or abort first",
				e->name, staged.data);
	else if (some && !ck_mount_elsewhere(&e->mount, true))
		fprintf(stderr,
			"ckptfs: %s: tensors were staged and not committed: %s; they "
			"are dropped\n",
			e->name, staged.data);
	ck_buf_fini(&staged);
	return rc;
}

static int say_silent(const struct ending *e)
{
	return ck_trouble("%s: does not answer; its process %s; ckptfs umount "
			  "-l detaches it",
			  e->name,
			  e->daemon.pid
				  ? ck_shown("%d lives", (int)e->daemon.pid)
				  : "is unknown");
}

static int settle(struct ending *e)
{
	struct ck_buf status = { 0 };
	int rc = ck_report_read(&e->mount, "status", &status);

	if (rc == 0) {
		keep_dropped(e, &status);
		rc = settle_staged(e, &status);
	} else if (rc == -EACCES || e->lazy) {
		rc = CK_EXIT_FINE; /* the mount does not admit the caller */
	} else if (rc == -ETIMEDOUT) {
		rc = say_silent(e);
	} else {
		rc = ck_trouble("%s: cannot read which tensors would be lost: "
				"%s; ckptfs umount -l detaches it",
				e->name, ck_why_silent(rc));
	}
	ck_buf_fini(&status);
	return rc;
}

/* Waits for the end of the daemon: it holds the lock of a checkpoint that is mounted for
 * writing, and the user may mount it again after this command. A daemon whose mount is in
 * no namespace gets more time: it has to end its processes on other hosts. */
static void await_end(const struct ending *e)
{
	bool unreachable = false;

	for (int i = 0; i < END_TRIES || (unreachable && i < LONG_END_TRIES);
	     i++) {
		if (ck_mount_record_life(&e->daemon) != CK_LIFE_LIVES)
			return;
		usleep(END_USEC);
		unreachable = unreachable || is_unreachable(&e->mount);
	}
	fprintf(stderr,
		"ckptfs: %s: unmounted, but its process %d is still running%s\n",
		e->name, (int)e->daemon.pid,
		unreachable ? ""
			    : "; another mount namespace, such as a container, "
			      "may have the mount");
}

/* True if this is a bind mount of a subdirectory and another mount shows the whole tree:
 * unmounting it loses nothing. */
static bool is_spare(const struct ending *e)
{
	return !e->mount.whole && ck_mount_elsewhere(&e->mount, true);
}

static int end_living(struct ending *e)
{
	int rc = is_spare(e) ? CK_EXIT_FINE : settle(e);

	if (rc)
		return rc;
	rc = unmount(e, e->lazy, 0);
	if (rc == -EBUSY)
		return say_busy(e);
	if (rc)
		return CK_EXIT_TROUBLE;
	if (ck_mount_elsewhere(&e->mount, false))
		return CK_EXIT_FINE;
	if (!e->lazy)
		await_end(e);
	if (e->dropped.len && !e->dropped.err)
		fprintf(stderr, "ckptfs: %s: dropped %s\n", e->name,
			e->dropped.data);
	return CK_EXIT_FINE;
}

/* --- the command ---------------------------------------------------------- */

static int end_one(const char *path, bool lazy)
{
	ck_auto_free char *name = strdup(ck_show(ck_str_from(path)));
	struct ending e = { .name = name, .lazy = lazy };
	int rc = name ? ck_mount_find(path, &e.mount)
		      : ck_trouble("out of memory");

	if (rc)
		return rc;
	switch (look(&e)) {
	case DEAD: rc = detach_dead(&e); break;
	case SILENT:
		if (!lazy)
			rc = say_silent(&e);
		else if (unmount(&e, true, 0))
			rc = CK_EXIT_TROUBLE;
		break;
	case ANSWERS:
	case NOT_ASKED: rc = end_living(&e); break;
	}
	ck_buf_fini(&e.dropped);
	ck_mount_fini(&e.mount);
	return rc;
}

int ck_cmd_umount(int argc, char **argv)
{
	static const struct option none[] = { { NULL, 0, NULL, 0 } };
	int letter, rc = CK_EXIT_FINE;
	bool lazy = false;

	while ((letter = ck_getopt(argc, argv, "l", none)) != -1) {
		if (letter != 'l')
			return CK_EXIT_TROUBLE;
		lazy = true;
	}
	if (optind == argc)
		return ck_usage();
	for (int i = optind; i < argc; i++)
		if (end_one(argv[i], lazy))
			rc = CK_EXIT_TROUBLE;
	return rc;
}
