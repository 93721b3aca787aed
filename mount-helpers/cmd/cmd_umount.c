/* SPDX-License-Identifier: MIT */
/*
 * umount: ends mounts of ours, and no other: a wrong path given to this
 * command must not unmount somebody's disk. A mount whose daemon is dead is
 * detached at once; one that lives is asked first what would be lost.
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

/* Another command may look at the mount just now. */
enum { BUSY_TRIES = 5, BUSY_USEC = 100000 };

/* How long the process of a mount that is gone may take to end: it closes files
 * and frees memory. */
enum { END_TRIES = 300, LONG_END_TRIES = 1000, END_USEC = 10000 };

enum { UNMOUNT_MSEC = 30000, FUSECTL_MAGIC = 0x65735543 };

struct ending {
	const char *name; /* as it was given, escaped */
	struct ck_mount mount;
	struct ck_mount_record daemon;
	bool lazy;
	struct ck_buf dropped; /* scratch files: "2 scratch files: a, b" */
};

/* --- whether the daemon lives --------------------------------------------- */

enum state {
	ANSWERS,
	NOT_ASKED, /* only who mounted may ask */
	SILENT,
	DEAD,
};

/* Whether a mount lives is seen from its answer. What the record says of the
 * process counts only if the mount does not answer. */
static enum state look(struct ending *e)
{
	int rc = ck_mount_asked(&e->mount, CK_PROBE_MSEC);

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

/* The only program that may unmount for an ordinary user. What it says is the
 * answer. -ECHILD: it failed. */
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

/* said: receives what went wrong, a line. 0, -EBUSY or -EIO. */
static int user_unmount(const char *point, bool lazy, struct ck_buf *said)
{
	struct fusermount f = { .point = point, .lazy = lazy };
	int rc = ck_probe(fusermount_work, &f, UNMOUNT_MSEC, NULL, said);

	if (rc || said->len == 0) {
		ck_buf_printf(said, "fusermount3: %s", strerror(-rc));
		return -EIO;
	}
	if (said->data[--said->len] == 'y')
		return 0;
	while (said->len && strchr("\n ", said->data[said->len - 1]))
		said->len--;
	said->data[said->len] = '\0';
	return strstr(said->data, "busy") ? -EBUSY : -EIO;
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

/* By a child, since a directory above may be in a mount that does not answer. */
static int root_unmount(const struct ck_mount *m, int flags,
			struct ck_buf *said)
{
	struct ending_order o = { .mount = m, .flags = flags };
	int rc = ck_probe(root_work, &o, UNMOUNT_MSEC, NULL, said);

	if (rc == 0)
		return 0;
	ck_buf_text(said, ck_why_silent(rc));
	return rc == -EBUSY ? -EBUSY : -EIO;
}

static int unmount(const struct ending *e, bool lazy, int flags)
{
	struct ck_buf said = { 0 };
	int rc = 0, tries = BUSY_TRIES;

	do {
		said.len = 0;
		if (rc)
			usleep(BUSY_USEC);
		if (geteuid() != 0)
			rc = user_unmount(e->mount.point, lazy, &said);
		else
			rc = root_unmount(&e->mount,
					  flags | (lazy ? MNT_DETACH : 0),
					  &said);
	} while (rc == -EBUSY && --tries > 0);
	if (rc == -EIO)
		ck_trouble("%s: %s", e->name,
			   ck_show((struct ck_str){ said.data, said.len }));
	ck_buf_fini(&said);
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

/* --- of a daemon that is dead --------------------------------------------- */

#define CONNECTIONS "/sys/fs/fuse/connections"

static bool has_connections(void)
{
	struct statfs st;

	return statfs(CONNECTIONS, &st) == 0 && st.f_type == FUSECTL_MAGIC;
}

/* The kernel knows that nothing of it is mounted any more. */
static bool is_nowhere(const struct ck_mount *m)
{
	char name[64];

	snprintf(name, sizeof(name), CONNECTIONS "/%u", m->minor);
	return has_connections() && access(name, F_OK) && errno == ENOENT;
}

/* Aborts the connection by the kernel's own file system, and nowhere else:
 * another may be mounted at that path. The device number is this mount's as
 * long as its root is open here. */
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

/* Requests that nobody will answer end with an error. */
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

/* --- of a daemon that lives ----------------------------------------------- */

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

/* Refuses to unmount while tensors are staged: they would be lost. With -l they are, and a
 * line names how many. */
static int settle_staged(const struct ending *e, const struct ck_buf *status)
{
	struct ck_buf staged = { 0 };
	bool some = ck_status_field(status, "staged tensors", &staged) &&
		    strcmp(staged.data, "0") != 0;
	int rc = CK_EXIT_FINE;

	if (some && !e->lazy)
		rc = ck_trouble("%s: tensors are staged and not committed: "
				"%s; first commit, or abort",
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
	return ck_trouble("%s: does not answer; its process%s lives; ckptfs "
			  "umount -l detaches it",
			  e->name,
			  e->daemon.pid ? ck_shown(" %d", (int)e->daemon.pid)
					: " may be dead or");
}

static int settle(struct ending *e)
{
	struct ck_buf status = { 0 };
	int rc = ck_report_read(&e->mount, "status", &status);

	if (rc == 0) {
		keep_dropped(e, &status);
		rc = settle_staged(e, &status);
	} else if (rc == -EACCES || e->lazy) {
		rc = CK_EXIT_FINE; /* only who mounted may ask */
	} else if (rc == -ETIMEDOUT) {
		rc = say_silent(e);
	} else {
		rc = ck_trouble("%s: cannot be asked what would be lost: %s",
				e->name, ck_why_silent(rc));
	}
	ck_buf_fini(&status);
	return rc;
}

/* Waits for the end of the process: it holds the lock of a checkpoint that is
 * mounted for writing, and the user may mount it again right after this
 * command. One that is nowhere any more ends soon, but has to end what it started
 * on other hosts. */
static void await_end(const struct ending *e)
{
	bool nowhere = false;

	for (int i = 0; i < END_TRIES || (nowhere && i < LONG_END_TRIES); i++) {
		if (ck_mount_record_life(&e->daemon) != CK_LIFE_LIVES)
			return;
		usleep(END_USEC);
		nowhere = nowhere || is_nowhere(&e->mount);
	}
	fprintf(stderr, "ckptfs: %s: unmounted, but its process %d goes on%s\n",
		e->name, (int)e->daemon.pid,
		nowhere ? ""
			: "; another mount namespace, such as a container, "
			  "may have the mount");
}

/* Whether this shows a part of a mount that is also mounted elsewhere: then
 * unmounting it ends nothing, and nothing needs to be settled. */
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
