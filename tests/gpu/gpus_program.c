/* SPDX-License-Identifier: MIT */
/*
 * gpus: the program, but that what is read of its mounts is put together on the first GPU,
 * of the stand-in, whoever mounts and however; a mount that gets none fails. Options of a
 * mount that say something else about GPUs count.
 *
 *	CKPTFS_GATHER	"host": where the program itself puts them together, after all.
 *	CKPTFS_NCCL	"force": bytes of other hosts come by NCCL.
 *	CKPTFS_TALLY	A file that gets a line when a mount ends: how many bytes of its
 *			reads came from there.
 */
#include "ckptfs/launch.h"

#include "gpus.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* The program beside this one has the movers: what they load lies beside it. */
static char *gpus_launch_program(void)
{
	return strdup(CK_PROGRAM);
}

static int make_chosen(struct ck_mount_options *options, struct ck_gpus **out,
		       struct ck_diag *d);
static int count_chosen(struct ck_gpus *g, struct ck_checkpoint *cp,
			struct ck_diag *d);
static void free_chosen(struct ck_gpus *g);

#define ck_launch_program gpus_launch_program
#define ck_gpus_make	  make_chosen
#define ck_gpus_count	  count_chosen
#define ck_gpus_free	  free_chosen
#include "../../mount-helpers/dist/gpus.c"
#undef ck_gpus_make
#undef ck_gpus_count
#undef ck_gpus_free

enum { PINNED = 16 << 20, HOSTS = 16 };

static struct {
	int file; /* opened while it may be */
	struct ck_stats *stats, *own;
} tally = { .file = -1 };

int ck_gpus_make(struct ck_mount_options *options, struct ck_gpus **out,
		 struct ck_diag *d)
{
	const char *name = getenv("CKPTFS_TALLY");
	const char *where = getenv("CKPTFS_GATHER");
	const char *nccl = getenv("CKPTFS_NCCL");
	bool here = where && strcmp(where, "host") == 0;
	bool forced = nccl && strcmp(nccl, "force") == 0 &&
		      ck_hosts_options_given(&options->hosts);

	if (name)
		tally.file = open(name, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (!options->gpu.used)
		options->gpu = (struct ck_gpu_choice){
			.used = true,
			.n = 1,
			.gather = here ? CK_GATHER_HOST : CK_GATHER_GPU,
			.nccl = forced ? CK_NCCL_FORCE : CK_NCCL_OFF,
			.pinned = PINNED
		};
	if (setenv("LD_LIBRARY_PATH", CK_STANDIN, true))
		return ck_fail(d, errno, "LD_LIBRARY_PATH: %s",
			       strerror(errno));
	/* Ranks are the program's, too, since MPI lies beside it. */
	if (!options->hosts.program)
		options->hosts.program = strdup(CK_PROGRAM);
	return make_chosen(options, out, d);
}

int ck_gpus_count(struct ck_gpus *g, struct ck_checkpoint *cp,
		  struct ck_diag *d)
{
	int rc = count_chosen(g, cp, d);

	if (rc)
		return rc;
	/* Programs of tests that have several hosts do not count. */
	if (!ck_files_stats(cp->files)) {
		tally.own = ck_stats_make(HOSTS);
		ck_files_set_stats(cp->files, tally.own);
	}
	tally.stats = ck_files_stats(cp->files);
	return tally.stats ? 0 : ck_fail(d, ENOMEM, "out of memory");
}

void ck_gpus_free(struct ck_gpus *g)
{
	if (g && tally.file >= 0 && tally.stats)
		(void)dprintf(tally.file, "%ju\n",
			      (uintmax_t)tally.stats->gpu_bytes);
	ck_fd_cleanup(&tally.file);
	free(tally.own);
	free_chosen(g);
}
