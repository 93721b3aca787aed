/* SPDX-License-Identifier: MIT */
/*
 * stored: reads an item, which is a range of its data file. Without stream transforms
 * it is read in place. With stream transforms it is read as a whole and decoded in
 * memory.
 */
#include "stored.h"
#include "item.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

/* Bytes of read-ahead. */
static const uint64_t ahead_max = 8ULL << 20;

/* Upper limit of the bytes of an archive besides the elements of its box: names,
 * pickle, padding, and storages longer than their tensor. */
static const uint64_t box_overhead = 16ULL << 20;

/* Upper limit of a decoded value, the same as of the memory of a pickle, see
 * pickle.h. */
static const uint64_t value_base = 64ULL << 20;

enum { VALUE_PER_BYTE = 40 };

static void read_ahead(struct ck_stored *item, uint64_t fpos)
{
	uint64_t to = ck_min(fpos + ahead_max, item->fpos + item->length);

	if (item->ahead == 0 || item->file.remote ||
	    to < item->ahead + ahead_max / 2)
		return;
	(void)posix_fadvise(item->file.fd, (off_t)item->ahead,
			    (off_t)(to - item->ahead), POSIX_FADV_WILLNEED);
	item->ahead = to;
}

static int read_file(struct ck_stored *item, void *buf, size_t len,
		     uint64_t fpos)
{
	int rc = ck_files_read(item->files, &item->file, buf, len, fpos,
			       item->fpos + item->length);

	item->changed |= rc == -ESTALE && item->file.remote;
	return rc;
}

static int read_stored(void *ctx, void *buf, size_t len, uint64_t ipos)
{
	struct ck_stored *item = ctx;

	read_ahead(item, item->fpos + ipos);
	return read_file(item, buf, len, item->fpos + ipos);
}

static int read_memory(void *ctx, void *buf, size_t len, uint64_t ipos)
{
	const char *bytes = ctx;

	memcpy(buf, bytes + ipos, len);
	return 0;
}

/* Both ends of a remote item are requested in one batch. */
struct ck_zip_source ck_source_stored(struct ck_stored *item)
{
	size_t edge = (size_t)ck_min(item->length, CK_ZIP_EDGE);
	uint64_t tail = item->fpos + item->length - edge;

	if (item->length <= 2 * CK_ZIP_EDGE) {
		ck_files_fetch_add(item->files, &item->file, item->fpos,
				   (size_t)item->length);
	} else {
		ck_files_fetch_add(item->files, &item->file, item->fpos, edge);
		ck_files_fetch_add(item->files, &item->file, tail, edge);
	}
	return (struct ck_zip_source){ item, read_stored, item->length };
}

struct ck_zip_source ck_source_memory(void *bytes, size_t len)
{
	return (struct ck_zip_source){ bytes, read_memory, len };
}

static bool is_inside(const struct ck_stored *item)
{
	return item->fpos <= item->file.size &&
	       item->length <= item->file.size - item->fpos;
}

/* The range of an item is checked here, because the size of its file may have been
 * unknown when the catalog was made. */
static int fail_outside(const struct ck_stored *item, struct ck_diag *d)
{
	uint64_t end;

	if (!ck_add(&end, item->fpos, item->length))
		end = UINT64_MAX;
	return ck_differs(d, ENODATA,
			  ck_shown("at least %" PRIu64 " bytes", end),
			  ck_shown("%" PRIu64, item->file.size),
			  "its item ends beyond its file");
}

int ck_stored_get(struct ck_files *files, const struct ck_item *chunk,
		  struct ck_stored *out, struct ck_diag *d)
{
	int rc = ck_files_get(files, chunk->file, &out->file);

	out->again = false;
	if (rc && out->file.transient)
		return ck_fail_transient(d, -rc, "its file: %s",
					 strerrordesc_np(-rc));
	if (rc)
		return ck_fail(d, -rc, "its file: %s", strerrordesc_np(-rc));
	out->files = files;
	out->fpos = chunk->fpos;
	out->length = chunk->length;
	out->ahead = 0;
	out->changed = false;
	if (is_inside(out))
		return 0;
	rc = fail_outside(out, d);
	ck_files_put(files, &out->file);
	return rc;
}

/* A remote file is compared by its host at each read. */
bool ck_stored_is_other(struct ck_stored *item)
{
	uint32_t number = item->file.number;
	bool transient;
	int rc;

	if (item->file.remote)
		return false;
	rc = ck_files_check(item->files, number, &transient);
	item->again = ck_files_is_remote(item->files, number);
	return item->again || (rc == -ESTALE && !transient);
}

/* A changed file is a permanent error; other errors of reading are transient. */
int ck_stored_put(struct ck_stored *item, int rc, struct ck_diag *d)
{
	bool transient = false;
	int now = 0;

	if (item->changed && rc)
		d->transient = false;
	if (rc == 0)
		now = ck_files_revalidate(item->files, &item->file, &transient);
	if (transient &&
	    ck_files_fail_over(item->files, item->file.number, now))
		item->again = true;
	if (transient)
		rc = ck_fail_transient(d, -now, "its file: %s",
				       strerrordesc_np(-now));
	else if (now || (rc && rc != -EREMOTE && !ck_is_shortage(rc))) {
		if (ck_stored_is_other(item) || now)
			rc = ck_fail(d, ESTALE, "its file: %s",
				     strerrordesc_np(ESTALE));
	}
	ck_files_put(item->files, &item->file);
	return rc;
}

static int failed_read(int rc, struct ck_diag *d)
{
	if (rc == -ENODATA)
		return ck_fail(d, ENODATA, "its file ends before it");
	return rc ? ck_fail_transient(d, -rc, "%s", strerrordesc_np(-rc)) : 0;
}

int ck_stored_touch(struct ck_stored *item, struct ck_diag *d)
{
	char byte;

	return item->file.remote && item->length
		       ? failed_read(read_file(item, &byte, 1, item->fpos), d)
		       : 0;
}

int ck_stored_read(struct ck_stored *item, void **out, struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	int rc;

	if (!is_inside(item))
		return fail_outside(item, d);
	bytes = malloc(item->length + 1);
	if (!bytes)
		return ck_fail_transient(d, ENOMEM, "out of memory");
	rc = failed_read(read_file(item, bytes, item->length, item->fpos), d);
	if (rc == 0)
		*out = ck_steal(&bytes);
	return rc;
}

uint64_t ck_undone_box(uint64_t bytes)
{
	return ck_min(bytes, UINT64_MAX - box_overhead) + box_overhead;
}

uint64_t ck_undone_value(uint64_t length)
{
	uint64_t most = (UINT64_MAX - value_base) / VALUE_PER_BYTE;

	return ck_min(length, most) * VALUE_PER_BYTE + value_base;
}

int ck_stored_undo(struct ck_stored *item, struct ck_str descriptors,
		   uint64_t limit, void **out, size_t *len, struct ck_diag *d)
{
	ck_auto_free void *in = NULL;
	int rc;

	/* A compressed stream is at most slightly longer than its contents. */
	if (item->length / 9 > limit / 8)
		return ck_fail(d, EBADMSG, "stream of %ju bytes for %ju",
			       (uintmax_t)item->length, (uintmax_t)limit);
	rc = ck_stored_read(item, &in, d);
	if (rc)
		return rc;
	return ck_transform_undo(descriptors,
				 (struct ck_str){ in, item->length }, limit,
				 out, len, d);
}
