/* SPDX-License-Identifier: MIT */
/*
 * values: entries that are values of one larger pickle, in a format of this test. Each is shown as
 * JSON, and as an archive with a pickle of its own. The archive reads the storages of the value
 * from their file.
 *
 * The file begins with "VALUES" and a newline, then a pickled dict. The key of a storage is the
 * offset of its bytes in the file "data" and their length, as "4+8".
 */
#include "ckptfs/report.h"
#include "format/current/current_metadata.h"
#include "format/detect.h"
#include "format/object_value.h"
#include "object_cases.h"
#include "syntax/pickle/pickler.h"
#include "syntax/zip.h"
#include "tap.h"
#include "tree/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 2048, STORAGES = 8 };

static char dir[] = "/tmp/ckptfs-values-XXXXXX";
static int dirfd_;

/* --- the format --------------------------------------------------------------------------------- */

#define MAGIC "VALUES\n"

static ssize_t read_file(int at, const char *name, char text[static MOST])
{
	int fd = openat(at, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, MOST);

	if (fd >= 0)
		close(fd);
	return n;
}

static int is_here(const struct ck_src *src, struct ck_diag *d)
{
	char text[MOST];
	ssize_t n = src->file ? read_file(src->dirfd, src->file, text) : -1;

	(void)d;
	return n > 7 && memcmp(text, MAGIC, 7) == 0;
}

/* The storages of one value, in the order of their first use. */
struct met {
	uint32_t n;
	char names[STORAGES][8];
	struct ck_item items[STORAGES];
};

static int name_storage(void *arg, struct ck_str *key, struct ck_diag *d)
{
	struct met *met = arg;
	struct ck_item *item = &met->items[met->n];
	char text[32];

	(void)snprintf(text, sizeof(text), "%.*s", (int)key->len, key->p);
	*item = (struct ck_item){ .file = 1, .form = CK_FORM_BLOB };
	if (sscanf(text, "%lu+%lu", &item->fpos, &item->length) != 2)
		return ck_fail(d, EBADMSG, "a key of no storage");
	(void)snprintf(met->names[met->n], sizeof(met->names[0]), "%u", met->n);
	*key = ck_str_from(met->names[met->n++]);
	return 0;
}

static int add_value(struct ck_catalog *c, const struct ck_pickle *all,
		     const struct ck_pv *pair, const struct ck_item *item,
		     struct ck_diag *d)
{
	struct met met = { 0 };
	struct ck_storage_names names = { &met, name_storage };
	struct ck_buf own = { 0 };
	struct ck_pickler p = { .out = &own };
	struct ck_str key;
	int rc;

	if (!ck_pv_str(&pair[0], &key))
		return ck_fail(d, EBADMSG, "a key that is no string");
	ck_pickler_begin(&p);
	rc = ck_pickler_value(&p, all, &pair[1], &names, MOST, d);
	ck_pickler_end(&p);
	if (rc == 0)
		rc = ck_catalog_object_add(c, key, item);
	if (rc == 0)
		rc = ck_catalog_object_value(
			c, (struct ck_str){ own.data, own.len }, met.items,
			met.n);
	ck_buf_fini(&own);
	return rc;
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	struct ck_item item = { .fpos = 7, .form = CK_FORM_VALUE };
	struct ck_pickle p = { 0 };
	char text[MOST];
	uint32_t data;
	int fd, rc = ck_metadata_open(cp, c, cp->file, options, fetched, &fd,
				      d);

	if (rc)
		return rc;
	close(fd);
	item.length = (uint64_t)read_file(cp->dirfd, cp->file, text) - 7;
	rc = ck_files_add(cp->files, ck_str_from(cp->file), &item.file);
	if (rc == 0)
		rc = ck_files_add(cp->files, CK_STR("data"), &data);
	if (rc == 0)
		rc = ck_pickle_read(&p, text + 7, item.length, NULL, d);
	for (uint32_t i = 0; rc == 0 && i < p.root.list->count; i += 2)
		rc = add_value(c, &p, &p.root.list->items[i], &item, d);
	ck_pickle_fini(&p);
	return rc;
}

static uint64_t no_rank(const struct ck_checkpoint *cp, uint32_t file)
{
	(void)cp;
	(void)file;
	return CK_NO_RANK;
}

static void forget(struct ck_checkpoint *cp)
{
	(void)cp;
}

static const struct ck_format values = {
	.name = "values",
	.suffix = ".pkl",
	.rank = no_rank,
	.load = load,
	.forget = forget,
};
static const struct ck_kind rows[] = { { &values, "it has values", is_here,
					 NULL, NULL, false } };
static const struct ck_kinds kinds = { rows, 1 };

/* --- a checkpoint ----------------------------------------------------------------------------------- */

#define STORAGE(key, n)                                                        \
	"(X\7\0\0\0storagectorch\nFloatStorage\nX\3\0\0\0" key                 \
	"X\3\0\0\0cpuK" n "tQ"
#define TENSOR(key, n)                                                         \
	"ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE(key, n) "K\0K" n        \
							       "\x85K\1\x85"   \
							       "\x89}tR"

/* A pickle of protocol 4. "shared" and "pair" share values through the memo. */
static const char whole[] = MAGIC
	"\200\4}("
	"X\5\0\0\0plain](K\1NX\1\0\0\0xe"
	"X\6\0\0\0shared](X\5\0\0\0hello\224C\2\1\377e\224"
	"X\4\0\0\0pair(h\1h\1h\0t"
	"X\7\0\0\0tensors(" TENSOR("4+8", "\2")
		TENSOR("0+4", "\1") "l"
				    "X\5\0\0\0empty}u.";
static const char data[] = "abcdefghijklmnop";

static bool cut; /* the file of the storages is too short */
static mode_t mode = 0640;

static void put(const char *name, const char *bytes, size_t len)
{
	int fd = openat(dirfd_, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0640);

	if (fd < 0 || fchmod(fd, strcmp(name, "data") ? 0640 : mode) ||
	    ck_write_full(fd, bytes, len))
		abort();
	close(fd);
}

static struct ck_checkpoint *opened(void)
{
	const struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp;
	struct ck_diag d = { 0 };
	char path[64];

	put("all.pkl", whole, sizeof(whole) - 1);
	put("data", data, cut ? 3 : sizeof(data) - 1);
	(void)snprintf(path, sizeof(path), "%s/all.pkl", dir);
	if (ck_checkpoint_open_as(path, &options, &kinds, &cp, &d)) {
		printf("# %s\n", d.text);
		abort();
	}
	return cp;
}

/* --- tests -------------------------------------------------------------------------------------------- */

static void shows(struct ck_checkpoint *cp, uint32_t object, const char *want)
{
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };
	uint64_t size;

	eq_err(ck_object_json(cp, object, &out, &d), 0);
	eq_text(out.data, want);
	eq_err(ck_object_file_size(cp, object, CK_OBJECT_JSON, &size), 0);
	eq_u64(size, out.len);
	ck_buf_fini(&out);
}

#define FLOATS(n) "{\"$tensor\":{\"dtype\":\"float32\",\"shape\":[" #n "]}}"

static void test_json(void)
{
	struct ck_checkpoint *cp = opened();

	eq_u64(cp->catalog->objects.n, 5);
	shows(cp, 0, "[1,null,\"x\"]\n");
	shows(cp, 1, "[\"hello\",{\"$bytes\":\"Af8=\"}]\n");
	shows(cp, 2,
	      "{\"$tuple\":[[\"hello\",{\"$bytes\":\"Af8=\"}],"
	      "[\"hello\",{\"$bytes\":\"Af8=\"}],\"hello\"]}\n");
	shows(cp, 3, "[" FLOATS(2) "," FLOATS(1) "]\n");
	shows(cp, 4, "{}\n");
	ck_checkpoint_close(cp);
}

/* Reads a file of objects/ from the parts of its slice. */
static void file_read(struct ck_checkpoint *cp, uint32_t object,
		      struct ck_buf *out)
{
	struct ck_slice *s;
	bool transient;

	eq_err(ck_object_file_slice(cp, object, CK_OBJECT_ITEM, &s, &transient),
	       0);
	for (uint32_t i = 0; i < s->nparts; i++) {
		struct ck_part part = ck_slice_part(s, i);
		uint64_t len = ck_slice_part_len(s, i);

		eq_u64(s->begins[i], out->len);
		if (part.kind == CK_PART_BYTES)
			ck_buf_add(out, part.at.bytes, len);
		else if (part.kind == CK_PART_RANGE && part.number == 1)
			ck_buf_add(out, data + part.at.fpos, len);
	}
	eq_u64(s->size, out->len);
	ck_slice_free(s);
}

static int read_at(void *ctx, void *buf, size_t len, uint64_t at)
{
	const struct ck_buf *file = ctx;

	memcpy(buf, file->data + at, len);
	return 0;
}

static void has_record(const struct ck_zip *zip, const char *name,
		       struct ck_str want)
{
	const struct ck_zip_record *r = ck_zip_find(zip, ck_str_from(name));
	ck_auto_free char *got = malloc(want.len + 1);

	if (!ok(r && r->len == want.len))
		return;
	eq_u64(r->ipos % 64, 0);
	eq_u64(r->crc, 0);
	eq_err(ck_zip_load(zip, r, got, NULL), 0);
	eq_mem(got, r->len, want.p, want.len);
}

static void test_archive(void)
{
	struct ck_checkpoint *cp = opened();
	struct ck_buf file = { 0 };
	struct ck_diag d = { 0 };
	struct ck_zip_source src;
	struct ck_zip zip;
	uint64_t size;

	file_read(cp, 3, &file);
	eq_err(ck_object_file_size(cp, 3, CK_OBJECT_ITEM, &size), 0);
	eq_u64(size, file.len);
	src = (struct ck_zip_source){ &file, read_at, file.len };
	eq_err(ck_zip_read(&src, &zip, &d), 0);
	has_record(&zip, "byteorder", CK_STR("little"));
	has_record(&zip, "version", CK_STR("3\n"));
	has_record(&zip, "data/0", CK_STR("efghijkl"));
	has_record(&zip, "data/1", CK_STR("abcd"));
	has_record(&zip, "data.pkl", ck_catalog_object(cp->catalog, 3)->pickle);
	ck_zip_fini(&zip);
	ck_buf_fini(&file);
	ck_checkpoint_close(cp);
}

/* An archive without storages. */
static void test_archive_of_text(void)
{
	struct ck_checkpoint *cp = opened();
	struct ck_buf file = { 0 }, json = { 0 };
	struct ck_object_place place;
	struct ck_diag d = { 0 };

	eq_i64(ck_object_place(cp, 2, &place), 0);
	file_read(cp, 2, &file);
	ok(memmem(file.data, file.len, "checkpoint/data.pkl", 19) != NULL);
	ok(memmem(file.data, file.len, "checkpoint/data/0", 17) == NULL);
	eq_err(ck_object_stat(cp, 2, &d), 0);
	ck_buf_fini(&file);
	ck_buf_fini(&json);
	ck_checkpoint_close(cp);
}

/* Values that were read from a file fail with ESTALE after it was replaced. */
static void test_stale(void)
{
	struct ck_checkpoint *cp = opened();
	struct ck_object_gaps gaps;
	struct ck_buf out = { 0 };
	struct ck_slice *s;
	struct ck_diag d = { 0 };
	bool transient;

	put("new", whole, sizeof(whole) - 1);
	eq_i64(renameat(dirfd_, "new", dirfd_, "all.pkl"), 0);
	eq_err(ck_object_json(cp, 0, &out, &d), -ESTALE);
	eq_err(ck_object_item(cp, 0, &out, &gaps, &d), -ESTALE);
	free(gaps.list);
	eq_err(ck_object_stat(cp, 0, &d), -ESTALE);
	eq_err(ck_object_file_slice(cp, 3, CK_OBJECT_ITEM, &s, &transient),
	       -ESTALE);
	eq_u64(out.len, 0);
	ck_buf_fini(&out);
	ck_checkpoint_close(cp);
}

static void test_check(void)
{
	const struct ck_check_options options = { .threads = 1, .full = true };
	struct ck_checkpoint *cp = opened();
	struct ck_findings found;
	struct ck_buf dump = { 0 };
	struct ck_diag d = { 0 };

	eq_err(ck_checkpoint_check(cp, &options, &found, &d), 0);
	eq_u64(found.n, 0);
	eq_u64(found.items, 5);
	ck_findings_fini(&found);
	ck_catalog_dump(cp->catalog, &dump);
	ok(memmem(dump.data, dump.len, " storages=2", 11) != NULL);
	ck_buf_fini(&dump);
	ck_checkpoint_close(cp);
}

/* A storage that ends beyond its file. */
static void test_lost_storage(void)
{
	struct ck_checkpoint *cp;
	struct ck_object_gaps gaps;
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };
	uint64_t size;

	cut = true;
	cp = opened();
	cut = false;
	ok(ck_object_known_faulty(cp, 3));
	ok(!ck_object_known_faulty(cp, 2));
	eq_err(ck_object_item(cp, 3, &out, &gaps, &d), -ENODATA);
	free(gaps.list);
	eq_u64(out.len, 0);
	eq_err(ck_object_file_size(cp, 3, CK_OBJECT_ITEM, &size), 0);
	eq_u64(size, 0);
	eq_err(ck_object_print_fault(cp, 3, true, &out), 0);
	ok(out.len && strstr(out.data, "data at 4"));
	shows(cp, 3, "[" FLOATS(2) "," FLOATS(1) "]\n");
	ck_buf_fini(&out);
	ck_checkpoint_close(cp);
}

/* The mode of an object is limited by the modes of the files of its storages. */
static void test_rights(void)
{
	struct ck_checkpoint *cp;

	mode = 0600;
	cp = opened();
	mode = 0640;
	eq_u64(ck_catalog_object(cp->catalog, 3)->mode & 0777, 0400);
	eq_u64(ck_catalog_object(cp->catalog, 2)->mode & 0777, 0440);
	ck_checkpoint_close(cp);
}

/* An invalid pickle in the catalog gives -EBADMSG. An item of another form has no pickle. */
static void test_faulty(void)
{
	struct ck_catalog *c = ck_catalog_make("values");
	struct ck_item item = { .form = CK_FORM_VALUE };
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };

	eq_err(ck_catalog_object_add(c, CK_STR("a"), &item), 0);
	eq_err(ck_catalog_object_value(c, CK_STR("nothing"), NULL, 0), 0);
	eq_err(ck_value_json(ck_catalog_object(c, 0)->pickle, &out, &d),
	       -EBADMSG);
	item.form = CK_FORM_ARCHIVE;
	eq_err(ck_catalog_object_add(c, CK_STR("b"), &item), 0);
	eq_err(ck_catalog_object_value(c, CK_STR("N."), NULL, 0), -EINVAL);
	ck_buf_fini(&out);
	ck_catalog_put(c);
}

int main(void)
{
	if (!mkdtemp(dir))
		abort();
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)fchmod(dirfd_, 0755);
	test_json();
	test_archive();
	test_archive_of_text();
	test_stale();
	test_check();
	test_lost_storage();
	test_rights();
	test_faulty();
	unlinkat(dirfd_, "all.pkl", 0);
	unlinkat(dirfd_, "data", 0);
	rmdir(dir);
	return tap_done();
}
