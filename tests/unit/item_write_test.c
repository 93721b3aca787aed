/* SPDX-License-Identifier: MIT */
/*
 * Items as they are written: the reader finds the tensor in each, the zip is
 * what another writer makes of the same records, and one is what PyTorch
 * itself wrote, byte for byte.
 */
#include "format/rewrite.h"
#include "item_case.h"
#include "tap.h"

#include <fcntl.h>
#include <unistd.h>

#define DIMS(...) ((const int64_t[]){ __VA_ARGS__ })

static uint8_t dtype_named(const char *name)
{
	return ck_dtype_by_name(ck_str_from(name));
}

/* --- an item: head, elements that are all 'x', tail ------------------------- */

struct whole {
	struct ck_item_form form;
	unsigned crc_faults;
};

static uint64_t whole_len(const struct ck_item_form *f)
{
	return f->head.len + f->data_len + f->tail.len;
}

static char whole_byte(const struct ck_item_form *f, uint64_t ipos)
{
	if (ipos < f->head.len)
		return f->head.data[ipos];
	ipos -= f->head.len;
	if (ipos < f->data_len)
		return 'x';
	return f->tail.data[ipos - f->data_len];
}

static int whole_read(void *ctx, void *buf, size_t len, uint64_t ipos)
{
	const struct whole *w = ctx;

	if (ipos > whole_len(&w->form) || len > whole_len(&w->form) - ipos)
		return -ENODATA;
	for (size_t i = 0; i < len; i++)
		((char *)buf)[i] = whole_byte(&w->form, ipos + i);
	return 0;
}

static void crc_set(struct ck_item_form *f)
{
	struct ck_buf b = { 0 };

	for (uint64_t i = 0; i < f->data_len; i++)
		ck_buf_text(&b, "x");
	ck_item_form_crc(f, iw_crc((struct ck_str){ b.data, b.len }));
	ck_buf_fini(&b);
}

static void crc_fault(void *ctx, uint64_t ipos, const struct ck_diag *d)
{
	struct whole *w = ctx;

	(void)ipos;
	(void)d;
	w->crc_faults++;
}

static void check_crcs(struct whole *w, const struct ck_zip_source *src,
		       unsigned want)
{
	struct ck_crc_check check = { .src = src,
				      .buffer = { malloc(4096), 4096 },
				      .fault = crc_fault,
				      .ctx = w };
	struct ck_zip zip;

	w->crc_faults = 0;
	eq_err(ck_zip_read(src, &zip, NULL), 0);
	check.zip = &zip;
	eq_err(ck_crc_check(&check, NULL), 0);
	eq_u64(w->crc_faults, want);
	ck_zip_fini(&zip);
	free(check.buffer.bytes);
}

static bool strides_are_c(const struct ck_item_want *want,
			  const uint64_t *strides)
{
	uint64_t stride = ck_dtype_at(want->dtype)->size;

	for (uint32_t i = want->ndim; i > 0 && i--;) {
		if (strides[i] != stride && want->size[i] > 1)
			return false;
		stride *= ck_max((uint64_t)want->size[i], 1);
	}
	return true;
}

static struct ck_item_want want_of(uint8_t dtype, uint32_t ndim,
				   const int64_t *size)
{
	return (struct ck_item_want){ .dtype = dtype,
				      .ndim = ndim,
				      .size = size };
}

static void check_item(struct ck_item_want want, uint64_t fpos, bool crcs)
{
	struct whole w = { 0 };
	struct ck_zip_source src = { &w, whole_read, 0 };
	uint64_t strides[CK_MAX_DIMS], ipos;
	uint16_t change;
	int rc;

	rc = ck_item_form_make(&w.form, want.dtype, want.ndim, want.size, fpos);
	eq_err(rc, 0);
	if (rc)
		return;
	src.len = whole_len(&w.form);
	eq_err(ck_item_locate(&src, &want, &ipos, strides, &change, NULL), 0);
	ok(w.form.data_len == 0 || ipos == w.form.head.len);
	eq_u64((fpos + w.form.head.len) % 64, 0);
	eq_u64(change, 0);
	ok(strides_are_c(&want, strides));
	if (crcs) {
		crc_set(&w.form);
		check_crcs(&w, &src, 0);
	}
	ck_item_form_fini(&w.form);
}

static void test_every_dtype_is_found_again(void)
{
	for (uint8_t id = 1; ck_dtype_at(id)->size; id++) {
		const struct ck_dtype *dtype = ck_dtype_at(id);

		if (dtype->name[0] == 'q')
			continue;
		for (uint64_t fpos = 0; fpos < 70; fpos += 23) {
			check_item(want_of(id, 2, DIMS(3, 5)), fpos, true);
			check_item(want_of(id, 0, DIMS(0)), fpos, true);
		}
	}
}

static void test_every_shape_is_found_again(void)
{
	static const int64_t sizes[] = { 0, 1, 2, 300 };
	int64_t many[CK_MAX_DIMS];
	uint8_t id = dtype_named("float16");

	for (int i = 0; i < 64; i++)
		check_item(want_of(id, 3,
				   DIMS(sizes[i / 16 % 4], sizes[i / 4 % 4],
					sizes[i % 4] % 7)),
			   (uint64_t)i, true);
	for (uint32_t i = 0; i < CK_MAX_DIMS; i++)
		many[i] = 1 + (i == 40);
	for (uint32_t ndim = 0; ndim <= CK_MAX_DIMS; ndim++)
		check_item(want_of(id, ndim, many), ndim, true);
}

static void test_a_wrong_crc_is_seen(void)
{
	struct whole w = { 0 };
	struct ck_zip_source src = { &w, whole_read, 0 };

	eq_err(ck_item_form_make(&w.form, dtype_named("uint8"), 1, DIMS(9), 0),
	       0);
	src.len = whole_len(&w.form);
	ck_item_form_crc(&w.form, 1);
	check_crcs(&w, &src, 1);
	ck_item_form_fini(&w.form);
}

/* --- against another writer ---------------------------------------------------- */

/* The same records by item_writer.h; those of data are a hole. */
static struct iw *other_writer(const struct ck_zip *zip, const char *pickle,
			       const char *id)
{
	struct iw *w = iw_make();
	const struct ck_zip_record *r = ck_zip_find(zip, CK_STR("data.pkl"));

	iw_record(w, "data.pkl", (struct ck_str){ pickle, r->len });
	iw_record(w, "byteorder", CK_STR("little"));
	iw_hole(w, "data/0", ck_zip_find(zip, CK_STR("data/0"))->len);
	iw_record(w, "version", CK_STR("3\n"));
	iw_record(w, ".data/serialization_id", (struct ck_str){ id, 40 });
	iw_finish(w);
	return w;
}

static void check_zip(uint8_t dtype, int64_t n)
{
	struct whole w = { 0 };
	struct ck_zip_source src = { &w, whole_read, 0 };
	struct ck_zip zip;
	struct iw *other;
	char pickle[1000], id[40];

	eq_err(ck_item_form_make(&w.form, dtype, 1, &n, 0), 0);
	ck_item_form_crc(&w.form, 0);
	src.len = whole_len(&w.form);
	eq_err(ck_zip_read(&src, &zip, NULL), 0);
	eq_err(ck_zip_load(&zip, ck_zip_find(&zip, CK_STR("data.pkl")), pickle,
			   NULL),
	       0);
	eq_err(ck_zip_load(&zip,
			   ck_zip_find(&zip, CK_STR(".data/serialization_id")),
			   id, NULL),
	       0);
	other = other_writer(&zip, pickle, id);
	eq_u64(iw_len(other), src.len);
	eq_mem(w.form.head.data, w.form.head.len, other->out.data, other->hole);
	eq_mem(w.form.tail.data, w.form.tail.len, other->out.data + other->hole,
	       other->out.len - other->hole);
	iw_free(other);
	ck_zip_fini(&zip);
	ck_item_form_fini(&w.form);
}

static void test_zip_is_that_of_another_writer(void)
{
	static const int64_t sizes[] = { 1,	     1000,	 0xfffffffd,
					 0xfffffffe, 0xffffffff, 0x100000000,
					 1LL << 40 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++) {
		check_zip(dtype_named("int8"), sizes[i]);
		check_zip(dtype_named("float8_e5m2"), sizes[i]);
		check_item(want_of(dtype_named("int8"), 1, &sizes[i]), 7,
			   false);
	}
	/* numbers of every width in the pickle */
	for (unsigned bits = 1; bits < 60; bits++)
		for (int64_t more = -1; more <= 1; more++)
			check_item(want_of(dtype_named("int16"), 1,
					   DIMS((INT64_C(1) << bits) + more)),
				   0, false);
}

/* --- against PyTorch 2.4.1 ------------------------------------------------------- */

/* The first item of a fixture's file with everything but the digits of the
 * id: where they are, and their CRC-32 in descriptor and directory. */
static void test_item_is_that_of_pytorch(const char *fixtures)
{
	struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp;
	struct ck_diag d;
	char path[512];
	unsigned items = 0;

	snprintf(path, sizeof(path), "%s/plain-2.4.1", fixtures);
	eq_err(ck_checkpoint_open(path, &options, &cp, &d), 0);
	for (uint32_t i = 0; i < cp->catalog->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(cp->catalog, i);
		const struct ck_item *c = ck_catalog_item(cp->catalog,
							  t->chunk);
		struct ck_item_form f;
		struct ck_file file;
		uint64_t tail, different = 0;

		eq_err(ck_item_form_make(&f, t->dtype, t->ndim,
					 ck_tensor_box(t, 0) + t->ndim, 0),
		       0);
		eq_err(ck_files_get(cp->files, c->file, &file), 0);
		eq_u64(whole_len(&f), c->length);
		eq_mem(f.head.data, f.head.len, file.map + c->fpos, f.head.len);
		tail = c->fpos + f.head.len + f.data_len;
		if (f.data_len) {
			uint32_t crc;

			memcpy(&crc, file.map + tail + 4, 4);
			ck_item_form_crc(&f, crc);
		}
		for (uint64_t k = 0; k < f.tail.len; k++)
			different += (uint8_t)f.tail.data[k] !=
				     file.map[tail + k];
		ok(different <= 48);
		items++;
		ck_files_put(cp->files, &file);
		ck_item_form_fini(&f);
	}
	ok(items > 2);
	ck_checkpoint_close(cp);
}

/* --- refused ----------------------------------------------------------------------- */

static void test_what_cannot_be_saved_is_refused(void)
{
	static const char *const names[] = { "qint8",	 "quint8",   "qint32",
					     "quint4x2", "quint2x4", "none" };
	struct ck_item_form f;
	uint8_t i64 = dtype_named("int64");

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		eq_err(ck_item_form_make(&f, dtype_named(names[i]), 1, DIMS(1),
					 0),
		       -EOPNOTSUPP);
	eq_err(ck_item_form_make(&f, i64, 1, DIMS(-1), 0), -EINVAL);
	eq_err(ck_item_form_make(&f, i64, 1, DIMS(INT64_MAX), 0), -EOVERFLOW);
	eq_err(ck_item_form_make(&f, i64, 2, DIMS(1LL << 32, 1LL << 32), 0),
	       -EOVERFLOW);
	eq_err(ck_item_form_make(&f, i64, 3, DIMS(0, 1LL << 32, 1LL << 32), 0),
	       -EOVERFLOW);
	eq_err(ck_item_form_make(&f, i64, 1, DIMS(1), INT64_MAX), -EOVERFLOW);
	eq_err(ck_item_form_make(&f, i64, 1, DIMS(1), UINT64_MAX), -EOVERFLOW);
}

/* Without checksums: the same records, at the same places, for any position of a file. */
static void test_bare(void)
{
	struct ck_item_form f, bare;
	uint8_t f32 = dtype_named("float32");

	eq_err(ck_item_form_make(&f, f32, 2, DIMS(3, 5), 0), 0);
	eq_err(ck_item_form_bare(&bare, f32, 2, DIMS(3, 5)), 0);
	eq_u64(bare.head.len, f.head.len);
	eq_u64(bare.tail.len, f.tail.len);
	ok(memcmp(bare.head.data, f.head.data, 64) == 0);
	ok(memmem(bare.tail.data, bare.tail.len,
		  "0000000000000000000000000000000000000000", 40) != NULL);
	ck_item_form_crc(&f, 0);
	ok(memcmp(bare.tail.data, f.tail.data, f.tail.len) != 0);
	ck_item_form_fini(&f);
	ck_item_form_fini(&bare);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	test_every_dtype_is_found_again();
	test_every_shape_is_found_again();
	test_a_wrong_crc_is_seen();
	test_zip_is_that_of_another_writer();
	test_item_is_that_of_pytorch(argv[1]);
	test_what_cannot_be_saved_is_refused();
	test_bare();
	return tap_done();
}
