/* SPDX-License-Identifier: MIT */
/*
 * warn: collects the warnings of a checkpoint, and lists the unknown classes. `check` prints
 * all warnings, `status` the first ones. Their sources are newer.c, cp->remarks (which has
 * its own lock) and the notes of the catalog. There is no other state; any thread may call
 * the functions.
 */
#include "warn.h"
#include "format/load/load_names.h"
#include "warnings.h"

#include <errno.h>

enum {
	LINES_MOST = 16, /* lines of warnings in `status` */
};

/* --- warnings --------------------------------------------------------------------- */

struct warner {
	struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	void (*warn)(void *arg, const struct ck_fault *f);
	void *arg;
};

static void files_warn(const struct warner *w)
{
	struct ck_fault f;

	for (uint32_t i = ck_newer_file(w->cp, w->c, 0); i != CK_NO_FILE;
	     i = ck_newer_file(w->cp, w->c, i + 1)) {
		ck_newer_file_fault(w->cp, w->c, i, &f);
		w->warn(w->arg, &f);
	}
}

/* Warns with a sentence about an entry or file, unless it is empty. Frees the sentence. */
static void warn_with(const struct warner *w, struct ck_fault *f,
		      struct ck_buf *sentence)
{
	f->what = (struct ck_str){ sentence->data, sentence->len };
	if (sentence->len && !sentence->err)
		w->warn(w->arg, f);
	ck_buf_fini(sentence);
}

static void save_warn(const struct warner *w)
{
	struct ck_buf sentence = { 0 };
	struct ck_fault f = { 0 };
	char *file = NULL;

	ck_newer_save_print(w->cp, w->c, &sentence, &file);
	if (file)
		f.file = ck_str_from(file);
	warn_with(w, &f, &sentence);
	free(file);
}

static void objects_warn(const struct warner *w)
{
	uint32_t object;

	for (size_t i = 0; ck_remarks_dtensor_at(w->cp->remarks, i, &object);
	     i++) {
		struct ck_buf sentence = { 0 };
		struct ck_fault f;

		if (!ck_object_is_there(w->c, object))
			continue;
		ck_catalog_object_fault_init(
			w->c, ck_catalog_object(w->c, object), &f);
		ck_buf_text(&sentence, "object ");
		ck_buf_escaped(&sentence, f.name);
		ck_buf_text(&sentence,
			    " holds a DTensor of one rank: shards of the "
			    "others are not in the checkpoint");
		warn_with(w, &f, &sentence);
	}
}

static void quantized_warn(const struct warner *w, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(w->c, tensor);
	struct ck_buf sentence = { 0 }, words = { 0 };
	struct ck_fault f = {
		.name = ck_tensor_names(w->c, t->entry.number).name
	};

	if (t->nchunks)
		ck_catalog_place_fault(w->c, ck_catalog_item(w->c, t->chunk),
				       &f);
	ck_buf_text(&sentence, "tensor ");
	ck_buf_escaped(&sentence, f.name);
	ck_buf_printf(&sentence,
		      " is %s: the scale of its values is only in its item",
		      ck_dtype_at(t->dtype)->name);
	if (f.file.p) {
		ck_buf_text(&sentence, ", ");
		ck_buf_escaped(&sentence, f.file);
		ck_buf_printf(&sentence, " at %ju", (uintmax_t)f.pos);
	}
	ck_remarks_print_quantizer(w->cp->remarks, tensor, &words);
	if (words.len) {
		ck_buf_text(&sentence, ": ");
		ck_buf_text(&sentence, words.data);
	}
	ck_buf_fini(&words);
	warn_with(w, &f, &sentence);
}

/* Warns of quantized tensors, at most `most` of them. Returns the number of all such
 * tensors. */
static size_t tensors_warn(const struct warner *w, size_t most)
{
	size_t n = 0;

	for (uint32_t i = 0; i < w->c->tensors.n; i++)
		if (ck_dtype_is_quantized(ck_catalog_tensor(w->c, i)->dtype) &&
		    ck_tensor_is_whole(w->c, i) && n++ < most)
			quantized_warn(w, i);
	return n;
}

static void notes_warn(const struct warner *w)
{
	for (size_t i = 0; i < w->c->nnotes; i++)
		if (w->c->notes[i].doubt)
			w->warn(w->arg, &(struct ck_fault){
						.what = w->c->notes[i].text });
}

void ck_checkpoint_warn(struct ck_checkpoint *cp, const struct ck_catalog *c,
			void (*warn)(void *arg, const struct ck_fault *f),
			void *arg)
{
	const struct warner w = { cp, c, warn, arg };

	files_warn(&w);
	save_warn(&w);
	objects_warn(&w);
	(void)tensors_warn(&w, SIZE_MAX);
	notes_warn(&w);
}

void ck_warning_print(const struct ck_fault *f, struct ck_buf *out)
{
	if (f->expected) {
		ck_buf_escaped(out, f->file);
		ck_buf_text(out, " ");
	}
	ck_buf_str(out, f->what);
	if (f->expected)
		ck_buf_printf(out, "; expected %s, found %s", f->expected,
			      f->found);
}

/* --- status ----------------------------------------------------------------------- */

struct lines {
	struct ck_buf text;
	size_t n;
};

static void line_add(void *arg, const struct ck_fault *f)
{
	struct lines *l = arg;

	if (l->n++ >= LINES_MOST)
		return;
	ck_buf_text(&l->text, "  ");
	ck_warning_print(f, &l->text);
	ck_buf_text(&l->text, "\n");
}

void ck_checkpoint_print_warnings(struct ck_checkpoint *cp,
				  const struct ck_catalog *c,
				  struct ck_buf *out)
{
	struct lines l = { 0 };
	const struct warner w = { cp, c, line_add, &l };
	size_t tensors;

	ck_newer_print(cp, c, out);
	save_warn(&w);
	objects_warn(&w);
	tensors = tensors_warn(&w, LINES_MOST);
	if (tensors > LINES_MOST)
		l.n += tensors - LINES_MOST;
	if (l.n) {
		ck_buf_printf(out, "warnings: %zu\n", l.n);
		ck_buf_add(out, l.text.data, l.text.len);
	}
	if (l.n > LINES_MOST)
		ck_buf_printf(out, "  and %zu more\n", l.n - LINES_MOST);
	if (l.text.err)
		out->err = l.text.err;
	ck_buf_fini(&l.text);
}

/* --- unknown classes -------------------------------------------------------------- */

int ck_checkpoint_unknown(const struct ck_checkpoint *cp,
			  const struct ck_catalog *c,
			  struct ck_unknown_classes *out)
{
	struct ck_str *all = NULL;
	size_t n, kept = 0;
	int rc;

	*out = (struct ck_unknown_classes){ 0 };
	rc = ck_remarks_list_classes(cp->remarks, &out->text, &out->all, &n);
	if (rc)
		return rc;
	all = realloc(out->all, (n + c->nglobals + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	out->all = all;
	if (c->nglobals)
		memcpy(all + n, c->globals, c->nglobals * sizeof(*all));
	n += c->nglobals;
	if (n)
		qsort(all, n, sizeof(*all), ck_str_cmp);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !ck_str_eq(all[kept - 1], all[i]))
			all[kept++] = all[i];
	out->n = kept;
	return 0;
}

void ck_unknown_classes_fini(struct ck_unknown_classes *u)
{
	free(u->all);
	ck_arena_fini(&u->text);
	*u = (struct ck_unknown_classes){ 0 };
}
