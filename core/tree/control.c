/* SPDX-License-Identifier: MIT */
/*
 * control: .ckptfs/ has the reports of whoever has the tree. A live one is printed when
 * its name is looked up, and is as long as it was then until the next time.
 */
#include "tree_internal.h"

#include <errno.h>

struct control {
	const struct ck_report *reports;
	size_t n;
	struct ck_snapshots *texts; /* owned */
};

static int control_make(const struct ck_view_source *from, const void **state)
{
	const struct ck_tree_options *o = from->options;
	struct control *control = malloc(sizeof(*control));

	if (!control)
		return -ENOMEM;
	*control = (struct control){
		.reports = o->reports,
		.n = o->nreports,
		.texts = ck_snapshots_make(o->reports, o->nreports, o->arg),
	};
	*state = control;
	if (control->texts)
		return 0;
	free(control);
	*state = NULL;
	return -ENOMEM;
}

static void control_free(const void *state)
{
	struct control *control = (struct control *)(uintptr_t)state;

	ck_snapshots_free(control->texts);
	free(control);
}

static void child_set(uint32_t i, struct ck_child *out)
{
	*out = (struct ck_child){ .type = CK_TYPE_FILE, .entry = i };
}

static int control_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
			  struct ck_str name, struct ck_child *out)
{
	const struct control *control = dir->state;
	struct ck_snapshot *text;
	size_t i = 0;
	int rc;

	(void)c;
	while (i < control->n && !ck_str_is(name, control->reports[i].name))
		i++;
	if (i == control->n)
		return -ENOENT;
	child_set((uint32_t)i, out);
	rc = ck_snapshots_get(control->texts, i, true, &text);
	if (rc == 0)
		ck_snapshot_put(text);
	return rc;
}

static int control_next(const struct ck_catalog *c, const struct ck_dir *dir,
			uint64_t *at, struct ck_child *out)
{
	const struct control *control = dir->state;

	(void)c;
	if (*at >= control->n)
		return -ENOENT;
	child_set((uint32_t)*at, out);
	return 0;
}

static void control_name(const struct ck_catalog *c, const struct ck_dir *dir,
			 uint32_t entry, struct ck_buf *out)
{
	const struct control *control = dir->state;

	(void)c;
	ck_buf_text(out, control->reports[entry].name);
}

/* The present text of a report. */
static int text_get(const struct ck_dir *dir, uint32_t entry,
		    struct ck_snapshot **out)
{
	const struct control *control = dir->state;

	return entry < control->n
		       ? ck_snapshots_get(control->texts, entry, false, out)
		       : -ENOENT;
}

static int control_stat(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, struct ck_about *out)
{
	const struct control *control = dir->state;

	(void)c;
	if (entry >= control->n)
		return -ENOENT;
	*out = (struct ck_about){ .topic = CK_ABOUT_CHECKPOINT,
				  .made = true,
				  .live = control->reports[entry].live };
	return 0;
}

/* Of the present text: it stays what it was at the lookup. */
static int control_size(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, uint64_t *size)
{
	struct ck_snapshot *text;
	int rc = text_get(dir, entry, &text);

	(void)c;
	if (rc)
		return rc;
	*size = text->text.len;
	ck_snapshot_put(text);
	return 0;
}

static int control_slice(const struct ck_catalog *c, const struct ck_dir *dir,
			 uint32_t entry, struct ck_slice **out)
{
	struct ck_snapshot *text;
	int rc = text_get(dir, entry, &text);

	(void)c;
	return rc ? rc : ck_snapshot_slice(text, out);
}

static uint64_t control_count(const struct ck_catalog *c, const void *state)
{
	(void)c;
	return ((const struct control *)state)->n;
}

const struct ck_view ck_view_control = {
	.top = CK_CONTROL_DIR,
	.make = control_make,
	.free = control_free,
	.lookup = control_lookup,
	.next = control_next,
	.name = control_name,
	.stat = control_stat,
	.size = control_size,
	.slice = control_slice,
	.count = control_count,
	.is_dated = true,
};
