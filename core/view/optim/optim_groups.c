/* SPDX-License-Identifier: MIT */
/*
 * optim_groups: prints param_groups.json: the nested options of all groups, each with
 * its value. The entries of one container are sorted to be together, and then printed
 * in the order of the checkpoint. Paths come from a file and are untrusted: if they
 * contradict each other, the text is malformed. Local to one call; any thread.
 */
#include "ckptfs/json.h"
#include "ckptfs/model.h"
#include "optim.h"

#include <errno.h>
#include <inttypes.h>

enum { DEPTH_MAX = 64 };

/* Limit of positions of lists without an entry: a base, and more for each entry. */
enum { NULLS_BASE = 1 << 16, NULLS_PER_ENTRY = 16 };

/* An entry below the container that is printed. */
struct item {
	const struct ck_path_part *parts; /* n */
	uint32_t n;
	uint32_t code;
	uint32_t order; /* position in the checkpoint */
	uint64_t run;	/* of its part: position of the first entry, or index */
};

struct printing {
	const struct ck_catalog *c;
	const struct ck_object_access *objects;
	struct ck_buf *out;
	struct ck_buf pointer; /* JSON Pointer to the present value */
	uint64_t nulls;	       /* that may still be printed */
	bool transient;
};

/* --- one value ---------------------------------------------------------------------- */

/* Appends JSON whose references point into it: they then point into the whole text. */
static void text_add(struct printing *p, struct ck_str text)
{
	static const char ref[] = "{\"$ref\":\"";
	const char *at;

	while ((at = memmem(text.p, text.len, ref, sizeof(ref) - 1))) {
		size_t len = (size_t)(at - text.p) + sizeof(ref) - 1;

		ck_buf_add(p->out, text.p, len);
		ck_buf_add(p->out, p->pointer.data, p->pointer.len);
		text = (struct ck_str){ text.p + len, text.len - len };
	}
	ck_buf_str(p->out, text);
}

static int object_print(struct printing *p, uint32_t object)
{
	struct ck_buf text = { 0 };
	int rc = p->objects->json(p->objects->cp, object, &text, &p->transient);

	if (rc == 0 && text.len)
		text_add(p,
			 (struct ck_str){ text.data,
					  text.len - (text.data[text.len - 1] ==
						      '\n') });
	ck_buf_fini(&text);
	return rc;
}

static int value_print(struct printing *p, uint32_t code)
{
	struct ck_entry_id id = ck_optim_id(code);
	const struct ck_tensor *t;

	if (id.is_object)
		return object_print(p, id.i);
	t = ck_catalog_tensor(p->c, id.i);
	ck_buf_text(p->out, "{\"$tensor\":{\"dtype\":");
	ck_buf_json_str(p->out, t->facts->dtype_name);
	ck_buf_text(p->out, ",\"shape\":");
	ck_dims_print(p->out, t->shape, t->ndim);
	ck_buf_text(p->out, "}}");
	return 0;
}

/* --- containers --------------------------------------------------------------------- */

enum kind { KIND_OBJECT, KIND_DICT, KIND_LIST };

static const char *const opened[] = { "{", "{\"$dict\":[", "[" };
static const char *const closed[] = { "}", "]}", "]" };

static int part_cmp(const void *a, const void *b, void *arg)
{
	const struct item *x = a, *y = b;
	uint32_t depth = *(const uint32_t *)arg;
	const struct ck_path_part *p = &x->parts[depth], *q = &y->parts[depth];
	int cmp = memcmp(p->p, q->p, ck_min(p->len, q->len));

	if (cmp || p->len != q->len)
		return cmp ? cmp : p->len < q->len ? -1 : 1;
	if (p->type != q->type)
		return p->type < q->type ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static bool is_same(const struct item *x, const struct item *y, uint32_t depth)
{
	return x->parts[depth].type == y->parts[depth].type &&
	       ck_str_eq(ck_part_text(&x->parts[depth]),
			 ck_part_text(&y->parts[depth]));
}

static int run_cmp(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->run != y->run)
		return x->run < y->run ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static bool is_plain(const struct ck_path_part *part)
{
	struct ck_str s = ck_part_text(part);

	return part->type == CK_PATH_STR && (s.len == 0 || s.p[0] != '$') &&
	       ck_utf8_valid(s);
}

/* The kind of a container with these entries. -EBADMSG if there is none. */
static int kind_of(const struct item *items, uint32_t n, uint32_t depth)
{
	uint32_t indexes = 0, plain = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (items[i].n <= depth || depth == DEPTH_MAX)
			return -EBADMSG;
		indexes += items[i].parts[depth].type == CK_PATH_INDEX;
		plain += is_plain(&items[i].parts[depth]);
	}
	if (indexes)
		return indexes == n ? KIND_LIST : -EBADMSG;
	return plain == n ? KIND_OBJECT : KIND_DICT;
}

/* Sorts entries so that those with one part are together. */
static int items_sort(struct item *items, uint32_t n, uint32_t depth,
		      enum kind kind)
{
	uint64_t index = 0;

	qsort_r(items, n, sizeof(*items), part_cmp, &depth);
	for (uint32_t i = 0; i < n; i++) {
		if (i && is_same(&items[i - 1], &items[i], depth)) {
			items[i].run = items[i - 1].run;
			continue;
		}
		if (kind == KIND_LIST &&
		    !ck_view_number(ck_part_text(&items[i].parts[depth]),
				    &index))
			return -EBADMSG;
		items[i].run = kind == KIND_LIST ? index : items[i].order;
	}
	qsort(items, n, sizeof(*items), run_cmp);
	return 0;
}

/* A key that is no plain text: as the pickle has it. */
static void key_print(struct ck_buf *out, const struct ck_path_part *part)
{
	struct ck_str s = ck_part_text(part);

	switch (part->type) {
	case CK_PATH_STR: ck_buf_json_str(out, s); break;
	case CK_PATH_BOOL:
		ck_buf_text(out, ck_str_is(s, "True") ? "true" : "false");
		break;
	case CK_PATH_NONE: ck_buf_text(out, "null"); break;
	default: ck_buf_str(out, s); break;
	}
}

/* Prints the nulls of a list before a value, or its key; and extends the pointer. */
static int child_begin(struct printing *p, const struct item *item,
		       uint32_t depth, enum kind kind, uint64_t number,
		       uint64_t expected)
{
	const struct ck_path_part *part = &item->parts[depth];
	struct ck_buf key = { 0 };

	ck_buf_text(p->out, number ? "," : "");
	if (kind == KIND_LIST) {
		if (item->run - expected > p->nulls)
			return -EBADMSG;
		p->nulls -= item->run - expected;
		for (uint64_t i = expected; i < item->run; i++)
			ck_buf_text(p->out, "null,");
		ck_buf_printf(&p->pointer, "/%" PRIu64, item->run);
		return 0;
	}
	if (kind == KIND_DICT) {
		ck_buf_text(p->out, "[");
		key_print(p->out, part);
		ck_buf_text(p->out, ",");
		ck_buf_printf(&p->pointer, "/$dict/%" PRIu64 "/1", number);
		return 0;
	}
	ck_buf_json_str(&key, ck_part_text(part));
	ck_buf_add(p->out, key.data, key.len);
	ck_buf_text(p->out, ":");
	ck_buf_text(&p->pointer, "/");
	for (size_t i = 1; i + 1 < key.len; i++)
		if (key.data[i] == '~')
			ck_buf_text(&p->pointer, "~0");
		else if (key.data[i] == '/')
			ck_buf_text(&p->pointer, "~1");
		else
			ck_buf_add(&p->pointer, &key.data[i], 1);
	ck_buf_fini(&key);
	return 0;
}

/* Prints the value of these entries, which have their first `depth` parts in common.
 * Recursion is as deep as DEPTH_MAX. */
static int items_print(struct printing *p, struct item *items, uint32_t n,
		       uint32_t depth)
{
	uint64_t number = 0, expected = 0;
	int kind, rc = 0;

	if (n == 1 && items->n == depth)
		return value_print(p, items->code);
	kind = kind_of(items, n, depth);
	if (kind < 0)
		return kind;
	rc = items_sort(items, n, depth, (enum kind)kind);
	ck_buf_text(p->out, opened[kind]);
	for (uint32_t i = 0, end; i < n && rc == 0; i = end) {
		size_t pointer = p->pointer.len;

		end = i + 1;
		while (end < n && items[end].run == items[i].run)
			end++;
		rc = child_begin(p, &items[i], depth, (enum kind)kind, number++,
				 expected);
		expected = items[i].run + 1;
		if (rc == 0)
			rc = items_print(p, &items[i], end - i, depth + 1);
		ck_buf_text(p->out, kind == KIND_DICT ? "]" : "");
		p->pointer.len = pointer;
	}
	ck_buf_text(p->out, closed[kind]);
	return rc;
}

/* --- entries ------------------------------------------------------------------------ */

/* The parts behind "param_groups." of a flattened tree: a group or parameter, the
 * option, and the other parts of the path. */
static int flat_parts(const struct ck_optim_names *names, bool is_numbered,
		      const struct ck_entry *e, const struct ck_optim_at *at,
		      struct ck_arena *arena, struct item *out)
{
	uint32_t more = e->nparts > at->part + 1 ? e->nparts - at->part - 1 : 0;
	struct ck_path_part *parts =
		ck_arena_alloc(arena, (2UL + more) * sizeof(*parts));
	struct ck_str fqn, option;
	const char *dot;

	if (!parts)
		return -ENOMEM;
	ck_optim_split(names, at->rest, &fqn, &option);
	dot = is_numbered && at->rest.len
		      ? memchr(at->rest.p, '.', at->rest.len)
		      : NULL;
	if (dot) {
		fqn.len = (size_t)(dot - at->rest.p);
		option = (struct ck_str){ dot + 1, at->rest.len - fqn.len - 1 };
	}
	out->parts = parts;
	out->n = 2 + more;
	parts[0] = (struct ck_path_part){ fqn.p, (uint32_t)fqn.len,
					  is_numbered ? CK_PATH_INDEX
						      : CK_PATH_STR };
	parts[1] = (struct ck_path_part){ option.p, (uint32_t)option.len,
					  CK_PATH_STR };
	for (uint32_t i = 0; i < more; i++)
		parts[2 + i] = ck_entry_part(e, at->part + 1 + i);
	return 0;
}

/* Collects the entries of a tree. Of nested and flattened ones in one tree the nested
 * ones count. */
static int items_make(const struct ck_optim_found *f,
		      const struct ck_optim_tree *t,
		      const struct ck_optim_names *names,
		      struct ck_arena *arena, struct item *items, uint32_t *n)
{
	int rc = 0;

	for (uint32_t i = 0; i < t->ngroups && rc == 0; i++) {
		uint32_t entry = f->groups[t->group + i].entry;
		const struct ck_entry *e = ck_optim_entry(f->c, entry);
		struct ck_optim_at at;
		struct item *item = &items[*n];

		(void)ck_optim_find(e, &at);
		if (at.is_flat != t->is_flat)
			continue;
		*item = (struct item){
			.parts = e->path ? e->path + at.part : NULL,
			.n = e->nparts > at.part ? e->nparts - at.part : 0,
			.code = ck_optim_code(f->c->listing->entries[entry]),
			.order = i,
		};
		if (at.is_flat)
			rc = flat_parts(names, t->is_numbered, e, &at, arena,
					item);
		++*n;
	}
	return rc;
}

int ck_optim_groups_print(const struct ck_optim_found *f,
			  const struct ck_optim_tree *t,
			  const struct ck_view_options *o,
			  const struct ck_object_access *objects,
			  struct ck_buf *out, bool *transient)
{
	struct printing p = { .c = f->c, .objects = objects, .out = out };
	bool by_name = t->is_flat && !t->is_numbered;
	ck_auto_free struct item *items = NULL;
	struct ck_optim_names names = { 0 };
	struct ck_arena arena = { 0 };
	uint32_t n = 0;
	int rc = by_name ? ck_optim_names_make(f, o, &names) : 0;

	p.nulls = NULLS_BASE + NULLS_PER_ENTRY * (uint64_t)t->ngroups;
	items = malloc((t->ngroups + 1UL) * sizeof(*items));
	if (rc == 0 && !items)
		rc = -ENOMEM;
	if (rc == 0)
		rc = items_make(f, t, by_name ? &names : NULL, &arena, items,
				&n);
	if (rc == 0)
		rc = items_print(&p, items, n, 0);
	ck_buf_text(out, "\n");
	if (rc == 0 && (out->err || p.pointer.err))
		rc = -ENOMEM;
	*transient = p.transient || rc == -ENOMEM;
	ck_buf_fini(&p.pointer);
	ck_optim_names_fini(&names);
	ck_arena_fini(&arena);
	return rc;
}
