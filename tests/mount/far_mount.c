/* SPDX-License-Identifier: MIT */
/*
 * far: the program, but for mounts for reading: those get all bytes of data files from
 * another process, which serves the checkpoint's directory as another host would. Its
 * end of the link is all that it has.
 */
#include "ckptfs/format.h"
#include "dist/client/remote_client.h"
#include "dist/launch/rendezvous.h"
#include "dist/launch/subprocess.h"
#include "dist/rpc/link.h"

#include <stdio.h>
#include <unistd.h>

#include "ckptfs/fs.h"

static struct {
	struct ck_subprocess job;
	struct ck_link *link;
	struct ck_remote_client requester;
	struct ck_location *files;
} far;

enum { MEMORY = 96 << 20, SEGMENT = 1 << 20, CACHE = 64 << 20 };

/* The program beside this one, as a mount over hosts starts it. */
static void owner_start(const struct ck_checkpoint *cp,
			const struct ck_mount_options *mount)
{
	struct ck_link_options o = { .calls = { .npeers = 1,
						.ping_msec = 1000,
						.silence_msec = 5000,
						.timeout_msec = 30000,
						.window = 16 << 20 },
				     .thread_init = mount->hosts.thread_init };
	static char program[] = CK_PROGRAM, serve[] = "serve",
		    door[] = "--door", option[] = "-o",
		    beneath[] = "shardlinks=beneath";
	bool links = mount->format.shardlinks == CK_BENEATH_SYMLINKS;
	struct ck_rendezvous_link way;
	struct ck_rendezvous at;
	char *argv[] = { program, serve,    door,
			 at.name, cp->path, links ? option : NULL,
			 beneath, NULL };

	if (ck_rendezvous_open(&at) ||
	    ck_subprocess_start(argv, NULL, &far.job) ||
	    ck_rendezvous_wait(&at, MEMORY, far.job.ended, 10000, &way))
		abort();
	ck_rendezvous_close(&at);
	o.sock = way.sock;
	o.memory = way.memory;
	o.size = way.size;
	if (ck_link_make(&o, &far.link))
		abort();
}

static void files_ask(struct ck_checkpoint *cp)
{
	uint32_t n = ck_files_count(cp->files);
	struct ck_str *names = calloc(n + 1, sizeof(*names));
	struct ck_name_stat *replies = calloc(n + 1, sizeof(*replies));
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_ids shown = { c->meta.uid, c->meta.gid };

	far.files = calloc(n + 1, sizeof(*far.files));
	for (uint32_t i = 0; i < n; i++)
		names[i] = ck_files_info(cp->files, i)->path;
	for (uint32_t i = 0; i < n; i++) {
		/* One by one, since some are too long to be asked for. */
		if (names[i].len > CK_WIRE_NAME_MAX ||
		    ck_calls_stat(ck_link_calls(far.link), 0, shown, &names[i],
				  1, &replies[i]) ||
		    !replies[i].seen)
			continue;
		far.files[i].number = replies[i].number;
		ck_files_set_remote(cp->files, i, &replies[i].info);
	}
	free(names);
	free(replies);
	ck_remote_client_init(
		&far.requester,
		&(struct ck_routes){ .calls = ck_link_calls(far.link),
				     .files = far.files,
				     .n = n });
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
	owner_start(*out, o);
	files_ask(*out);
	o->remote = &far.requester.backend;
	o->hosts.segment = SEGMENT;
	o->hosts.cache = CACHE;
	return 0;
}

static void far_close(struct ck_checkpoint *cp)
{
	struct ck_buf replies = { 0 };

	ck_link_free(far.link);
	if (far.link) {
		ck_subprocess_read(&far.job, &replies);
		ck_subprocess_end(&far.job, 5000);
		if (far.job.status)
			ck_log("the owner ended with %d: %.*s", far.job.status,
			       (int)replies.len, replies.data);
	}
	ck_buf_fini(&replies);
	ck_checkpoint_close(cp);
	free(far.files);
}

#define ck_checkpoint_open  far_open
#define ck_checkpoint_close far_close
#include "../../mount-helpers/cmd/cmd_mount.c"
