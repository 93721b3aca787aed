/* SPDX-License-Identifier: MIT */
/*
 * tensor: what is known of single tensors: whether a fault was found, and where
 * the boxes of a file lie.
 */
#include "internal.h"

bool ck_tensor_found_faulty(const struct ck_fs *fs, uint32_t tensor)
{
	return ck_bits_has(&fs->faulty, tensor);
}

/* Also false: a shard that was away and is back is no fault any more. */
static void faulty_set(struct ck_fs *fs, uint32_t tensor, bool faulty)
{
	if (faulty)
		ck_bits_set_atomic(&fs->faulty, tensor);
	else if (ck_tensor_found_faulty(fs, tensor))
		ck_bits_clear_atomic(&fs->faulty, tensor);
}

void ck_tensor_forget_faults(struct ck_fs *fs, uint32_t tensor)
{
	faulty_set(fs, tensor, false);
}

bool ck_tensor_known_faulty(const struct ck_fs *fs, uint32_t tensor)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	bool faulty = ck_tensor_found_faulty(fs, tensor);
	struct ck_item_walk walk = { 0 };

	faulty = faulty || t->err || t->holes;
	for (uint32_t i = 0; i < t->nchunks && !faulty; i++)
		faulty = ck_item_walk_to(&walk, c, t->chunk + i)->err;
	return faulty;
}

/* Whether all files of a tensor are still those seen at the mount. *passing:
 * of some that could not be told. */
static bool files_changed(struct ck_fs *fs, const struct ck_layout *layout,
			  bool *passing)
{
	uint32_t last = CK_NO_FILE;
	bool changed = false;

	for (uint32_t i = 0; i < layout->n; i++) {
		const struct ck_extent *x = &layout->extents[i];
		bool now;

		if (x->file == CK_NO_FILE || x->file == last)
			continue;
		last = x->file;
		/* All files are checked, since the check also notes who may
		 * read them. */
		if (ck_files_check(fs->cp->files, last, &now) == 0 || x->err ||
		    x->memory)
			continue;
		*passing = *passing || now;
		changed = changed || !now;
	}
	return changed;
}

static bool is_present(const struct ck_fs *fs, const struct ck_layout *layout)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	return ck_catalog_tensor(c, layout->tensor)->version == layout->version;
}

int ck_tensor_locate(struct ck_fs *fs, const struct ck_catalog *c,
		     uint32_t tensor, const uint64_t *window,
		     const struct ck_layout **out, bool *faulty)
{
	bool lasting, passing;
	int rc = ck_layout_get(fs->cp, c, tensor, window, out);

	if (rc)
		return rc;
	passing = (*out)->passing;
	lasting = (*out)->faulty | files_changed(fs, *out, &passing);
	*faulty = lasting || passing;
	/* A window can show that there is a fault, not that there is none; what
	 * could not be asked shows nothing, nor does a version that is not the
	 * present one, or is not any more. */
	if (!is_present(fs, *out) || (!lasting && (window || passing)))
		return 0;
	faulty_set(fs, tensor, lasting);
	if (!is_present(fs, *out))
		faulty_set(fs, tensor, false);
	return 0;
}

const uint64_t *ck_about_window(const struct ck_catalog *c,
				const struct ck_about *about)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, about->number);

	if (about->topic != CK_ABOUT_BOX)
		return NULL;
	return (const uint64_t *)ck_tensor_box(t, about->chunk - t->chunk);
}
