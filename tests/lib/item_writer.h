/* SPDX-License-Identifier: MIT */
/*
 * item_writer: writes one torch.save archive in memory as torch does, byte for
 * byte. It records the position of each structure, so that a test can damage it.
 * One record may be a hole of any size (zeros that are not stored), for archives
 * above 4 GiB. The second half writes the pickle of a tensor.
 *
 * Positions include the hole.
 */
#ifndef CK_ITEM_WRITER_H
#define CK_ITEM_WRITER_H

#include "ckptfs/base.h"

#include <errno.h>
#include <stdio.h>

enum { IW_DIMS = 80 };

struct iw_place {
	char name[100]; /* with the prefix */
	uint64_t header, data, len, descriptor, entry;
	uint32_t crc;
	bool zip64;
};

struct iw {
	/* options; zero: as torch writes */
	const char *prefix;  /* "archive" */
	uint32_t alignment;  /* 64 */
	bool no_crc;	     /* set_crc32_options(False) */
	bool no_descriptors; /* sizes in the local header */
	bool no_padding;
	bool no_zip64_end;
	/* what */
	struct ck_buf out;
	uint64_t hole, hole_len;
	unsigned n;
	struct iw_place *at; /* moves when a record is added */
	size_t at_cap;
	uint64_t dir, end64, locator, end;
	unsigned reads;	  /* calls of iw_read() */
	unsigned fail_at; /* number of the read that returns ESTALE */
};

static inline struct iw *iw_make(void)
{
	struct iw *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->prefix = "archive";
	w->alignment = 64;
	return w;
}

static inline void iw_free(struct iw *w)
{
	ck_buf_fini(&w->out);
	free(w->at);
	free(w);
}

static inline uint64_t iw_len(const struct iw *w)
{
	return w->out.len + w->hole_len;
}

static inline void iw_put(struct ck_buf *b, uint64_t value, unsigned bytes)
{
	char text[8];

	for (unsigned i = 0; i < bytes; i++)
		text[i] = (char)(value >> 8 * i & 0xff);
	ck_buf_add(b, text, bytes);
}

static inline uint32_t iw_crc(struct ck_str s)
{
	static uint32_t of_half[16];
	uint32_t crc = UINT32_MAX;

	for (uint32_t i = 0; i < 16 && !of_half[15]; i++) {
		uint32_t half = i;

		for (int k = 0; k < 4; k++)
			half = half >> 1 ^ (half & 1 ? 0xedb88320u : 0);
		of_half[i] = half;
	}
	for (size_t i = 0; i < s.len; i++) {
		crc ^= (uint8_t)s.p[i];
		crc = crc >> 4 ^ of_half[crc & 15];
		crc = crc >> 4 ^ of_half[crc & 15];
	}
	return ~crc;
}

static inline uint32_t iw_cap(uint64_t value)
{
	return (uint32_t)ck_min(value, UINT32_MAX);
}

static inline uint16_t iw_flags(const struct iw *w, const struct iw_place *r)
{
	return r->len && !w->no_descriptors ? 0x0808 : 0x0800;
}

/* Fields that header and entry share, from the flags to the name's length. */
static inline void iw_shared(struct iw *w, const struct iw_place *r,
			     uint32_t crc, uint32_t packed, uint32_t len)
{
	iw_put(&w->out, iw_flags(w, r), 2);
	iw_put(&w->out, 0, 2 + 4);
	iw_put(&w->out, crc, 4);
	iw_put(&w->out, packed, 4);
	iw_put(&w->out, len, 4);
	iw_put(&w->out, strlen(r->name), 2);
}

static inline void iw_header(struct iw *w, struct iw_place *r)
{
	bool big = r->len >= UINT32_MAX, far = r->header >= UINT32_MAX;
	bool later = !w->no_descriptors;
	uint64_t start = r->header + 30 + strlen(r->name) + 4;
	unsigned zip64 = big * 16u + far * 8u, pad;
	char zs[64];

	r->zip64 = zip64;
	start += zip64 ? zip64 + 4 : 0;
	pad = (unsigned)((w->alignment - start % w->alignment) % w->alignment);
	iw_put(&w->out, 0x04034b50, 4);
	iw_put(&w->out, 0, 2);
	iw_shared(w, r, later ? 0 : r->crc, later ? 0 : iw_cap(r->len),
		  later ? 0 : iw_cap(r->len));
	iw_put(&w->out, (zip64 ? zip64 + 4 : 0) + (w->no_padding ? 0 : 4 + pad),
	       2);
	ck_buf_text(&w->out, r->name);
	if (zip64) {
		iw_put(&w->out, 1, 2);
		iw_put(&w->out, zip64, 2);
	}
	if (big) {
		iw_put(&w->out, r->len, 8);
		iw_put(&w->out, later ? 0 : r->len, 8);
	}
	if (far)
		iw_put(&w->out, r->header, 8);
	if (w->no_padding)
		return;
	ck_buf_text(&w->out, "FB");
	iw_put(&w->out, pad, 2);
	memset(zs, 'Z', sizeof(zs));
	for (size_t left = pad, n; left > 0; left -= n) {
		n = ck_min(left, sizeof(zs));
		ck_buf_add(&w->out, zs, n);
	}
}

static inline struct iw_place *iw_begin(struct iw *w, const char *name,
					uint64_t len, uint32_t crc)
{
	struct iw_place *r;

	w->at = ck_grow(w->at, &w->at_cap, w->n, 1, sizeof(*w->at));
	if (!w->at)
		abort();
	r = &w->at[w->n++];
	*r = (struct iw_place){ 0 };
	snprintf(r->name, sizeof(r->name), "%s/%s", w->prefix, name);
	r->len = len;
	r->crc = w->no_crc ? 0 : crc;
	r->header = iw_len(w);
	iw_header(w, r);
	r->data = iw_len(w);
	return r;
}

static inline void iw_close(struct iw *w, struct iw_place *r)
{
	unsigned width = r->zip64 ? 8 : 4;

	r->descriptor = iw_len(w);
	if (!r->len || w->no_descriptors)
		return;
	iw_put(&w->out, 0x08074b50, 4);
	iw_put(&w->out, r->crc, 4);
	iw_put(&w->out, r->len, width);
	iw_put(&w->out, r->len, width);
}

static inline void iw_record(struct iw *w, const char *name, struct ck_str data)
{
	struct iw_place *r = iw_begin(w, name, data.len, iw_crc(data));

	ck_buf_str(&w->out, data);
	iw_close(w, r);
}

/* A record of zeros that are not stored. At most one in an archive. */
static inline void iw_hole(struct iw *w, const char *name, uint64_t len)
{
	struct iw_place *r = iw_begin(w, name, len, 0);

	w->hole = r->data;
	w->hole_len = len;
	iw_close(w, r);
}

static inline void iw_entry(struct iw *w, struct iw_place *r)
{
	unsigned zip64 = (r->len >= UINT32_MAX) * 16u +
			 (r->header >= UINT32_MAX) * 8u;

	r->entry = iw_len(w);
	iw_put(&w->out, 0x02014b50, 4);
	iw_put(&w->out, 0, 4);
	iw_shared(w, r, r->crc, iw_cap(r->len), iw_cap(r->len));
	iw_put(&w->out, zip64 ? zip64 + 4 : 0, 2);
	iw_put(&w->out, 0, 2 + 2 + 2);
	iw_put(&w->out, 0, 4);
	iw_put(&w->out, iw_cap(r->header), 4);
	ck_buf_text(&w->out, r->name);
	if (zip64) {
		iw_put(&w->out, 1, 2);
		iw_put(&w->out, zip64, 2);
	}
	if (r->len >= UINT32_MAX) {
		iw_put(&w->out, r->len, 8);
		iw_put(&w->out, r->len, 8);
	}
	if (r->header >= UINT32_MAX)
		iw_put(&w->out, r->header, 8);
}

/* Directory and end records. */
static inline void iw_finish(struct iw *w)
{
	uint64_t len;

	w->dir = iw_len(w);
	for (unsigned i = 0; i < w->n; i++)
		iw_entry(w, &w->at[i]);
	w->end64 = iw_len(w);
	len = w->end64 - w->dir;
	if (!w->no_zip64_end) {
		iw_put(&w->out, 0x06064b50, 4);
		iw_put(&w->out, 44, 8);
		iw_put(&w->out, 0x002d031e, 4);
		iw_put(&w->out, 0, 8);
		iw_put(&w->out, w->n, 8);
		iw_put(&w->out, w->n, 8);
		iw_put(&w->out, len, 8);
		iw_put(&w->out, w->dir, 8);
		w->locator = iw_len(w);
		iw_put(&w->out, 0x07064b50, 4);
		iw_put(&w->out, 0, 4);
		iw_put(&w->out, w->end64, 8);
		iw_put(&w->out, 1, 4);
	}
	w->end = iw_len(w);
	iw_put(&w->out, 0x06054b50, 4);
	iw_put(&w->out, 0, 4);
	iw_put(&w->out, w->n, 2);
	iw_put(&w->out, w->n, 2);
	iw_put(&w->out, iw_cap(len), 4);
	iw_put(&w->out, iw_cap(w->dir), 4);
	iw_put(&w->out, 0, 2);
	if (w->out.err)
		abort();
}

/* Address of a stored byte. */
static inline char *iw_byte(struct iw *w, uint64_t ipos)
{
	if (w->hole_len && ipos >= w->hole + w->hole_len)
		ipos -= w->hole_len;
	return w->out.data + ipos;
}

/* Overwrites. */
static inline void iw_set(struct iw *w, uint64_t ipos, uint64_t value,
			  unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		*iw_byte(w, ipos + i) = (char)(value >> 8 * i & 0xff);
}

/* The read of a ck_zip_source. */
static inline int iw_read(void *ctx, void *buf, size_t len, uint64_t ipos)
{
	struct iw *w = ctx;

	if (++w->reads == w->fail_at)
		return -ESTALE;
	if (ipos > iw_len(w) || len > iw_len(w) - ipos)
		return -ENODATA;
	for (size_t i = 0; i < len; i++) {
		uint64_t at = ipos + i;
		bool hole = at >= w->hole && at - w->hole < w->hole_len;

		((char *)buf)[i] = hole ? '\0' : *iw_byte(w, at);
	}
	return 0;
}

/* All records of an item as torch 2.7 and later write it. */
static inline void iw_item(struct iw *w, struct ck_str pickle,
			   const char *byteorder, struct ck_str storage)
{
	iw_record(w, "data.pkl", pickle);
	iw_record(w, ".format_version", CK_STR("1"));
	iw_record(w, ".storage_alignment", CK_STR("64"));
	iw_record(w, "byteorder", ck_str_from(byteorder));
	iw_record(w, "data/0", storage);
	iw_record(w, "version", CK_STR("3\n"));
	iw_record(w, ".data/serialization_id",
		  CK_STR("1572819951185464302603622430115872126654"));
	iw_finish(w);
}

/* --- pickle, protocol 2, memo entries as CPython makes them ------------------ */

struct pk {
	struct ck_buf b;
	unsigned memo;
};

static inline void pk_op(struct pk *p, int op)
{
	iw_put(&p->b, (uint64_t)op, 1);
}

static inline void pk_memo(struct pk *p)
{
	pk_op(p, 'q');
	iw_put(&p->b, p->memo++, 1);
}

/* "module name" with the newlines of the opcode. */
static inline void pk_global(struct pk *p, const char *module, const char *name)
{
	ck_buf_printf(&p->b, "c%s\n%s\n", module, name);
	pk_memo(p);
}

static inline void pk_str(struct pk *p, const char *text)
{
	pk_op(p, 'X');
	iw_put(&p->b, strlen(text), 4);
	ck_buf_text(&p->b, text);
	pk_memo(p);
}

static inline void pk_int(struct pk *p, int64_t v)
{
	bool one = v >= 0 && v < 256, two = v >= 0 && v < 65536;
	bool four = v >= INT32_MIN && v <= INT32_MAX;

	pk_op(p, one ? 'K' : two ? 'M' : four ? 'J' : 0x8a);
	if (!four)
		pk_op(p, 8);
	iw_put(&p->b, (uint64_t)v, one ? 1 : two ? 2 : four ? 4 : 8);
}

static inline void pk_bool(struct pk *p, bool v)
{
	pk_op(p, v ? 0x88 : 0x89);
}

static inline void pk_mark(struct pk *p)
{
	pk_op(p, '(');
}

/* A tuple of the items above the mark. */
static inline void pk_tuple(struct pk *p)
{
	pk_op(p, 't');
	pk_memo(p);
}

static inline void pk_reduce(struct pk *p)
{
	pk_op(p, 'R');
	pk_memo(p);
}

static inline void pk_dims(struct pk *p, uint32_t ndim, const int64_t *dims)
{
	static const int ops[] = { ')', 0x85, 0x86, 0x87 };

	if (ndim > 3)
		pk_mark(p);
	for (uint32_t i = 0; i < ndim; i++)
		pk_int(p, dims[i]);
	if (ndim > 3)
		pk_tuple(p);
	else
		pk_op(p, ops[ndim]);
	if (ndim > 0 && ndim <= 3)
		pk_memo(p);
}

static inline void pk_empty_ordered_dict(struct pk *p)
{
	pk_global(p, "collections", "OrderedDict");
	pk_op(p, ')');
	pk_reduce(p);
}

/* Contents of the pickle of a tensor; see iw_tensor_default. */
struct iw_tensor {
	const char *rebuild;	/* of torch._utils */
	const char *persid_tag; /* "storage" */
	const char *storage;	/* class */
	const char *key;
	int64_t numel;
	int64_t offset;
	uint32_t ndim;
	int64_t size[IW_DIMS], stride[IW_DIMS];
	const char *dtype; /* v3 only, or NULL */
	bool quantizer;
	bool conj, neg;
};

static inline struct iw_tensor iw_tensor_default(void)
{
	return (struct iw_tensor){
		.rebuild = "_rebuild_tensor_v2",
		.persid_tag = "storage",
		.storage = "FloatStorage",
		.key = "0",
		.numel = 6,
		.ndim = 2,
		.size = { 2, 3 },
		.stride = { 3, 1 },
	};
}

static inline void pk_storage(struct pk *p, const struct iw_tensor *t)
{
	bool untyped = strcmp(t->storage, "UntypedStorage") == 0;

	pk_mark(p);
	pk_str(p, t->persid_tag);
	pk_global(p, untyped ? "torch.storage" : "torch", t->storage);
	pk_str(p, t->key);
	pk_str(p, "cpu");
	pk_int(p, t->numel);
	pk_tuple(p);
	pk_op(p, 'Q');
}

static inline void pk_bits(struct pk *p, const struct iw_tensor *t)
{
	pk_op(p, '}');
	pk_memo(p);
	if (t->conj) {
		pk_str(p, "conj");
		pk_bool(p, true);
		pk_op(p, 's');
	}
	if (t->neg) {
		pk_str(p, "neg");
		pk_bool(p, true);
		pk_op(p, 's');
	}
}

static inline void pk_quantizer(struct pk *p)
{
	pk_mark(p);
	pk_global(p, "torch", "per_tensor_affine");
	pk_op(p, 'G');
	iw_put(&p->b, 0xe03f, 8); /* 0.5, big-endian */
	pk_int(p, 2);
	pk_tuple(p);
}

/* The arguments of a rebuild function, and its call if `call`. */
static inline void pk_tensor(struct pk *p, const struct iw_tensor *t, bool call)
{
	pk_global(p, "torch._utils", t->rebuild);
	if (!call) { /* of _rebuild_from_type_v2 */
		pk_global(p, "torch", "Tensor");
	}
	pk_mark(p);
	pk_storage(p, t);
	pk_int(p, t->offset);
	pk_dims(p, t->ndim, t->size);
	pk_dims(p, t->ndim, t->stride);
	if (t->quantizer)
		pk_quantizer(p);
	pk_bool(p, false);
	pk_empty_ordered_dict(p);
	if (t->dtype)
		pk_global(p, "torch", t->dtype);
	if (t->conj || t->neg)
		pk_bits(p, t);
	pk_tuple(p);
	if (call)
		pk_reduce(p);
}

static inline void pk_begin(struct pk *p)
{
	*p = (struct pk){ 0 };
	pk_op(p, 0x80);
	pk_op(p, 2);
}

static inline struct ck_str pk_end(struct pk *p)
{
	pk_op(p, '.');
	if (p->b.err)
		abort();
	return (struct ck_str){ p->b.data, p->b.len };
}

#endif
