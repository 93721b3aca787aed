/* SPDX-License-Identifier: MIT */
/*
 * gpus: ckptfs, but every mount gathers its reads on the first GPU of the fake driver by
 * default; a mount without a GPU fails. Options of a mount about GPUs override this.
 *
 *	CKPTFS_GATHER	"host": reads are gathered by the host, as in ckptfs.
 *	CKPTFS_NCCL	"force": bytes of other hosts are transferred by NCCL.
 *	CKPTFS_TALLY	A file that gets a line at the end of a mount: the number of bytes
 *			that were read through the GPU.
 */
#include "ckptfs/launch.h"

#include "gpus.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* The workers are processes of ckptfs itself, since their modules are in its directory. */
static char *gpus_subprocess_program(void)
{
	return strdup(CK_PROGRAM);
}

static int make_chosen(struct ck_mount_options *options, struct ck_gpus **out,
		       struct ck_diag *d);
static int settle_chosen(struct ck_gpus *g, struct ck_checkpoint *cp,
			 struct ck_hosts *hosts, struct ck_diag *d);
static void end_chosen(struct ck_gpus *g);

#define ck_subprocess_program gpus_subprocess_program
#define ck_gpus_make	      make_chosen
#define ck_gpus_settle	      settle_chosen
#define ck_gpus_end	      end_chosen
#include "../../mount-helpers/gpu/gpus.c"
#undef ck_gpus_make
#undef ck_gpus_settle
#undef ck_gpus_end

enum { PINNED = 16 << 20, HOSTS = 16 };

static struct {
	int file; /* opened before the process gives up its privileges */
	struct ck_stats *stats, *own;
	struct ck_files *files; /* which have the statistics */
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
	/* Ranks are processes of ckptfs, too, since the MPI module is in its directory. */
	if (!options->hosts.program)
		options->hosts.program = strdup(CK_PROGRAM);
	return make_chosen(options, out, d);
}

int ck_gpus_settle(struct ck_gpus *g, struct ck_checkpoint *cp,
		   struct ck_hosts *hosts, struct ck_diag *d)
{
	int rc = settle_chosen(g, cp, hosts, d);

	if (rc)
		return rc;
	/* Programs that count no bytes get counters here. */
	if (!ck_files_stats(cp->files)) {
		tally.own = ck_stats_make(HOSTS);
		tally.files = cp->files;
		ck_files_set_stats(cp->files, tally.own);
	}
	tally.stats = ck_files_stats(cp->files);
	return tally.stats ? 0 : ck_fail(d, ENOMEM, "out of memory");
}

void ck_gpus_end(struct ck_gpus *g)
{
	if (g && tally.file >= 0 && tally.stats)
		(void)dprintf(tally.file, "%ju\n",
			      (uintmax_t)tally.stats->gpu_bytes);
	ck_fd_cleanup(&tally.file);
	if (tally.own)
		ck_files_set_stats(tally.files, NULL);
	free(tally.own);
	end_chosen(g);
}
