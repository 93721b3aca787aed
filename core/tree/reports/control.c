/* SPDX-License-Identifier: MIT */
/*
 * control: .ckptfs/ has the reports. A live one is printed when
 * its name is looked up, and is as long as it was then until the next time. Behind the reports
 * is shards/, unless the checkpoint is a run directory.
 */
#include "tree/tree_internal.h"

#include <errno.h>

/* What is made of a checkpoint are the texts, which lock themselves. */
static struct ck_snapshots *texts_of(const void *state)
{
	return (struct ck_snapshots *)(uintptr_t)state;
}

static int control_make(const struct ck_view_source *from, const void **state)
{
	*state = ck_snapshots_make(ck_reports, ck_nreports, from->root);
	return *state ? 0 : -ENOMEM;
}

static void control_free(const void *state)
{
	ck_snapshots_free(texts_of(state));
}

static bool is_shown(const struct ck_dir *dir, size_t i)
{
	return !ck_reports[i].is_shown || ck_reports[i].is_shown(dir->root);
}

static void child_set(uint32_t i, struct ck_child *out)
{
	*out = (struct ck_child){ .type = CK_TYPE_FILE, .entry = i };
}

/* With `write` the kernel looks names up again, so that files have the time of the last
 * commit. */
static void shards_set(const struct ck_dir *dir, struct ck_child *out)
{
	enum { NAMES_MSEC = 1000 };

	*out = (struct ck_child){
		.type = CK_TYPE_DIR,
		.entry = (uint32_t)ck_nreports,
		.dir = { .view = &ck_view_shards,
			 .root = dir->root,
			 .names_msec = dir->root->options->write ? NAMES_MSEC
								 : 0 },
	};
}

static int control_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
			  struct ck_str name, struct ck_child *out)
{
	struct ck_snapshot *text;
	size_t i = 0;
	int rc;

	(void)c;
	if (ck_str_is(name, ck_view_shards.top) && !dir->root->made) {
		shards_set(dir, out);
		return 0;
	}
	while (i < ck_nreports && !ck_str_is(name, ck_reports[i].name))
		i++;
	if (i == ck_nreports || !is_shown(dir, i))
		return -ENOENT;
	child_set((uint32_t)i, out);
	rc = ck_snapshots_get(texts_of(dir->state), i, true, &text);
	if (rc == 0)
		ck_snapshot_put(text);
	return rc;
}

static int control_next(const struct ck_catalog *c, const struct ck_dir *dir,
			uint64_t *at, struct ck_child *out)
{
	(void)c;
	while (*at < ck_nreports && !is_shown(dir, *at))
		++*at;
	if (*at > ck_nreports || (*at == ck_nreports && dir->root->made))
		return -ENOENT;
	if (*at == ck_nreports)
		shards_set(dir, out);
	else
		child_set((uint32_t)*at, out);
	return 0;
}

static void control_name(const struct ck_catalog *c, const struct ck_dir *dir,
			 uint32_t entry, struct ck_buf *out)
{
	(void)c, (void)dir;
	ck_buf_text(out, entry < ck_nreports ? ck_reports[entry].name
					     : ck_view_shards.top);
}

/* The present text of a report. */
static int text_get(const struct ck_dir *dir, uint32_t entry,
		    struct ck_snapshot **out)
{
	struct ck_snapshots *texts = texts_of(dir->state);

	return entry < ck_snapshots_count(texts)
		       ? ck_snapshots_get(texts, entry, false, out)
		       : -ENOENT;
}

static int control_stat(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, struct ck_file_content *out)
{
	(void)c;
	if (entry >= ck_snapshots_count(texts_of(dir->state)))
		return -ENOENT;
	*out = (struct ck_file_content){ .topic = CK_FILE_KIND_CHECKPOINT,
					 .made = true,
					 .live = ck_reports[entry].live };
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

/* Of a checkpoint, with shards/ and the maps in it. */
static uint64_t control_count(const struct ck_catalog *c, const void *state)
{
	return ck_snapshots_shown(texts_of(state)) + 1 + ck_shown_tensors(c);
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
