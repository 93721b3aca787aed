/* SPDX-License-Identifier: MIT */
/*
 * mpi_load: loads ckptfs-mpi.so, which contains the MPI transport. It is never
 * unloaded: MPI has threads of its own. No state; once in a process.
 */
#include "base/system/component.h"
#include "mpi_load_internal.h"

int ck_plugin_open(const char *path, struct ck_transport **out,
		   struct ck_diag *d)
{
	static const struct ck_component mpi = { "ckptfs-mpi.so",
						 CK_TRANSPORT_PLUGIN_NAME,
						 "MPI transport", "mpi",
						 CK_TRANSPORT_PLUGIN_VERSION };
	const void *loaded;
	const struct ck_transport_plugin *p;
	int rc = ck_component_load(&mpi, path, &loaded, d);

	if (rc)
		return rc;
	p = loaded;
	return p->open(out, d);
}

int ck_transport_mpi(struct ck_transport **out, struct ck_diag *d)
{
	return ck_plugin_open(NULL, out, d);
}
