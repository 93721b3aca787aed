/* SPDX-License-Identifier: MIT */
/*
 * tckpt_metadata: reads metadata.pkl. Version 2.0 has items, and the paths below each; 1.0 has
 * one list of paths, whose first part is the item. The state is struct ck_tckpt_metadata.
 */
#include "syntax/json_reader.h"
#include "tckpt_internal.h"

#include <errno.h>
#include <inttypes.h>

static int no_memory(struct ck_diag *d)
{
	return ck_fail(d, ENOMEM, "out of memory");
}

static int malformed(struct ck_diag *d, const char *what)
{
	return ck_fail(d, EBADMSG, "malformed: %s", what);
}

static int too_much(struct ck_diag *d)
{
	return ck_fail(d, EBADMSG, "needs more memory than its size allows");
}

int ck_tckpt_is_metadata(const struct ck_pickle *p)
{
	struct ck_pv v;

	return ck_pv_get(&p->root, "version", &v) &&
	       ck_pv_get(&p->root, "world_size", &v) &&
	       ck_pv_get(&p->root, "metadata", &v);
}

/* Calls each() for the pairs of a dict, until it returns a value other than 0. */
static int dict_each(struct ck_tckpt_metadata *m, const struct ck_pv *dict,
		     int (*each)(struct ck_tckpt_metadata *m, void *arg,
				 const struct ck_pv *pair, struct ck_diag *d),
		     void *arg, struct ck_diag *d)
{
	int rc = 0;

	if (dict->tag != CK_PV_DICT)
		return malformed(d, "a value that should be a dict");
	for (uint32_t i = 0; i < dict->list->count / 2 && rc == 0; i++)
		rc = each(m, arg, &dict->list->items[2UL * i], d);
	return rc;
}

/* --- paths --------------------------------------------------------------------------- */

static struct ck_str exact_of(const void *arg, uint32_t i)
{
	const struct ck_tckpt_metadata *m = arg;

	return m->paths[i].exact;
}

static struct ck_str inner_of(const void *arg, uint32_t i)
{
	const struct ck_tckpt_metadata *m = arg;

	return m->paths[i].inner;
}

/* Writes struct ck_tckpt_path.inner to m->text. */
static struct ck_str inner_text(struct ck_tckpt_metadata *m, struct ck_str item,
				struct ck_str below)
{
	m->text.len = 0;
	ck_buf_u64(&m->text, item.len);
	ck_buf_str(&m->text, item);
	ck_buf_str(&m->text, below);
	return (struct ck_str){ m->text.data, m->text.len };
}

struct ck_str ck_tckpt_exact(struct ck_tckpt_metadata *m,
			     const struct ck_path_part *parts, uint32_t n)
{
	m->text.len = 0;
	for (uint32_t i = 0; i < n; i++) {
		/* The keys 0 and "0" of a dict are two keys. */
		ck_buf_text(&m->text, parts[i].type == CK_PATH_STR ? "s" : "n");
		ck_buf_u32(&m->text, parts[i].len);
		ck_buf_str(&m->text, ck_part_text(&parts[i]));
	}
	return (struct ck_str){ m->text.data, m->text.len };
}

struct ck_tckpt_path *ck_tckpt_path_find(struct ck_tckpt_metadata *m,
					 const struct ck_torch_path *path)
{
	struct ck_str exact = ck_tckpt_exact(m, path->parts, path->nparts);
	int64_t at = m->text.err ? -1 : ck_table_find(&m->by_exact, exact);

	return at < 0 ? NULL : &m->paths[at];
}

struct ck_tckpt_path *ck_tckpt_inner_find(struct ck_tckpt_metadata *m,
					  struct ck_str item,
					  struct ck_str below)
{
	struct ck_str inner = inner_text(m, item, below);
	int64_t at = m->text.err ? -1 : ck_table_find(&m->by_inner, inner);

	return at < 0 ? NULL : &m->paths[at];
}

/* The parts of a path while its JSON is read. */
struct parts {
	struct ck_path_part *all;
	size_t n, cap;
};

static int part_add(struct parts *p, struct ck_str text, uint8_t type)
{
	struct ck_path_part *all = ck_grow(p->all, &p->cap, p->n, 1,
					   sizeof(*all));

	if (!all)
		return -ENOMEM;
	p->all = all;
	all[p->n++] = (struct ck_path_part){ text.p, (uint32_t)text.len, type };
	return 0;
}

/* Returns the Python text of a number that is a dict key or an index. */
static struct ck_str number_text(struct ck_str json)
{
	if (ck_str_is(json, "NaN"))
		return CK_STR("nan");
	if (ck_str_is(json, "Infinity"))
		return CK_STR("inf");
	return ck_str_is(json, "-Infinity") ? CK_STR("-inf") : json;
}

/* Adds a part of a path. The JSON of a dict key that is not a string may differ from its Python
 * text, which is shown. */
static int part_take(struct ck_json_reader *r, const struct ck_json_value *v,
		     struct parts *p)
{
	uint8_t type = CK_PATH_STR;
	struct ck_str text = v->text;

	if (v->type == CK_JSON_NUMBER) {
		type = CK_PATH_INDEX;
		text = number_text(text);
	} else if (v->type == CK_JSON_NULL) {
		type = CK_PATH_NONE;
		text = CK_STR("None");
	} else if (v->type == CK_JSON_TRUE || v->type == CK_JSON_FALSE) {
		type = CK_PATH_BOOL;
		text = v->type == CK_JSON_TRUE ? CK_STR("True")
					       : CK_STR("False");
	} else if (v->type != CK_JSON_STRING) {
		return ck_json_refuse(r, v, "a part of a path");
	}
	return part_add(p, text, type) ? no_memory(r->d) : 0;
}

/* Reads a JSON list of strings, numbers, bools and nulls. The texts belong to `texts`. */
static int parts_read(struct ck_str json, struct parts *p,
		      struct ck_arena *texts, struct ck_diag *d)
{
	struct ck_json_reader r;
	struct ck_json_value v;
	int rc;

	ck_json_reader_init(&r, json, d);
	r.is_python = true;
	rc = ck_json_next(&r, &v);
	if (rc == 0 && v.type != CK_JSON_ARRAY)
		rc = ck_json_refuse(&r, &v, "a path that is not a list");
	while (rc == 0) {
		rc = ck_json_next(&r, &v);
		if (rc || v.type == CK_JSON_END)
			break;
		rc = part_take(&r, &v, p);
	}
	if (rc == 0)
		rc = ck_json_next(&r, &v);
	ck_json_reader_leave(&r, texts);
	return rc;
}

/* Copies a path to the arena. Its key is the parts joined by dots. */
static int path_copy(struct ck_tckpt_metadata *m, const struct parts *p,
		     struct ck_torch_path *out, struct ck_diag *d)
{
	const struct ck_torch_path *path = NULL;

	m->text.len = 0;
	for (size_t i = 0; i < p->n; i++) {
		ck_buf_text(&m->text, i ? "." : "");
		ck_buf_str(&m->text, ck_part_text(&p->all[i]));
	}
	if (!m->text.err)
		path = ck_torch_path_make(
			&m->arena, (struct ck_str){ m->text.data, m->text.len },
			p->all, (uint32_t)p->n);
	if (!path)
		return no_memory(d);
	*out = *path;
	return 0;
}

/* The part of a key below its item. */
static struct ck_str below_of(const struct ck_torch_path *path)
{
	size_t above = path->parts[0].len + 1UL;

	return path->nparts < 2 ? CK_STR("")
				: (struct ck_str){ path->key.p + above,
						   path->key.len - above };
}

/* Adds a path with its groups. */
static int path_add(struct ck_tckpt_metadata *m, const struct parts *p,
		    const struct ck_pv *groups, struct ck_diag *d)
{
	struct ck_tckpt_path *paths = ck_grow(m->paths, &m->paths_cap,
					      m->npaths, 1, sizeof(*paths));
	uint32_t n = (uint32_t)m->npaths, number;
	size_t bits = (size_t)(m->world + 7) / 8;
	struct ck_tckpt_path *own;
	int rc;

	if (!paths)
		return no_memory(d);
	m->paths = paths;
	own = &paths[n];
	*own = (struct ck_tckpt_path){ .groups = *groups };
	if (!ck_pickle_spend(&m->pickle, bits))
		return too_much(d);
	rc = path_copy(m, p, &own->path, d);
	if (rc)
		return rc;
	own->exact = ck_arena_copy(&m->arena,
				   ck_tckpt_exact(m, p->all, (uint32_t)p->n));
	own->inner = ck_arena_copy(
		&m->arena, inner_text(m, ck_part_text(&own->path.parts[0]),
				      below_of(&own->path)));
	own->have = ck_arena_alloc(&m->arena, bits);
	if (!own->exact.p || !own->inner.p || !own->have || m->text.err)
		return no_memory(d);
	memset(own->have, 0, bits);
	if (ck_table_add(&m->by_exact, own->exact, n, &number))
		return no_memory(d);
	if (number != n)
		return malformed(d, "a path twice");
	m->npaths++;
	return ck_table_add(&m->by_inner, own->inner, n, &number) ? no_memory(d)
								  : 0;
}

/* Adds the path below an item, NULL for version 1.0. pair: its JSON, its groups. */
static int path_take(struct ck_tckpt_metadata *m, void *item,
		     const struct ck_pv *pair, struct ck_diag *d)
{
	const struct ck_str *above = item;
	struct ck_arena texts = { 0 };
	struct parts p = { 0 };
	struct ck_str json;
	int rc = 0;

	if (!ck_pv_str(pair, &json) || !ck_pv_is_sequence(&pair[1]))
		return malformed(d, "a path, or its groups");
	if (!ck_pickle_spend(&m->pickle, 16 * (uint64_t)json.len + 64))
		return too_much(d);
	if (above && part_add(&p, *above, CK_PATH_STR))
		rc = no_memory(d);
	if (rc == 0)
		rc = parts_read(json, &p, &texts, d);
	if (rc == 0 && p.n == 0)
		rc = malformed(d, "a path without parts");
	if (rc == 0)
		rc = path_add(m, &p, &pair[1], d);
	ck_arena_fini(&texts);
	free(p.all);
	return rc;
}

/* --- files --------------------------------------------------------------------------- */

static struct ck_str item_name(const void *arg, uint32_t i)
{
	const struct ck_tckpt_metadata *m = arg;

	return m->items[i].name;
}

int64_t ck_tckpt_item_find(const struct ck_tckpt_metadata *m,
			   struct ck_str name)
{
	return ck_table_find(&m->by_item, name);
}

static enum ck_tckpt_encoding encoding_of(struct ck_str type)
{
	static const char *const names[] = {
		[CK_TCKPT_TORCH] = "TorchSerialization",
		[CK_TCKPT_SAFETENSORS] = "SafetensorsSerialization",
		[CK_TCKPT_JSON] = "JsonSerialization",
		[CK_TCKPT_RAW] = "RawSerialization",
	};

	for (unsigned i = 0; i < CK_ARRAY_SIZE(names); i++)
		if (ck_str_is(type, names[i]))
			return i;
	return CK_TCKPT_UNKNOWN;
}

/* Reads the layout of one file, which is None for the default one. */
static int file_take(const struct ck_pv *v, struct ck_tckpt_file *out,
		     struct ck_diag *d)
{
	struct ck_pv path, format, type;

	*out = (struct ck_tckpt_file){ .encoding = CK_TCKPT_TORCH };
	if (v->tag == CK_PV_NONE)
		return 0;
	if (!ck_pv_get(v, "file_path", &path) ||
	    !ck_pv_str(&path, &out->name) || out->name.len == 0 ||
	    memchr(out->name.p, '\0', out->name.len) ||
	    !ck_pv_get(v, "serialization_format", &format) ||
	    !ck_pv_get(&format, "type", &type) || !ck_pv_str(&type, &out->type))
		return malformed(d, "the layout of a file");
	out->encoding = encoding_of(out->type);
	return 0;
}

/* Reads a rank, an int or its text. */
static bool rank_take(const struct ck_tckpt_metadata *m, const struct ck_pv *v,
		      uint64_t *out)
{
	int64_t i;

	if (!ck_pv_int(v, &i) || i < 0 || (uint64_t)i >= m->world)
		return false;
	*out = (uint64_t)i;
	return true;
}

static int item_add(struct ck_tckpt_metadata *m, struct ck_str name,
		    uint32_t *out, struct ck_diag *d)
{
	struct ck_tckpt_item *items = ck_grow(m->items, &m->items_cap,
					      m->nitems, 1, sizeof(*items));
	uint32_t n = (uint32_t)m->nitems;
	size_t bytes = (size_t)m->world * sizeof(*items->files);

	if (!items)
		return no_memory(d);
	m->items = items;
	items[n] = (struct ck_tckpt_item){ .name = name };
	if (ck_table_add(&m->by_item, name, n, out))
		return no_memory(d);
	if (*out != n)
		return 0;
	if (!ck_pickle_spend(&m->pickle, bytes + sizeof(*items)))
		return too_much(d);
	items[n].files = ck_arena_alloc(&m->arena, bytes);
	if (!items[n].files)
		return no_memory(d);
	for (uint64_t i = 0; i < m->world; i++)
		items[n].files[i] =
			(struct ck_tckpt_file){ .encoding = CK_TCKPT_TORCH };
	m->nitems++;
	return 0;
}

/* pair: a rank, the layout of its file of an item. */
static int layout_take(struct ck_tckpt_metadata *m, void *item,
		       const struct ck_pv *pair, struct ck_diag *d)
{
	const uint32_t *of = item;
	uint64_t rank;

	if (!rank_take(m, pair, &rank))
		return malformed(d, "a rank beyond its world_size");
	return file_take(&pair[1], &m->items[*of].files[rank], d);
}

/* --- version 2.0 ---------------------------------------------------------------------- */

static int item_take(struct ck_tckpt_metadata *m, void *arg,
		     const struct ck_pv *pair, struct ck_diag *d)
{
	struct ck_pv paths, layouts;
	struct ck_str name;
	uint32_t item;
	int rc;

	(void)arg;
	if (!ck_pv_str(pair, &name) ||
	    !ck_pv_get(&pair[1], "nested_path_to_metadata", &paths) ||
	    !ck_pv_get(&pair[1], "rank_to_layout_info", &layouts))
		return malformed(d, "an item");
	rc = item_add(m, name, &item, d);
	if (rc == 0)
		rc = dict_each(m, &layouts, layout_take, &item, d);
	return rc ? rc : dict_each(m, &paths, path_take, &name, d);
}

/* --- version 1.0 ---------------------------------------------------------------------- */

/* pair: an item, the layout of the file of one rank. */
static int old_layout_take(struct ck_tckpt_metadata *m, void *arg,
			   const struct ck_pv *pair, struct ck_diag *d)
{
	const uint64_t *rank = arg;
	struct ck_str name;
	uint32_t item;
	int rc;

	if (!ck_pv_str(pair, &name))
		return malformed(d, "the name of an item");
	rc = item_add(m, name, &item, d);
	return rc ? rc : file_take(&pair[1], &m->items[item].files[*rank], d);
}

/* pair: a rank, a dict from items to layouts. */
static int old_rank_take(struct ck_tckpt_metadata *m, void *arg,
			 const struct ck_pv *pair, struct ck_diag *d)
{
	uint64_t rank;

	(void)arg;
	if (!rank_take(m, pair, &rank))
		return malformed(d, "a rank beyond its world_size");
	return dict_each(m, &pair[1], old_layout_take, &rank, d);
}

static int old_read(struct ck_tckpt_metadata *m, const struct ck_pv *paths,
		    struct ck_diag *d)
{
	struct ck_pv layouts;
	int rc;

	if (!ck_pv_get(&m->pickle.root, "rank_to_layout_info_mappings",
		       &layouts))
		return malformed(d, "it has no rank_to_layout_info_mappings");
	rc = dict_each(m, &layouts, old_rank_take, NULL, d);
	if (rc == 0)
		rc = dict_each(m, paths, path_take, NULL, d);
	for (size_t i = 0; i < m->npaths && rc == 0; i++) {
		uint32_t item;

		rc = item_add(m, ck_part_text(&m->paths[i].path.parts[0]),
			      &item, d);
	}
	return rc;
}

/* --- the file ------------------------------------------------------------------------- */

/* Refuses classes and functions, which the package does not write. */
static int globals_refuse(const struct ck_pickle *p, struct ck_diag *d)
{
	const struct ck_pv first = { .tag = CK_PV_GLOBAL, .i = 0 };

	if (p->nglobals == 0)
		return 0;
	return ck_fail(d, EBADMSG,
		       "it names %s; metadata of torch_checkpointing names no "
		       "class and no function",
		       ck_show(ck_pickle_global(p, &first)));
}

static int root_read(struct ck_tckpt_metadata *m, struct ck_diag *d)
{
	struct ck_pv version, world, metadata;
	struct ck_str text = CK_STR("");
	int64_t ranks;
	bool old;
	int rc = globals_refuse(&m->pickle, d);

	if (rc)
		return rc;
	if (!ck_pv_get(&m->pickle.root, "version", &version) ||
	    !ck_pv_get(&m->pickle.root, "world_size", &world) ||
	    !ck_pv_get(&m->pickle.root, "metadata", &metadata))
		return malformed(d,
				 "it has no version, world_size or metadata");
	(void)ck_pv_str(&version, &text);
	old = ck_str_is(text, "1.0");
	if (!old && !ck_str_is(text, "2.0"))
		return ck_differs(d, EBADMSG, "1.0 or 2.0",
				  text.len ? ck_show(text) : "another",
				  "unknown version of torch_checkpointing's "
				  "metadata");
	if (!ck_pv_int(&world, &ranks) || ranks < 1 || ranks > CK_RANK_MAX)
		return malformed(d, "its world_size");
	m->world = (uint64_t)ranks;
	return old ? old_read(m, &metadata, d)
		   : dict_each(m, &metadata, item_take, NULL, d);
}

int ck_tckpt_metadata_read(struct ck_tckpt_metadata *m, struct ck_str bytes,
			   struct ck_diag *d)
{
	const struct ck_pickle_hooks hooks = { .no_persids = true };
	int rc = ck_pickle_read(&m->pickle, bytes.p, bytes.len, &hooks, d);

	m->by_exact = (struct ck_table){ .key = exact_of, .arg = m };
	m->by_inner = (struct ck_table){ .key = inner_of, .arg = m };
	m->by_item = (struct ck_table){ .key = item_name, .arg = m };
	return rc ? rc : root_read(m, d);
}

void ck_tckpt_metadata_fini(struct ck_tckpt_metadata *m)
{
	ck_pickle_fini(&m->pickle);
	ck_arena_fini(&m->arena);
	ck_table_fini(&m->by_exact);
	ck_table_fini(&m->by_inner);
	ck_table_fini(&m->by_item);
	ck_buf_fini(&m->text);
	free(m->items);
	free(m->paths);
}
