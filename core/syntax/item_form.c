/* SPDX-License-Identifier: MIT */
/*
 * item_form: makes the archive that torch.save writes for one contiguous tensor.
 *
 * It has five records, as releases 2.1 to 2.6 write them and all later ones read them:
 * data.pkl, byteorder, data/0, version, .data/serialization_id. Release 1.13 ignores
 * the two that it does not know. The two records of 2.7 and later are omitted:
 * .format_version declares a layout that torch then computes instead of reading
 * headers, and an item may begin anywhere in its file.
 *
 * The head is all bytes before the elements, the tail all bytes behind them. Each
 * record is padded so that its data begin at a multiple of 64 of the file. If the item
 * begins at such a multiple, all bytes are those of torch, except for the 40 digits of
 * the id. Stateless; any thread.
 */
#include "item_form.h"
#include "ckptfs/model.h"
#include "syntax/pickle/pickler.h"
#include "zipper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* --- data.pkl ---------------------------------------------------------------- */

/* Sets the bytes of the elements, whose strides must be numbers, too. */
static int bytes_of(uint32_t element, uint32_t ndim, const int64_t *size,
		    uint64_t *bytes)
{
	uint64_t numel = 1, stride = 1;

	if (ndim > CK_MAX_DIMS)
		return -EOVERFLOW;
	for (uint32_t i = ndim; i > 0 && i--;) {
		if (size[i] < 0)
			return -EINVAL;
		if (!ck_mul(&numel, numel, (uint64_t)size[i]) ||
		    !ck_mul(&stride, stride, ck_max((uint64_t)size[i], 1)) ||
		    stride > INT64_MAX)
			return -EOVERFLOW;
	}
	if (!ck_mul(bytes, numel, element) || *bytes > INT64_MAX)
		return -EOVERFLOW;
	return 0;
}

/* Writes a global, or the text `name` if module is NULL. */
static void name_write(const struct ck_item_pickle *t, struct ck_pickler *p,
		       unsigned number, const char *module, const char *name)
{
	if (t->first && t->first[number] != t->entry) {
		ck_pickler_get(p, number);
		return;
	}
	if (module)
		ck_pickler_global(p, module, name);
	else
		ck_pickler_text(p, ck_str_from(name));
	if (t->first)
		ck_pickler_put(p, number);
}

/* Writes ('storage', class, key, 'cpu', numel). A dtype without a storage class of its
 * own counts bytes. */
static void storage_write(const struct ck_item_pickle *t, struct ck_pickler *p)
{
	const struct ck_dtype *dtype = ck_dtype_at(t->dtype);

	ck_pickler_mark(p);
	name_write(t, p, CK_ITEM_STORAGE, NULL, "storage");
	if (dtype->storage)
		name_write(t, p, (unsigned)CK_ITEM_CLASSES + t->dtype, "torch",
			   dtype->storage);
	else
		name_write(t, p, CK_ITEM_UNTYPED, "torch.storage",
			   "UntypedStorage");
	ck_pickler_text(p, ck_str_from(t->storage));
	name_write(t, p, CK_ITEM_CPU, NULL, "cpu");
	ck_pickler_int(p, dtype->storage ? t->bytes / dtype->size : t->bytes);
	ck_pickler_tuple(p);
	ck_pickler_persid(p);
}

/* As in torch, a dimension of size 0 has the strides of one of size 1. */
static void shape_write(const struct ck_item_pickle *t, struct ck_pickler *p)
{
	uint64_t stride[CK_MAX_DIMS], step = 1;

	for (uint32_t i = t->ndim; i > 0 && i--;) {
		stride[i] = step;
		step *= ck_max((uint64_t)t->size[i], 1);
	}
	ck_pickler_ints(p, t->ndim, (const uint64_t *)t->size);
	ck_pickler_ints(p, t->ndim, stride);
}

void ck_item_pickle_write(const struct ck_item_pickle *t, struct ck_pickler *p)
{
	const struct ck_dtype *dtype = ck_dtype_at(t->dtype);

	if (dtype->storage)
		name_write(t, p, CK_ITEM_REBUILD_2, "torch._utils",
			   "_rebuild_tensor_v2");
	else
		name_write(t, p, CK_ITEM_REBUILD_3, "torch._utils",
			   "_rebuild_tensor_v3");
	ck_pickler_mark(p);
	storage_write(t, p);
	ck_pickler_int(p, 0); /* offset */
	shape_write(t, p);
	ck_pickler_bool(p, false); /* requires_grad */
	name_write(t, p, CK_ITEM_HOOKS, "collections", "OrderedDict");
	ck_pickler_ints(p, 0, NULL);
	ck_pickler_reduce(p);
	if (!dtype->storage)
		name_write(t, p, (unsigned)CK_ITEM_DTYPES + t->dtype, "torch",
			   dtype->name);
	ck_pickler_tuple(p);
	ck_pickler_reduce(p);
}

/* Adds the id, two numbers of 20 digits. torch requires nothing else of it. */
static void add_id(struct ck_zipper *z, struct ck_str pickle)
{
	char id[41];

	snprintf(id, sizeof(id), "%020" PRIu64 "%020" PRIu64,
		 z->no_sums ? 0 : ck_hash64(pickle),
		 z->no_sums ? 0 : ck_hash64_seeded(pickle, z->fpos));
	ck_zipper_add(z, ".data/serialization_id", (struct ck_str){ id, 40 });
}

/* --- the form ------------------------------------------------------------------------ */

static void form_write(struct ck_item_form *f, struct ck_zipper *z,
		       struct ck_str pickle)
{
	z->out = &f->head;
	z->prefix = "archive/";
	ck_zipper_add(z, "data.pkl", pickle);
	ck_zipper_add(z, "byteorder", CK_STR("little"));
	(void)ck_zipper_skip(z, "data/0", f->data_len, &f->tail);
	f->crc_at[0] = 4; /* in the descriptor, at the beginning of the tail */
	ck_zipper_add(z, "version", CK_STR("3\n"));
	add_id(z, pickle);
	ck_zipper_end(z, 2, &f->crc_at[1]);
}

/* Quantized dtypes need a quantizer; dtypes below a byte have no elements of their
 * own. */
bool ck_item_form_has(uint8_t dtype)
{
	const struct ck_dtype *type = ck_dtype_at(dtype);

	return type->size && (!type->storage || type->storage[0] != 'Q');
}

/* Highest offset that leaves room for head and tail in a file. */
static const uint64_t most_fpos = INT64_MAX - (1 << 20);

static int form_make(struct ck_item_form *f, uint8_t dtype, uint32_t ndim,
		     const int64_t *size, struct ck_zipper *z)
{
	struct ck_item_pickle t = { dtype, ndim, size, .storage = "0" };
	struct ck_buf pickle = { 0 };
	struct ck_pickler p = { .out = &pickle, .memoize = true };
	uint64_t end;
	int rc;

	*f = (struct ck_item_form){ 0 };
	if (!ck_item_form_has(dtype))
		return -EOPNOTSUPP;
	rc = bytes_of(ck_dtype_at(dtype)->size, ndim, size, &t.bytes);
	if (rc == 0 && (!ck_add(&end, z->fpos, t.bytes) || end > most_fpos))
		rc = -EOVERFLOW;
	if (rc)
		return rc;
	f->data_len = t.bytes;
	ck_pickler_begin(&p);
	ck_item_pickle_write(&t, &p);
	ck_pickler_end(&p);
	form_write(f, z, (struct ck_str){ pickle.data, pickle.len });
	rc = pickle.err || f->head.err || f->tail.err ? -ENOMEM : 0;
	ck_buf_fini(&pickle);
	if (rc)
		ck_item_form_fini(f);
	return rc;
}

int ck_item_form_make(struct ck_item_form *f, uint8_t dtype, uint32_t ndim,
		      const int64_t *size, uint64_t fpos)
{
	struct ck_zipper z = { .fpos = fpos };

	return form_make(f, dtype, ndim, size, &z);
}

int ck_item_form_bare(struct ck_item_form *f, uint8_t dtype, uint32_t ndim,
		      const int64_t *size)
{
	struct ck_zipper z = { .no_sums = true };

	return form_make(f, dtype, ndim, size, &z);
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
