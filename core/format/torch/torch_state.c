/* SPDX-License-Identifier: MIT */
/*
 * torch_state: the state of a checkpoint with torch files: the ranks of its
 * files, and the CRC-32 of the records of zip containers, for reads of all
 * bytes. The sums that were computed are allocated at the first use, by any
 * thread; all else is constant after the load.
 */
#include "ckptfs/table.h"
#include "entries.h"

#include <errno.h>

/* A record of a zip container; small, because there may be a million. */
struct record {
	uint64_t fpos;
	uint32_t len; /* LONG if its length is in longs */
	uint32_t crc;
};

#define LONG UINT32_MAX

struct long_record {
	uint64_t fpos, len;
};

/* The records of a file that have a CRC-32, sorted by fpos. They do not overlap. */
struct ck_torch_sums {
	uint32_t file;
	struct record *records;
	size_t n, cap;
	struct long_record *longs; /* of 4 GiB or more */
	size_t nlongs, longs_cap;
	/* n sums, allocated when bytes are first verified; NULL before. */
	_Atomic(struct ck_sum *) found;
};

struct ck_torch_state {
	uint64_t *ranks; /* by number of the file */
	/* offset of data.pkl, by number of the file; 0 without one */
	uint64_t *pickles;
	/* by number of the file; NULL without sums */
	struct ck_torch_sums **sums;
	size_t nranks;
};

/* True for a record with a CRC-32. torch can omit all of them, or those of data; they
 * are then 0. */
static bool is_sum(const struct ck_zip_record *r)
{
	return r->crc && (ck_str_starts(r->name, CK_STR("data/")) ||
			  ck_str_is(r->name, "data.pkl"));
}

void ck_torch_sums_free(struct ck_torch_sums *s)
{
	if (s) {
		free(s->records);
		free(s->longs);
		free(atomic_load(&s->found));
	}
	free(s);
}

static int long_add(struct ck_torch_sums *s, const struct ck_zip_record *r)
{
	struct long_record *longs = ck_grow(s->longs, &s->longs_cap, s->nlongs,
					    1, sizeof(*longs));

	if (!longs)
		return -ENOMEM;
	s->longs = longs;
	longs[s->nlongs++] = (struct long_record){ r->ipos, r->len };
	return 0;
}

static int record_add(struct ck_torch_sums *s, const struct ck_zip_record *r)
{
	struct record *records = ck_grow(s->records, &s->cap, s->n, 1,
					 sizeof(*records));

	if (!records)
		return -ENOMEM;
	s->records = records;
	records[s->n++] = (struct record){
		.fpos = r->ipos,
		.len = (uint32_t)ck_min(r->len, LONG),
		.crc = r->crc,
	};
	return r->len < LONG ? 0 : long_add(s, r);
}

static int num_cmp(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int record_cmp(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	return num_cmp(x->fpos, y->fpos);
}

static int long_order(const void *a, const void *b)
{
	const struct long_record *x = a, *y = b;

	return num_cmp(x->fpos, y->fpos);
}

static int records_take(struct ck_torch_sums *s, const struct ck_zip *zip)
{
	int rc = 0;

	for (uint32_t k = 0; k < zip->nrecords && rc == 0; k++)
		if (is_sum(&zip->records[k]))
			rc = record_add(s, &zip->records[k]);
	if (s->n)
		qsort(s->records, s->n, sizeof(*s->records), record_cmp);
	if (s->nlongs)
		qsort(s->longs, s->nlongs, sizeof(*s->longs), long_order);
	s->records = ck_trim(s->records, s->n, sizeof(*s->records));
	return rc;
}

int ck_torch_sums_take(struct ck_torch_load *l, const struct ck_torch_file *f)
{
	struct ck_torch_sums **sums = ck_grow(l->sums, &l->sums_cap, l->nsums,
					      1,
					      sizeof(struct ck_torch_sums *));
	struct ck_torch_sums *s = calloc(1, sizeof(*s));

	if (sums)
		l->sums = sums;
	if (!sums || !s || records_take(s, &f->zip)) {
		ck_torch_sums_free(s);
		return ck_fail(l->d, ENOMEM, "out of memory");
	}
	s->file = f->number;
	sums[l->nsums++] = s;
	return 0;
}

void ck_torch_state_free(struct ck_torch_state *s)
{
	if (s) {
		for (size_t i = 0; s->sums && i < s->nranks; i++)
			ck_torch_sums_free(s->sums[i]);
		free(s->ranks);
		free(s->pickles);
		free(s->sums);
	}
	free(s);
}

/* NULL if out of memory. */
static struct ck_torch_state *own_make(size_t n)
{
	struct ck_torch_state *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->nranks = n;
	s->ranks = malloc((n + 1) * sizeof(*s->ranks));
	s->pickles = calloc(n + 1, sizeof(*s->pickles));
	s->sums = calloc(n + 1, sizeof(struct ck_torch_sums *));
	if (!s->ranks || !s->pickles || !s->sums) {
		ck_torch_state_free(s);
		return NULL;
	}
	for (size_t i = 0; i < n; i++)
		s->ranks[i] = CK_NO_RANK;
	return s;
}

int ck_torch_state_add(struct ck_torch_load *l, struct ck_torch_state **own)
{
	struct ck_torch_state *s =
		*own ? *own : own_make(ck_files_count(l->cp->files));

	if (!s)
		return ck_fail(l->d, ENOMEM, "out of memory");
	*own = s;
	for (size_t i = 0; i < l->nfiles; i++) {
		const struct ck_torch_file *f = &l->files[i];

		s->ranks[f->number] = f->rank;
		if (f->good && f->is_zip)
			s->pickles[f->number] = f->fpos;
	}
	for (size_t i = 0; i < l->nsums; i++) {
		struct ck_torch_sums **at = &s->sums[l->sums[i]->file];

		ck_torch_sums_free(*at);
		*at = l->sums[i];
	}
	l->nsums = 0;
	return 0;
}

int ck_torch_state_keep(struct ck_torch_load *l)
{
	struct ck_torch_state *s = l->cp->own;
	int rc = ck_torch_state_add(l, &s);

	l->cp->own = s;
	return rc;
}

uint64_t ck_torch_rank(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct ck_torch_state *s = cp->own;

	return file < s->nranks ? s->ranks[file] : CK_NO_RANK;
}

void ck_torch_forget(struct ck_checkpoint *cp)
{
	ck_torch_state_free(cp->own);
}

/* --- computed sums ---------------------------------------------------------------- */

static int long_cmp(const void *key, const void *of)
{
	return num_cmp(*(const uint64_t *)key,
		       ((const struct long_record *)of)->fpos);
}

static uint64_t len_of(const struct ck_torch_sums *s, const struct record *r)
{
	const struct long_record *found = NULL;

	if (r->len < LONG)
		return r->len;
	found = bsearch(&r->fpos, s->longs, s->nlongs, sizeof(*found),
			long_cmp);
	return found ? found->len : LONG;
}

static void sum_init(const struct ck_torch_sums *s, size_t i,
		     struct ck_sum *out)
{
	const struct record *r = &s->records[i];

	out->fpos = r->fpos;
	out->len = len_of(s, r);
	out->file = s->file;
	out->crc = r->crc;
	atomic_init(&out->found, 0);
	atomic_init(&out->known, 0);
}

/* Allocates the sums. If several threads do so, one wins. NULL if memory is
 * exhausted. */
static struct ck_sum *found_make(struct ck_torch_sums *s)
{
	struct ck_sum *made = calloc(s->n, sizeof(*made)), *other = NULL;

	for (size_t i = 0; made && i < s->n; i++)
		sum_init(s, i, &made[i]);
	if (made && atomic_compare_exchange_strong(&s->found, &other, made))
		return made;
	free(made);
	return other;
}

/* Finds the record that contains the first byte of an item; false without one. */
static bool record_find(const struct ck_torch_sums *s,
			const struct ck_item *item, size_t *out)
{
	size_t lo = CK_COUNT_BEFORE(s->n, i, s->records[i].fpos <= item->fpos);
	uint64_t into;

	if (lo == 0)
		return false;
	*out = lo - 1;
	into = item->fpos - s->records[lo - 1].fpos;
	return into == 0 || into < len_of(s, &s->records[lo - 1]);
}

struct ck_sum *ck_torch_state_sum(struct ck_torch_state *own,
				  const struct ck_item *item)
{
	/* Used without memory: the sum is then computed again each time. */
	static _Thread_local struct ck_sum alone;
	struct ck_torch_sums *s = item->file < own->nranks
					  ? own->sums[item->file]
					  : NULL;
	struct ck_sum *found;
	size_t i;

	if (!s || !record_find(s, item, &i))
		return NULL;
	found = atomic_load(&s->found);
	if (!found)
		found = found_make(s);
	if (found)
		return &found[i];
	sum_init(s, i, &alone);
	return &alone;
}

struct ck_sum *ck_torch_state_pickle_sum(struct ck_torch_state *s,
					 uint32_t file)
{
	struct ck_item item = { .file = file };

	if (file >= s->nranks || s->pickles[file] == 0)
		return NULL;
	item.fpos = s->pickles[file];
	return ck_torch_state_sum(s, &item);
}

struct ck_sum *ck_torch_sum(const struct ck_checkpoint *cp,
			    const struct ck_item *item)
{
	return ck_torch_state_sum(cp->own, item);
}

struct ck_sum *ck_torch_pickle_sum(const struct ck_checkpoint *cp,
				   uint32_t file)
{
	return ck_torch_state_pickle_sum(cp->own, file);
}

bool ck_torch_state_record(const struct ck_torch_state *own, uint32_t file,
			   size_t i, struct ck_item *out)
{
	const struct ck_torch_sums *s = file < own->nranks ? own->sums[file]
							   : NULL;

	if (!s || i >= s->n)
		return false;
	*out = (struct ck_item){ .fpos = s->records[i].fpos,
				 .length = len_of(s, &s->records[i]),
				 .file = file,
				 .form = CK_FORM_ELEMENTS };
	return true;
}

bool ck_torch_record(const struct ck_checkpoint *cp, uint32_t file, size_t i,
		     struct ck_item *out)
{
	return ck_torch_state_record(cp->own, file, i, out);
}
