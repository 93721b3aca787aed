/* SPDX-License-Identifier: MIT */
/*
 * legacy: reads the container that torch.save made before 1.6, and still makes without
 * _use_new_zipfile_serialization. It begins with five pickles: a magic number, a
 * version, the system that wrote it, the value, and the keys of its storages. Each
 * storage follows as the number of its elements, then the elements
 * (torch/serialization.py, _legacy_save). The state is in struct ck_torch_file and
 * lives for one call.
 */
#include "ckptfs/table.h"
#include "ckptfs/value.h"
#include "torch_internal.h"

#include <errno.h>
#include <inttypes.h>

enum {
	WINDOW = 64 << 10, /* bytes that are read first for a pickle */
	GROWS = 8,
	SYSTEM_MOST = 4096, /* bytes of a pickle before the value */
	VERSION = 1001,
	COUNT_LEN = 8,
};

/* --- the storages that a pickle refers to ------------------------------------------------- */

/* The storages that the value refers to. Only these references have their lengths. */
struct met {
	struct ck_torch_file *f;
	size_t cap;
	struct ck_table keys;
};

static struct ck_str key_of(const void *arg, uint32_t i)
{
	const struct met *m = arg;

	return m->f->storages[i].key;
}

static int met_add(struct met *m, const struct ck_torch_storage *s,
		   struct ck_diag *d)
{
	struct ck_torch_file *f = m->f;
	struct ck_torch_storage *all = ck_grow(f->storages, &m->cap,
					       f->nstorages, 1, sizeof(*all));
	uint32_t n = (uint32_t)f->nstorages, i;

	if (all)
		f->storages = all;
	if (!all || ck_table_add(&m->keys, s->key, n, &i))
		return ck_fail(d, ENOMEM, "out of memory");
	if (i == n)
		all[f->nstorages++] = *s;
	else if (all[i].len != s->len)
		return ck_fail(d, EBADMSG,
			       "storage %s has two lengths: %" PRIu64
			       " and %" PRIu64 " bytes",
			       ck_show(s->key), all[i].len, s->len);
	return 0;
}

/* Returns the bytes of an element, 0 if the class is unknown, or 1 for packed dtypes,
 * whose lengths are in bytes. */
static uint64_t element_of(struct ck_str class)
{
	uint8_t dtype = ck_dtype_by_storage(class);

	if (ck_storage_is_untyped(class) || dtype == CK_DTYPE_UNKNOWN)
		return ck_storage_is_untyped(class);
	return ck_max(ck_dtype_at(dtype)->size, 1);
}

/* A class of a module is pickled as a tuple with its source. Sets *out to the class;
 * false for another value. */
static bool module_take(const struct ck_pv *id, struct ck_pv *out)
{
	struct ck_str tag;
	struct ck_pv first;

	if (id->tag != CK_PV_TUPLE || ck_pv_count(id) < 2)
		return false;
	first = ck_pv_at(id, 0);
	*out = ck_pv_at(id, 1);
	return ck_pv_str(&first, &tag) && ck_str_is(tag, "module") &&
	       out->tag == CK_PV_GLOBAL;
}

static int persid(void *ctx, struct ck_pickle *p, const struct ck_pv *id,
		  struct ck_pv *out, struct ck_diag *d)
{
	struct ck_torch_storage s = { 0 };
	struct ck_str class;
	int64_t numel;

	if (module_take(&id->list->items[0], out))
		return 1;
	if (!ck_storage_take(p, id, &class, &s.key, &numel))
		return ck_fail(d, EBADMSG,
			       "a storage that is malformed, or a part of "
			       "another one");
	s.unit = element_of(class);
	if (s.unit == 0 || !ck_mul(&s.len, s.unit, (uint64_t)numel))
		return ck_fail(d, EBADMSG, "storage %s: %" PRId64 " of %s",
			       ck_show(s.key), numel, ck_show(class));
	if (!ck_pickle_spend(p, 2 * sizeof(s)))
		return ck_fail(d, EBADMSG, "too many storages");
	return met_add(ctx, &s, d);
}

/* --- pickles one behind the other ---------------------------------------------------------- */

/* One pickle of the file: its offset and bytes. */
struct piece {
	uint64_t at;
	void *bytes; /* owned */
	uint64_t len;
};

static int piece_read(struct ck_stored *s, uint64_t at, uint64_t most,
		      struct piece *out, struct ck_diag *d)
{
	uint64_t room = ck_min(s->length - at, most), window = WINDOW;
	int rc = -ENODATA;

	*out = (struct piece){ .at = at };
	for (; rc == -ENODATA; window *= GROWS) {
		window = ck_min(window, room);
		free(out->bytes);
		out->bytes = malloc(window + 1);
		if (!out->bytes)
			return ck_fail(d, ENOMEM, "out of memory");
		rc = ck_files_read(s->files, &s->file, out->bytes, window, at,
				   s->length);
		if (rc)
			return ck_fail(d, -rc, "%s", strerrordesc_np(-rc));
		rc = ck_pickle_length(out->bytes, window, &out->len);
		if (window == room)
			break;
	}
	if (rc == -ENOMEM)
		return ck_fail(d, ENOMEM, "out of memory");
	return rc ? ck_fail(d, EBADMSG,
			    "byte %" PRIu64
			    ": no pickle; it is cut short, or has tensors "
			    "in protocol 0, which torch.load does not read "
			    "either",
			    at)
		  : 0;
}

/* Reads a pickle of plain values, and moves *at behind it. */
static int plain_read(struct ck_stored *s, uint64_t *at, uint64_t most,
		      struct ck_pickle *p, void **bytes, struct ck_diag *d)
{
	static const struct ck_pickle_hooks hooks = { .no_persids = true };
	struct piece piece;
	int rc = piece_read(s, *at, most, &piece, d);

	*bytes = piece.bytes;
	if (rc)
		return rc;
	*at += piece.len;
	return ck_pickle_read(p, piece.bytes, piece.len, &hooks, d);
}

static int version_read(struct ck_stored *s, uint64_t *at, struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	struct ck_pickle p = { 0 };
	int64_t version;
	int rc = plain_read(s, at, SYSTEM_MOST, &p, &bytes, d);

	if (rc == 0 && (!ck_pv_int(&p.root, &version) || version != VERSION))
		rc = ck_fail(d, EBADMSG, "no protocol %d of torch.save",
			     VERSION);
	ck_pickle_fini(&p);
	return rc;
}

/* Reads the byte order of the system and ignores it: big-endian systems also wrote
 * little-endian values, and torch.load ignores it, too (THPStorage_writeFileRaw of
 * torch/csrc/serialization.cpp). */
static int system_read(struct ck_stored *s, uint64_t *at, struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	struct ck_pickle p = { 0 };
	int rc = plain_read(s, at, SYSTEM_MOST, &p, &bytes, d);

	if (rc == 0 && p.root.tag != CK_PV_DICT)
		rc = ck_fail(d, EBADMSG, "which system wrote it is not said");
	ck_pickle_fini(&p);
	return rc;
}

static int value_read(struct ck_stored *s, uint64_t *at,
		      struct ck_torch_file *f, struct met *m, struct ck_diag *d)
{
	const struct ck_pickle_hooks hooks = { .ctx = m,
					       .old_persids = true,
					       .persid = persid };
	struct piece piece;
	int rc = piece_read(s, *at, CK_PICKLE_MAX, &piece, d);

	f->bytes = piece.bytes;
	f->len = piece.len;
	f->fpos = *at;
	if (rc)
		return rc;
	*at += piece.len;
	return ck_pickle_read(&f->pickle, f->bytes, f->len, &hooks, d);
}

/* --- locations of storages -------------------------------------------------------- */

static const char elsewhere[] =
	"where its storage begins is not known, since one before has no good "
	"length";

/* Reads a number of elements. Returns 0, 1 if the file ends before it, or a negative
 * errno. */
static int count_read(struct ck_stored *s, uint64_t at, uint64_t *count,
		      struct ck_diag *d)
{
	int rc;

	if (at > s->length || s->length - at < COUNT_LEN)
		return 1;
	rc = ck_files_read(s->files, &s->file, count, COUNT_LEN, at, s->length);
	return rc ? ck_fail(d, -rc, "%s", strerrordesc_np(-rc)) : 0;
}

/* Finds the storage at *at, and moves *at to the next one, or to UINT64_MAX if its
 * offset is unknown. A truncated file loses only the storages at its end. */
static int place(struct ck_stored *s, uint64_t *at, struct ck_torch_storage *t,
		 struct ck_diag *d)
{
	uint64_t count = 0, there = t->len;
	int rc;

	if (*at > INT64_MAX - COUNT_LEN) {
		t->bad = elsewhere;
		return 0;
	}
	rc = count_read(s, *at, &count, d);
	if (rc < 0)
		return rc;
	t->fpos = *at + COUNT_LEN;
	if (rc == 0 && !ck_mul(&there, count, t->unit))
		there = UINT64_MAX;
	if (there != t->len) {
		t->bad = "the lengths in its storage and its pickle differ";
		if (t->fpos > s->length || there > s->length - t->fpos)
			there = UINT64_MAX;
	}
	if (!ck_add(at, t->fpos, there))
		*at = UINT64_MAX;
	return 0;
}

/* Called if the storages do not end at the end of the file. Storage `from` has
 * different lengths in file and pickle, and either may be wrong, so the offsets of all
 * later ones are unknown. */
static void places_doubt(const struct met *m, const struct ck_pv *keys,
			 uint32_t from)
{
	for (uint32_t i = from; i < ck_pv_count(keys); i++) {
		struct ck_pv v = ck_pv_at(keys, i);
		struct ck_str key;
		int64_t number = ck_pv_str(&v, &key)
					 ? ck_table_find(&m->keys, key)
					 : -1;

		if (number >= 0 && !m->f->storages[number].bad)
			m->f->storages[number].bad = elsewhere;
	}
}

static int places_find(struct ck_stored *s, uint64_t at, const struct met *m,
		       const struct ck_pv *keys, struct ck_diag *d)
{
	uint32_t n = ck_pv_count(keys), doubt = n;
	int rc = 0;

	if (keys->tag != CK_PV_LIST)
		return ck_fail(d, EBADMSG, "no list of storages");
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		struct ck_pv v = ck_pv_at(keys, i);
		struct ck_torch_storage *t;
		struct ck_str key;
		int64_t number = ck_pv_str(&v, &key)
					 ? ck_table_find(&m->keys, key)
					 : -1;

		t = number < 0 ? NULL : &m->f->storages[number];
		if (!t || t->fpos || t->bad)
			return ck_fail(d, EBADMSG,
				       "storage %" PRIu32 " of its list: %s", i,
				       t ? "listed before"
					 : "nothing refers to it");
		rc = place(s, &at, t, d);
		if (t->bad && doubt == n)
			doubt = i;
	}
	if (rc == 0 && at != s->length)
		places_doubt(m, keys, doubt);
	return rc;
}

static int places_read(struct ck_stored *s, uint64_t at, const struct met *m,
		       struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	struct ck_pickle p = { 0 };
	int rc = plain_read(s, &at, CK_PICKLE_MAX, &p, &bytes, d);

	if (rc == 0)
		rc = places_find(s, at, m, &p.root, d);
	ck_pickle_fini(&p);
	return rc;
}

/* --- the file --------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
	return ck_str_natural_cmp(((const struct ck_torch_storage *)a)->key,
				  ((const struct ck_torch_storage *)b)->key);
}

int ck_torch_legacy_read(struct ck_stored *stored, uint64_t at,
			 struct ck_torch_file *f, struct ck_diag *d)
{
	struct met m = { .f = f, .keys = { .key = key_of, .arg = &m } };
	int rc = version_read(stored, &at, d);

	if (rc == 0)
		rc = system_read(stored, &at, d);
	if (rc == 0)
		rc = value_read(stored, &at, f, &m, d);
	if (rc == 0)
		rc = places_read(stored, at, &m, d);
	if (rc == 0 && f->nstorages)
		qsort(f->storages, f->nstorages, sizeof(*f->storages), by_key);
	ck_table_fini(&m.keys);
	return rc;
}
