/* SPDX-License-Identifier: MIT */
/*
 * damage: see damage.h. Nothing is read for the report but what an open has found and
 * let go.
 */
#include "damage.h"

#include "base/bits.h"
#include "ckptfs/report.h"
#include "model/catalog/items.h"
#include "sample.h"
#include "snapshot.h"

#include <errno.h>
#include <inttypes.h>

struct ck_damage {
	struct ck_checkpoint *cp;
	/* Atomic: */
	struct ck_bits faulty; /* of tensors: a fault was found in its items */
	/* By tensor: 0 before its first open; EQUAL; or the ck_sample_pair that differs, `low`
	 * in the upper 32 bits. NULL: there are no copies. */
	uint64_t *samples;
};

enum { EQUAL = 1 };

struct ck_damage *ck_damage_make(struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_damage *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	known->cp = cp;
	if (c->own_tensors)
		known->samples = calloc(c->tensors.n, sizeof(uint64_t));
	if ((c->own_tensors && !known->samples) ||
	    ck_bits_make(&known->faulty, c->tensors.n)) {
		ck_damage_free(known);
		return NULL;
	}
	return known;
}

void ck_damage_free(struct ck_damage *known)
{
	if (!known)
		return;
	ck_bits_fini(&known->faulty);
	free(known->samples);
	free(known);
}

/* --- samples of plain tensors -------------------------------------------------- */

/* True if samples of the tensor differ: sets *out. */
static bool samples_differ(const struct ck_damage *known, uint32_t tensor,
			   struct ck_sample_pair *out)
{
	uint64_t found = known->samples
				 ? __atomic_load_n(&known->samples[tensor],
						   __ATOMIC_ACQUIRE)
				 : 0;

	*out = (struct ck_sample_pair){ (uint32_t)(found >> 32),
					(uint32_t)found };
	return found > EQUAL;
}

bool ck_damage_differs(const struct ck_damage *known, uint32_t tensor)
{
	struct ck_sample_pair pair;

	return samples_differ(known, tensor, &pair);
}

/* Appends the line of a tensor with different samples. name: with its name. */
static void print_samples(const struct ck_catalog *c, uint32_t tensor,
			  const struct ck_sample_pair *pair, bool name,
			  struct ck_buf *out)
{
	struct ck_fault f = { .name = ck_tensor_names(c, tensor).name,
			      .err = EIO };
	struct ck_buf text = { 0 };

	ck_sample_print(c, pair, &text);
	f.what = (struct ck_str){ text.data, text.len };
	ck_fault_print(&f, name, out);
	ck_buf_fini(&text);
}

static void log_samples(const struct ck_catalog *c, uint32_t tensor,
			const struct ck_sample_pair *pair)
{
	struct ck_buf line = { 0 };

	print_samples(c, tensor, pair, true, &line);
	ck_log("%s", line.data ? line.data : "out of memory");
	ck_buf_fini(&line);
}

/* Compares the samples of a tensor at its first open. If several threads do so, one logs the
 * result. Returns 0, or: -EIO if they differ; shortages of this process. */
static int samples_look(struct ck_damage *known, const struct ck_catalog *c,
			uint32_t tensor)
{
	struct ck_sample_pair pair = { 0 };
	uint64_t found, before = 0;
	int rc;

	if (!known->samples)
		return 0;
	found = __atomic_load_n(&known->samples[tensor], __ATOMIC_ACQUIRE);
	if (found)
		return found == EQUAL ? 0 : -EIO;
	rc = ck_sample_compare(known->cp, c, tensor, &pair);
	if (rc < 0)
		return rc;
	found = rc ? (uint64_t)pair.low << 32 | pair.high : EQUAL;
	if (__atomic_compare_exchange_n(&known->samples[tensor], &before, found,
					false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE) &&
	    rc)
		log_samples(c, tensor, &pair);
	return rc ? -EIO : 0;
}

/* --- of single tensors --------------------------------------------------------- */

bool ck_damage_was_found(const struct ck_damage *known, uint32_t tensor)
{
	return ck_bits_has(&known->faulty, tensor);
}

/* Also false: a shard that was away and is back is no fault any more. */
static void faulty_set(struct ck_damage *known, uint32_t tensor, bool faulty)
{
	if (faulty)
		ck_bits_set_atomic(&known->faulty, tensor);
	else if (ck_damage_was_found(known, tensor))
		ck_bits_clear_atomic(&known->faulty, tensor);
}

void ck_damage_forget(struct ck_damage *known, uint32_t tensor)
{
	faulty_set(known, tensor, false);
}

bool ck_damage_is_known(const struct ck_damage *known, uint32_t tensor)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(known->cp);
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	bool faulty = ck_damage_was_found(known, tensor);
	struct ck_item_walk walk = { 0 };
	uint32_t last = CK_NO_FILE;

	if (!ck_tensor_is_whole(c, tensor))
		return false; /* the report of losses has these tensors */
	faulty = faulty || t->err || t->holes ||
		 ck_damage_differs(known, tensor);
	for (uint32_t i = 0; i < t->nchunks && !faulty; i++) {
		const struct ck_item *item = ck_item_walk_to(&walk, c,
							     t->chunk + i);

		faulty = item->err ||
			 (item->file != last &&
			  ck_checkpoint_down(known->cp, item->file));
		last = item->file;
	}
	return faulty;
}

/* True if a file of a tensor has changed since the mount. Sets *transient if a
 * file could not be examined for a transient reason. */
static bool files_changed(struct ck_damage *known,
			  const struct ck_layout *layout, bool *transient)
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
		if (ck_files_check(known->cp->files, last, &now) == 0 ||
		    x->err || x->memory)
			continue;
		*transient = *transient || now;
		changed = changed || !now;
	}
	return changed;
}

static bool is_present(const struct ck_damage *known,
		       const struct ck_layout *layout)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(known->cp);

	return ck_catalog_tensor(c, layout->tensor)->facts->version ==
	       layout->version;
}

int ck_damage_locate(struct ck_damage *known, const struct ck_catalog *c,
		     uint32_t tensor, const uint64_t *window,
		     const struct ck_layout **out, bool *faulty)
{
	bool lasting, transient = false, changed;
	int rc = samples_look(known, c, tensor);

	if (rc == 0)
		rc = ck_layout_get(known->cp, c, tensor, window, out);
	if (rc)
		return rc;
	changed = files_changed(known, *out, &transient);
	if (ck_layout_is_old(known->cp, *out)) {
		ck_layout_put(known->cp, *out);
		rc = ck_layout_get(known->cp, c, tensor, window, out);
		if (rc)
			return rc;
	}
	transient |= (*out)->transient;
	lasting = changed || (*out)->faulty;
	*faulty = lasting || transient;
	/* Record the result of a check of the present version only. A window, or a
	 * check with transient errors, can prove a fault but not its absence. */
	if (!is_present(known, *out) || (!lasting && (window || transient)))
		return 0;
	faulty_set(known, tensor, lasting);
	if (!is_present(known, *out))
		faulty_set(known, tensor, false);
	return 0;
}

void ck_damage_check_files(struct ck_damage *known,
			   const struct ck_layout *layout)
{
	bool transient = false;

	if (files_changed(known, layout, &transient) &&
	    is_present(known, layout))
		faulty_set(known, layout->tensor, true);
}

/* --- in words ------------------------------------------------------------------ */

enum { LINES_MAX = 16 }; /* for each tensor; `ckptfs check` names all */

static void print_line(const struct ck_fault *f, const char *indent,
		       struct ck_buf *out)
{
	ck_buf_text(out, indent);
	ck_fault_print(f, false, out);
	ck_buf_text(out, "\n");
}

bool ck_damage_part_is_known(const struct ck_damage *known,
			     const struct ck_catalog *c, uint32_t tensor,
			     const uint64_t *window)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	ck_auto_free uint32_t *chunks = NULL;
	const struct ck_layout *layout;
	bool found, covered;
	struct ck_fault f;
	uint32_t n;

	if (!ck_damage_is_known(known, tensor))
		return false;
	if (t->err || !window || ck_damage_differs(known, tensor) ||
	    ck_tensor_window(t, window, &chunks, &n, &covered))
		return true;
	layout = ck_layout_known(known->cp, c, tensor);
	found = !covered;
	for (uint32_t i = 0; i < n && !found; i++)
		found = ck_box_has_fault(known->cp, c, layout, tensor,
					 chunks[i], &f);
	ck_layout_put(known->cp, layout);
	return found;
}

/* True if the file of a part, or another file, may have a fault of box i. */
static bool has_box(const struct ck_file_content *about,
		    const struct ck_layout *layout, uint32_t i)
{
	uint32_t box;

	return about->topic != CK_FILE_KIND_PART ||
	       (layout && ck_layout_find(layout, i, &box));
}

void ck_damage_print_file(struct ck_damage *known, const struct ck_catalog *c,
			  const struct ck_file_content *about,
			  const struct ck_layout *layout, const char *indent,
			  struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, about->number);
	bool is_box = about->topic == CK_FILE_KIND_BOX;
	bool is_part = about->topic == CK_FILE_KIND_PART;
	uint32_t i = is_box ? about->chunk - t->chunk : 0;
	uint32_t end = is_box ? i + 1 : t->nchunks;
	struct ck_sample_pair pair;
	uint64_t lines = 0;
	struct ck_fault f;

	if (samples_differ(known, about->number, &pair)) {
		ck_buf_text(out, indent);
		print_samples(c, about->number, &pair, false, out);
		ck_buf_text(out, "\n");
		return;
	}
	if (((!is_box && !is_part) || t->err) &&
	    ck_catalog_tensor_has_fault(c, t, &f))
		print_line(&f, indent, out);
	for (; i < end && !t->err; i++)
		if (has_box(about, layout, i) &&
		    ck_box_has_fault(known->cp, c, layout, about->number, i,
				     &f) &&
		    ++lines <= LINES_MAX)
			print_line(&f, indent, out);
	/* A faulty window of good boxes has elements that are in no box. */
	if (is_part && layout && layout->faulty && lines == 0 &&
	    ck_catalog_tensor_has_fault(c, t, &f))
		print_line(&f, indent, out);
	if (lines > LINES_MAX)
		ck_buf_printf(out, "%sand %" PRIu64 " more boxes\n", indent,
			      lines - LINES_MAX);
}

/* --- the report ----------------------------------------------------------- */

/* Bytes of a tensor that are in no box, or in one that cannot be read. */
static uint64_t lost_bytes(struct ck_damage *known, const struct ck_catalog *c,
			   uint32_t tensor, const struct ck_layout *layout)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	uint64_t good = 0;
	struct ck_fault f;

	for (uint32_t i = 0; i < t->nchunks; i++)
		if (!ck_box_has_fault(known->cp, c, layout, tensor, i, &f))
			good += ck_tensor_box_bytes(t, i);
	return t->nbytes - ck_min(good, t->nbytes);
}

static void print_tensor(struct ck_damage *known, const struct ck_catalog *c,
			 uint32_t tensor, struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	const struct ck_file_content about = { .topic = CK_FILE_KIND_TENSOR,
					       .number = tensor };
	const struct ck_layout *layout = NULL;
	bool is_whole = !t->err && !ck_damage_differs(known, tensor);

	/* A fault that may pass is known, and its layout not kept. */
	if (is_whole) {
		layout = ck_layout_known(known->cp, c, tensor);
		if (!layout && ck_damage_was_found(known, tensor) &&
		    ck_layout_get(known->cp, c, tensor, NULL, &layout))
			layout = NULL;
	}
	ck_buf_escaped(out, ck_tensor_names(c, t->entry.number).name);
	if (!is_whole)
		ck_buf_text(out, ": cannot be read\n");
	else
		ck_buf_printf(out,
			      ": %" PRIu64 " of %" PRIu64 " bytes are lost\n",
			      lost_bytes(known, c, tensor, layout), t->nbytes);
	ck_damage_print_file(known, c, &about, layout, "  ", out);
	ck_layout_put(known->cp, layout);
}

static bool print_object(struct ck_damage *known, const struct ck_catalog *c,
			 uint32_t object, struct ck_buf *out)
{
	const struct ck_object *o = ck_catalog_object(c, object);
	struct ck_buf line = { 0 };
	bool faulty = ck_object_known_faulty(known->cp, object) &&
		      ck_object_print_fault(known->cp, object, false, &line) ==
			      0 &&
		      line.len > 0;

	if (faulty) {
		ck_buf_escaped(out, ck_object_names(c, o->entry.number).name);
		ck_buf_printf(out, ": cannot be read\n  %s\n", line.data);
	}
	ck_buf_fini(&line);
	return faulty;
}

static void print_losses(const struct ck_catalog *c, struct ck_buf *out)
{
	struct ck_fault f;

	for (size_t i = 0; i < c->nlosses; i++) {
		ck_catalog_loss_fault(c, &c->losses[i], &f);
		ck_fault_print(&f, true, out);
		ck_buf_text(out, "\n");
	}
}

void ck_damage_print(struct ck_damage *known, struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(known->cp);
	ck_auto_free uint32_t *order = ck_report_order(c);
	uint64_t damaged = 0, seen, items;

	if (!order)
		out->err = -ENOMEM;
	for (size_t i = 0; order && i < c->listing->n; i++) {
		struct ck_entry_id e = c->listing->entries[order[i]];

		if (e.is_object) {
			damaged += print_object(known, c, e.i, out);
		} else if (ck_damage_is_known(known, e.i)) {
			print_tensor(known, c, e.i, out);
			damaged++;
		}
	}
	print_losses(c, out);
	ck_layouts_count(known->cp, &seen, &items);
	ck_buf_printf(out,
		      "damaged entries %" PRIu64 " of %zu\n"
		      "items checked %" PRIu64 " of %" PRIu64 "\n",
		      damaged, c->listing->n, seen, items);
}

/* Logs, once at the mount, the kind of the checkpoint and its damage. */
void ck_damage_log(const struct ck_damage *known)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(known->cp);
	size_t tensors = 0, others = 0;

	for (uint32_t i = 0; i < c->tensors.n; i++)
		tensors += ck_damage_is_known(known, i);
	for (uint32_t i = 0; i < c->objects.n; i++)
		others += ck_catalog_object(c, i)->entry.role ==
				  CK_ROLE_WHOLE &&
			  ck_object_known_faulty(known->cp, i);
	for (size_t i = 0; i < c->nnotes; i++)
		if (c->notes[i].doubt)
			ck_log("%s: %.*s",
			       ck_show(ck_str_from(known->cp->path)),
			       (int)c->notes[i].text.len, c->notes[i].text.p);
	if (c->nlosses)
		ck_log("%s: files and names that are not shown: %zu; " CK_CONTROL_DIR
		       "/damage in the mount names them",
		       ck_show(ck_str_from(known->cp->path)), c->nlosses);
	if (tensors || others)
		ck_log("%s: %zu of %u tensors and %zu of %u other entries "
		       "are damaged; " CK_CONTROL_DIR
		       "/damage in the mount names them",
		       ck_show(ck_str_from(known->cp->path)), tensors,
		       ck_shown_tensors(c), others, ck_shown_objects(c));
}
