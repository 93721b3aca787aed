/* SPDX-License-Identifier: MIT */
/*
 * apart: the program, but for mounts over several directories, each of which a process
 * of its own serves as if it were that of another host: SRC is the first of them, and
 * the others are in CKPTFS_APART, with colons between. CKPTFS_APART_MESH: an empty
 * directory, in which they find each other; CKPTFS_APART_PREFER: the number of a host.
 */
#include "ckptfs/door.h"
#include "ckptfs/format.h"
#include "ckptfs/hosts.h"
#include "ckptfs/job.h"
#include "ckptfs/link.h"

#include <stdio.h>
#include <unistd.h>

#include "ckptfs/fs.h"

enum { MOST = 8, MEMORY = 96 << 20 };

static struct {
	struct ck_job jobs[MOST];
	struct ck_link *link;
	struct ck_hosts *hosts;
	char names[MOST][8], paths[MOST][4096];
	uint32_t n;
} apart;

/* The program beside this one, as something that is not mpirun would start it. */
static void rank_start(uint32_t rank, char *door)
{
	static char program[] = CK_PROGRAM, serve[] = "serve",
		    ranks[] = "--ranks", option[] = "--door";
	const char *mesh = getenv("CKPTFS_APART_MESH");
	static char where[4200];
	char *argv[] = { program,	    serve, ranks, where,
			 apart.paths[rank], NULL,  NULL,  NULL };

	snprintf(where, sizeof(where), "%u/%u:%s", rank, apart.n,
		 mesh ? mesh : "");
	if (rank == 0) {
		argv[5] = option;
		argv[6] = door;
	}
	if (ck_job_start(argv, NULL, &apart.jobs[rank]))
		abort();
}

static void paths_take(const char *source)
{
	const char *text = getenv("CKPTFS_APART");

	snprintf(apart.paths[apart.n++], sizeof(apart.paths[0]), "%s", source);
	while (text && *text && apart.n < MOST) {
		size_t len = strcspn(text, ":");

		snprintf(apart.paths[apart.n++], sizeof(apart.paths[0]), "%.*s",
			 (int)len, text);
		text += len + (text[len] == ':');
	}
}

static void ranks_start(void)
{
	struct ck_link_options o = { .calls = { .npeers = apart.n,
						.ping_msec = 1000,
						.silence_msec = 5000,
						.timeout_msec = 30000,
						.window = 16 << 20 } };
	struct ck_door_way way;
	struct ck_door at;

	if (ck_door_open(&at))
		abort();
	for (uint32_t i = 0; i < apart.n; i++)
		rank_start(i, at.name);
	if (ck_door_wait(&at, MEMORY, apart.jobs[0].ended, 10000, &way))
		abort();
	ck_door_close(&at);
	o.sock = way.sock;
	o.memory = way.memory;
	o.size = way.size;
	if (ck_link_make(&o, &apart.link))
		abort();
}

static void hosts_make(void)
{
	const char *prefer = getenv("CKPTFS_APART_PREFER");
	size_t order[] = { prefer ? (size_t)(*prefer - '0') : 0 };
	struct ck_host_rank list[MOST];

	for (uint32_t i = 0; i < apart.n; i++) {
		snprintf(apart.names[i], sizeof(apart.names[i]), "h%u", i);
		list[i] = (struct ck_host_rank){ .name = apart.names[i],
						 .path = "",
						 .rank = i };
	}
	apart.hosts = ck_hosts_make(&(struct ck_hosts_setup){
		.calls = ck_link_calls(apart.link),
		.list = list,
		.n = apart.n,
		.order = order,
		.norder = prefer ? 1 : 0,
	});
	if (!apart.hosts)
		abort();
}

static int apart_open(const char *path, const struct ck_format_options *options,
		      struct ck_checkpoint **out, struct ck_diag *d)
{
	struct ck_mount_options *o =
		(struct ck_mount_options *)((uintptr_t)options -
					    offsetof(struct ck_mount_options,
						     format));
	struct ck_format_options mine = *options;

	paths_take(path);
	ranks_start();
	hosts_make();
	mine.elsewhere = ck_hosts_elsewhere(apart.hosts);
	o->remote = ck_hosts_mover(apart.hosts);
	return ck_checkpoint_open(path, &mine, out, d);
}

static void apart_close(struct ck_checkpoint *cp)
{
	struct ck_buf said = { 0 };

	if (apart.hosts)
		ck_hosts_hear_end(apart.hosts);
	ck_link_free(apart.link);
	for (uint32_t i = 0; i < apart.n && apart.link; i++) {
		ck_job_hear(&apart.jobs[i], &said);
		ck_job_end(&apart.jobs[i], 5000);
	}
	ck_buf_fini(&said);
	ck_checkpoint_close(cp);
	ck_hosts_free(apart.hosts);
}

#define ck_checkpoint_open  apart_open
#define ck_checkpoint_close apart_close
#include "../../mount-helpers/cmd_mount.c"
