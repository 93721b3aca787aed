/* SPDX-License-Identifier: MIT */
/*
 * zip: reads the directory of one torch.save archive. In it lie, without a
 * gap from byte 0 on,
 *
 *   local header, name, extra; data; descriptor	for each record
 *   entry, name, extra				the same, in the same order
 *   end records					zip_end.c
 *
 * A zip has most facts twice, and readers that trust different copies see
 * different archives. So the copies must agree, and every byte must belong to one
 * structure: then all readers see the same archive. The directory is walked once.
 * The local header of each entry is checked before the next entry is read, so a
 * bad archive is refused at its first bad record. One thread at a time; a finished
 * struct ck_zip is constant.
 *
 * Source: miniz's writer as PyTorch 1.13 to 2.15 configures it; records are
 * never deflated, and data that follow their header's zeros have a
 * descriptor. Other writers add extras, comments, and entries for directories.
 */
#include "zip_internal.h"

#include <errno.h>
#include <inttypes.h>

enum {
	LOCAL_SIG = 0x04034b50,
	ENTRY_SIG = 0x02014b50,
	DESCRIPTOR_SIG = 0x08074b50,

	LOCAL_LEN = 30,
	DESCRIPTOR_LEN = 16,
	DESCRIPTOR64_LEN = 24,

	FLAGS_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13,
	FLAG_DESCRIPTOR = 1 << 3,
	FLAG_UTF8 = 1 << 11,

	EXTRA_ZIP64 = 0x0001,
	EXTRA_UNICODE_PATH = 0x7075, /* gives some readers another name */
};

/* --- records --------------------------------------------------------------- */

/* Fields that occur both in the local header and in the entry of a record. */
struct fields {
	uint16_t flags, method;
	uint32_t crc, packed, len;
	uint16_t name_len, extra_len;
};

struct record {
	struct fields f; /* of its entry */
	struct ck_str name;
	uint64_t header; /* of its local header */
	uint64_t len, packed;
	uint64_t data; /* set by local_check() */
	bool zip64;    /* its descriptor has 64-bit sizes */
};

/* Parses the fields from the flags on, which are common to both structures. */
static void fields_take(struct ck_cur *c, struct fields *f)
{
	f->flags = ck_zip_u16(c);
	f->method = ck_zip_u16(c);
	(void)ck_zip_u32(c); /* time and date */
	f->crc = ck_zip_u32(c);
	f->packed = ck_zip_u32(c);
	f->len = ck_zip_u32(c);
	f->name_len = ck_zip_u16(c);
	f->extra_len = ck_zip_u16(c);
}

/* Finds the zip64 block among extras, such as padding or times. */
static bool extra_parse(struct ck_str extra, struct ck_cur *zip64)
{
	struct ck_cur c = ck_cur_make(extra.p, extra.len);
	struct ck_str block;
	bool found = false;
	uint16_t id, len;

	*zip64 = ck_cur_make(extra.p, 0);
	while (ck_cur_left(&c)) {
		if (!ck_cur_u16(&c, &id) || !ck_cur_u16(&c, &len) ||
		    !ck_cur_bytes(&c, len, &block))
			return false;
		if (id == EXTRA_UNICODE_PATH || (id == EXTRA_ZIP64 && found))
			return false;
		if (id != EXTRA_ZIP64)
			continue;
		*zip64 = ck_cur_make(block.p, block.len);
		found = true;
	}
	return true;
}

/* A saturated field has its value in the zip64 block. */
static bool widen(struct ck_cur *zip64, uint32_t narrow, uint64_t *wide)
{
	*wide = narrow;
	return narrow != CK_ZIP_SATURATED || ck_cur_u64(zip64, wide);
}

/* Sizes, position and extra of an entry; c is behind its shared fields. */
static bool entry_rest(struct ck_cur *c, struct record *r)
{
	uint16_t disk;
	struct ck_str extra;
	struct ck_cur zip64;
	uint32_t header;

	(void)ck_zip_u16(c); /* length of the comment */
	disk = ck_zip_u16(c);
	(void)ck_zip_take(c, 6); /* attributes */
	header = ck_zip_u32(c);
	return disk == 0 && ck_cur_bytes(c, r->f.name_len, &r->name) &&
	       ck_cur_bytes(c, r->f.extra_len, &extra) &&
	       extra_parse(extra, &zip64) && widen(&zip64, r->f.len, &r->len) &&
	       widen(&zip64, r->f.packed, &r->packed) &&
	       widen(&zip64, header, &r->header) && ck_cur_left(&zip64) == 0;
}

/* Refuses a record that is compressed or encrypted, which is no damage. */
static int storing_check(struct ck_zip_bytes *b, const struct record *r,
			 struct ck_diag *d)
{
	bool encrypted = r->f.flags & FLAGS_ENCRYPTED;

	b->unsupported = encrypted || r->f.method != 0;
	if (encrypted)
		return ck_fail(d, EBADMSG,
			       "unsupported: record %s is encrypted",
			       ck_show(r->name));
	if (r->f.method != 0)
		return ck_fail(d, EBADMSG,
			       "unsupported: record %s is compressed; load the "
			       "file with torch and save it again",
			       ck_show(r->name));
	if (r->f.flags & ~(FLAG_DESCRIPTOR | FLAG_UTF8) || r->packed != r->len)
		return ck_fail(d, EBADMSG, "malformed zip entry of record %s",
			       ck_show(r->name));
	return 0;
}

/* The entry at *dirpos, which moves behind it. */
static int entry_parse(struct ck_zip_bytes *b, uint64_t *dirpos,
		       struct record *r, struct ck_diag *d)
{
	struct ck_cur c;
	uint32_t sig;
	uint16_t comment;
	size_t len;
	int rc = ck_zip_fetch(b, &b->dir, *dirpos, CK_ZIP_ENTRY_LEN, &c, d);

	b->unsupported = false;
	if (rc < 0)
		return rc;
	sig = ck_zip_u32(&c);
	(void)ck_zip_u32(&c); /* versions */
	fields_take(&c, &r->f);
	comment = ck_zip_u16(&c);
	if (sig != ENTRY_SIG)
		return ck_fail(d, EBADMSG, "malformed zip entry at %" PRIu64,
			       *dirpos);
	len = CK_ZIP_ENTRY_LEN + (size_t)r->f.name_len + r->f.extra_len;
	rc = ck_zip_fetch(b, &b->dir, *dirpos, len, &c, d);
	if (rc < 0)
		return rc;
	if (!ck_cur_skip(&c, CK_ZIP_ENTRY_LEN - 14) || !entry_rest(&c, r))
		return ck_fail(d, EBADMSG, "malformed zip entry at %" PRIu64,
			       *dirpos);
	*dirpos += len + comment;
	return storing_check(b, r, d);
}

/* True if the sizes of a local header fit those of the entry. With a descriptor
 * they are 0, but torch writes the zip64 block where the real sizes need it. */
static bool local_sizes_agree(const struct record *r, const struct fields *f,
			      struct ck_cur zip64)
{
	bool later = f->flags & FLAG_DESCRIPTOR;
	uint64_t len = 0, packed = 0, header = r->header;

	if (later && (f->crc || f->packed || f->len))
		return false;
	if (later && r->len >= CK_ZIP_SATURATED &&
	    (!ck_cur_u64(&zip64, &len) || !ck_cur_u64(&zip64, &packed) ||
	     len != r->len || packed != 0))
		return false;
	if (!later && (!widen(&zip64, f->len, &len) ||
		       !widen(&zip64, f->packed, &packed) || len != r->len ||
		       packed != r->len || f->crc != r->f.crc))
		return false;
	if (r->header >= CK_ZIP_SATURATED && ck_cur_left(&zip64))
		return ck_cur_u64(&zip64, &header) && header == r->header &&
		       ck_cur_left(&zip64) == 0;
	return ck_cur_left(&zip64) == 0;
}

static bool local_agrees(struct ck_cur *c, struct record *r)
{
	struct ck_str name, extra;
	struct ck_cur zip64;
	struct fields f;
	uint32_t sig = ck_zip_u32(c);

	(void)ck_zip_u16(c); /* version */
	fields_take(c, &f);
	if (sig != LOCAL_SIG || f.flags != r->f.flags || f.method != 0)
		return false;
	if (!ck_cur_bytes(c, f.name_len, &name) || !ck_str_eq(name, r->name) ||
	    !ck_cur_bytes(c, f.extra_len, &extra) ||
	    !extra_parse(extra, &zip64))
		return false;
	r->zip64 = ck_cur_left(&zip64) != 0;
	return local_sizes_agree(r, &f, zip64);
}

/* Length of the local header of a record. Only its extra may be longer than
 * that of the entry. */
static int local_measure(struct ck_zip_bytes *b, const struct record *r,
			 size_t *len, struct ck_diag *d)
{
	struct fields f;
	struct ck_cur c;
	int rc = ck_zip_fetch(b, &b->local, r->header, LOCAL_LEN, &c, d);

	if (rc < 0)
		return rc;
	(void)ck_zip_take(&c, 6); /* signature, version */
	fields_take(&c, &f);
	*len = LOCAL_LEN + (size_t)f.name_len + f.extra_len;
	return 0;
}

static int local_check(struct ck_zip_bytes *b, struct record *r,
		       struct ck_diag *d)
{
	struct ck_cur c;
	size_t len = 0;
	int rc = local_measure(b, r, &len, d);

	if (rc < 0)
		return rc;
	rc = ck_zip_fetch(b, &b->local, r->header, len, &c, d);
	if (rc < 0)
		return rc;
	if (!local_agrees(&c, r))
		return ck_fail(d, EBADMSG,
			       "local header at %" PRIu64
			       " is not that of record %s",
			       r->header, ck_show(r->name));
	r->data = r->header + len;
	return 0;
}

static bool descriptor_agrees(struct ck_cur *c, const struct record *r)
{
	unsigned size = r->zip64 ? 8 : 4;
	uint32_t sig = ck_zip_u32(c), crc = ck_zip_u32(c);
	uint64_t packed = ck_zip_take(c, size), len = ck_zip_take(c, size);

	return sig == DESCRIPTOR_SIG && crc == r->f.crc && packed == r->len &&
	       len == r->len;
}

/* Checks that the data of a record, and its descriptor, end before `limit`,
 * and where. */
static int data_check(struct ck_zip_bytes *b, const struct record *r,
		      uint64_t limit, uint64_t *end, struct ck_diag *d)
{
	size_t len = r->zip64 ? DESCRIPTOR64_LEN : DESCRIPTOR_LEN;
	struct ck_cur c;
	int rc;

	if (!(r->f.flags & FLAG_DESCRIPTOR))
		len = 0;
	if (!ck_add(end, r->data, r->len) || !ck_add(end, *end, len) ||
	    *end > limit)
		return ck_fail(d, EBADMSG,
			       "record %s of %" PRIu64 " bytes at %" PRIu64
			       " reaches past %" PRIu64,
			       ck_show(r->name), r->len, r->data, limit);
	if (len == 0)
		return 0;
	rc = ck_zip_fetch(b, &b->local, *end - len, len, &c, d);
	if (rc < 0)
		return rc;
	if (!descriptor_agrees(&c, r))
		return ck_fail(d, EBADMSG,
			       "descriptor at %" PRIu64
			       " is not that of record %s",
			       *end - len, ck_show(r->name));
	return 0;
}

/* --- names ----------------------------------------------------------------- */

static int lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (uint8_t)c;
}

/* Order in which names that differ by case only are equal: torch looks
 * records up without regard to it. */
static int name_cmp(struct ck_str a, struct ck_str b)
{
	for (size_t i = 0; i < a.len && i < b.len; i++) {
		if (lower(a.p[i]) != lower(b.p[i]))
			return lower(a.p[i]) < lower(b.p[i]) ? -1 : 1;
	}
	return (a.len > b.len) - (a.len < b.len);
}

static int record_cmp(const void *a, const void *b)
{
	const struct ck_zip_record *x = a, *y = b;

	return name_cmp(x->name, y->name);
}

/* Splits off the first component. */
static bool name_split(struct ck_str name, struct ck_str *prefix,
		       struct ck_str *rest)
{
	const char *slash = NULL;

	if (name.len)
		slash = memchr(name.p, '/', name.len);
	if (!slash)
		return false;
	*prefix = (struct ck_str){ name.p, (size_t)(slash - name.p) };
	*rest = (struct ck_str){ slash + 1, name.len - prefix->len - 1 };
	return true;
}

/* False if another reader could normalise the name to that of another file. */
static bool name_is_normal(struct ck_str name)
{
	size_t begin = 0;

	for (size_t i = 0; i <= name.len; i++) {
		struct ck_str part = { name.p + begin, i - begin };

		if (i < name.len && (name.p[i] == '\\' || name.p[i] == '\0'))
			return false;
		if (i < name.len && name.p[i] != '/')
			continue;
		if (part.len == 0 || ck_str_is(part, ".") ||
		    ck_str_is(part, ".."))
			return false;
		begin = i + 1;
	}
	return true;
}

/* --- the walk -------------------------------------------------------------- */

struct walk {
	struct ck_zip *zip;
	size_t cap;    /* of zip->records */
	size_t prefix; /* its length; zip->names begins with it */
};

/* An entry for a directory has a slash at its end and no bytes. Nothing is recorded for
 * it. */
static bool is_directory(const struct record *r)
{
	struct ck_str above = r->name;

	if (r->len || above.len == 0 || above.p[above.len - 1] != '/')
		return false;
	above.len--;
	return name_is_normal(above);
}

static int walk_add(struct walk *w, const struct record *r, struct ck_diag *d)
{
	struct ck_buf *names = &w->zip->names;
	struct ck_str prefix, name;
	struct ck_zip_record *records;

	if (!name_split(r->name, &prefix, &name) || !name_is_normal(name))
		return ck_fail(d, EBADMSG, "unexpected record name %s",
			       ck_show(r->name));
	if (w->zip->nrecords == 0) {
		ck_buf_str(names, prefix);
		w->prefix = prefix.len;
	}
	ck_buf_str(names, name);
	if (names->err < 0)
		return ck_fail(d, -names->err, "out of memory");
	if (!ck_str_eq(prefix, (struct ck_str){ names->data, w->prefix }))
		return ck_fail(d, EBADMSG,
			       "record %s is not in the archive's directory",
			       ck_show(r->name));
	records = ck_grow(w->zip->records, &w->cap, w->zip->nrecords, 1,
			  sizeof(*records));
	if (!records)
		return ck_fail(d, ENOMEM, "out of memory");
	w->zip->records = records;
	records[w->zip->nrecords++] = (struct ck_zip_record){
		.name.len = name.len,
		.ipos = r->data,
		.len = r->len,
		.crc = r->f.crc,
	};
	return 0;
}

/* True if any entry has TorchScript's record of constants. Entries are read up to the first
 * one that is malformed. */
static bool is_torchscript(struct ck_zip_bytes *b, const struct ck_zip_ends *e)
{
	uint64_t dirpos = e->dir;
	bool found = false;
	int rc = 0;

	for (uint64_t i = 0; i < e->count && rc == 0 && !found; i++) {
		struct record r = { 0 };

		rc = entry_parse(b, &dirpos, &r, NULL);
		if (b->unsupported)
			rc = 0;
		found = r.name.len > 14 && memcmp(r.name.p + r.name.len - 14,
						  "/constants.pkl", 14) == 0;
	}
	return found;
}

static int walk_all(struct walk *w, const struct ck_zip_ends *e,
		    struct ck_diag *d)
{
	struct ck_zip_bytes *b = w->zip->bytes;
	uint64_t dirpos = e->dir, next = 0;

	for (uint64_t i = 0; i < e->count; i++) {
		struct record r = { 0 };
		int rc = entry_parse(b, &dirpos, &r, d);

		if (rc < 0)
			return rc;
		if (r.header != next)
			return ck_fail(d, EBADMSG,
				       "record %s begins at %" PRIu64
				       ", expected at %" PRIu64,
				       ck_show(r.name), r.header, next);
		rc = local_check(b, &r, d);
		if (rc < 0)
			return rc;
		rc = data_check(b, &r, e->dir, &next, d);
		if (rc < 0)
			return rc;
		rc = is_directory(&r) ? 0 : walk_add(w, &r, d);
		if (rc < 0)
			return rc;
	}
	if (next != e->dir || dirpos != e->dir + e->dir_len)
		return ck_fail(d, EBADMSG,
			       "bytes that belong to no record at %" PRIu64,
			       next != e->dir ? next : dirpos);
	return 0;
}

/* Sets the names of all records, once the buffer of names no longer moves;
 * sorts the records, and refuses two with one name. */
static int names_settle(struct walk *w, struct ck_diag *d)
{
	struct ck_zip *zip = w->zip;
	const char *p = zip->names.data + w->prefix;

	for (uint32_t i = 0; i < zip->nrecords; i++) {
		zip->records[i].name.p = p;
		p += zip->records[i].name.len;
	}
	qsort(zip->records, zip->nrecords, sizeof(*zip->records), record_cmp);
	for (uint32_t i = 1; i < zip->nrecords; i++) {
		if (record_cmp(&zip->records[i - 1], &zip->records[i]) == 0)
			return ck_fail(d, EBADMSG, "two records %s",
				       ck_show(zip->records[i].name));
	}
	return 0;
}

static int zip_read(struct ck_zip *zip, struct ck_diag *d)
{
	struct ck_zip_bytes *b = zip->bytes;
	struct walk w = { .zip = zip };
	struct ck_zip_ends e = { 0 };
	int rc = ck_zip_ends_read(b, &e, d);

	if (rc < 0)
		return rc;
	rc = walk_all(&w, &e, d);
	zip->unsupported = rc < 0 && b->unsupported;
	if (zip->unsupported && is_torchscript(b, &e))
		return ck_fail(d, EBADMSG, CK_ZIP_TORCHSCRIPT);
	if (rc < 0)
		return rc;
	return names_settle(&w, d);
}

int ck_zip_read(const struct ck_zip_source *src, struct ck_zip *zip,
		struct ck_diag *d)
{
	int rc;

	*zip = (struct ck_zip){ .bytes = calloc(1, sizeof(*zip->bytes)) };
	if (!zip->bytes)
		return ck_fail(d, ENOMEM, "out of memory");
	zip->bytes->src = *src;
	rc = zip_read(zip, d);
	if (rc < 0) {
		bool unsupported = zip->unsupported;

		ck_zip_fini(zip);
		zip->unsupported = unsupported;
	}
	return rc;
}

void ck_zip_fini(struct ck_zip *zip)
{
	free(zip->records);
	ck_buf_fini(&zip->names);
	ck_zip_bytes_free(zip->bytes);
	*zip = (struct ck_zip){ 0 };
}

const struct ck_zip_record *ck_zip_find(const struct ck_zip *zip,
					struct ck_str name)
{
	struct ck_zip_record key = { .name = name };
	const struct ck_zip_record *r;

	if (!zip->nrecords)
		return NULL;
	r = bsearch(&key, zip->records, zip->nrecords, sizeof(key), record_cmp);
	return r && ck_str_eq(r->name, name) ? r : NULL;
}

int ck_zip_load(const struct ck_zip *zip, const struct ck_zip_record *record,
		void *buf, struct ck_diag *d)
{
	size_t len = (size_t)record->len;
	const uint8_t *p = ck_zip_peek(zip->bytes, record->ipos, len);

	if (!p)
		return ck_zip_bytes_read(zip->bytes, buf, len, record->ipos, d);
	if (len)
		memcpy(buf, p, len);
	return 0;
}
