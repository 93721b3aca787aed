/* SPDX-License-Identifier: MIT */
/*
 * hot: a mount with one file, "hot", that answers each read from the same
 * buffer: what the kernel's side of a read costs, which no daemon can be
 * faster than. Whatever bears upon that is as in fs/session/session.c and fs/read_ops.c:
 * capabilities, sizes of requests, threads, mount options, flags of an open
 * file. It runs until it is unmounted.
 *
 *	hot MOUNTPOINT SIZE MAX_READ
 */
#define FUSE_USE_VERSION 314

#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME	  "hot"
#define INO	  2
#define TIMEOUT	  86400.0
#define WRITE_MAX (1U << 20)
#define AHEAD_MAX (1U << 20)

static uint64_t size;
static unsigned max_read;
static void *buffer;

static void hot_init(void *userdata, struct fuse_conn_info *conn)
{
	(void)userdata;
	conn->want = conn->capable &
		     (FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO |
		      FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_EXPLICIT_INVAL_DATA);
	conn->max_write = WRITE_MAX;
	conn->max_read = max_read;
	conn->max_readahead = AHEAD_MAX;
	conn->time_gran = 1;
}

static struct stat stat_of(fuse_ino_t ino)
{
	struct stat st = { .st_ino = ino, .st_nlink = 1 };

	if (ino == INO) {
		st.st_mode = S_IFREG | 0444;
		st.st_size = (off_t)size;
	} else {
		st.st_mode = S_IFDIR | 0555;
	}
	return st;
}

static void hot_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { .ino = INO,
				      .attr = stat_of(INO),
				      .attr_timeout = TIMEOUT,
				      .entry_timeout = TIMEOUT };

	if (parent == FUSE_ROOT_ID && strcmp(name, NAME) == 0)
		fuse_reply_entry(req, &e);
	else
		fuse_reply_err(req, ENOENT);
}

static void hot_getattr(fuse_req_t req, fuse_ino_t ino,
			struct fuse_file_info *fi)
{
	struct stat st = stat_of(ino);

	(void)fi;
	fuse_reply_attr(req, &st, TIMEOUT);
}

static void hot_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	fi->keep_cache = 1;
	fi->noflush = 1;
	fuse_reply_open(req, fi);
}

static void hot_read(fuse_req_t req, fuse_ino_t ino, size_t len, off_t fpos,
		     struct fuse_file_info *fi)
{
	uint64_t left = (uint64_t)fpos < size ? size - (uint64_t)fpos : 0;

	(void)ino, (void)fi;
	if (len > max_read)
		fuse_reply_err(req, EINVAL);
	else
		fuse_reply_buf(req, buffer, len < left ? len : left);
}

static const struct fuse_lowlevel_ops ops = {
	.init = hot_init,
	.lookup = hot_lookup,
	.getattr = hot_getattr,
	.open = hot_open,
	.read = hot_read,
};

static int serve(struct fuse_session *session)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned threads = (unsigned)(cpus < 1 ? 2 : cpus > 4 ? 8 : 2 * cpus);
	int rc;

	if (!config)
		return -ENOMEM;
	fuse_loop_cfg_set_max_threads(config, threads);
	fuse_loop_cfg_set_clone_fd(config, 0);
	rc = fuse_session_loop_mt(session, config);
	fuse_loop_cfg_destroy(config);
	return rc;
}

static struct fuse_session *session_make(void)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *session;
	char options[128];

	snprintf(options, sizeof(options),
		 "ro,nosuid,nodev,default_permissions,max_read=%u,fsname=hot",
		 max_read);
	if (fuse_opt_add_arg(&args, "hot") || fuse_opt_add_arg(&args, "-o") ||
	    fuse_opt_add_arg(&args, options))
		return NULL;
	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	fuse_opt_free_args(&args);
	return session;
}

int main(int argc, char **argv)
{
	struct fuse_session *session;
	int rc;

	if (argc != 4) {
		fprintf(stderr, "usage: hot MOUNTPOINT SIZE MAX_READ\n");
		return 2;
	}
	size = strtoull(argv[2], NULL, 10);
	max_read = (unsigned)strtoul(argv[3], NULL, 10);
	if (max_read == 0 || posix_memalign(&buffer, 4096, max_read))
		return 1;
	memset(buffer, 1, max_read);
	session = session_make();
	if (!session || fuse_session_mount(session, argv[1]))
		return 1;
	rc = serve(session);
	fuse_session_unmount(session);
	fuse_session_destroy(session);
	return rc ? 1 : 0;
}
