/* SPDX-License-Identifier: MIT */
/* Loads the MPI transport: see plugin.h. */
#include "ckptfs/component.h"
#include "plugin_internal.h"

/* MPI has threads, and cannot be ended: what is loaded stays. */
int ck_plugin_open(const char *path, struct ck_xport **out, struct ck_diag *d)
{
	static const struct ck_component mpi = { "ckptfs-mpi.so",
						 CK_XPORT_PLUGIN_NAME,
						 "MPI transport",
						 CK_XPORT_PLUGIN_VERSION };
	const void *loaded;
	const struct ck_xport_plugin *p;
	int rc = ck_component_load(&mpi, path, &loaded, d);

	if (rc)
		return rc;
	p = loaded;
	return p->open(out, d);
}

int ck_xport_mpi(struct ck_xport **out, struct ck_diag *d)
{
	return ck_plugin_open(NULL, out, d);
}
