/* SPDX-License-Identifier: MIT */
/*
 * Verification of a rewritten `.metadata` must find every wrong byte, insertions at other
 * places, and damage that leaves the bytes valid. A rewrite must refuse bytes, and stored
 * places, that are not those of the file that was read.
 */
#include "metadata_case.h"

/* --- canaries ----------------------------------------------------------------------- */

static __attribute__((noinline)) void test_every_wrong_byte_is_found(
	const char *fixtures)
{
	static const uint8_t masks[] = { 1, 0x20, 0xff };
	struct subject s;
	unsigned missed = 0;

	fixture(&s, fixtures, "plain");
	change_some(&s, 2, 1);
	ok(s.n > 1);
	eq_err(rewrite(&s), 0);
	eq_err(verify(&s), 0);
	for (size_t i = 0; i < s.new.len; i++) {
		for (size_t k = 0; k < CK_ARRAY_SIZE(masks); k++) {
			int rc;

			s.new.data[i] = (char)(s.new.data[i] ^ masks[k]);
			rc = verify_is(&s);
			missed += rc != -EIO;
			s.new.data[i] = (char)(s.new.data[i] ^ masks[k]);
		}
	}
	eq_u64(missed, 0);
	for (missed = 0; s.new.len > s.new.len / 2 + 1000; s.new.len--)
		missed += s.new.len &&verify_is(&s) == 0;
	ok(missed <= 1); /* only the complete file is valid */
	subject_free(&s);
}

static __attribute__((noinline)) void test_other_changes_are_found(
	const char *fixtures)
{
	struct subject s;
	struct ck_change_of_place keep;

	fixture(&s, fixtures, "dtensor");
	change_some(&s, 2, 1);
	ok(s.n > 1);
	eq_err(rewrite(&s), 0);
	keep = s.changes[1];
	s.changes[1].fpos++;
	eq_err(verify(&s), -EIO);
	s.changes[1] = keep;
	s.changes[1].length++;
	eq_err(verify(&s), -EIO);
	s.changes[1] = keep;
	s.changes[1].path = CK_STR("another");
	eq_err(verify(&s), -EIO);
	s.changes[1] = keep;
	s.changes[1].chunk--; /* the wrong box */
	eq_err(verify(&s), -EIO);
	s.changes[1] = keep;
	s.n--; /* the file has an extra change */
	eq_err(verify(&s), -EIO);
	s.n++;
	eq_err(verify(&s), 0);
	change_some(&s, 2, 2); /* two new changes, not written */
	eq_err(verify(&s), -EIO);
	subject_free(&s);
}

static __attribute__((noinline)) void test_catalog_is_compared(
	const char *fixtures)
{
	struct subject s;

	fixture(&s, fixtures, "nested");
	change_some(&s, 3, 1);
	eq_err(rewrite(&s), 0);
	eq_err(verify(&s), 0);
	for (int i = 0; i < 8; i++) {
		struct ck_catalog *c = s.c, keep = *s.c;
		struct ck_tensor *t = ck_rows_edit(&c->tensors, 0);
		struct ck_item *last = ck_rows_edit(&c->chunks,
						    c->chunks.n - 1);
		struct ck_object *o = ck_rows_edit(&c->objects, 0);
		struct ck_tensor good_t = *t;
		struct ck_path_part *part =
			(struct ck_path_part *)(uintptr_t)t->entry.path;
		struct ck_listing *l =
			(struct ck_listing *)(uintptr_t)c->listing;
		struct ck_item good_last = *last;
		struct ck_object good_o = *o;

		switch (i) {
		case 0: t->entry.key.len--; break;
		case 1: t->dtype++; break;
		case 2: t->ndim--; break;
		case 3: part->type ^= 1; break;
		case 4: last->fpos++; break;
		case 5: o->item.length++; break;
		case 6: l->n--; break;
		default: last->transform = 0x7f; break;
		}
		eq_err(verify_says(&s), -EIO);
		*c = keep;
		*t = good_t;
		if (i == 3)
			part->type ^= 1;
		l->n += i == 6;
		*last = good_last;
		*o = good_o;
	}
	eq_err(verify(&s), 0);
	subject_free(&s);
}

/* Where `needle` begins in the new bytes. */
static size_t find(const struct subject *s, const void *needle, size_t len)
{
	const char *p = memmem(s->new.data, s->new.len, needle, len);

	return p ? (size_t)(p - s->new.data) : SIZE_MAX;
}

/* Correct insertions at the wrong BUILD opcodes: one is missing, or is there twice. The frames
 * have the right lengths. */
static __attribute__((noinline)) void test_moved_insertions_are_found(
	const char *fixtures)
{
	struct subject s;
	struct ck_buf a = { 0 }, b = { 0 };
	struct ck_dcp_insertion i;
	size_t first, second;

	fixture(&s, fixtures, "dtensor");
	change_some(&s, 2, 1);
	ok(s.n > 1);
	for (uint32_t k = 0; k < s.n; k++) { /* insertions of one length */
		s.changes[k].path = CK_STR("__0_new.distcp");
		s.changes[k].fpos = 100 * k;
		s.changes[k].length = 7;
	}
	eq_err(rewrite(&s), 0);
	eq_err(verify(&s), 0);
	i = ck_dcp_insertion_new(&s.wish, &s.wish.edits[0]);
	ck_dcp_insertion_make(&i, &a);
	i = ck_dcp_insertion_new(&s.wish, &s.wish.edits[1]);
	ck_dcp_insertion_make(&i, &b);
	eq_u64(a.len, b.len);
	first = find(&s, a.data, a.len);
	second = find(&s, b.data, b.len);
	ok(first < second && second < s.new.len);
	memcpy(s.new.data + first, b.data, b.len);
	eq_err(verify(&s), -EIO); /* twice */
	memcpy(s.new.data + second, a.data, a.len);
	eq_err(verify(&s), -EIO); /* exchanged */
	memcpy(s.new.data + first, a.data, a.len);
	memcpy(s.new.data + second, b.data, b.len);
	eq_err(verify(&s), 0);
	/* behind its BUILD: the same bytes in another order */
	memmove(s.new.data + first, s.new.data + first + a.len, 1);
	memcpy(s.new.data + first + 1, a.data, a.len);
	eq_err(verify_is(&s), -EIO);
	ck_buf_fini(&a);
	ck_buf_fini(&b);
	subject_free(&s);
}

/* Stored places that belong to other bytes, or are damaged. */
static __attribute__((noinline)) void test_wrong_memory_is_refused(
	const char *fixtures)
{
	struct subject s;
	struct ck_dcp_places places;
	unsigned missed = 0;
	uint32_t *chunks, keep;

	fixture(&s, fixtures, "dtensor");
	change_some(&s, 2, 1);
	ok(s.n > 1);
	for (size_t i = 0; i < s.old.len; i++) {
		s.old.data[i] = (char)(s.old.data[i] ^ 1);
		missed += rewrite(&s) != -ESTALE;
		s.old.data[i] = (char)(s.old.data[i] ^ 1);
	}
	eq_u64(missed, 0);
	s.old.len--;
	eq_err(rewrite(&s), -ESTALE);
	s.old.len++;
	eq_err(rewrite(&s), 0);
	eq_err(verify(&s), 0);
	chunks = s.known.places.chunks;
	keep = chunks[0];
	chunks[0] = chunks[1];
	eq_err(rewrite(&s), -EIO);
	chunks[1] = keep;
	eq_err(rewrite(&s), -EIO);
	/* Places exchanged before ck_dcp_known_make(): only parsing detects it. */
	places = s.known.places;
	ck_dcp_known_make(&s.known, s.c, &places, bytes_of(&s.old));
	eq_err(rewrite(&s), 0);
	eq_err(verify_is(&s), 0);
	eq_err(verify_says(&s), -EIO);
	s.known.places.nchunks--;
	eq_err(rewrite(&s), -EIO);
	subject_free(&s);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	test_every_wrong_byte_is_found(argv[1]);
	test_other_changes_are_found(argv[1]);
	test_catalog_is_compared(argv[1]);
	test_moved_insertions_are_found(argv[1]);
	test_wrong_memory_is_refused(argv[1]);
	return tap_done();
}
