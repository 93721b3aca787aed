/* SPDX-License-Identifier: MIT */
/*
 * dist_load: the functions of ckptfs-dist.so under their own names. The first one that
 * needs the module loads it, before privileges are dropped and threads start; it stays
 * loaded. Without hosts and GPUs there is no cluster and no ck_gpus, both are NULL, and
 * nothing is loaded.
 */
#include "ckptfs/fs.h"
#include "cli.h"
#include "dist.h"
#include <errno.h>

static const struct ck_dist *dist; /* NULL: not loaded */

static int load(struct ck_diag *d)
{
	static const struct ck_component module = {
		CK_DIST_FILE, CK_DIST_SYMBOL,
		"module for several hosts and GPUs", CK_DIST_VERSION
	};
	const void *loaded;
	int rc;

	if (dist)
		return 0;
	rc = ck_component_load(&module, NULL, &loaded, d);
	if (rc == -ENOENT)
		return ck_fail(d, ENOENT,
			       "several hosts and GPUs need " CK_DIST_FILE
			       ", which is not installed; build ckptfs with "
			       "-Ddist=enabled");
	if (rc == 0)
		dist = loaded;
	return rc;
}

int ck_cmd_serve(int argc, char **argv)
{
	struct ck_diag d = { 0 };

	return load(&d) ? ck_trouble("serve: %s", d.text)
			: dist->cmd_serve(argc, argv);
}

/* --- several hosts ------------------------------------------------------------------ */

int ck_cluster_start(struct ck_hosts_options *options,
		     struct ck_format_options *format, const char **source,
		     int wanted, struct ck_cluster **out, struct ck_diag *d)
{
	int rc;

	*out = NULL;
	if (!ck_hosts_options_given(options))
		return 0;
	rc = load(d);
	return rc ? rc
		  : dist->cluster_start(options, format, source, wanted, out,
					d);
}

int ck_cluster_join(struct ck_hosts_options *options,
		    struct ck_inherited *handed,
		    struct ck_format_options *format, struct ck_cluster **out,
		    struct ck_diag *d)
{
	int rc = load(d);

	*out = NULL;
	return rc ? rc : dist->cluster_join(options, handed, format, out, d);
}

void ck_cluster_ready(struct ck_cluster *c)
{
	if (c)
		dist->cluster_ready(c);
}

struct ck_hosts *ck_cluster_hosts(struct ck_cluster *c)
{
	return c ? dist->cluster_hosts(c) : NULL;
}

void ck_cluster_end(struct ck_cluster *c)
{
	if (c)
		dist->cluster_end(c);
}

void ck_hosts_let_wait(struct ck_hosts *h)
{
	dist->hosts_let_wait(h);
}

struct ck_backend *ck_hosts_mover(struct ck_hosts *h)
{
	return dist->hosts_mover(h);
}

int ck_inherited_take(struct ck_inherited *h, struct ck_hosts_options *options,
		      struct ck_diag *d)
{
	int rc = load(d);

	return rc ? rc : dist->inherited_take(h, options, d);
}

/* Without the module no descriptors were taken. */
void ck_inherited_fini(struct ck_inherited *h)
{
	if (dist)
		dist->inherited_fini(h);
}

/* --- GPUs ----------------------------------------------------------------------------- */

int ck_gpus_make(struct ck_mount_options *options, struct ck_gpus **out,
		 struct ck_diag *d)
{
	int rc;

	*out = NULL;
	if (!options->gpu.used)
		return 0;
	rc = load(d);
	return rc ? rc : dist->gpus_make(options, out, d);
}

int ck_gpus_start(struct ck_gpus *g, struct ck_diag *d)
{
	return g ? dist->gpus_start(g, d) : 0;
}

int ck_gpus_settle(struct ck_gpus *g, struct ck_diag *d)
{
	return g ? dist->gpus_settle(g, d) : 0;
}

int ck_gpus_count(struct ck_gpus *g, struct ck_checkpoint *cp,
		  struct ck_diag *d)
{
	return g ? dist->gpus_count(g, cp, d) : 0;
}

int ck_gpus_meet(struct ck_gpus *g, struct ck_hosts *hosts, struct ck_diag *d)
{
	return g ? dist->gpus_meet(g, hosts, d) : 0;
}

void ck_gpus_part(struct ck_gpus *g)
{
	if (g)
		dist->gpus_part(g);
}

void ck_gpus_end(struct ck_gpus *g)
{
	if (g)
		dist->gpus_end(g);
}

void ck_gpus_free(struct ck_gpus *g)
{
	if (g)
		dist->gpus_free(g);
}
