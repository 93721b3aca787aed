/* SPDX-License-Identifier: MIT */
/*
 * catalog_dump: the catalog as text for tests and people. One line for each
 * thing, in the checkpoint's order; no times, owners or places of this
 * machine, so equal checkpoints give equal text.
 *
 *	dump    = catalog file* (tensor | object)* (own tensor | own object)* global* loss* note*
 *	catalog = "catalog kind=" WORD LF
 *	file    = "file " N " size=" N [" err=" ERRNO] " " WORD LF
 *	tensor  = "tensor " WORD " dtype=" WORD " shape=" DIMS " bytes=" N
 *	          " chunks=" N " kind=" KIND [" key=" WORD]
 *	          [" err=" ERRNO " " QUOTE TEXT QUOTE] [" holes"] [" own"] [" guessed"] LF
 *	          [path] mesh* [alias] chunk*
 *	path    = " path" (" " TYPE ":" WORD)* LF
 *	mesh    = " mesh size=" N " placement=" PLACEMENT [" name=" WORD] LF
 *	alias   = " alias_of=" WORD LF
 *	chunk   = " chunk off=" DIMS " size=" DIMS item [" strides=" DIMS] [within] LF
 *	          replica*
 *	within  = " within=" CHUNK "+" FIRST, elements of that chunk
 *	replica = " replica" item LF
 *	object  = "object " WORD item [" value=" N " storages=" N] [" key=" WORD] LF
 *	          [path]
 *	item    = (" file=" N | " file=none") " pos=" N " length=" N
 *	          [" transform=" WORD] (" swap" | " conj" | " neg")* [" err=" ERRNO]
 *	global  = "global " WORD LF
 *	loss    = "lost" [" " WORD] [" file=" N] " err=" ERRNO " " QUOTE TEXT QUOTE LF
 *	note    = "note " TEXT LF
 *
 * WORD is a stem, or text with %XX for control characters, malformed UTF-8
 * and `%`; in both a space is %20. DIMS is [4,3]. ERRNO is a name: EIO. KIND is
 * tensor, dtensor, sharded_tensor or flat_param. A path is printed where it is not
 * the key's parts between dots, all of them keys of a dict that are strings; an
 * entry without a path has one without parts. TYPE is str, index, int, float, bool, none or other. PLACEMENT is R, S(0), SS(0,2) or
 * P, one for each dimension of the mesh.
 */
#include "catalog_internal.h"
#include "ckptfs/layout.h"

#include <errno.h>
#include <inttypes.h>

void ck_dims_print(struct ck_buf *out, const int64_t *dims, uint32_t ndim)
{
	ck_buf_text(out, "[");
	for (uint32_t d = 0; d < ndim; d++)
		ck_buf_printf(out, "%s%" PRId64, d ? "," : "", dims[d]);
	ck_buf_text(out, "]");
}

/* Prints a stem. It has no control characters below U+0080, and every % in it begins an
 * escape, so other characters are escaped without changing those. */
static void stem_print(struct ck_buf *out, struct ck_str stem)
{
	size_t done = 0;

	for (size_t i = 0; i <= stem.len; i++) {
		bool ends = i == stem.len;

		if (!ends && stem.p[i] != ' ' && stem.p[i] != '%')
			continue;
		if (done < i)
			ck_buf_escaped(out, (struct ck_str){ stem.p + done,
							     i - done });
		if (!ends)
			ck_buf_text(out, stem.p[i] == ' ' ? "%20" : "%");
		done = i + 1;
	}
}

static void word_print(struct ck_buf *out, struct ck_str s)
{
	struct ck_buf word = { 0 };

	ck_buf_escaped(&word, s);
	stem_print(out, (struct ck_str){ word.data, word.len });
	if (word.err)
		out->err = word.err;
	ck_buf_fini(&word);
}

static void err_print(struct ck_buf *out, int err)
{
	const char *name = strerrorname_np(err);

	if (err)
		ck_buf_printf(out, " err=%s", name ? name : "unknown");
}

static void key_print(struct ck_names names, struct ck_buf *out)
{
	if (ck_str_eq(names.key, names.name))
		return;
	ck_buf_text(out, " key=");
	word_print(out, names.key);
}

static void item_print(const struct ck_catalog *c, const struct ck_item *item,
		       struct ck_buf *out)
{
	if (item->file == CK_NO_FILE)
		ck_buf_text(out, " file=none");
	else
		ck_buf_printf(out, " file=%" PRIu32, item->file);
	ck_buf_printf(out, " pos=%" PRIu64 " length=%" PRIu64, item->fpos,
		      item->length);
	if (item->transform && item->transform < c->ntransforms) {
		ck_buf_text(out, " transform=");
		word_print(out, c->transforms[item->transform]);
	}
	if (item->change & CK_CHANGE_SWAP)
		ck_buf_text(out, " swap");
	if (item->change & CK_CHANGE_CONJ)
		ck_buf_text(out, " conj");
	if (item->change & CK_CHANGE_NEG)
		ck_buf_text(out, " neg");
	err_print(out, item->err);
}

/* Prints the strides of a chunk in bytes; nothing if its elements are in C order
 * without gaps. */
static void strides_print(const struct ck_catalog *c, const struct ck_tensor *t,
			  uint32_t i, struct ck_buf *out)
{
	const uint64_t *strides = ck_catalog_strides(c, t->chunk + i);

	if (!strides)
		return;
	ck_buf_text(out, " strides=");
	ck_dims_print(out, (const int64_t *)strides, t->ndim);
}

static void within_print(const struct ck_catalog *c, const struct ck_tensor *t,
			 uint32_t i, struct ck_buf *out)
{
	const struct ck_within *in = ck_catalog_within(c, t->chunk + i);

	if (in)
		ck_buf_printf(out, " within=%" PRIu32 "+%" PRIu64, in->of,
			      in->first);
}

static void chunk_print(const struct ck_catalog *c, const struct ck_tensor *t,
			uint32_t i, struct ck_buf *out)
{
	const int64_t *box = ck_tensor_box(t, i);
	uint32_t first, n;

	ck_buf_text(out, " chunk off=");
	ck_dims_print(out, box, t->ndim);
	ck_buf_text(out, " size=");
	ck_dims_print(out, box + t->ndim, t->ndim);
	item_print(c, ck_catalog_item(c, t->chunk + i), out);
	strides_print(c, t, i, out);
	within_print(c, t, i, out);
	ck_buf_text(out, "\n");
	first = ck_catalog_replicas(c, t->chunk + i, 1, &n);
	for (uint32_t k = first; k < first + n; k++) {
		ck_buf_text(out, " replica");
		item_print(c, &ck_catalog_replica(c, k)->item, out);
		ck_buf_text(out, "\n");
	}
}

/* True if the path has the parts of the key between dots. */
static bool is_in_key(const struct ck_entry *e)
{
	struct ck_str rest = e->key;

	for (uint32_t i = 0; i < e->nparts; i++) {
		const char *dot = memchr(rest.p, '.', rest.len);
		size_t len = dot ? (size_t)(dot - rest.p) : rest.len;

		struct ck_path_part part = ck_entry_part(e, i);

		if (part.type != CK_PATH_STR ||
		    !ck_str_eq(ck_part_text(&part),
			       (struct ck_str){ rest.p, len }) ||
		    (dot == NULL) != (i + 1 == e->nparts))
			return false;
		if (dot)
			rest = (struct ck_str){ dot + 1, rest.len - len - 1 };
	}
	return e->nparts > 0;
}

static void path_print(const struct ck_entry *e, struct ck_buf *out)
{
	static const char *const types[] = {
		[CK_PATH_STR] = "str",	   [CK_PATH_INDEX] = "index",
		[CK_PATH_INT] = "int",	   [CK_PATH_FLOAT] = "float",
		[CK_PATH_BOOL] = "bool",   [CK_PATH_NONE] = "none",
		[CK_PATH_OTHER] = "other",
	};

	if (is_in_key(e) || (e->role != CK_ROLE_WHOLE && !e->nparts))
		return;
	ck_buf_text(out, " path");
	for (uint32_t i = 0; i < e->nparts; i++) {
		struct ck_path_part part = ck_entry_part(e, i);

		ck_buf_printf(out, " %s:", types[part.type]);
		word_print(out, ck_part_text(&part));
	}
	ck_buf_text(out, "\n");
}

static void mesh_print(const struct ck_sharding *s, struct ck_buf *out)
{
	for (uint32_t i = 0; i < s->ndim; i++) {
		const struct ck_mesh_dim *dim = &s->dims[i];

		ck_buf_printf(out,
			      " mesh size=%" PRIu64 " placement=", dim->size);
		ck_placement_print(out, &dim->placement);
		if (dim->name.len) {
			ck_buf_text(out, " name=");
			word_print(out, dim->name);
		}
		ck_buf_text(out, "\n");
	}
}

/* Prints the facts of a tensor that do not follow from its key. */
static void more_print(const struct ck_catalog *c, const struct ck_tensor *t,
		       struct ck_buf *out)
{
	path_print(&t->entry, out);
	if (t->facts->sharding)
		mesh_print(t->facts->sharding, out);
	if (ck_tensor_alias_of(t) != CK_NO_TENSOR) {
		ck_buf_text(out, " alias_of=");
		stem_print(out, ck_tensor_names(c, ck_tensor_alias_of(t)).stem);
		ck_buf_text(out, "\n");
	}
}

static void tensor_print(const struct ck_catalog *c, const struct ck_tensor *t,
			 struct ck_buf *out)
{
	ck_buf_text(out, "tensor ");
	stem_print(out, ck_tensor_names(c, t->entry.number).stem);
	ck_buf_text(out, " dtype=");
	word_print(out, t->facts->dtype_name);
	ck_buf_text(out, " shape=");
	ck_dims_print(out, t->shape, t->ndim);
	ck_buf_printf(out, " bytes=%" PRIu64 " chunks=%" PRIu32 " kind=%s",
		      t->nbytes, t->nchunks, ck_tensor_kind_name(t->kind));
	key_print(ck_tensor_names(c, t->entry.number), out);
	err_print(out, t->err);
	if (t->err) {
		ck_buf_text(out, " \"");
		ck_buf_str(out, ck_tensor_fault(t));
		ck_buf_text(out, "\"");
	}
	ck_buf_text(out, t->holes ? " holes" : "");
	if (t->entry.role != CK_ROLE_WHOLE)
		ck_buf_text(out, " own");
	ck_buf_text(out, t->guessed ? " guessed\n" : "\n");
	more_print(c, t, out);
	for (uint32_t i = 0; i < t->nchunks; i++)
		chunk_print(c, t, i, out);
}

static void object_print(const struct ck_catalog *c, const struct ck_object *o,
			 struct ck_buf *out)
{
	ck_buf_text(out, "object ");
	stem_print(out, ck_object_names(c, o->entry.number).stem);
	item_print(c, &o->item, out);
	if (o->item.form == CK_FORM_VALUE)
		ck_buf_printf(out, " value=%zu storages=%" PRIu32,
			      o->pickle.len, o->nitems - 1);
	key_print(ck_object_names(c, o->entry.number), out);
	ck_buf_text(out, "\n");
	path_print(&o->entry, out);
}

static void files_print(const struct ck_catalog *c, struct ck_buf *out)
{
	for (uint32_t i = 0; i < c->files.n; i++) {
		ck_buf_printf(out, "file %" PRIu32 " size=%" PRIu64, i,
			      ck_catalog_file(c, i)->size);
		err_print(out, ck_catalog_file(c, i)->err);
		ck_buf_text(out,
			    ck_catalog_file(c, i)->unseen ? " unseen " : " ");
		word_print(out, ck_catalog_file(c, i)->path);
		ck_buf_text(out, "\n");
	}
}

static void loss_print(const struct ck_loss *loss, struct ck_buf *out)
{
	ck_buf_text(out, "lost");
	if (loss->name.len) {
		ck_buf_text(out, " ");
		word_print(out, loss->name);
	}
	if (loss->file != CK_NO_FILE)
		ck_buf_printf(out, " file=%" PRIu32, loss->file);
	err_print(out, (uint16_t)loss->err);
	ck_buf_text(out, " \"");
	ck_buf_str(out, loss->what);
	ck_buf_text(out, "\"\n");
}

/* Prints rows of single ranks under names of other entries, except for copies of boxes,
 * which are printed as replicas. */
static void own_print(const struct ck_catalog *c, struct ck_buf *out)
{
	for (uint32_t i = 0; c->own_tensors && i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);

		if (t->entry.role != CK_ROLE_OWN || t->entry.of == i)
			continue;
		ck_buf_text(out, "own ");
		tensor_print(c, t, out);
	}
	for (uint32_t i = 0; c->own_objects && i < c->objects.n; i++) {
		const struct ck_object *o = ck_catalog_object(c, i);

		if (o->entry.role == CK_ROLE_WHOLE)
			continue;
		ck_buf_text(out, "own ");
		object_print(c, o, out);
	}
}

void ck_catalog_dump(const struct ck_catalog *c, struct ck_buf *out)
{
	ck_buf_printf(out, "catalog kind=%s\n", c->kind);
	files_print(c, out);
	for (size_t i = 0; i < c->listing->n; i++) {
		struct ck_entry_id e = c->listing->entries[i];

		if (e.is_object)
			object_print(c, ck_catalog_object(c, e.i), out);
		else
			tensor_print(c, ck_catalog_tensor(c, e.i), out);
	}
	own_print(c, out);
	for (size_t i = 0; i < c->nglobals; i++) {
		ck_buf_text(out, "global ");
		word_print(out, c->globals[i]);
		ck_buf_text(out, "\n");
	}
	for (size_t i = 0; i < c->nlosses; i++)
		loss_print(&c->losses[i], out);
	for (size_t i = 0; i < c->nnotes; i++) {
		ck_buf_text(out, "note ");
		ck_buf_str(out, c->notes[i].text);
		ck_buf_text(out, "\n");
	}
}
