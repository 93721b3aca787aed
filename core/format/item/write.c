/* SPDX-License-Identifier: MIT */
/*
 * write: the archive that torch.save makes of one contiguous tensor.
 *
 * Five records, as releases 2.1 to 2.6 write them and all later ones read
 * them: data.pkl, byteorder, data/0, version, .data/serialization_id. Release
 * 1.13 ignores the two that it does not know. The two of 2.7 and later are
 * left out: .format_version promises a layout that torch then computes
 * instead of reading headers, and an item may begin anywhere in its file.
 *
 * Everything before the elements is the head, everything behind them the
 * tail. Each record is padded so that its data lie at a multiple of 64 of
 * the file; where the item begins at one, this is what torch does, and but
 * for the 40 digits of the id all bytes are those of torch.
 */
#include "ckptfs/pickler.h"
#include "ckptfs/rewrite.h"

#include <errno.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdio.h>

enum {
	ALIGNMENT = 64,
	NRECORDS = 5,
	FLAG_LATER = 8,	    /* sizes and CRC in a descriptor behind the data */
	FLAG_UTF8 = 0x0800, /* names */
};

/* What a field of 32 bits says when a zip64 field says it instead. */
static const uint64_t full = UINT32_MAX;

struct record {
	const char *name;
	uint64_t header; /* from here on, positions are of the archive */
	uint64_t len;
	uint32_t crc;
};

struct archive {
	struct ck_buf *out;
	uint64_t fpos;	 /* of the archive in its file */
	uint64_t before; /* bytes of the archive before out */
	uint32_t n;
	struct record records[NRECORDS];
};

/* Little-endian, as this machine has it. */
static void put(struct ck_buf *b, uint64_t value, unsigned bytes)
{
	ck_buf_add(b, &value, bytes);
}

/* --- data.pkl ---------------------------------------------------------------- */

/* What is contiguous in C order, as torch counts: a dimension without
 * elements has the strides of one with one. */
struct shape {
	uint32_t ndim;
	uint64_t size[CK_MAX_DIMS], stride[CK_MAX_DIMS]; /* elements */
	uint64_t bytes;
};

static int shape_make(struct shape *s, uint32_t element, uint32_t ndim,
		      const int64_t *size)
{
	uint64_t numel = 1, stride = 1;

	if (ndim > CK_MAX_DIMS)
		return -EOVERFLOW;
	s->ndim = ndim;
	for (uint32_t i = ndim; i > 0 && i--;) {
		if (size[i] < 0)
			return -EINVAL;
		s->size[i] = (uint64_t)size[i];
		s->stride[i] = stride;
		if (!ck_mul(&numel, numel, s->size[i]) ||
		    !ck_mul(&stride, stride, ck_max(s->size[i], 1)) ||
		    stride > INT64_MAX)
			return -EOVERFLOW;
	}
	if (!ck_mul(&s->bytes, numel, element) || s->bytes > INT64_MAX)
		return -EOVERFLOW;
	return 0;
}

/* ('storage', class, '0', 'cpu', numel); dtypes without a class of their own
 * count bytes. */
static void pickle_storage(struct ck_pickler *p, const struct ck_dtype *dtype,
			   uint64_t bytes)
{
	ck_pickler_mark(p);
	ck_pickler_text(p, CK_STR("storage"));
	if (dtype->storage)
		ck_pickler_global(p, "torch", dtype->storage);
	else
		ck_pickler_global(p, "torch.storage", "UntypedStorage");
	ck_pickler_text(p, CK_STR("0"));
	ck_pickler_text(p, CK_STR("cpu"));
	ck_pickler_int(p, dtype->storage ? bytes / dtype->size : bytes);
	ck_pickler_tuple(p);
	ck_pickler_persid(p);
}

static void pickle_tensor(struct ck_buf *out, const struct ck_dtype *dtype,
			  const struct shape *s)
{
	struct ck_pickler p = { .out = out, .memoize = true };

	ck_pickler_begin(&p);
	ck_pickler_global(&p, "torch._utils",
			  dtype->storage ? "_rebuild_tensor_v2"
					 : "_rebuild_tensor_v3");
	ck_pickler_mark(&p);
	pickle_storage(&p, dtype, s->bytes);
	ck_pickler_int(&p, 0); /* offset */
	ck_pickler_ints(&p, s->ndim, s->size);
	ck_pickler_ints(&p, s->ndim, s->stride);
	ck_pickler_bool(&p, false);			     /* requires_grad */
	ck_pickler_global(&p, "collections", "OrderedDict"); /* hooks */
	ck_pickler_ints(&p, 0, NULL);
	ck_pickler_reduce(&p);
	if (!dtype->storage)
		ck_pickler_global(&p, "torch", dtype->name);
	ck_pickler_tuple(&p);
	ck_pickler_reduce(&p);
	ck_pickler_end(&p);
}

/* --- records -------------------------------------------------------------------- */

static uint64_t here(const struct archive *a)
{
	return a->before + a->out->len;
}

static uint32_t capped(uint64_t value)
{
	return (uint32_t)ck_min(value, full);
}

/* Bytes of the zip64 extra field behind its own header; 0: none is needed. */
static unsigned zip64_len(const struct record *r)
{
	return (r->len >= full ? 16u : 0) + (r->header >= full ? 8u : 0);
}

/* packed: the second size, which torch leaves 0 before the data. */
static void put_zip64(struct ck_buf *b, const struct record *r, uint64_t packed)
{
	unsigned len = zip64_len(r);

	if (len == 0)
		return;
	put(b, 1, 2);
	put(b, len, 2);
	if (r->len >= full) {
		put(b, r->len, 8);
		put(b, packed, 8);
	}
	if (r->header >= full)
		put(b, r->header, 8);
}

/* What header and directory entry share: flags to the length of the name. */
static void put_shared(struct ck_buf *b, const struct record *r, uint32_t crc,
		       uint32_t len)
{
	put(b, r->len ? FLAG_UTF8 | FLAG_LATER : FLAG_UTF8, 2);
	put(b, 0, 2 + 4); /* stored; no time */
	put(b, crc, 4);
	put(b, len, 4);
	put(b, len, 4);
	put(b, strlen(r->name), 2);
}

/* The header, so padded that the data may follow. */
static struct record *record_begin(struct archive *a, const char *name,
				   uint64_t len)
{
	struct record *r = &a->records[a->n++];
	unsigned zip64, pad;
	uint64_t data;

	*r = (struct record){ .name = name, .header = here(a), .len = len };
	zip64 = zip64_len(r) ? zip64_len(r) + 4 : 0;
	data = a->fpos + r->header + 30 + strlen(name) + zip64 + 4;
	pad = (unsigned)((ALIGNMENT - data % ALIGNMENT) % ALIGNMENT);
	put(a->out, 0x04034b50, 4);
	put(a->out, 0, 2);
	put_shared(a->out, r, 0, 0);
	put(a->out, zip64 + 4 + pad, 2);
	ck_buf_text(a->out, name);
	put_zip64(a->out, r, 0);
	ck_buf_text(a->out, "FB");
	put(a->out, pad, 2);
	for (unsigned i = 0; i < pad; i++)
		put(a->out, 'Z', 1);
	return r;
}

/* The descriptor; of an empty record torch writes none. */
static void record_end(struct archive *a, const struct record *r)
{
	unsigned width = zip64_len(r) ? 8 : 4;

	if (r->len == 0)
		return;
	put(a->out, 0x08074b50, 4);
	put(a->out, r->crc, 4);
	put(a->out, r->len, width);
	put(a->out, r->len, width);
}

static void record_add(struct archive *a, const char *name, struct ck_str data)
{
	struct record *r = record_begin(a, name, data.len);

	r->crc = crc32_gzip_refl(0, (const uint8_t *)data.p, data.len);
	ck_buf_str(a->out, data);
	record_end(a, r);
}

/* --- directory -------------------------------------------------------------------- */

/* Gives where its CRC-32 is in out. */
static uint64_t put_entry(struct ck_buf *b, const struct record *r)
{
	unsigned zip64 = zip64_len(r);
	uint64_t crc_at = b->len + 16;

	put(b, 0x02014b50, 4);
	put(b, 0, 4);
	put_shared(b, r, r->crc, capped(r->len));
	put(b, zip64 ? zip64 + 4 : 0, 2);
	put(b, 0, 8); /* comment, disk, attributes */
	put(b, 0, 2);
	put(b, capped(r->header), 4);
	ck_buf_text(b, r->name);
	put_zip64(b, r, r->len);
	return crc_at;
}

/* All three, always, as torch does. */
static void put_ends(struct archive *a, uint64_t dir)
{
	uint64_t end = here(a), len = end - dir;
	struct ck_buf *b = a->out;

	put(b, 0x06064b50, 4);
	put(b, 44, 8);
	put(b, 0x002d031e, 4);
	put(b, 0, 8);
	put(b, a->n, 8);
	put(b, a->n, 8);
	put(b, len, 8);
	put(b, dir, 8);
	put(b, 0x07064b50, 4); /* locator */
	put(b, 0, 4);
	put(b, end, 8);
	put(b, 1, 4);
	put(b, 0x06054b50, 4);
	put(b, 0, 4);
	put(b, a->n, 2);
	put(b, a->n, 2);
	put(b, capped(len), 4);
	put(b, capped(dir), 4);
	put(b, 0, 2);
}

/* Two numbers of 20 digits; nobody asks more of them than to be digits. */
static void add_id(struct archive *a, struct ck_str pickle)
{
	char id[41];

	snprintf(id, sizeof(id), "%020" PRIu64 "%020" PRIu64, ck_hash64(pickle),
		 ck_hash64_seeded(pickle, a->fpos));
	record_add(a, "archive/.data/serialization_id",
		   (struct ck_str){ id, 40 });
}

/* --- the form ------------------------------------------------------------------------ */

static void form_write(struct ck_item_form *f, struct ck_str pickle,
		       uint64_t fpos)
{
	struct archive a = { .out = &f->head, .fpos = fpos };
	const struct record *data;
	uint64_t dir;

	record_add(&a, "archive/data.pkl", pickle);
	record_add(&a, "archive/byteorder", CK_STR("little"));
	data = record_begin(&a, "archive/data/0", f->data_len);
	a.before = f->head.len + f->data_len;
	a.out = &f->tail;
	f->crc_at[0] = 4; /* of the descriptor */
	record_end(&a, data);
	record_add(&a, "archive/version", CK_STR("3\n"));
	add_id(&a, pickle);
	dir = here(&a);
	for (uint32_t i = 0; i < a.n; i++) {
		uint64_t crc_at = put_entry(a.out, &a.records[i]);

		if (&a.records[i] == data)
			f->crc_at[1] = crc_at;
	}
	put_ends(&a, dir);
}

/* Types with a quantizer need one; those below a byte have no elements. */
bool ck_item_form_has(uint8_t dtype)
{
	const struct ck_dtype *type = ck_dtype_at(dtype);

	return type->size && (!type->storage || type->storage[0] != 'Q');
}

/* Room for head and tail, beside the elements, below the end of any file. */
static const uint64_t most_fpos = INT64_MAX - (1 << 20);

int ck_item_form_make(struct ck_item_form *f, uint8_t dtype, uint32_t ndim,
		      const int64_t *size, uint64_t fpos)
{
	const struct ck_dtype *type = ck_dtype_at(dtype);
	struct ck_buf pickle = { 0 };
	struct shape s;
	uint64_t end;
	int rc;

	*f = (struct ck_item_form){ 0 };
	if (!ck_item_form_has(dtype))
		return -EOPNOTSUPP;
	rc = shape_make(&s, type->size, ndim, size);
	if (rc == 0 && (!ck_add(&end, fpos, s.bytes) || end > most_fpos))
		rc = -EOVERFLOW;
	if (rc)
		return rc;
	f->data_len = s.bytes;
	pickle_tensor(&pickle, type, &s);
	form_write(f, (struct ck_str){ pickle.data, pickle.len }, fpos);
	rc = pickle.err || f->head.err || f->tail.err ? -ENOMEM : 0;
	ck_buf_fini(&pickle);
	if (rc)
		ck_item_form_fini(f);
	return rc;
}

void ck_item_form_crc(struct ck_item_form *f, uint32_t crc)
{
	if (f->data_len == 0) /* without a descriptor; its CRC-32 is 0 */
		return;
	memcpy(f->tail.data + f->crc_at[0], &crc, sizeof(crc));
	memcpy(f->tail.data + f->crc_at[1], &crc, sizeof(crc));
}

void ck_item_form_fini(struct ck_item_form *f)
{
	ck_buf_fini(&f->head);
	ck_buf_fini(&f->tail);
}
