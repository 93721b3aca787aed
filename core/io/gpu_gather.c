/* SPDX-License-Identifier: MIT */
/* Loads the part for GPUs: see gpu.h. */
#include "base/system/component.h"
#include "ckptfs/gpu.h"

static const struct ck_component gpu = { "ckptfs-gpu.so", CK_GPU_PLUGIN_NAME,
					 "part for GPUs",
					 CK_GPU_PLUGIN_VERSION };

int ck_gpu_open(const struct ck_gpu_options *options, struct ck_gpu **out,
		struct ck_diag *d)
{
	const void *loaded;
	const struct ck_gpu_plugin *p;
	int rc = ck_component_load(&gpu, NULL, &loaded, d);

	if (rc)
		return rc;
	p = loaded;
	return p->open(options, out, d);
}
