/* SPDX-License-Identifier: MIT */
/*
 * backing: see backing.h. A request is one message on a socket, with the device of the mount
 * and, to register it, the file. Only a registration has a reply, so that closing a file
 * waits for nothing.
 *
 * Lock: ck_backing.lock, held from the open for a request to its reply. It is taken after all
 * others.
 */
#include "backing.h"
#include "../session/apart.h"
#include "base/system/fd_link.h"
#include "base/system/fd_message.h"
#include "base/system/privileges.h"
#include "ckptfs/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct ck_backing {
	/* Atomic, since `status` must not wait for the process: */
	const char *_Atomic missing; /* why no file is registered, or NULL */
	atomic_bool had_file;	     /* one was registered */
	atomic_uint open, passing; /* opens of files, and of registered ones */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_apart apart;
	bool runs; /* there is a process */
};

struct request {
	int32_t id; /* of the backing file to remove; 0: register one */
};

struct reply {
	int32_t id; /* or a negative errno */
};

/* --- the process ---------------------------------------------------------------------- */

/* From linux/fuse.h of Linux 6.9. */
struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};

#define BACKING_OPEN  _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)

/* The daemon may be under the control of an attacker: other devices take other commands. */
static bool is_fuse_device(int fd)
{
	enum { MAJOR = 10, MINOR = 229 };
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(MAJOR, MINOR);
}

/* Returns the id, or a negative errno. */
static int backing_register(int device, int file)
{
	struct backing_map map = { .fd = file };
	int id = ioctl(device, BACKING_OPEN, &map);

	return id < 0 ? -errno : id;
}

static void backing_remove(int device, int32_t id)
{
	uint32_t number = (uint32_t)id;

	(void)ioctl(device, BACKING_CLOSE, &number);
}

/* Serves one request. False at the end. */
static bool serve_one(int socket)
{
	struct request request;
	struct reply reply = { .id = -EBADF };
	int fds[CK_MESSAGE_FDS];
	int rc = ck_message_receive(socket, &request, sizeof(request), fds,
				    CK_ARRAY_SIZE(fds));
	bool fine = rc == 0 && is_fuse_device(fds[0]);

	if (fine && request.id)
		backing_remove(fds[0], request.id);
	else if (fine)
		reply.id = backing_register(fds[0], fds[1]);
	for (size_t i = 0; i < CK_ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (rc == 0 && request.id == 0)
		rc = ck_message_send(socket, &reply, sizeof(reply), NULL, 0);
	return rc == 0;
}

static int serve(int socket, const void *arg)
{
	struct ck_diag d = { 0 };

	(void)arg;
	if (ck_privileges_drop(CK_ROLE_BACKING, CK_SOCKETS_NONE, &d))
		return 1;
	while (serve_one(socket))
		;
	return 0;
}

/* --- its daemon ----------------------------------------------------------------------- */

static const char *refusal(const struct ck_mount_options *o)
{
	if (o->nopassthrough)
		return "by the option nopassthrough";
	if (o->direct)
		return "by the option direct";
	return geteuid() == 0 ? NULL : "only mounts of root have it";
}

/* Limits the time for which an open or a close in files/ waits for the process. */
static void wait_limit(int socket)
{
	const struct timeval limit = { .tv_sec = 10 };

	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static void process_start(struct ck_backing *b)
{
	int rc = ck_apart_open(&b->apart, "ckptfs-backing", serve);

	b->runs = rc == 0;
	if (b->runs)
		wait_limit(b->apart.fd);
	else
		b->missing = strerrordesc_np(-rc);
}

int ck_backing_start(const struct ck_mount_options *o, struct ck_backing **out,
		     struct ck_diag *d)
{
	struct ck_backing *b = calloc(1, sizeof(*b));

	*out = NULL;
	if (!b)
		return ck_fail(d, ENOMEM, "out of memory");
	b->missing = refusal(o);
	if (!b->missing)
		process_start(b);
	pthread_mutex_init(&b->lock, NULL);
	*out = b;
	return 0;
}

/* Under lock. */
static void process_end(struct ck_backing *b)
{
	if (b->runs)
		ck_apart_close(&b->apart);
	b->runs = false;
}

void ck_backing_end(struct ck_backing *b)
{
	if (!b)
		return;
	process_end(b);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

void ck_backing_offered(struct ck_backing *b, bool offered)
{
	if (!b || offered)
		return;
	pthread_mutex_lock(&b->lock);
	if (!b->missing)
		b->missing = "the kernel is older than 6.9";
	process_end(b);
	pthread_mutex_unlock(&b->lock);
}

/* Only a registration shows whether the kernel and the source can do it. */
static const char *missing_of(const struct ck_backing *b)
{
	const char *missing = b ? b->missing : "not a mount of the command";

	return missing || b->had_file ? missing : "no file was opened yet";
}

void ck_backing_status(const struct ck_backing *b, struct ck_buf *out)
{
	const char *missing = missing_of(b);
	unsigned open = b ? b->open : 0, passing = b ? b->passing : 0;

	if (missing)
		ck_buf_printf(out, "no passthrough: %s", missing);
	else if (passing < open)
		ck_buf_printf(out, "passthrough of %u of %u open files",
			      passing, open);
	else
		ck_buf_text(out, "passthrough");
}

bool ck_backing_is_wanted(struct ck_backing *b)
{
	return b && !b->missing;
}

/* Asks the process. Returns the id, or a negative errno; -EPIPE if it is gone or does not
 * answer. Under lock. */
static int process_ask(struct ck_backing *b, int device, int fd)
{
	const struct request request = { .id = 0 };
	const int fds[] = { device, fd };
	struct reply reply;
	int rc = ck_message_send(b->apart.fd, &request, sizeof(request), fds,
				 CK_ARRAY_SIZE(fds));

	if (rc == 0)
		rc = ck_message_receive(b->apart.fd, &reply, sizeof(reply),
					NULL, 0);
	return rc ? -EPIPE : reply.id;
}

/* A mapping may change any byte of a file that can only be appended to (chattr +a): the
 * kernel looks at the inode of the mount, which has no such attribute. */
static bool only_grows(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH, 0, &st) ||
	       st.stx_attributes & STATX_ATTR_APPEND;
}

/* The kernel keeps the descriptor until the last close of the file. One for reading lets
 * programs execute the file, and lease it, once no program has it open for writing. Same
 * results; -EINVAL for a file that has no passthrough. Under lock. */
static int file_register(struct ck_backing *b, int device, int fd, int flags)
{
	int reader = -1, id;

	if (only_grows(fd))
		return -EINVAL;
	if ((flags & O_ACCMODE) != O_RDONLY)
		reader = ck_fd_reopen(fd, O_RDONLY | O_NONBLOCK);
	id = process_ask(b, device, reader < 0 ? fd : reader);
	if (reader >= 0)
		close(reader);
	return id;
}

/* Returns the text for an error that holds for other files, too, or NULL. */
static const char *final_error(int rc)
{
	switch (rc) {
	case -ELOOP:
		return "the source is a stacked file system"; /* overlayfs */
	case -EPIPE: return "the process that registers files does not answer";
	case -EPERM: return "no CAP_SYS_ADMIN outside of a user namespace";
	case -EOPNOTSUPP: return strerrordesc_np(-rc);
	}
	return NULL;
}

/* After an error that is final the process gets removals only, which wait for nothing. Under
 * lock. */
static void registering_end(struct ck_backing *b, int rc)
{
	const char *why = final_error(rc);

	if (b->missing || !why)
		return;
	b->missing = why;
	(void)fcntl(b->apart.fd, F_SETFL, O_NONBLOCK);
}

int ck_backing_take(struct ck_backing *b, struct ck_backed *file, int device,
		    int fd, int flags)
{
	bool can;
	int id;

	if (!b)
		return 0;
	pthread_mutex_lock(&b->lock);
	can = !b->missing && !(flags & O_APPEND);
	if (file->opens++ == 0 && can) {
		id = file_register(b, device, fd, flags);
		if (id > 0) {
			file->id = id;
			b->had_file = true;
		} else {
			registering_end(b, id);
		}
	}
	id = file->id;
	b->open++;
	if (id)
		b->passing++;
	pthread_mutex_unlock(&b->lock);
	return id;
}

/* If the process does not take it, the end of the mount removes the file. Under lock. */
static void file_remove(struct ck_backing *b, int device, int id)
{
	const struct request request = { .id = id };

	if (ck_message_send(b->apart.fd, &request, sizeof(request), &device, 1))
		registering_end(b, -EPIPE);
}

void ck_backing_drop(struct ck_backing *b, struct ck_backed *file, int device)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->open--;
	if (file->id)
		b->passing--;
	if (--file->opens == 0 && file->id) {
		file_remove(b, device, file->id);
		file->id = 0;
	}
	pthread_mutex_unlock(&b->lock);
}
