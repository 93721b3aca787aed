/* SPDX-License-Identifier: MIT */
/*
 * gpu_load: the functions of ckptfs-gpu.so under their own names. The first one that needs
 * the module loads it, before privileges are dropped and threads start; it stays loaded.
 * Without gpu= ck_gpus is NULL, and nothing is loaded.
 */
#include "cli.h"
#include "gpus.h"
#include <errno.h>

static const struct ck_gpus_module *gpu; /* NULL: not loaded */

static int load(struct ck_diag *d)
{
	static const struct ck_component module = { CK_GPUS_FILE,
						    CK_GPUS_SYMBOL,
						    "module for GPUs", "gpu",
						    CK_GPUS_VERSION };
	const void *loaded;
	int rc;

	if (gpu)
		return 0;
	rc = ck_component_load(&module, NULL, &loaded, d);
	if (rc == 0)
		gpu = loaded;
	return rc;
}

/* For ckptfs-dist.so. */
CK_EXPORT int ck_gpus_forker_start(const struct ck_gpu_choice *c, int *sock,
				   struct ck_subprocess *job)
{
	struct ck_diag d = { 0 };
	int rc = load(&d);

	if (rc)
		ck_log("%s", d.text);
	return rc ? rc : gpu->forker_start(c, sock, job);
}

int ck_gpus_run(char **words)
{
	struct ck_diag d = { 0 };

	return load(&d) ? ck_trouble("serve: %s", d.text) : gpu->run(words);
}

/* Without the module a mount uses no GPU, unless its options require one. */
int ck_gpus_make(struct ck_mount_options *options, struct ck_gpus **out,
		 struct ck_diag *d)
{
	int rc;

	*out = NULL;
	if (!options->gpu.used)
		return 0;
	rc = load(d);
	if (rc == -ENOENT && options->gpu.gather != CK_GATHER_GPU &&
	    options->gpu.nccl != CK_NCCL_FORCE) {
		ck_log("no GPU is used: %s", d->text);
		return 0;
	}
	return rc ? rc : gpu->make(options, out, d);
}

int ck_gpus_start(struct ck_gpus *g, struct ck_diag *d)
{
	return g ? gpu->start(g, d) : 0;
}

int ck_gpus_settle(struct ck_gpus *g, struct ck_checkpoint *cp,
		   struct ck_hosts *hosts, struct ck_diag *d)
{
	return g ? gpu->settle(g, cp, hosts, d) : 0;
}

void ck_gpus_part(struct ck_gpus *g)
{
	if (g)
		gpu->part(g);
}

void ck_gpus_end(struct ck_gpus *g)
{
	if (g)
		gpu->end(g);
}
