/* SPDX-License-Identifier: MIT */
/*
 * note: lines for the user about views. They go to the log, and to the function that a
 * command without a mount sets. No state; any thread.
 */
#include "model/place_rules.h"
#include "view_internal.h"

#include <inttypes.h>

void ck_view_note(const struct ck_view_options *o, const char *line)
{
	ck_log("%s", line);
	if (o && o->note)
		o->note(line);
}

/* Sets used[i] for the rules that decide for a tensor. Ends as soon as all do. */
static int rules_use(const struct ck_place_rules *r, const struct ck_catalog *c,
		     bool *used, uint32_t *nunused)
{
	uint32_t rule;
	int rc = 0;

	*nunused = ck_place_rules_count(r);
	for (uint32_t i = 0; i < c->tensors.n && *nunused && rc == 0; i++) {
		if (!ck_tensor_is_whole(c, i) || ck_view_is_flat(c, i))
			continue;
		rc = ck_place_rules_find(r, ck_tensor_names(c, i).name,
					 ck_catalog_tensor(c, i)->ndim, &rule);
		if (rc || rule == ck_place_rules_count(r) || used[rule])
			continue;
		used[rule] = true;
		--*nunused;
	}
	return rc;
}

void ck_view_place_note(const struct ck_view_options *o,
			const struct ck_catalog *c, struct ck_buf *out)
{
	uint32_t n = ck_place_rules_count(o->rules), unused, line, first = 0;
	ck_auto_free bool *used = n ? calloc(n, sizeof(*used)) : NULL;
	const char *glob;

	if (!used || rules_use(o->rules, c, used, &unused) || !unused)
		return;
	while (used[first])
		first++;
	glob = ck_place_rules_at(o->rules, first, &line);
	ck_buf_printf(out,
		      "placements=: %" PRIu32 " of %" PRIu32
		      " rules decide for no tensor; the first is line "
		      "%" PRIu32 ": %s",
		      unused, n, line, ck_show(ck_str_from(glob)));
}
