/* SPDX-License-Identifier: MIT */
/*
 * detect: finds the format of a directory or file. There is a row for each way in which a
 * checkpoint is recognised. Rows are tried in order, and the first that matches decides.
 * A format has several rows if other formats come between them in that order. The table is
 * constant; any thread may call the functions.
 */
#include "detect.h"
#include "format/dcp/dcp_kind.h"
#include "format/load/load_gather.h"
#include "format/ranks/ranks_kind.h"
#include "format/run/run_kind.h"
#include "format/safetensors/safetensors_kind.h"
#include "format/torch/torch_kind.h"
#include "format/torch_checkpointing/tckpt_kind.h"
#include "warn.h"

#include <errno.h>

static const struct ck_kind rows[] = {
	{ NULL, NULL, ck_producers_are_sure, NULL, NULL, false },
	{ &ck_format_dcp,
	  "it has the .metadata of torch.distributed.checkpoint",
	  ck_dcp_is_here, NULL, "it has no .metadata", false },
	{ &ck_format_dcp_ranks,
	  "it has the __<rank>.metadata of torch.distributed.checkpoint "
	  "without collectives",
	  ck_dcp_has_ranks, ck_dcp_is_unfinished, "it has no __<rank>.metadata",
	  false },
	{ &ck_format_torch_checkpointing,
	  "it has the metadata.pkl of torch_checkpointing", ck_tckpt_is_here,
	  NULL, "it has no metadata.pkl of torch_checkpointing", false },
	{ &ck_format_safetensors, "it has an index of safetensors files",
	  ck_safetensors_has_index, NULL, "it has no *.safetensors.index.json",
	  false },
	{ &ck_format_safetensors, "it has safetensors files",
	  ck_safetensors_has_files, NULL, "it has no *.safetensors", false },
	{ &ck_format_safetensors, "it begins as a safetensors file does",
	  ck_safetensors_is_file, NULL,
	  "it does not begin as a safetensors file does", true },
	{ &ck_format_torch, "it has an index of files of torch.save",
	  ck_torch_has_index, NULL, "it has no *.bin.index.json", false },
	{ &ck_format_torch, "it has pieces of a state dict of torch.save",
	  ck_torch_has_pieces, NULL, NULL, false },
	{ NULL, NULL, ck_producers_have_latest, NULL, NULL, false },
	{ &ck_format_ranks, "it has files of torch.save of several ranks",
	  ck_ranks_has_family, NULL,
	  "it has no two files of torch.save whose names differ in a number",
	  false },
	{ NULL, NULL, ck_tckpt_has_ranks, NULL, NULL, false },
	{ &ck_format_run, "its subdirectories are checkpoints", ck_run_is_sure,
	  NULL, "none of its subdirectories is a checkpoint", false },
	{ &ck_format_torch, "it has files of torch.save", ck_torch_has_files,
	  NULL, "it has no file of torch.save named *.pt *.pth *.bin *.ckpt",
	  false },
	{ &ck_format_run, "its subdirectories have files of torch.save",
	  ck_run_is_here, NULL, NULL, false },
	{ &ck_format_torch, "it begins as a file of torch.save does",
	  ck_torch_is_file, NULL,
	  "it does not begin as a file of torch.save does", true },
};

const struct ck_kinds ck_kinds = { rows, CK_ARRAY_SIZE(rows) };

/* Rows that refuse hold for the kinds that would join files of other programs, also if the
 * user insists on such a kind. */
static bool is_wanted(const struct ck_kind *row, const struct ck_src *src)
{
	if (!src->kind)
		return true;
	return row->format ? strcmp(row->format->name, src->kind) == 0
			   : strcmp(ck_format_ranks.name, src->kind) == 0 ||
				     strcmp(ck_format_run.name, src->kind) == 0;
}

int ck_kind_find(const struct ck_kinds *kinds, const struct ck_src *src,
		 const struct ck_kind **out, struct ck_diag *d)
{
	struct ck_src with = *src;

	with.kinds = kinds;
	for (size_t i = 0; i < kinds->n; i++) {
		int rc = is_wanted(&kinds->rows[i], src)
				 ? kinds->rows[i].holds(&with, d)
				 : 0;

		if (rc > 0)
			*out = &kinds->rows[i];
		if (rc)
			return rc < 0 ? rc : 0;
	}
	return -ENOENT;
}

int ck_kind_unfinished(const struct ck_kinds *kinds, const struct ck_src *src,
		       struct ck_diag *d)
{
	int rc = 0;

	for (size_t i = 0; i < kinds->n && rc == 0; i++)
		if (kinds->rows[i].unfinished &&
		    is_wanted(&kinds->rows[i], src))
			rc = kinds->rows[i].unfinished(src, d);
	return rc;
}

/* --- by name --------------------------------------------------------------------- */

/* True if the row is the first one of its format. */
static bool is_first(size_t row)
{
	for (size_t i = 0; i < row; i++)
		if (ck_kinds.rows[i].format &&
		    strcmp(ck_kinds.rows[i].format->name,
			   ck_kinds.rows[row].format->name) == 0)
			return false;
	return true;
}

int ck_kind_named(const char *name, const char **out, struct ck_diag *d)
{
	struct ck_buf all = { 0 };
	int rc = 0;

	for (size_t i = 0; i < ck_kinds.n; i++) {
		if (!ck_kinds.rows[i].format)
			continue;
		*out = ck_kinds.rows[i].format->name;
		if (strcmp(*out, name) == 0)
			break;
		if (is_first(i))
			ck_buf_printf(&all, "%s%s", all.len ? ", " : "", *out);
	}
	if (strcmp(*out, name) != 0)
		rc = ck_fail(d, EINVAL,
			     "option kind=%s: not read by this version, which "
			     "reads %s",
			     ck_show(ck_str_from(name)),
			     all.data ? all.data : "?");
	ck_buf_fini(&all);
	return rc;
}

/* Prints the missing parts of rows of src->kind that are about files, or about directories,
 * as the source is. */
static void print_missing(const struct ck_kinds *kinds,
			  const struct ck_src *src, struct ck_buf *out)
{
	bool some = false;

	for (size_t i = 0; i < kinds->n; i++) {
		const struct ck_kind *row = &kinds->rows[i];

		if (!is_wanted(row, src) || !row->missing ||
		    row->of_file != (src->file != NULL))
			continue;
		ck_buf_printf(out, "%s%s", some ? ", " : "", row->missing);
		some = true;
	}
	if (!some)
		ck_buf_text(out, src->file ? "it is a file, not a directory"
					   : "it is a directory, not a file");
}

int ck_kind_missing(const struct ck_kinds *kinds, const struct ck_src *src,
		    struct ck_diag *d)
{
	struct ck_src any = *src;
	const struct ck_kind *row;
	struct ck_buf text = { 0 };
	int rc;

	any.kind = NULL;
	print_missing(kinds, src, &text);
	if (ck_kind_find(kinds, &any, &row, NULL) == 0)
		ck_buf_printf(&text, "; it is one of kind %s: %s",
			      row->format->name, row->why);
	rc = text.err ? ck_fail(d, ENOMEM, "out of memory")
		      : ck_fail(d, EBADMSG, "no checkpoint of kind %s: %s",
				src->kind, text.data);
	ck_buf_fini(&text);
	return rc;
}
