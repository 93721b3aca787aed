/* SPDX-License-Identifier: MIT */
/*
 * blob: locates a box in a piece of a safetensors file, and caches the headers of pieces.
 *
 * A header is private to the thread that reads it until ck_blobs_keep() adds it to the cache.
 * There, a header is constant. All are freed when their size exceeds bytes_most. A header
 * that was read before the last change of its file's ctime is never found, and is freed with
 * the others. Any thread may call the functions; the cache has a lock.
 */
#include "blob.h"
#include "format/item/safetensors_file.h"

#include <errno.h>
#include <inttypes.h>

enum { SLOTS = 1024 };

/* Limit in bytes of all headers in the cache. */
static const uint64_t bytes_most = 64 << 20;

struct ck_blob {
	uint32_t file;
	uint64_t fpos;
	uint64_t touched;     /* of the file, see ck_files_touched() */
	struct ck_diag fault; /* err: 0, or the header is malformed */
	struct ck_safetensors_file header;
	struct ck_blob *next;
};

struct ck_blobs {
	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_blob *slots[SLOTS];
	uint64_t bytes;
};

/* --- the cache ----------------------------------------------------------------------- */

static void blob_free(struct ck_blob *blob)
{
	if (blob)
		ck_safetensors_file_fini(&blob->header);
	free(blob);
}

struct ck_blobs *ck_blobs_make(void)
{
	struct ck_blobs *b = calloc(1, sizeof(*b));

	if (b)
		pthread_mutex_init(&b->lock, NULL);
	return b;
}

static void forget_all(struct ck_blobs *b)
{
	for (size_t i = 0; i < SLOTS; i++)
		while (b->slots[i]) {
			struct ck_blob *blob = b->slots[i];

			b->slots[i] = blob->next;
			blob_free(blob);
		}
	b->bytes = 0;
}

void ck_blobs_free(struct ck_blobs *b)
{
	if (!b)
		return;
	forget_all(b);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static struct ck_blob **slot_of(struct ck_blobs *b, uint32_t file,
				uint64_t fpos)
{
	const uint64_t place[] = { file, fpos };

	return &b->slots[ck_hash64((struct ck_str){ (const char *)place,
						    sizeof(place) }) %
			 SLOTS];
}

/* Finds a header that was read after the last change of the ctime of its file. NULL if there is
 * no such header. Must hold the lock. */
static const struct ck_blob *find(struct ck_blobs *b, uint32_t file,
				  uint64_t fpos, uint64_t touched)
{
	const struct ck_blob *blob = *slot_of(b, file, fpos);

	while (blob && (blob->file != file || blob->fpos != fpos ||
			blob->touched != touched))
		blob = blob->next;
	return blob;
}

/* Approximate size of a header in memory. */
static uint64_t bytes_of(const struct ck_blob *blob)
{
	const struct ck_safetensors_file *f = &blob->header;

	return sizeof(*blob) + f->data - blob->fpos +
	       f->header.n * sizeof(*f->header.tensors);
}

void ck_blobs_keep(struct ck_checkpoint *cp, struct ck_blob *made, bool same)
{
	struct ck_blobs *b = cp->blobs;
	struct ck_blob **slot;

	if (!made)
		return;
	if (!same) {
		blob_free(made);
		return;
	}
	pthread_mutex_lock(&b->lock);
	if (find(b, made->file, made->fpos, made->touched)) {
		blob_free(made);
	} else {
		if (b->bytes > bytes_most)
			forget_all(b);
		slot = slot_of(b, made->file, made->fpos);
		made->next = *slot;
		*slot = made;
		b->bytes += made->fault.err ? sizeof(*made) : bytes_of(made);
	}
	pthread_mutex_unlock(&b->lock);
}

/* --- one box --------------------------------------------------------------------------- */

static const struct ck_safetensor *entry_of(const struct ck_blob *blob,
					    struct ck_str key)
{
	int64_t at = ck_safetensors_find(&blob->header, key);

	return at < 0 ? NULL : &blob->header.header.tensors[at];
}

static int differ(struct ck_diag *d, const struct ck_blob_want *want,
		  const char *what, const int64_t *dims,
		  const int64_t *expected)
{
	struct ck_buf text[2] = { { 0 }, { 0 } };
	int rc;

	ck_dims_print(&text[0], expected, want->tensor->ndim);
	ck_dims_print(&text[1], dims, want->tensor->ndim);
	rc = ck_differs(d, EIO, text[0].data ? text[0].data : "?",
			text[1].data ? text[1].data : "?", "%s", what);
	ck_buf_fini(&text[0]);
	ck_buf_fini(&text[1]);
	return rc;
}

static bool is_same(const int64_t *a, const int64_t *b, uint32_t n)
{
	return n == 0 || memcmp(a, b, n * sizeof(*a)) == 0;
}

/* Compares an entry of the header with the box. A file with two boxes of one tensor has only
 * the one that was written last, so offsets are compared, too. Returns 0, or -EIO. */
static int compare(const struct ck_blob *blob, const struct ck_safetensor *e,
		   const struct ck_blob_want *want, struct ck_diag *d)
{
	const struct ck_safetensors_file *f = &blob->header;
	const struct ck_tensor *t = want->tensor;
	const int64_t *box = ck_tensor_box(t, want->box);

	if (t->err)
		return 0;
	if (ck_dtype_by_name(e->dtype) != t->dtype)
		return ck_differs(d, EIO, ck_dtype_at(t->dtype)->name,
				  ck_show(e->dtype), "dtype of its item");
	if (e->ndim != t->ndim)
		return ck_differs(d, EIO, ck_shown("%" PRIu32, t->ndim),
				  ck_shown("%" PRIu32, e->ndim),
				  "dimensions of its item");
	if (!is_same(f->header.shapes + e->shape, box + t->ndim, t->ndim))
		return differ(d, want, "shape of its item",
			      f->header.shapes + e->shape, box + t->ndim);
	if (f->bad_info)
		return ck_fail(d, EIO,
			       "the sharding information of its file is "
			       "malformed");
	if (f->has_info && !is_same(f->offsets + e->shape, box, t->ndim))
		return differ(d, want, "offsets of its item",
			      f->offsets + e->shape, box);
	return 0;
}

static int look_up(const struct ck_blob *blob, const struct ck_blob_want *want,
		   uint64_t size, uint64_t *fpos, struct ck_diag *d)
{
	const struct ck_safetensor *e;
	uint64_t end;
	int rc;

	if (blob->fault.err) {
		*d = blob->fault;
		return -blob->fault.err;
	}
	e = entry_of(blob, want->tensor->entry.key);
	if (!e)
		return ck_fail(d, EBADMSG,
			       "the safetensors at its place have no %s",
			       ck_show(want->tensor->entry.key));
	rc = compare(blob, e, want, d);
	if (rc)
		return rc;
	if (!ck_add(&end, blob->header.data, e->end) || end > size)
		return ck_fail(d, ENODATA, "its file ends before it");
	*fpos = blob->header.data + e->begin;
	return 0;
}

/* --- reading ------------------------------------------------------------------------------ */

/* Returns 1 if the first bytes of the item are those of a safetensors header, 0 if not, or an
 * error of ck_files_read(). */
static int is_blob(const struct ck_stored *item)
{
	uint8_t head[CK_SAFETENSORS_BEGIN + 1];
	uint64_t len, left = item->file.size - item->fpos;
	int rc;

	if (left < sizeof(head))
		return 0;
	rc = ck_files_read(item->files, &item->file, head, sizeof(head),
			   item->fpos, item->fpos + sizeof(head));
	if (rc)
		return rc;
	memcpy(&len, head, sizeof(len));
	return memcmp(head, "PK\3\4", 4) != 0 &&
	       len <= left - CK_SAFETENSORS_BEGIN &&
	       head[CK_SAFETENSORS_BEGIN] &&
	       strchr(" \t\n\r{", head[CK_SAFETENSORS_BEGIN]);
}

static int fail_read(struct ck_stored *item, int rc, struct ck_diag *d)
{
	item->changed |= rc == -ESTALE && item->file.remote;
	return ck_fail_transient(d, -rc, "%s", strerrordesc_np(-rc));
}

/* Reads a header. If it is malformed, the fault is stored in the blob. Other errors are
 * returned, and nothing is cached. */
static int make(struct ck_stored *item, struct ck_blob **out, struct ck_diag *d)
{
	struct ck_blob *blob = calloc(1, sizeof(*blob));
	int rc;

	if (!blob)
		return ck_fail_transient(d, ENOMEM, "out of memory");
	blob->file = item->file.number;
	blob->fpos = item->fpos;
	blob->touched = item->file.touched;
	rc = ck_safetensors_header_read(item->files, &item->file, item->fpos,
					&blob->header, &blob->fault);
	if (rc && rc != -EBADMSG) {
		blob_free(blob);
		return fail_read(item, rc, d);
	}
	*out = blob;
	return 0;
}

int ck_blob_locate(struct ck_checkpoint *cp, struct ck_stored *item,
		   const struct ck_blob_want *want, int rc, uint64_t *fpos,
		   struct ck_blob **made, struct ck_diag *d)
{
	struct ck_blobs *b = cp->blobs;
	const struct ck_blob *blob;
	int now = is_blob(item);

	if (now == 0)
		return rc;
	if (now < 0)
		return fail_read(item, now, d);
	*d = (struct ck_diag){ 0 };
	pthread_mutex_lock(&b->lock);
	blob = find(b, item->file.number, item->fpos, item->file.touched);
	if (blob)
		rc = look_up(blob, want, item->file.size, fpos, d);
	pthread_mutex_unlock(&b->lock);
	if (blob)
		return rc;
	rc = make(item, made, d);
	return rc ? rc : look_up(*made, want, item->file.size, fpos, d);
}
