/* SPDX-License-Identifier: MIT */
/*
 * far: the program, but for mounts for reading: those get all bytes of data files from
 * another process, which serves the checkpoint's directory as another host would. Its
 * end of the link is all that it has.
 */
#include "ckptfs/format.h"
#include "ckptfs/link.h"
#include "ckptfs/requester.h"
#include "ckptfs/serve.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ckptfs/fs.h"

static struct {
	struct ck_link *link;
	struct ck_requester requester;
	struct ck_whereabouts *files;
} far;

enum { MEMORY = 96 << 20 };

static int serve_child(int sock, int memory, int dir, enum ck_beneath how)
{
	struct ck_serve_options o = {
		.owner = ck_data_owner_make(dir, how, 64),
		.link = sock,
		.memory = memory,
		.size = MEMORY,
		.memory_most = 256 << 20,
		.threads = 2,
		.stop = -1,
	};

	prctl(PR_SET_NAME, "owner");
	if (!o.owner || ck_sigbus_install())
		return 1;
	return ck_serve_run(&o) != 0;
}

static void owner_start(const struct ck_checkpoint *cp, enum ck_beneath how)
{
	struct ck_link_options o = { .size = MEMORY,
				     .calls = { .npeers = 1,
						.ping_msec = 1000,
						.silence_msec = 5000,
						.timeout_msec = 30000,
						.window = 16 << 20 } };
	int ends[2], memory = memfd_create("link", MFD_CLOEXEC);
	pid_t child;

	if (memory < 0 || ftruncate(memory, MEMORY) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		abort();
	child = fork();
	if (child < 0)
		abort();
	if (child == 0) {
		/* Nothing else: whoever waits for its end would wait. */
		if (dup2(cp->dirfd, 0) < 0 || dup2(ends[1], 1) < 0 ||
		    dup2(memory, 2) < 0 || close_range(3, ~0U, 0))
			_exit(1);
		_exit(serve_child(1, 2, 0, how));
	}
	close(ends[1]);
	o.sock = ends[0];
	o.memory = memory;
	if (ck_link_make(&o, &far.link))
		abort();
}

static void files_ask(struct ck_checkpoint *cp)
{
	uint32_t n = ck_files_count(cp->files);
	struct ck_str *names = calloc(n + 1, sizeof(*names));
	struct ck_looked *said = calloc(n + 1, sizeof(*said));
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_ids shown = { c->meta.uid, c->meta.gid };

	far.files = calloc(n + 1, sizeof(*far.files));
	for (uint32_t i = 0; i < n; i++)
		names[i] = ck_files_info(cp->files, i)->path;
	for (uint32_t i = 0; i < n; i++) {
		/* One by one, since some are too long to be asked for. */
		if (names[i].len > CK_WIRE_NAME_MAX ||
		    ck_calls_look(ck_link_calls(far.link), 0, shown, &names[i],
				  1, &said[i]) ||
		    !said[i].seen)
			continue;
		far.files[i].number = said[i].number;
		ck_files_set_remote(cp->files, i, &said[i].info);
	}
	free(names);
	free(said);
	ck_requester_init(&far.requester, ck_link_calls(far.link), far.files,
			  n);
}

static int far_open(const char *path, const struct ck_format_options *options,
		    struct ck_checkpoint **out, struct ck_diag *d)
{
	struct ck_mount_options *o =
		(struct ck_mount_options *)((uintptr_t)options -
					    offsetof(struct ck_mount_options,
						     format));
	int rc = ck_checkpoint_open(path, options, out, d);

	if (rc || options->write)
		return rc;
	owner_start(*out, options->shardlinks);
	files_ask(*out);
	o->remote = &far.requester.mover;
	return 0;
}

static void far_close(struct ck_checkpoint *cp)
{
	ck_link_free(far.link);
	ck_checkpoint_close(cp);
	free(far.files);
}

#define ck_checkpoint_open  far_open
#define ck_checkpoint_close far_close
#include "../../mount-helpers/cmd_mount.c"
