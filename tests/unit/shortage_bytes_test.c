/* SPDX-License-Identifier: MIT */
/*
 * As unit shortage, for the inputs of the fuzz corpora: each is read with its
 * first allocation failing, then its second, until it needs no more. It is
 * -ENOMEM or what it is otherwise, and nothing is left behind.
 *
 *	shortage_bytes_test DIRECTORY	with pickle_fuzz, item_fuzz ... in it
 */
#include "ckptfs/value.h"
#include "dcp_parse.h"
#include "format/item/item.h"
#include "model/catalog/catalog_edit.h"
#include "shortage.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>

enum { LONGEST = 1 << 16, DIMS = 8 };

/* One way to read bytes: its errno, and what it gives. */
typedef int reader(const void *bytes, size_t len, struct ck_buf *out);

/* --- readers -------------------------------------------------------------- */

static int read_object(const void *bytes, size_t len, struct ck_buf *out)
{
	struct ck_pickle p = { 0 };
	struct ck_diag d = { 0 };
	int rc = ck_pickle_read(&p, bytes, len, NULL, &d);

	if (rc == 0)
		rc = ck_pickle_json(&p, len, out, &d);
	ck_pickle_fini(&p);
	return rc ? rc : out->err;
}

static int add_file(void *ctx, struct ck_str path, uint32_t *number)
{
	struct ck_catalog *c = ctx;
	struct ck_data_file file = { .path = path, .size = UINT64_C(1) << 40 };

	*number = c->files.n;
	return ck_catalog_file_add(c, &file);
}

static int read_metadata(const void *bytes, size_t len, struct ck_buf *out)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	struct ck_diag d = { 0 };
	int rc;

	if (!c)
		return -ENOMEM;
	rc = dcp_parse(c, bytes, len, add_file, c, &d);
	if (rc == 0)
		rc = ck_catalog_finish(c, &d);
	if (rc == 0)
		ck_buf_printf(out, "%u tensors, %zu entries, %u boxes",
			      c->tensors.n, c->listing->n, c->chunks.n);
	ck_catalog_put(c);
	return rc ? rc : out->err;
}

static int read_memory(void *ctx, void *buf, size_t len, uint64_t ipos)
{
	const struct ck_str *item = ctx;

	memcpy(buf, item->p + ipos, len);
	return 0;
}

/* As the fuzz target: dtype, dimensions, the archive. */
static int read_item(const void *bytes, size_t len, struct ck_buf *out)
{
	const uint8_t *p = bytes;
	int64_t sizes[DIMS];
	struct ck_item_want want = { .size = sizes };
	struct ck_str item;
	struct ck_zip_source src;
	struct ck_diag d = { 0 };
	uint64_t ipos, strides[CK_MAX_DIMS];
	uint16_t change;
	int rc;

	if (len < 2 + DIMS || p[0] & 0x80)
		return 0;
	want.dtype = p[0];
	want.ndim = p[1] % (DIMS + 1);
	for (uint32_t i = 0; i < want.ndim; i++)
		sizes[i] = p[2 + i];
	item = (struct ck_str){ (const char *)p + 2 + want.ndim,
				len - 2 - want.ndim };
	src = (struct ck_zip_source){ &item, read_memory, item.len };
	rc = ck_item_locate(&src, &want, &ipos, strides, &change, &d);
	if (rc == 0)
		ck_buf_printf(out, "at %" PRIu64, ipos);
	else if (rc != -ENOMEM)
		rc = ck_item_json(&src, NULL, out, &d);
	return rc ? rc : out->err;
}

/* --- the inputs ----------------------------------------------------------- */

static bool read_file(int dirfd, const char *name, struct ck_buf *out)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	char *bytes = malloc(LONGEST);
	ssize_t len;

	if (fd < 0 || !bytes)
		abort();
	len = read(fd, bytes, LONGEST);
	if (len > 0)
		ck_buf_add(out, bytes, (size_t)len);
	free(bytes);
	close(fd);
	return len > 0 && len < LONGEST && out->err == 0;
}

/* false: it had no such call. */
static bool fail_one(reader *read_it, const struct ck_buf *in, unsigned n,
		     int rc, const struct ck_buf *want, unsigned *bad)
{
	struct ck_buf got = { 0 };
	int found;

	trap_arm(MEMORY, n, false);
	found = read_it(in->data, in->len, &got);
	trap.on = false;
	if (found != -ENOMEM &&
	    (found != rc ||
	     (rc == 0 && (got.len != want->len ||
			  memcmp(got.data, want->data, got.len) != 0)))) {
		printf("# allocation %u failed: %d, otherwise %d\n", n, found,
		       rc);
		++*bad;
	}
	ck_buf_fini(&got);
	return trap.fired;
}

static unsigned fail_each(reader *read_it, const struct ck_buf *in,
			  unsigned *bad)
{
	struct ck_buf want = { 0 };
	int rc = read_it(in->data, in->len, &want);
	unsigned n = 0;

	if (rc == 0 && want.len == 0)
		return 0; /* not for this reader */
	while (fail_one(read_it, in, n, rc, &want, bad))
		n++;
	ck_buf_fini(&want);
	return n;
}

static void test_corpus(const char *dir, const char *name, reader *read_it)
{
	unsigned inputs = 0, calls = 0, bad = 0;
	const struct dirent *e;
	char path[1024];
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		struct ck_buf in = { 0 };
		unsigned before = bad;

		if (e->d_name[0] != '.' &&
		    read_file(dirfd(d), e->d_name, &in)) {
			calls += fail_each(read_it, &in, &bad);
			inputs++;
		}
		if (bad > before)
			printf("# in %s\n", e->d_name);
		ck_buf_fini(&in);
	}
	if (d)
		closedir(d);
	printf("# %s: each of %u allocations for %u inputs failed\n", name,
	       calls, inputs);
	ok(inputs > 0 && calls > 0);
	eq_u64(bad, 0);
}

/* Lists so long that they leave the arena, many different globals, memo
 * slots, open marks: what grows in a large pickle. */
static void test_large(void)
{
	struct ck_buf in = { 0 };
	unsigned calls, bad = 0;

	for (int list = 0; list < 20; list++) {
		ck_buf_printf(&in, "%s]q%c", list ? "" : "(", list + 1);
		for (int batch = 0; batch < 10; batch++) {
			ck_buf_text(&in, "(");
			for (int i = 0; i < 1000; i++)
				ck_buf_text(&in, "K\x07");
			ck_buf_text(&in, "e");
		}
		ck_buf_printf(&in, "h%c", list + 1);
	}
	for (int i = 0; i < 100; i++)
		ck_buf_printf(&in, "cm\n%d\n)R(I%d000000000000\nt", i, i);
	for (int i = 0; i < 250; i++)
		ck_buf_text(&in, "(0");
	ck_buf_text(&in, "l.");
	calls = fail_each(read_object, &in, &bad);
	printf("# each of %u allocations for %zu bytes failed\n", calls,
	       in.len);
	ok(calls > 40);
	eq_u64(bad, 0);
	ck_buf_fini(&in);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	test_corpus(argv[1], "pickle_fuzz", read_object);
	test_corpus(argv[1], "object_fuzz", read_object);
	test_corpus(argv[1], "metadata_fuzz", read_metadata);
	test_corpus(argv[1], "item_fuzz", read_item);
	test_large();
	return tap_done();
}
