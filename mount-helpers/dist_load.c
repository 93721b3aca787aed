/* SPDX-License-Identifier: MIT */
/*
 * dist_load: the functions of ckptfs-dist.so under their own names. The first one that
 * needs the module loads it, before privileges are dropped and threads start; it stays
 * loaded. Without several hosts the cluster is NULL, and nothing is loaded.
 */
#include "ckptfs/fs.h"
#include "cli.h"
#include "dist.h"
#include "gpus.h"

static const struct ck_dist *dist; /* NULL: not loaded */

static int load(struct ck_diag *d)
{
	static const struct ck_component module = { CK_DIST_FILE,
						    CK_DIST_SYMBOL,
						    "module for several hosts",
						    "dist", CK_DIST_VERSION };
	const void *loaded;
	int rc;

	if (dist)
		return 0;
	rc = ck_component_load(&module, NULL, &loaded, d);
	if (rc == 0)
		dist = loaded;
	return rc;
}

int ck_cmd_serve(int argc, char **argv)
{
	struct ck_diag d = { 0 };

	if (argc > 1 && strcmp(argv[1], CK_GPUS_WORD) == 0)
		return ck_gpus_run(argv + 2);
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

struct ck_backend *ck_hosts_backend(struct ck_hosts *h)
{
	return dist->hosts_backend(h);
}

/* The next two are for ckptfs-gpu.so, which has hosts of this module only. */
CK_EXPORT void ck_hosts_peer(const struct ck_hosts *h, uint32_t i,
			     struct ck_hosts_peer *out)
{
	dist->hosts_peer(h, i, out);
}

CK_EXPORT int ck_hosts_rounds(struct ck_hosts *h,
			      const struct ck_round_routes *by)
{
	return dist->hosts_rounds(h, by);
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
