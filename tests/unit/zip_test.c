/* SPDX-License-Identifier: MIT */
/*
 * The zip dialect of torch: what torch writes, in all its forms, is read, and
 * with few reads.
 */
#include "tap.h"
#include "zip_case.h"

/* --- what torch writes ------------------------------------------------------- */

static void check_records(struct iw *w)
{
	struct ck_zip zip;

	if (!ok(read_zip(w, &zip) == 0))
		return;
	eq_u64(zip.nrecords, w->n);
	for (unsigned i = 0; i < w->n; i++) {
		const struct iw_place *r = &w->at[i];
		const char *name = strchr(r->name, '/') + 1;
		const struct ck_zip_record *got =
			ck_zip_find(&zip, ck_str_from(name));

		if (got && got->ipos == r->data && got->len == r->len &&
		    got->crc == r->crc && ck_str_is(got->name, name))
			continue;
		tap_result(false, __FILE__, __LINE__, r->name);
	}
	ok(!ck_zip_find(&zip, CK_STR("data/x")));
	ok(!ck_zip_find(&zip, CK_STR("DATA.PKL")));
	ok(!ck_zip_find(&zip, CK_STR("")));
	ck_zip_fini(&zip);
}

/* The writer of these tests makes the file that torch 2.13 made. */
static void test_worked_example(void)
{
	static const uint64_t headers[] = { 0, 234, 337, 466, 598, 744, 850 };
	struct iw *w = item(storage);
	char hash[33];

	ck_hash128_hex((struct ck_str){ w->out.data, w->out.len }, hash);
	eq_u64(w->out.len, 1577);
	eq_text(hash, "449f742c80cf565016ffd23c7957d8ca");
	for (size_t i = 0; i < CK_ARRAY_SIZE(headers); i++)
		eq_u64(w->at[i].header, headers[i]);
	eq_u64(w->at[4].data, 704);
	check_records(w);
	eq_u64(w->reads, 1);
	iw_free(w);
}

static void test_two_reads_of_a_typical_item(void)
{
	size_t len = 1 << 20;
	char *bytes = calloc(1, len);
	struct iw *w = item((struct ck_str){ bytes, len });
	struct ck_zip zip;
	char pickle[200];

	if (ok(read_zip(w, &zip) == 0)) {
		const struct ck_zip_record *r = ck_zip_find(&zip,
							    CK_STR("data.pkl"));

		eq_err(ck_zip_load(&zip, r, pickle, NULL), 0);
		eq_mem(pickle, r->len, w->out.data + 64, 154);
		eq_u64(w->reads, 2);
		r = ck_zip_find(&zip, CK_STR("data/0"));
		eq_err(ck_zip_load(&zip, r, bytes, NULL), 0);
		eq_u64(w->reads, 3);
		ck_zip_fini(&zip);
	}
	iw_free(w);
	free(bytes);
}

static void test_forms_that_load_elsewhere(void)
{
	static const uint32_t alignments[] = { 1, 8, 64, 4096 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(alignments); i++) {
		for (unsigned form = 0; form < 16; form++) {
			struct iw *w = iw_make();

			w->alignment = alignments[i];
			w->no_crc = form & 1;
			w->no_descriptors = form & 2;
			w->no_padding = form & 4;
			w->no_zip64_end = form & 8;
			iw_item(w, CK_STR("N."), "big", storage);
			check_records(w);
			iw_free(w);
		}
	}
}

static void test_records_of_length_zero(void)
{
	struct iw *w = iw_make();

	iw_record(w, "data.pkl", CK_STR("N."));
	iw_record(w, "data/0", CK_STR(""));
	iw_record(w, "data/1", CK_STR(""));
	iw_record(w, "version", CK_STR("3\n"));
	iw_finish(w);
	check_records(w);
	iw_free(w);
}

static void test_prefixes(void)
{
	static const char *const prefixes[] = { "archive", "a.b", "", "\xff" };

	for (size_t i = 0; i < CK_ARRAY_SIZE(prefixes); i++) {
		struct iw *w = iw_make();

		w->prefix = prefixes[i];
		iw_item(w, CK_STR("N."), "little", storage);
		check_records(w);
		iw_free(w);
	}
}

static void test_many_records(void)
{
	struct iw *w = iw_make();
	char name[20];

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "data/%u", i);
		iw_record(w, name, storage);
	}
	iw_finish(w);
	check_records(w);
	ok(w->reads < 1000);
	iw_free(w);
}

/* The forms above 4 GiB: of the record's sizes, of later records' places, of
 * the directory's place. A size one below stays plain. */
static void test_zip64(void)
{
	static const uint64_t lens[] = { 0xfffffffe, 0xffffffff, 0x100000000,
					 0x123456789ab };

	for (size_t i = 0; i < CK_ARRAY_SIZE(lens); i++) {
		struct iw *w = iw_make();

		iw_record(w, "data.pkl", CK_STR("N."));
		iw_hole(w, "data/0", lens[i]);
		iw_record(w, "data/1", CK_STR(""));
		iw_record(w, "version", CK_STR("3\n"));
		iw_finish(w);
		ok(w->at[1].zip64 == (lens[i] > 0xfffffffe));
		ok(w->at[2].zip64);
		check_records(w);
		iw_free(w);
	}
}

static void test_bytes_after_the_end(void)
{
	struct iw *w = item(storage);

	ck_buf_text(&w->out, "a few bytes too many");
	check_records(w);
	iw_free(w);

	w = item(storage);
	for (int i = 0; i < 65535; i++)
		ck_buf_text(&w->out, "x");
	eq_err(try_zip(w), 0);
	ck_buf_text(&w->out, "x");
	eq_err(take_zip(w), -EBADMSG);

	w = item(storage);
	iw_set(w, w->end + 20, 5, 2);
	eq_err(try_zip(w), -EBADMSG);
	ck_buf_text(&w->out, "12345");
	check_records(w);
	ck_buf_text(&w->out, "6");
	eq_err(take_zip(w), -EBADMSG);
}

/* Directories, and an extra that only its writer knows. */
static void test_other_writers(void)
{
	struct iw *w = iw_make();
	struct ck_zip zip;

	iw_record(w, "", CK_STR(""));
	iw_record(w, "data.pkl", CK_STR("N."));
	iw_record(w, "data/", CK_STR(""));
	iw_record(w, "data/0", storage);
	iw_finish(w);
	iw_set(w, w->at[3].header + 30 + strlen(w->at[3].name), 0x5455, 2);
	eq_err(read_zip(w, &zip), 0);
	eq_u64(zip.nrecords, 2);
	ok(ck_zip_find(&zip, CK_STR("data/0")) != NULL);
	ok(ck_zip_find(&zip, CK_STR("data/")) == NULL);
	ck_zip_fini(&zip);
	iw_free(w);
}

int main(void)
{
	test_worked_example();
	test_two_reads_of_a_typical_item();
	test_forms_that_load_elsewhere();
	test_records_of_length_zero();
	test_prefixes();
	test_many_records();
	test_zip64();
	test_bytes_after_the_end();
	test_other_writers();
	return tap_done();
}
