/* SPDX-License-Identifier: MIT */
/*
 * zero: files of DeepSpeed ZeRO. *_optim_states.pt have slices of each rank, which are
 * shown as they are and not joined. zero_pp_rank_*_model_states.pt of ZeRO-3 have an
 * empty tensor in place of each parameter; these are hidden. Runs once, after all files
 * were read.
 *
 * Source: DeepSpeed 0.19.8, deepspeed/runtime/engine.py (_get_zero_ckpt_name,
 * _get_ckpt_name) and deepspeed/utils/zero_to_fp32.py.
 */
#include "entries.h"

#include <errno.h>
#include <inttypes.h>

#define SLICES "_optim_states.pt"

static bool has_slices(const char *name)
{
	return ck_name_ends(name, SLICES);
}

static bool has_placeholders(const char *name)
{
	return strncmp(name, "zero_pp_rank_", 13) == 0 &&
	       ck_name_ends(name, "_model_states.pt");
}

static bool is_placeholder(const struct ck_torch_row *row)
{
	return row->spec && !row->unread && row->spec->ndim == 1 &&
	       row->spec->shape[0] == 0;
}

/* Hides the placeholders of a file. Returns their number. */
static uint64_t placeholders_drop(struct ck_torch_load *l,
				  const struct ck_torch_file *f)
{
	uint64_t n = 0;

	for (size_t i = f->row; i < f->row + f->nrows; i++)
		if (is_placeholder(&l->rows[i])) {
			l->rows[i].unread = true;
			n++;
		}
	return n;
}

int ck_torch_zero_note(struct ck_torch_load *l)
{
	const char *first = NULL, *slices = NULL;
	uint64_t empty = 0, files = 0, n;

	for (size_t i = 0; i < l->nfiles; i++) {
		const struct ck_torch_file *f = &l->files[i];

		if (f->good && has_slices(f->name) && !slices)
			slices = f->name;
		n = f->good && has_placeholders(f->name)
			    ? placeholders_drop(l, f)
			    : 0;
		if (n && !first)
			first = f->name;
		files += n > 0;
		empty += n;
	}
	if (!first && !slices)
		return 0;
	return ck_catalog_doubt_add(
		       l->c,
		       first ? ck_shown(
				       "DeepSpeed ZeRO-3: %" PRIu64
				       " empty tensors of %s%s are not shown: the "
				       "parameters are slices in *" SLICES
				       ", which are not put together; "
				       "zero_to_fp32.py does that",
				       empty, ck_show(ck_str_from(first)),
				       files > 1 ? ck_shown(" and %" PRIu64
							    " more files",
							    files - 1)
						 : "")
			     : ck_shown(
				       "DeepSpeed ZeRO: fp32 parameters and "
				       "state of optimizers in %s are slices of "
				       "a rank, which are not put together; "
				       "zero_to_fp32.py does that",
				       ck_show(ck_str_from(slices))))
		       ? ck_fail(l->d, ENOMEM, "out of memory")
		       : 0;
}
