/* SPDX-License-Identifier: MIT */
/*
 * zip_damage: zip archives that are damaged or of another dialect. Every changed field is
 * refused (S-Z1 to S-Z4 of the security statements).
 */
#include "tap.h"
#include "zip_case.h"

/* --- changed fields ---------------------------------------------------------- */

enum where { HEADER, DESCRIPTOR, ENTRY, END64, LOCATOR, END };

/* One field set to a value, in the sixth record ("version") or at the end. */
static const struct mutation {
	const char *what;
	enum where where;
	unsigned pos, bytes;
	uint64_t value;
} mutations[] = {
	{ "header: signature", HEADER, 0, 4, 0x04034b51 },
	{ "header: encrypted", HEADER, 6, 2, 0x0809 },
	{ "header: descriptor flag missing", HEADER, 6, 2, 0x0800 },
	{ "header: utf-8 flag differs", HEADER, 6, 2, 0x0008 },
	{ "header: strong encryption", HEADER, 6, 2, 0x0848 },
	{ "header: deflated", HEADER, 8, 2, 8 },
	{ "header: crc beside a descriptor", HEADER, 14, 4, 0x55679ed1 },
	{ "header: packed size beside a descriptor", HEADER, 18, 4, 2 },
	{ "header: size beside a descriptor", HEADER, 22, 4, 2 },
	{ "header: saturated size", HEADER, 22, 4, UINT32_MAX },
	{ "header: name shorter", HEADER, 26, 2, 14 },
	{ "header: name longer", HEADER, 26, 2, 16 },
	{ "header: name past the item", HEADER, 26, 2, UINT16_MAX },
	{ "header: extra shorter", HEADER, 28, 2, 42 },
	{ "header: extra longer", HEADER, 28, 2, 44 },
	{ "header: extra past the item", HEADER, 28, 2, UINT16_MAX },
	{ "header: other name", HEADER, 30, 1, 'A' },
	{ "header: padding becomes zip64", HEADER, 45, 2, 1 },
	{ "header: unknown extra", HEADER, 45, 2, 0x7075 },
	{ "header: padding too long", HEADER, 47, 2, 40 },
	{ "header: padding too short", HEADER, 47, 2, 38 },
	{ "descriptor: signature", DESCRIPTOR, 0, 4, 0x08074b51 },
	{ "descriptor: crc", DESCRIPTOR, 4, 4, 0 },
	{ "descriptor: packed size", DESCRIPTOR, 8, 4, 3 },
	{ "descriptor: size", DESCRIPTOR, 12, 4, 1 },
	{ "entry: signature", ENTRY, 0, 4, 0x02014b51 },
	{ "entry: encrypted", ENTRY, 8, 2, 0x0809 },
	{ "entry: descriptor flag missing", ENTRY, 8, 2, 0x0800 },
	{ "entry: masked headers", ENTRY, 8, 2, 0x2808 },
	{ "entry: deflated", ENTRY, 10, 2, 8 },
	{ "entry: crc", ENTRY, 16, 4, 1 },
	{ "entry: packed size differs", ENTRY, 20, 4, 1 },
	{ "entry: size differs", ENTRY, 24, 4, 1 },
	{ "entry: size differs, large", ENTRY, 24, 4, 0xfffffffe },
	{ "entry: packed size without its extra", ENTRY, 20, 4, UINT32_MAX },
	{ "entry: size without its extra", ENTRY, 24, 4, UINT32_MAX },
	{ "entry: name shorter", ENTRY, 28, 2, 14 },
	{ "entry: name longer", ENTRY, 28, 2, 16 },
	{ "entry: extra", ENTRY, 30, 2, 4 },
	{ "entry: extra past the item", ENTRY, 30, 2, UINT16_MAX },
	{ "entry: comment", ENTRY, 32, 2, 1 },
	{ "entry: other disk", ENTRY, 34, 2, 1 },
	{ "entry: header before", ENTRY, 42, 4, 743 },
	{ "entry: header is another's (overlap)", ENTRY, 42, 4, 598 },
	{ "entry: header at 0", ENTRY, 42, 4, 0 },
	{ "entry: header after the item", ENTRY, 42, 4, 5000 },
	{ "entry: header without its extra", ENTRY, 42, 4, UINT32_MAX },
	{ "entry: other name", ENTRY, 54, 1, 'V' },
	{ "entry: other directory", ENTRY, 46, 1, 'b' },
	{ "zip64 end: signature", END64, 0, 4, 0x06064b51 },
	{ "zip64 end: size", END64, 4, 8, 45 },
	{ "zip64 end: size 2^63", END64, 4, 8, UINT64_C(1) << 63 },
	{ "zip64 end: disk", END64, 16, 4, 1 },
	{ "zip64 end: directory's disk", END64, 20, 4, 1 },
	{ "zip64 end: records here", END64, 24, 8, 6 },
	{ "zip64 end: records", END64, 32, 8, 8 },
	{ "zip64 end: 2^63 records", END64, 32, 8, UINT64_C(1) << 63 },
	{ "zip64 end: directory longer", END64, 40, 8, 464 },
	{ "zip64 end: directory of 2^64 - 1", END64, 40, 8, UINT64_MAX },
	{ "zip64 end: directory before", END64, 48, 8, 1015 },
	{ "zip64 end: directory at 2^64 - 463", END64, 48, 8,
	  UINT64_MAX - 462 },
	{ "locator: signature", LOCATOR, 0, 4, 0x07064b51 },
	{ "locator: disk", LOCATOR, 4, 4, 1 },
	{ "locator: elsewhere", LOCATOR, 8, 8, 1478 },
	{ "locator: past the item", LOCATOR, 8, 8, UINT64_MAX },
	{ "locator: two disks", LOCATOR, 16, 4, 2 },
	{ "end: signature", END, 0, 4, 0x06054b51 },
	{ "end: disk", END, 4, 2, 1 },
	{ "end: directory's disk", END, 6, 2, 1 },
	{ "end: records here", END, 8, 2, 6 },
	{ "end: records", END, 10, 2, 8 },
	{ "end: saturated without need", END, 10, 2, UINT16_MAX },
	{ "end: directory's length", END, 12, 4, 462 },
	{ "end: directory's place", END, 16, 4, 1017 },
	{ "end: directory saturated without need", END, 16, 4, UINT32_MAX },
	{ "end: comment past the item", END, 20, 2, 1 },
};

static uint64_t place(const struct iw *w, enum where where)
{
	const struct iw_place *r = &w->at[5];

	switch (where) {
	case HEADER: return r->header;
	case DESCRIPTOR: return r->descriptor;
	case ENTRY: return r->entry;
	case END64: return w->end64;
	case LOCATOR: return w->locator;
	case END: return w->end;
	}
	abort();
}

static void test_every_changed_field_is_refused(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(mutations); i++) {
		const struct mutation *m = &mutations[i];
		struct iw *w = item(storage);

		iw_set(w, place(w, m->where) + m->pos, m->value, m->bytes);
		tap_eq_i64(take_zip(w), -EBADMSG, __FILE__, __LINE__, m->what);
	}
}

/* A size or count is changed in all its places, so that they agree. The archive cannot contain
 * so many bytes or entries. */
static void test_lies_that_agree(void)
{
	static const uint64_t sizes[] = { 3, 500, 0xfffffffe };
	static const uint64_t counts[] = { 8, 10000, UINT64_C(1) << 33,
					   UINT64_MAX / 46 + 1 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++) {
		struct iw *w = item(storage);

		iw_set(w, w->at[5].entry + 20, sizes[i], 4);
		iw_set(w, w->at[5].entry + 24, sizes[i], 4);
		eq_err(take_zip(w), -EBADMSG);
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(counts); i++) {
		struct iw *w = item(storage);
		uint64_t narrow = ck_min(counts[i], UINT16_MAX);

		iw_set(w, w->end64 + 24, counts[i], 8);
		iw_set(w, w->end64 + 32, counts[i], 8);
		iw_set(w, w->end + 8, narrow, 2);
		iw_set(w, w->end + 10, narrow, 2);
		eq_err(take_zip(w), -EBADMSG);
	}
}

/* An end record alone, and one behind too few bytes for a locator. */
static void test_end_record_alone(void)
{
	for (unsigned before = 0; before < 80; before++) {
		struct iw *w = iw_make();

		for (unsigned i = 0; i < before; i++)
			ck_buf_text(&w->out, "x");
		ck_buf_text(&w->out, "PK\5\6");
		for (unsigned i = 4; i < 22; i++)
			ck_buf_add(&w->out, "", 1);
		eq_err(take_zip(w), -EBADMSG);
	}
}

static void test_nul_in_a_name(void)
{
	struct iw *w = item(storage);

	iw_set(w, w->at[5].header + 30 + 10, 0, 1);
	iw_set(w, w->at[5].entry + 46 + 10, 0, 1);
	eq_err(take_zip(w), -EBADMSG);
}

/* A record that is compressed or encrypted is reported as such, other entries are damage. */
static void test_unsupported(void)
{
	static const struct {
		unsigned pos, value;
		bool unsupported;
		const char *word;
	} cases[] = {
		{ 8, 0x0809, true, "version is encrypted" },
		{ 8, 0x0848, true, "version is encrypted" },
		{ 10, 8, true, "version is compressed" },
		{ 8, 0x0c08, false, "malformed" },
		{ 20, 1, false, "malformed" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct iw *w = item(storage);
		struct ck_zip_source src = { w, iw_read, iw_len(w) };
		struct ck_diag d = { 0 };
		struct ck_zip zip;

		iw_set(w, w->at[5].entry + cases[i].pos, cases[i].value, 2);
		eq_err(ck_zip_read(&src, &zip, &d), -EBADMSG);
		ok(zip.unsupported == cases[i].unsupported);
		ok(strstr(d.text, cases[i].word) != NULL);
		iw_free(w);
	}
}

/* ck_zip_fini() may be called again after a refusal. */
static void test_refused_twice(void)
{
	struct iw *w = iw_make();
	struct ck_zip zip;

	eq_err(read_zip(w, &zip), -EBADMSG);
	ck_zip_fini(&zip);
	ok(ck_zip_find(&zip, CK_STR("data.pkl")) == NULL);
	iw_free(w);
}

static void test_every_truncation_is_refused(void)
{
	struct iw *w = item(storage);
	unsigned accepted = 0;

	for (; w->out.len > 0 && w->out.len--;)
		accepted += try_zip(w) != -EBADMSG;
	eq_u64(accepted, 0);
	w->out.len = 0;
	iw_free(w);
}

/* A byte is removed or added anywhere except behind the end record. */
static void test_every_shift_is_refused(void)
{
	struct iw *w = item(storage);
	char *copy = malloc(w->out.len + 1);
	struct ck_buf whole = w->out;
	unsigned accepted = 0;

	for (size_t i = 0; i < whole.len - 4; i++) {
		w->out = (struct ck_buf){ .data = copy, .len = whole.len - 1 };
		memcpy(copy, whole.data, i);
		memcpy(copy + i, whole.data + i + 1, whole.len - i - 1);
		accepted += try_zip(w) == 0;
		w->out.len = whole.len + 1;
		copy[i] = 0;
		memcpy(copy + i + 1, whole.data + i, whole.len - i);
		accepted += try_zip(w) == 0;
	}
	eq_u64(accepted, 0);
	w->out = whole;
	free(copy);
	iw_free(w);
}

static bool same_records(const struct ck_zip *a, const struct ck_zip *b)
{
	if (a->nrecords != b->nrecords)
		return false;
	for (uint32_t i = 0; i < a->nrecords; i++) {
		const struct ck_zip_record *x = &a->records[i];
		const struct ck_zip_record *y = &b->records[i];

		if (!ck_str_eq(x->name, y->name) || x->ipos != y->ipos ||
		    x->len != y->len || x->crc != y->crc)
			return false;
	}
	return true;
}

static void test_every_bit_flip_is_refused_or_harmless(void)
{
	struct iw *w = item(storage);
	unsigned harmful = 0, harmless = 0;
	struct ck_zip good, bad;

	if (!ok(read_zip(w, &good) == 0))
		return;
	for (size_t bit = 0; bit < w->out.len * 8; bit++) {
		w->out.data[bit / 8] ^= (char)(1 << bit % 8);
		if (read_zip(w, &bad) == 0) {
			harmless++;
			harmful += !same_records(&good, &bad);
			ck_zip_fini(&bad);
		}
		w->out.data[bit / 8] ^= (char)(1 << bit % 8);
	}
	eq_u64(harmful, 0);
	/* data, padding, times, versions, attributes: less than half */
	ok(harmless < w->out.len * 4);
	ck_zip_fini(&good);
	iw_free(w);
}

static void test_names(void)
{
	static const char *const bad[] = {
		"",	   "data//0",  "data/./0",  "data/../version",
		"..",	   ".",	       "/data.pkl", "data/",
		"data\\1", "DATA.PKL", "Data/0",    "data/0",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++) {
		struct iw *w = iw_make();

		iw_record(w, "data.pkl", CK_STR("N."));
		iw_record(w, "data/0", storage);
		iw_record(w, bad[i], storage);
		iw_finish(w);
		tap_eq_i64(take_zip(w), -EBADMSG, __FILE__, __LINE__, bad[i]);
	}
}

static void test_two_directories(void)
{
	struct iw *w = iw_make();

	iw_record(w, "data.pkl", CK_STR("N."));
	w->prefix = "archiv";
	iw_record(w, "data/0", storage);
	iw_finish(w);
	eq_err(take_zip(w), -EBADMSG);

	w = iw_make();
	iw_record(w, "data.pkl", CK_STR("N."));
	iw_finish(w);
	iw_set(w, w->at[0].header + 30 + 7, '_', 1);
	iw_set(w, w->at[0].entry + 46 + 7, '_', 1);
	eq_err(take_zip(w), -EBADMSG);
}

static void test_no_zip_at_all(void)
{
	struct iw *w = iw_make();

	eq_err(try_zip(w), -EBADMSG);
	iw_finish(w); /* no record */
	eq_err(try_zip(w), -EBADMSG);
	w->out.len = 0;
	for (int i = 0; i < 200000; i++)
		ck_buf_text(&w->out, "x");
	eq_err(try_zip(w), -EBADMSG);
	eq_u64(w->reads, 2);
	iw_free(w);
}

/* Bytes before the archive, between records, before and after the directory. */
static void test_bytes_that_belong_to_nothing(void)
{
	struct iw *w = iw_make();

	ck_buf_text(&w->out, "x");
	iw_item(w, CK_STR("N."), "little", storage);
	eq_err(take_zip(w), -EBADMSG);

	w = iw_make();
	iw_record(w, "data.pkl", CK_STR("N."));
	ck_buf_text(&w->out, "x");
	iw_record(w, "version", CK_STR("3\n"));
	iw_finish(w);
	eq_err(take_zip(w), -EBADMSG);

	w = iw_make();
	iw_record(w, "data.pkl", CK_STR("N."));
	ck_buf_text(&w->out, "x");
	iw_finish(w);
	eq_err(take_zip(w), -EBADMSG);

	w = iw_make();
	w->no_zip64_end = true;
	iw_item(w, CK_STR("N."), "little", storage);
	w->out.len = w->end;
	ck_buf_text(&w->out, "x");
	w->n = 0;
	iw_finish(w);
	iw_set(w, w->end + 8, 7, 2);
	iw_set(w, w->end + 10, 7, 2);
	iw_set(w, w->end + 12, w->end - w->at[0].entry, 4);
	iw_set(w, w->end + 16, w->at[0].entry, 4);
	eq_err(take_zip(w), -EBADMSG);
}

/* Many overlapping records with an entry for each: refused at the second one, independent of
 * their number. */
static void test_overlap_bomb(void)
{
	struct iw *w = iw_make();
	char name[20];

	w->no_descriptors = true;
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "data/%u", i);
		iw_record(w, name, storage);
	}
	iw_finish(w);
	for (unsigned i = 0; i < w->n; i++) {
		uint64_t len = w->dir - w->at[i].data;

		iw_set(w, w->at[i].header + 18, len, 4);
		iw_set(w, w->at[i].header + 22, len, 4);
		iw_set(w, w->at[i].entry + 20, len, 4);
		iw_set(w, w->at[i].entry + 24, len, 4);
	}
	eq_err(try_zip(w), -EBADMSG);
	ok(w->reads <= 4);
	iw_free(w);
}

/* Without a descriptor, the sizes in the header equal those of the entry. A zip64 extra applies
 * only to saturated fields. */
static void test_sizes_in_the_header(void)
{
	static const unsigned fields[] = { 14, 18, 22 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(fields); i++) {
		struct iw *w = iw_make();

		w->no_descriptors = true;
		iw_item(w, CK_STR("N."), "little", storage);
		iw_set(w, w->at[4].header + fields[i], 23, 4);
		eq_err(take_zip(w), -EBADMSG);
	}
	for (unsigned descriptors = 0; descriptors < 2; descriptors++) {
		/* place in the extra of header and entry: of id, of values */
		for (unsigned at = 0; at < 20; at += at ? 8 : 4) {
			struct iw *w = iw_make();
			uint64_t extra;

			w->no_descriptors = !descriptors;
			iw_record(w, "data.pkl", CK_STR("N."));
			iw_hole(w, "data/0", UINT64_C(1) << 33);
			iw_record(w, "version", CK_STR("3\n"));
			iw_finish(w);
			extra = w->at[1].header + 30 + strlen(w->at[1].name);
			iw_set(w, extra + at, 7, 1);
			eq_err(try_zip(w), -EBADMSG);
			iw_set(w, extra, 0x100001, 4);
			iw_set(w, extra + 4, UINT64_C(1) << 33, 8);
			iw_set(w, extra + 12,
			       descriptors ? 0 : UINT64_C(1) << 33, 8);
			eq_err(try_zip(w), 0);
			extra = w->at[1].entry + 46 + strlen(w->at[1].name);
			iw_set(w, extra + at, 7, 1);
			eq_err(take_zip(w), -EBADMSG);
		}
	}
}

/* The offset of a header above 4 GiB is also in the extra of the header. */
static void test_zip64_place_in_the_header(void)
{
	struct iw *w = iw_make();
	uint64_t extra;

	iw_record(w, "data.pkl", CK_STR("N."));
	iw_hole(w, "data/0", UINT64_C(1) << 33);
	iw_record(w, "version", CK_STR("3\n"));
	iw_finish(w);
	extra = w->at[2].header + 30 + strlen(w->at[2].name);
	iw_set(w, extra + 4, w->at[2].header + 1, 8);
	eq_err(try_zip(w), -EBADMSG);
	iw_set(w, extra + 4, w->at[2].header, 8);
	eq_err(try_zip(w), 0);
	/* a descriptor with 32-bit sizes beside a zip64 extra */
	iw_set(w, w->at[2].descriptor + 12, 2, 4);
	eq_err(take_zip(w), -EBADMSG);
}

static void test_errors_of_the_source(void)
{
	for (unsigned i = 1; i <= 3; i++) {
		struct iw *w = iw_make();

		w->alignment = 4096;
		iw_item(w, CK_STR("N."), "little", storage);
		w->fail_at = i;
		eq_err(take_zip(w), -ESTALE);
	}
}

static void test_message(void)
{
	struct iw *w = item(storage);
	struct ck_zip_source src = { w, iw_read, iw_len(w) };
	struct ck_diag d = { 0 };
	struct ck_zip zip;

	iw_set(w, w->at[5].header + 30, '\n', 1);
	eq_err(ck_zip_read(&src, &zip, &d), -EBADMSG);
	eq_text(d.text,
		"local header at 744 is not that of record archive/version");
	eq_i64(d.err, EBADMSG);
	iw_free(w);
}

int main(void)
{
	test_every_changed_field_is_refused();
	test_lies_that_agree();
	test_end_record_alone();
	test_nul_in_a_name();
	test_refused_twice();
	test_unsupported();
	test_every_truncation_is_refused();
	test_every_shift_is_refused();
	test_every_bit_flip_is_refused_or_harmless();
	test_names();
	test_two_directories();
	test_no_zip_at_all();
	test_bytes_that_belong_to_nothing();
	test_overlap_bomb();
	test_sizes_in_the_header();
	test_zip64_place_in_the_header();
	test_errors_of_the_source();
	test_message();
	return tap_done();
}
