/* SPDX-License-Identifier: MIT */
/*
 * apply_commit: implements format/rewrite.h for commits. The format of the checkpoint
 * provides file names and the new metadata. The next catalog is prepared before the
 * metadata is renamed, so that nothing can fail afterwards, and is published after that.
 *
 * One thread at a time commits. Publishing takes ck_checkpoint.changing, because other
 * threads publish corrected access rights.
 */
#include "current.h"
#include "current_metadata.h"
#include "layout_internal.h"

#include <errno.h>

/* --- names and metadata, by the format --------------------------------------- */

int ck_checkpoint_can_be_written(const struct ck_checkpoint *cp,
				 struct ck_diag *d)
{
	const char *why = cp->format->unwritable;

	if (cp->format->write)
		return 0;
	return ck_fail(d, EOPNOTSUPP,
		       "checkpoints of kind %s%s cannot be written",
		       cp->format->name, why ? why : "");
}

int ck_metadata_writable(const struct ck_checkpoint *cp, bool keep_unknown,
			 struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	if (ck_checkpoint_can_be_written(cp, d))
		return -EOPNOTSUPP;
	if (!cp->write)
		return ck_fail(d, EINVAL, "was not opened for writing");
	for (size_t i = 0; !keep_unknown && i < c->nglobals; i++)
		if (!cp->format->is_carried(c->globals[i]))
			return ck_fail(d, EPERM,
				       ".metadata refers to the unknown class "
				       "%s, which PyTorch would call on load; "
				       "mount with -o keep_unknown to keep it",
				       ck_show(c->globals[i]));
	return 0;
}

void ck_shard_name(const struct ck_checkpoint *cp, char out[static CK_NAME_LEN],
		   uint64_t rank, uint64_t generation, const char *hex)
{
	cp->format->shard_name(out, rank, generation, hex);
}

bool ck_name_is_ours(const struct ck_checkpoint *cp, const char *name,
		     uint64_t *generation)
{
	return cp->format->is_ours(name, generation);
}

int ck_metadata_movable(const struct ck_checkpoint *cp, uint32_t chunk,
			struct ck_diag *d)
{
	return cp->format->movable(cp, chunk, d);
}

int ck_metadata_write(struct ck_checkpoint *cp,
		      const struct ck_change_of_place *changes, uint32_t n,
		      int fd, struct ck_diag *d)
{
	return cp->format->write(cp, changes, n, fd, d);
}

/* --- the next catalog -------------------------------------------------------- */

/* Returns 0 if size and mode of a new file are known, else a negative errno. */
static int new_file_check(const struct ck_checkpoint *cp, uint32_t file)
{
	int trouble = ck_files_trouble(cp->files, file);

	return trouble ? -trouble : -ck_files_info(cp->files, file)->err;
}

/* Adds the files of the changes to cp->files, and fills edits with their numbers. */
static int add_files(struct ck_checkpoint *cp,
		     const struct ck_change_of_place *changes,
		     struct ck_edit *edits, uint32_t n)
{
	int rc = 0;

	for (uint32_t i = 0; i < n && rc == 0; i++) {
		edits[i] = (struct ck_edit){
			.kind = CK_EDIT_PLACE,
			.number = changes[i].chunk,
			.item = { .fpos = changes[i].fpos,
				  .length = changes[i].length },
		};
		rc = ck_files_add(cp->files, changes[i].path,
				  &edits[i].item.file);
		if (rc == 0)
			rc = new_file_check(cp, edits[i].item.file);
	}
	return rc;
}

static bool is_named(const struct ck_edit *edits, uint32_t n, uint32_t file)
{
	for (uint32_t i = 0; i < n; i++)
		if (edits[i].item.file == file)
			return true;
	return false;
}

/* Adds the files that the catalog lacks. Those below `before` that no edit names
 * belong to commits that failed: they are entered as damaged and never read. */
static int describe_files(struct ck_checkpoint *cp, struct ck_catalog *next,
			  const struct ck_edit *edits, uint32_t n,
			  uint32_t before)
{
	int rc = 0;

	while (next->files.n < ck_files_count(cp->files) && rc == 0) {
		uint32_t number = next->files.n;
		struct ck_data_file file = ck_file_described(cp, number);

		if (number < before && !is_named(edits, n, number)) {
			file.err = ENODATA;
			file.unseen = false; /* never opened */
		}
		rc = ck_catalog_file_add(next, &file);
	}
	return rc;
}

int ck_checkpoint_prepare(struct ck_checkpoint *cp,
			  const struct ck_change_of_place *changes, uint32_t n,
			  struct ck_catalog **next)
{
	ck_auto_free struct ck_edit *edits = calloc(n + 1UL, sizeof(*edits));
	ck_auto_catalog *now = ck_checkpoint_catalog(cp);
	uint32_t before = ck_files_count(cp->files);
	struct ck_catalog *c = edits ? ck_catalog_next(now) : NULL;
	int rc = c ? add_files(cp, changes, edits, n) : -ENOMEM;

	if (rc == 0)
		rc = describe_files(cp, c, edits, n, before);
	if (rc == 0)
		rc = ck_catalog_edit(c, edits, n, NULL);
	if (rc)
		ck_catalog_put(c);
	else
		*next = c;
	return rc;
}

/* Enters the access rights found since the catalog was prepared. True if some differ.
 * If memory is short, the directory loses all bits of its mode until the next
 * ck_checkpoint_renew_access(). */
static bool correct(struct ck_checkpoint *cp, struct ck_catalog *next)
{
	bool changed;

	if (ck_access_correct(cp, next, &changed) == 0)
		return changed;
	next->dir_mode &= (mode_t)~0777;
	return true;
}

void ck_checkpoint_switch(struct ck_checkpoint *cp, struct ck_catalog *next,
			  const struct stat *metadata,
			  const struct ck_change_of_place *changes, uint32_t n)
{
	ck_auto_catalog *c = ck_catalog_hold(next);

	ck_access_note_metadata(cp, metadata);
	/* Records the rights again: they may differ from those of the stat. */
	(void)!ck_metadata_changed(cp, metadata);
	next->meta.mtime = metadata->st_mtim;
	cp->format->switched(cp);
	pthread_mutex_lock(&cp->changing);
	if (correct(cp, next))
		ck_access_renewed(cp);
	ck_checkpoint_publish(cp, next, metadata);
	pthread_mutex_unlock(&cp->changing);
	for (uint32_t i = 0; i < n; i++) {
		/* The commit may have set the owner of the file after its stat,
		 * which changes the ctime, but not the bytes. */
		ck_files_forget_ctime(
			cp->files, ck_catalog_item(c, changes[i].chunk)->file);
		ck_layouts_forget(cp,
				  ck_catalog_tensor_of(c, changes[i].chunk));
	}
}
