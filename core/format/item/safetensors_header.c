/* SPDX-License-Identifier: MIT */
/* safetensors_header: parses the JSON header of a safetensors file: each entry, then
 * the ranges of all of them. A struct ck_safetensors is a value; it is constant after
 * ck_safetensors_read(). */
#include "safetensors_header.h"

#include <errno.h>
#include <inttypes.h>

/* Names of dtypes that torch lacks. */
static const char *const six_bits[] = { "F6_E2M3", "F6_E3M2" };

/* The entry that is being read. */
struct entry {
	struct ck_safetensor t;
	const char *dtype; /* name in torch, or as spelled in the file */
	unsigned bits;	   /* bits of an element */
	bool has_dtype, has_shape, has_range;
};

static int no_memory(struct ck_safetensors *s)
{
	return ck_fail(s->json->d, ENOMEM, "out of memory");
}

/* --- fields of an entry --------------------------------------------------------- */

static bool dtype_find(struct entry *e, struct ck_str name)
{
	const struct ck_dtype *dtype = ck_dtype_at(ck_dtype_by_hub(name));

	e->dtype = dtype->name;
	e->bits = ck_str_is(name, "F4") ? 4 : 8U * dtype->size;
	for (size_t i = 0; i < CK_ARRAY_SIZE(six_bits); i++)
		if (ck_str_is(name, six_bits[i])) {
			e->dtype = six_bits[i];
			e->bits = 6;
		}
	return e->bits;
}

static int dtype_take(struct ck_safetensors *s, struct entry *e,
		      const struct ck_json_value *v)
{
	e->has_dtype = v->type == CK_JSON_STRING && dtype_find(e, v->text);
	return e->has_dtype ? 0
			    : ck_json_refuse(s->json, v, "an unknown dtype");
}

/* Reads the next number of an array. Sets *some to false at the end of the array. */
static int number_next(struct ck_safetensors *s, bool *some, uint64_t *out)
{
	struct ck_json_value v;
	int rc = ck_json_next(s->json, &v);

	*some = rc == 0 && v.type != CK_JSON_END;
	if (!*some || ck_json_u63(&v, out))
		return rc;
	return ck_json_refuse(s->json, &v, "no size below 2^63");
}

static int shape_add(struct ck_safetensors *s, uint64_t size)
{
	int64_t *shapes = ck_grow(s->shapes, &s->shapes_cap, s->nshapes, 1,
				  sizeof(*shapes));

	if (!shapes || s->nshapes == UINT32_MAX)
		return no_memory(s);
	s->shapes = shapes;
	shapes[s->nshapes++] = (int64_t)size;
	return 0;
}

static int shape_take(struct ck_safetensors *s, struct entry *e,
		      const struct ck_json_value *v)
{
	uint64_t size;
	bool some = true;
	int rc = 0;

	if (v->type != CK_JSON_ARRAY)
		return ck_json_refuse(s->json, v, "a shape that is no array");
	e->t.shape = (uint32_t)s->nshapes;
	while (rc == 0 && some) {
		rc = number_next(s, &some, &size);
		if (rc == 0 && some)
			rc = shape_add(s, size);
	}
	e->t.ndim = (uint32_t)(s->nshapes - e->t.shape);
	e->has_shape = true;
	return rc;
}

static int range_take(struct ck_safetensors *s, struct entry *e,
		      const struct ck_json_value *v)
{
	uint64_t *const to[] = { &e->t.begin, &e->t.end };
	uint64_t more;
	bool some = v->type == CK_JSON_ARRAY;
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0 && some; i++)
		rc = number_next(s, &some, to[i]);
	if (rc == 0 && some) {
		rc = number_next(s, &some, &more);
		some = !some;
	}
	if (rc == 0 && (!some || e->t.end < e->t.begin))
		rc = ck_json_refuse(s->json, v,
				    "data_offsets that are no begin and end");
	e->has_range = true;
	return rc;
}

/* --- an entry ---------------------------------------------------------------------- */

static int entry_bad(struct ck_safetensors *s, const struct entry *e,
		     const char *what)
{
	return ck_fail(s->json->d, EBADMSG, "%s: %s", ck_show(e->t.name), what);
}

/* Checks that the entry has as many bytes as its shape needs. As in the library, a
 * product that overflows is an error, even if a later size is 0. */
static int size_check(struct ck_safetensors *s, const struct entry *e)
{
	uint64_t bits = 1;
	bool good = true;

	for (uint32_t i = 0; i < e->t.ndim && good; i++)
		good = ck_mul(&bits, bits, (uint64_t)s->shapes[e->t.shape + i]);
	if (!good || !ck_mul(&bits, bits, e->bits) || bits % 8)
		return entry_bad(s, e,
				 "its shape has no whole number of bytes");
	if (bits / 8 == e->t.end - e->t.begin)
		return 0;
	return ck_differs(s->json->d, EBADMSG, ck_shown("%" PRIu64, bits / 8),
			  ck_shown("%" PRIu64, e->t.end - e->t.begin),
			  "%s: bytes of its shape", ck_show(e->t.name));
}

/* Halves the last size of a dtype of 4 bits: torch counts bytes of two values, the file
 * counts values. */
static int halves_take(struct ck_safetensors *s, const struct entry *e)
{
	int64_t *last;

	if (e->bits != 4)
		return 0;
	last = e->t.ndim ? &s->shapes[e->t.shape + e->t.ndim - 1] : NULL;
	if (!last || *last % 2)
		return entry_bad(s, e,
				 "an odd number of values of half a byte");
	*last /= 2;
	return 0;
}

static int entry_add(struct ck_safetensors *s, struct entry *e)
{
	struct ck_safetensor *tensors;
	int rc;

	if (!e->has_dtype || !e->has_shape || !e->has_range)
		return entry_bad(s, e, "without dtype, shape, or data_offsets");
	rc = size_check(s, e);
	if (rc == 0)
		rc = halves_take(s, e);
	if (rc)
		return rc;
	e->t.dtype = ck_str_from(e->dtype);
	tensors = ck_grow(s->tensors, &s->cap, s->n, 1, sizeof(*tensors));
	if (!tensors)
		return no_memory(s);
	s->tensors = tensors;
	tensors[s->n++] = e->t;
	return 0;
}

static int field_take(struct ck_safetensors *s, struct entry *e,
		      const struct ck_json_value *v)
{
	if (ck_str_is(v->key, "dtype"))
		return dtype_take(s, e, v);
	if (ck_str_is(v->key, "shape"))
		return shape_take(s, e, v);
	if (ck_str_is(v->key, "data_offsets"))
		return range_take(s, e, v);
	return ck_json_skip(s->json, v);
}

static int entry_take(struct ck_safetensors *s, const struct ck_json_value *v)
{
	struct entry e = { .t.name = v->key, .t.at = v->at };
	struct ck_json_value field = { .type = CK_JSON_NULL };
	int rc = 0;

	if (v->type != CK_JSON_OBJECT)
		return ck_json_refuse(s->json, v, "an entry that is no object");
	while (rc == 0) {
		rc = ck_json_next(s->json, &field);
		if (rc == 0 && field.type == CK_JSON_END)
			return entry_add(s, &e);
		if (rc == 0)
			rc = field_take(s, &e, &field);
	}
	return rc;
}

/* --- __metadata__ ------------------------------------------------------------------ */

static int note_add(struct ck_safetensors *s, const struct ck_json_value *v)
{
	struct ck_safetensors_note *notes;

	if (v->type != CK_JSON_STRING)
		return ck_json_refuse(s->json, v,
				      "__metadata__ that is no string");
	notes = ck_grow(s->notes, &s->notes_cap, s->nnotes, 1, sizeof(*notes));
	if (!notes)
		return no_memory(s);
	s->notes = notes;
	notes[s->nnotes++] = (struct ck_safetensors_note){ v->key, v->text };
	return 0;
}

static int notes_take(struct ck_safetensors *s, const struct ck_json_value *v)
{
	struct ck_json_value note = { .type = CK_JSON_NULL };
	int rc = 0;

	if (v->type == CK_JSON_NULL)
		return 0;
	if (v->type != CK_JSON_OBJECT)
		return ck_json_refuse(s->json, v,
				      "__metadata__ that is no object");
	while (rc == 0) {
		rc = ck_json_next(s->json, &note);
		if (rc == 0 && note.type == CK_JSON_END)
			return 0;
		if (rc == 0)
			rc = note_add(s, &note);
	}
	return rc;
}

struct ck_str ck_safetensors_note(const struct ck_safetensors *s,
				  const char *key)
{
	for (size_t i = 0; i < s->nnotes; i++)
		if (ck_str_is(s->notes[i].key, key))
			return s->notes[i].value;
	return (struct ck_str){ NULL, 0 };
}

/* --- the header ------------------------------------------------------------------- */

static int order_cmp(const void *a, const void *b)
{
	const struct ck_safetensor *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Sorts the entries and checks that they are adjacent and reach the end of the bytes,
 * or beyond it. */
static int ranges_check(struct ck_safetensors *s, uint64_t end)
{
	uint64_t at = 0;

	if (s->n)
		qsort(s->tensors, s->n, sizeof(*s->tensors), order_cmp);
	for (size_t i = 0; i < s->n; i++) {
		const struct ck_safetensor *t = &s->tensors[i];

		if (t->begin != at)
			return ck_differs(
				s->json->d, EBADMSG, ck_shown("%" PRIu64, at),
				ck_shown("%" PRIu64, t->begin),
				"%s: where its bytes begin", ck_show(t->name));
		at = t->end;
	}
	s->end = at;
	if (at >= end)
		return 0;
	return ck_differs(s->json->d, EBADMSG, ck_shown("%" PRIu64, at),
			  ck_shown("%" PRIu64, end), "bytes behind the header");
}

static int object_take(struct ck_safetensors *s)
{
	struct ck_json_value v;
	int rc = ck_json_next(s->json, &v);

	if (rc)
		return rc;
	if (v.type != CK_JSON_OBJECT)
		return ck_json_refuse(s->json, &v, "no object");
	while (rc == 0) {
		rc = ck_json_next(s->json, &v);
		if (rc == 0 && v.type == CK_JSON_END)
			break;
		if (rc == 0)
			rc = ck_str_is(v.key, "__metadata__")
				     ? notes_take(s, &v)
				     : entry_take(s, &v);
	}
	return rc ? rc : ck_json_next(s->json, &v);
}

int ck_safetensors_read(struct ck_safetensors *s, struct ck_str json,
			uint64_t end, struct ck_diag *d)
{
	struct ck_json_reader reader;
	int rc;

	*s = (struct ck_safetensors){ .json = &reader };
	ck_json_reader_init(&reader, json, d);
	s->shapes = ck_grow(NULL, &s->shapes_cap, 0, 1, sizeof(*s->shapes));
	rc = s->shapes ? object_take(s) : no_memory(s);
	if (rc == 0)
		rc = ranges_check(s, end);
	ck_json_reader_leave(&reader, &s->texts);
	s->json = NULL;
	return rc;
}

void ck_safetensors_fini(struct ck_safetensors *s)
{
	free(s->tensors);
	free(s->shapes);
	free(s->notes);
	ck_arena_fini(&s->texts);
	*s = (struct ck_safetensors){ 0 };
}
