/* SPDX-License-Identifier: MIT */
/* container: reads a file of torch.save: a pickle, and the storages that it refers to.
 * The container is a zip file, or the one before torch 1.6 (legacy.c). A struct
 * ck_torch_file has the state of one file. */
#include "source/head.h"
#include "torch_internal.h"

#include <errno.h>

static const uint8_t zip_head[] = { 'P', 'K', 3, 4 };

/* The magic number 0x1950a86a20f9469cfc6c as a pickle: of protocol 2 and later, the
 * frame before it of protocol 4 and later, and as digits of older protocols. */
static const uint8_t magic[] = { 0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46, 0xf9,
				 0x20, 0x6a, 0xa8, 0x50, 0x19, '.' };
static const uint8_t frame[] = { 0x95, sizeof(magic), 0, 0, 0, 0, 0, 0, 0 };
static const char digits[] = "L119547037146038801333356L\n.";

static bool begins_as_zip(const uint8_t *head, size_t len)
{
	return len >= sizeof(zip_head) &&
	       memcmp(head, zip_head, sizeof(zip_head)) == 0;
}

static bool takes(struct ck_cur *c, const void *bytes, size_t len)
{
	struct ck_cur was = *c;
	struct ck_str s;

	if (ck_cur_bytes(c, len, &s) && memcmp(s.p, bytes, len) == 0)
		return true;
	*c = was;
	return false;
}

size_t ck_torch_magic(const uint8_t *head, size_t len)
{
	struct ck_cur c = ck_cur_make(head, len);
	struct ck_str protocol;

	if (takes(&c, digits, sizeof(digits) - 1))
		return sizeof(digits) - 1;
	if (!ck_cur_bytes(&c, 2, &protocol) || head[0] != 0x80)
		return 0;
	(void)takes(&c, frame, sizeof(frame));
	return takes(&c, magic, sizeof(magic)) ? (size_t)(c.p - head) : 0;
}

bool ck_torch_begins(const uint8_t *head, size_t len)
{
	return begins_as_zip(head, len) || ck_torch_magic(head, len);
}

/* --- the zip container --------------------------------------------------------------------- */

static int zip_read(struct ck_stored *stored, struct ck_torch_file *f,
		    struct ck_diag *d)
{
	struct ck_zip_source src = ck_source_stored(stored);
	int rc = ck_zip_read(&src, &f->zip, d);

	if (rc && f->zip.unsupported) {
		rc = -EOPNOTSUPP;
		d->err = EOPNOTSUPP;
	}
	if (rc)
		return rc;
	f->is_zip = true;
	rc = ck_item_pickle(&f->zip, CK_PICKLE_MAX, &f->pickle, &f->bytes,
			    &f->len, d);
	if (rc)
		return rc;
	f->fpos = ck_zip_find(&f->zip, CK_STR("data.pkl"))->ipos;
	return ck_item_byteorder(&f->zip, &f->big, d);
}

/* --- storages --------------------------------------------------------------------------------- */

static int key_cmp(const void *key, const void *storage)
{
	const struct ck_str *a = key;
	const struct ck_torch_storage *s = storage;

	return ck_str_natural_cmp(*a, s->key);
}

static int in_zip(const struct ck_torch_file *f, struct ck_str key,
		  struct ck_torch_storage *out, struct ck_diag *d)
{
	const struct ck_zip_record *r = NULL;
	int rc = ck_item_storage(&f->zip, key, &r, d);

	if (rc)
		return rc;
	if (r)
		*out = (struct ck_torch_storage){ .key = key,
						  .fpos = r->ipos,
						  .len = r->len };
	return 0;
}

int ck_torch_storage_find(const struct ck_torch_file *f, struct ck_str key,
			  struct ck_torch_storage *out, struct ck_diag *d)
{
	const struct ck_torch_storage *s = NULL;
	int rc = 0;

	*out = (struct ck_torch_storage){ .key = key };
	if (f->is_zip)
		rc = in_zip(f, key, out, d);
	else if (f->nstorages)
		s = bsearch(&key, f->storages, f->nstorages, sizeof(*s),
			    key_cmp);
	if (s)
		*out = *s;
	if (rc == 0 && !out->bad && out->fpos == 0)
		out->bad = "its storage is not in the file";
	return rc;
}

/* --- a file ------------------------------------------------------------------------------------- */

static int container_read(struct ck_stored *stored, struct ck_torch_file *f,
			  struct ck_diag *d)
{
	uint8_t head[CK_TORCH_HEAD];
	size_t len = (size_t)ck_min(stored->length, sizeof(head));
	int rc = ck_files_read(stored->files, &stored->file, head, len, 0,
			       stored->length);

	if (rc)
		return ck_fail(d, -rc, "%s", strerrordesc_np(-rc));
	if (len == 0)
		return ck_fail(d, EBADMSG, "an empty file");
	if (!ck_torch_begins(head, len))
		return ck_fail(d, EBADMSG, "not made by torch.save");
	return begins_as_zip(head, len)
		       ? zip_read(stored, f, d)
		       : ck_torch_legacy_read(stored, ck_torch_magic(head, len),
					      f, d);
}

/* Reads a file, and records the bytes read as its head, see ck_files_head_begin(). */
static int head_read(struct ck_files *files, struct ck_stored *stored,
		     struct ck_torch_file *f, struct ck_diag *d)
{
	int rc = ck_files_head_begin(files, &stored->file), kept;

	if (rc)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = container_read(stored, f, d);
	kept = ck_files_head_end(files, &stored->file, rc == 0);
	return rc || !kept ? rc : ck_fail(d, ENOMEM, "out of memory");
}

int ck_torch_file_read(struct ck_files *files, struct ck_torch_file *f,
		       struct ck_diag *d)
{
	const struct ck_file_info *info = ck_files_info(files, f->number);
	struct ck_item all = { .file = f->number, .length = info->size };
	struct ck_stored stored;
	int rc;

	if (info->err)
		return ck_fail(d, info->err, "%s", info->why);
	rc = ck_stored_get(files, &all, &stored, d);
	if (rc)
		return rc;
	rc = head_read(files, &stored, f, d);
	return ck_stored_put(&stored, rc, d);
}

void ck_torch_pickle_fini(struct ck_torch_file *f)
{
	ck_pickle_fini(&f->pickle);
	free(f->bytes);
	f->bytes = NULL;
}

void ck_torch_file_fini(struct ck_torch_file *f)
{
	ck_torch_pickle_fini(f);
	ck_zip_fini(&f->zip);
	ck_arena_fini(&f->arena);
	free(f->storages);
	f->zip = (struct ck_zip){ 0 };
	f->storages = NULL;
	f->nstorages = 0;
}
