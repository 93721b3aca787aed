/* SPDX-License-Identifier: MIT */
/* format_options: memory of the options of reading. No state. */
#include "ckptfs/format.h"

void ck_format_options_fini(struct ck_format_options *o)
{
	free(o->linkroot);
	free(o->sidecar);
	free(o->rename);
	free(o->only);
	free(o->exclude);
	ck_renames_put(o->renames);
	ck_selection_put(o->selection);
	o->linkroot = o->sidecar = o->rename = o->only = o->exclude = NULL;
	o->renames = NULL;
	o->selection = NULL;
}
