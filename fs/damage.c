/* SPDX-License-Identifier: MIT */
/*
 * damage: what is known to be lost, and why, in the words that `ckptfs check`
 * has too: the report `damage`, and the attribute `error` of one file.
 * Nothing is read for the report but what an open has found and let go.
 */
#include "ckptfs/report.h"
#include "internal.h"

#include <errno.h>
#include <inttypes.h>

enum { LINES_MAX = 16 }; /* for each tensor; `ckptfs check` names all */

static void print_line(const struct ck_fault *f, const char *indent,
		       struct ck_buf *out)
{
	ck_buf_text(out, indent);
	ck_fault_print(f, false, out);
	ck_buf_text(out, "\n");
}

void ck_about_print_faults(struct ck_fs *fs, const struct ck_catalog *c,
			   const struct ck_about *about,
			   const struct ck_layout *layout, const char *indent,
			   struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, about->number);
	bool is_box = about->topic == CK_ABOUT_BOX;
	uint32_t i = is_box ? about->chunk - t->chunk : 0;
	uint32_t end = is_box ? i + 1 : t->nchunks;
	uint64_t lines = 0;
	struct ck_fault f;

	if ((!is_box || t->err) && ck_catalog_tensor_has_fault(c, t, &f))
		print_line(&f, indent, out);
	for (; i < end && !t->err; i++)
		if (ck_box_has_fault(fs->cp, c, layout, about->number, i, &f) &&
		    ++lines <= LINES_MAX)
			print_line(&f, indent, out);
	if (lines > LINES_MAX)
		ck_buf_printf(out, "%sand %" PRIu64 " more boxes\n", indent,
			      lines - LINES_MAX);
}

/* --- the report ----------------------------------------------------------- */

/* Bytes of a tensor that are in no box, or in one that cannot be read. */
static uint64_t lost_bytes(struct ck_fs *fs, const struct ck_catalog *c,
			   uint32_t tensor, const struct ck_layout *layout)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	uint64_t good = 0;
	struct ck_fault f;

	for (uint32_t i = 0; i < t->nchunks; i++)
		if (!ck_box_has_fault(fs->cp, c, layout, tensor, i, &f))
			good += ck_tensor_box_bytes(t, i);
	return t->nbytes - ck_min(good, t->nbytes);
}

static void print_tensor(struct ck_fs *fs, const struct ck_catalog *c,
			 uint32_t tensor, struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	const struct ck_about about = { .topic = CK_ABOUT_TENSOR,
					.number = tensor };
	const struct ck_layout *layout = NULL;

	/* A fault that may pass is known, and its layout not kept. */
	if (!t->err) {
		layout = ck_layout_known(fs->cp, c, tensor);
		if (!layout && ck_tensor_found_faulty(fs, tensor) &&
		    ck_layout_get(fs->cp, c, tensor, NULL, &layout))
			layout = NULL;
	}
	ck_buf_escaped(out, ck_tensor_names(c, t->entry.number)->name);
	if (t->err)
		ck_buf_text(out, ": cannot be read\n");
	else
		ck_buf_printf(out,
			      ": %" PRIu64 " of %" PRIu64 " bytes are lost\n",
			      lost_bytes(fs, c, tensor, layout), t->nbytes);
	ck_about_print_faults(fs, c, &about, layout, "  ", out);
	ck_layout_put(fs->cp, layout);
}

static bool print_object(struct ck_fs *fs, const struct ck_catalog *c,
			 uint32_t object, struct ck_buf *out)
{
	const struct ck_object *o = ck_catalog_object(c, object);
	struct ck_buf line = { 0 };
	bool faulty = ck_object_known_faulty(fs->cp, object) &&
		      ck_object_print_fault(fs->cp, object, false, &line) ==
			      0 &&
		      line.len > 0;

	if (faulty) {
		ck_buf_escaped(out, ck_object_names(c, o->entry.number)->name);
		ck_buf_printf(out, ": cannot be read\n  %s\n", line.data);
	}
	ck_buf_fini(&line);
	return faulty;
}

void ck_damage_print(struct ck_fs *fs, struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	ck_auto_free uint32_t *order = ck_report_order(c);
	uint64_t damaged = 0, seen, items;

	if (!order)
		out->err = -ENOMEM;
	for (size_t i = 0; order && i < c->listing->n; i++) {
		struct ck_entry_id e = c->listing->entries[order[i]];

		if (e.is_object) {
			damaged += print_object(fs, c, e.i, out);
		} else if (ck_tensor_known_faulty(fs, e.i)) {
			print_tensor(fs, c, e.i, out);
			damaged++;
		}
	}
	ck_layouts_count(fs->cp, &seen, &items);
	ck_buf_printf(out,
		      "damaged entries %" PRIu64 " of %zu\n"
		      "items checked %" PRIu64 " of %" PRIu64 "\n",
		      damaged, c->listing->n, seen, items);
}

/* A damaged checkpoint mounts; whoever mounts it hears of it once. */
static void log_damage(const struct ck_fs *fs)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	size_t tensors = 0, others = 0;

	for (uint32_t i = 0; i < c->tensors.n; i++)
		tensors += ck_tensor_known_faulty(fs, i);
	for (uint32_t i = 0; i < c->objects.n; i++)
		others += ck_object_known_faulty(fs->cp, i);
	if (tensors || others)
		ck_log("%s: %zu of %u tensors and %zu of %u other entries "
		       "are damaged; " CK_CONTROL_DIR
		       "/damage in the mount names them",
		       ck_show(ck_str_from(fs->cp->path)), tensors,
		       c->tensors.n, others, c->objects.n);
}

/* Whoever looks for a name without the prefix does not find it. */
static void log_prefixed(const struct ck_fs *fs)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	struct ck_buf names = { 0 };

	if (c->listing->nprefixed == 0)
		return;
	ck_report_prefixed(c, &names);
	ck_log("%s: shown with the prefixes of wrappers, since names would be "
	       "equal without them: %s",
	       ck_show(ck_str_from(fs->cp->path)),
	       names.data ? names.data : "out of memory");
	ck_buf_fini(&names);
}

void ck_fs_log_faults(const struct ck_fs *fs)
{
	log_damage(fs);
	log_prefixed(fs);
}
