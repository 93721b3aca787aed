/* SPDX-License-Identifier: MIT */
/* torch_files: the files of a load. Finds them by name, reads their pickles one after the
 * other, and adds their entries. All files share one memory limit. An unreadable file
 * becomes a line of damage. */
#include "format/ranks/ranks_flat.h"

#include <errno.h>

/* --- names ------------------------------------------------------------------------------- */

bool ck_torch_is_name(const char *name)
{
	return ck_name_ends(name, ".pt") || ck_name_ends(name, ".pth") ||
	       ck_name_ends(name, ".bin") || ck_name_ends(name, ".ckpt");
}

int ck_torch_names_find(struct ck_directory dir,
			bool (*called)(const char *name), bool by_search,
			struct ck_dir_names *out)
{
	const struct ck_dir_want want = { called, SIZE_MAX,
					  by_search ? CK_DIR_BRIEF : SIZE_MAX };
	int rc = ck_dir_names_read(dir, &want, out);

	return rc ? rc : ck_dir_names_begin(dir, ck_torch_begins, out);
}

int ck_torch_file_add(struct ck_torch_load *l, const char *path)
{
	struct ck_torch_file *files = ck_grow(l->files, &l->files_cap,
					      l->nfiles, 1, sizeof(*files));
	struct ck_torch_file *f;

	if (files)
		l->files = files;
	if (!files || ck_dir_names_add(&l->paths, path))
		return ck_fail(l->d, ENOMEM, "out of memory");
	f = &files[l->nfiles++];
	*f = (struct ck_torch_file){ .name = l->paths.all[l->paths.n - 1],
				     .above = { "", 0 },
				     .rank = CK_NO_RANK,
				     .family = CK_RANK_NO_FAMILY };
	if (ck_files_add(l->cp->files, ck_str_from(path), &f->number))
		return ck_fail(l->d, ENOMEM, "out of memory");
	return 0;
}

void ck_torch_load_fini(struct ck_torch_load *l)
{
	for (size_t i = 0; i < l->nfiles; i++)
		ck_torch_file_fini(&l->files[i]);
	free(l->files);
	ck_dir_names_fini(&l->paths);
	ck_index_fini(&l->index);
	ck_torch_rows_fini(l);
}

/* --- reading ----------------------------------------------------------------------------- */

/* Adds a line of damage for a file whose contents are unknown. */
static int lose(const struct ck_torch_load *l, const struct ck_torch_file *f,
		const struct ck_diag *d)
{
	const struct ck_loss loss = { .file = f->number,
				      .err = d->err ? d->err : EBADMSG,
				      .what = ck_diag_what(d) };

	return ck_catalog_loss_add(l->c, &loss)
		       ? ck_fail(l->d, ENOMEM, "out of memory")
		       : 0;
}

/* Returns the prefix of the paths of a file. Each of several independent files, and each
 * file beside a checkpoint, gets its name as prefix. */
static struct ck_str above(const struct ck_torch_load *l,
			   const struct ck_torch_file *f)
{
	const char *dot = strrchr(f->name, '.');

	if (l->by_rank)
		return f->above;
	if (!l->beside && (l->is_union || l->nfiles == 1))
		return (struct ck_str){ "", 0 };
	return (struct ck_str){ f->name, dot ? (size_t)(dot - f->name)
					     : strlen(f->name) };
}

static bool is_module(const struct ck_pv *root)
{
	const struct ck_pcall *call = ck_pv_any_call(root);
	struct ck_pv v;

	return call && call->has_state && call->state.tag == CK_PV_DICT &&
	       ck_pv_get(&call->state, "_parameters", &v) &&
	       ck_pv_get(&call->state, "_modules", &v);
}

static int module_note(const struct ck_torch_load *l,
		       const struct ck_torch_file *f)
{
	if (!is_module(&f->pickle.root))
		return 0;
	return ck_catalog_note_add(l->c,
				   ck_shown("%s: a pickled module: save its "
					    "state_dict()",
					    ck_show(ck_str_from(f->name))))
		       ? ck_fail(l->d, ENOMEM, "out of memory")
		       : 0;
}

/* Appends the rows of a file. All files together may use as much memory as one file of
 * their total size. A file that cannot be read returns the memory that it used to the
 * limit, except for an eighth. That bounds the work on many such files. */
static int rows_read(struct ck_torch_load *l, uint32_t i, struct ck_diag *d)
{
	struct ck_torch_file *f = &l->files[i];
	uint64_t size = ck_files_info(l->cp->files, f->number)->size;
	uint64_t more = ck_pickle_settle(&f->pickle, f->len, size);
	uint64_t before = l->spare;
	int rc;

	if (more > before)
		return ck_fail(d, EBADMSG,
			       "needs more memory than the sizes of all files "
			       "allow");
	l->spare -= more;
	ck_pickle_lend(&f->pickle, l->spare);
	rc = ck_torch_rows_read(l, i, above(l, f), d);
	l->spare = ck_pickle_take_back(&f->pickle, l->spare);
	if (rc && !f->known)
		l->spare = before - (before - l->spare) / 8;
	return rc;
}

/* Ends a file after its rows were read. Rows and sums stay; the pickle is freed before
 * the next file is read. */
static int file_done(struct ck_torch_load *l, uint32_t i)
{
	struct ck_torch_file *f = &l->files[i];
	int rc = module_note(l, f);

	f->good = true;
	f->rank = f->answer.rank; /* also of a single file */
	ck_torch_pickle_fini(f);
	if (rc == 0)
		rc = ck_torch_sums_take(l, f);
	ck_torch_file_fini(f);
	return rc;
}

static int file_read(struct ck_torch_load *l, uint32_t i)
{
	struct ck_torch_file *f = &l->files[i];
	struct ck_diag d = { 0 };
	int rc = ck_torch_file_read(l->cp->files, f, &d);

	if (rc == 0)
		ck_remarks_classes(l->cp->remarks, &f->pickle);
	if (rc == 0)
		rc = rows_read(l, i, &d);
	/* A dangerous file of a rank, or beside a checkpoint, becomes a line of
	 * damage. Any other dangerous file ends the load. */
	if (ck_is_shortage(rc) ||
	    (f->pickle.dangerous && !l->by_rank && !l->beside))
		return ck_fail(l->d, -rc, "%s: %s",
			       ck_show(ck_str_from(f->name)), d.text);
	if (rc) {
		ck_torch_file_fini(f);
		return lose(l, f, &d);
	}
	return file_done(l, i);
}

int ck_torch_files_try(struct ck_torch_load *l, bool *some)
{
	int rc = 0;

	*some = false;
	l->spare = CK_PICKLE_BASE;
	for (uint32_t i = 0; i < l->nfiles && rc == 0; i++) {
		rc = file_read(l, i);
		*some |= l->files[i].good;
	}
	if (!l->layout) /* else rows of other files follow */
		ck_torch_known_free(l);
	return rc;
}

int ck_torch_files_read(struct ck_torch_load *l)
{
	bool some;
	int rc = ck_torch_files_try(l, &some);

	if (rc || some || l->nfiles == 0)
		return rc;
	return ck_fail_none_usable(l->c, l->files[0].name, l->nfiles, l->d);
}

/* --- entries ----------------------------------------------------------------------------- */

/* Shows pieces of flat parameters one by one: each path has one file. */
static int pieces_show(struct ck_torch_load *l)
{
	int rc = 0;

	for (size_t i = 0; i < l->nrows && rc == 0; i++) {
		const struct ck_torch_row *row = &l->rows[i];

		if (row->piece && !row->unread)
			rc = ck_rank_pieces_show(l, &row, 1);
	}
	return rc;
}

/* Finds optimizer states, and the number of ranks as the files have it. */
static int trees_find(struct ck_torch_load *l)
{
	for (size_t i = 0; i < l->nfiles; i++)
		l->world = ck_max(l->world, l->files[i].answer.world);
	return ck_rank_trees_find(l);
}

int ck_torch_entries_add(struct ck_torch_load *l)
{
	int rc = trees_find(l);

	if (rc == 0)
		rc = ck_torch_rows_show(l);
	if (rc == 0)
		rc = ck_rank_states_show(l);
	if (rc == 0)
		rc = ck_rank_params_add(l);
	return rc ? rc : pieces_show(l);
}
