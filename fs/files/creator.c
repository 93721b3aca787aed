/* SPDX-License-Identifier: MIT */
/*
 * creator: see creator.h. A request is one message on a socket, with the descriptor of the
 * directory; so is the reply, with the descriptor of a new file.
 *
 * Identity: the process has the user, group and groups of the last sender for which it made
 * a file, in terms of setfsuid(2), so that the kernel drops the rights of root with regard
 * to files, and gives them back with user 0.
 *
 * Lock: ck_creator.lock, held from a request to its reply. It is taken after all others.
 */
#include "creator.h"
#include "../session/apart.h"
#include "area_table.h"
#include "base/system/fd_message.h"
#include "base/system/privileges.h"
#include "ckptfs/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

struct ck_creator {
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_apart apart;
	bool gone; /* it is in the log that the process is gone */
};

struct request {
	enum ck_made what;
	mode_t mode, umask;
	dev_t dev;
	int flags;
	uid_t uid;
	gid_t gid;
	uint32_t ngroups;
	gid_t groups[CK_GROUPS_MOST];
	char name[CK_AREA_NAME_BYTES];
	char target[PATH_MAX];
};

struct reply {
	int rc; /* 0, or a negative errno */
};

/* --- the process ---------------------------------------------------------------------- */

/* setfsuid(2) and setfsgid(2) return the old value also when they fail. */
static bool take_ids(const struct request *r)
{
	setfsgid(r->gid);
	setfsuid(r->uid);
	return setfsgid((gid_t)-1) == (int)r->gid &&
	       setfsuid((uid_t)-1) == (int)r->uid;
}

/* Takes the identity of a sender. Root in a user namespace may not be allowed to set
 * groups; then only root can send. */
static int identity_take(const struct request *r)
{
	if (geteuid() != 0)
		return r->uid == geteuid() && take_ids(r) ? 0 : -EPERM;
	if (setgroups(r->ngroups, r->groups) && r->uid != 0)
		return -EPERM;
	return take_ids(r) ? 0 : -EPERM;
}

static int file_open(int dirfd, const char *name, int flags, mode_t mode)
{
	int fd = openat(dirfd, name, flags | O_CLOEXEC, mode);

	return fd < 0 ? -errno : fd;
}

/* Returns 0, or the descriptor of a file that is opened; or a negative errno. */
static int file_make(int dirfd, const struct request *r)
{
	switch (r->what) {
	case CK_MADE_FILE:
		return file_open(dirfd, r->name,
				 r->flags | O_CREAT | O_EXCL | O_NOFOLLOW |
					 O_NOCTTY,
				 r->mode);
	case CK_MADE_UNNAMED:
		return file_open(dirfd, ".", r->flags | O_TMPFILE, r->mode);
	case CK_MADE_NODE:
		return mknodat(dirfd, r->name, r->mode, r->dev) ? -errno : 0;
	case CK_MADE_DIRECTORY:
		return mkdirat(dirfd, r->name, r->mode) ? -errno : 0;
	case CK_MADE_LINK:
		return symlinkat(r->target, dirfd, r->name) ? -errno : 0;
	}
	return -EINVAL;
}

static bool is_opened(enum ck_made what)
{
	return what == CK_MADE_FILE || what == CK_MADE_UNNAMED;
}

/* Serves one request. False at the end. */
static bool serve_one(int socket, struct request *r)
{
	struct reply reply;
	int dirfd, fd = -1;
	int rc = ck_message_receive(socket, r, sizeof(*r), &dirfd, 1);

	if (rc == 0 && dirfd < 0)
		rc = -EBADMSG;
	if (rc)
		return false;
	umask(r->umask & 0777);
	rc = identity_take(r);
	if (rc == 0)
		rc = file_make(dirfd, r);
	if (rc >= 0 && is_opened(r->what))
		fd = rc;
	close(dirfd);
	reply.rc = rc < 0 ? rc : 0;
	rc = ck_message_send(socket, &reply, sizeof(reply), &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
	return rc == 0;
}

static int serve(int socket, const void *arg)
{
	static struct request request;
	struct ck_diag d = { 0 };

	(void)arg;
	if (geteuid() == 0 &&
	    ck_privileges_drop(CK_ROLE_CREATOR, CK_SOCKETS_NONE, &d))
		return 1;
	while (serve_one(socket, &request))
		;
	return 0;
}

/* --- its daemon ----------------------------------------------------------------------- */

int ck_creator_start(struct ck_creator **out, struct ck_diag *d)
{
	struct ck_creator *c = calloc(1, sizeof(*c));
	int rc;

	*out = NULL;
	if (!c)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = ck_apart_open(&c->apart, "ckptfs-creator", serve);
	if (rc) {
		free(c);
		return ck_fail(d, -rc, "no process: %s", strerror(-rc));
	}
	pthread_mutex_init(&c->lock, NULL);
	*out = c;
	return 0;
}

void ck_creator_end(struct ck_creator *c)
{
	if (!c)
		return;
	ck_apart_close(&c->apart);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct request *request_make(const struct ck_creation *what)
{
	struct request *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->what = what->what;
	r->mode = what->mode;
	r->umask = what->umask;
	r->dev = what->dev;
	r->flags = what->flags;
	r->uid = what->by->uid;
	r->gid = what->by->gid;
	r->ngroups = (uint32_t)ck_min(what->by->n, CK_GROUPS_MOST);
	if (r->ngroups)
		memcpy(r->groups, what->by->groups,
		       r->ngroups * sizeof(*r->groups));
	strncpy(r->name, what->name, sizeof(r->name) - 1);
	if (what->target)
		strncpy(r->target, what->target, sizeof(r->target) - 1);
	return r;
}

int ck_creator_make(struct ck_creator *c, const struct ck_creation *what)
{
	ck_auto_free struct request *r = request_make(what);
	struct reply reply;
	int fd, rc;

	if (!r)
		return -ENOMEM;
	pthread_mutex_lock(&c->lock);
	rc = ck_message_send(c->apart.fd, r, sizeof(*r), &what->dirfd, 1);
	if (rc == 0)
		rc = ck_message_receive(c->apart.fd, &reply, sizeof(reply), &fd,
					1);
	if (rc && !c->gone)
		ck_log("files/: the process that creates files is gone: %s; "
		       "mount again to create files",
		       strerror(-rc));
	c->gone = c->gone || rc;
	pthread_mutex_unlock(&c->lock);
	if (rc)
		return -EIO;
	if (reply.rc == 0 && is_opened(what->what))
		/* the kernel drops a descriptor for which there is no room */
		return fd < 0 ? -ENFILE : fd;
	return reply.rc;
}
