/* SPDX-License-Identifier: MIT */
/* warn: see ckptfs/warnings.h. */
#include "ckptfs/warnings.h"
#include "format_internal.h"
#include "item/remarks.h"

#include <errno.h>

int ck_checkpoint_unknown(const struct ck_checkpoint *cp,
			  const struct ck_catalog *c,
			  struct ck_unknown_classes *out)
{
	struct ck_str *all = NULL;
	size_t n, kept = 0;
	int rc;

	*out = (struct ck_unknown_classes){ 0 };
	rc = ck_remarks_list_classes(cp->remarks, &out->text, &out->all, &n);
	if (rc)
		return rc;
	all = realloc(out->all, (n + c->nglobals + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	out->all = all;
	if (c->nglobals)
		memcpy(all + n, c->globals, c->nglobals * sizeof(*all));
	n += c->nglobals;
	if (n)
		qsort(all, n, sizeof(*all), ck_str_cmp);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !ck_str_eq(all[kept - 1], all[i]))
			all[kept++] = all[i];
	out->n = kept;
	return 0;
}

void ck_unknown_classes_fini(struct ck_unknown_classes *u)
{
	free(u->all);
	ck_arena_fini(&u->text);
	*u = (struct ck_unknown_classes){ 0 };
}
