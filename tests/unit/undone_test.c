/* SPDX-License-Identifier: MIT */
/*
 * undone: the cache of archives without their stream transforms. It has the last few archives,
 * and only while their file is unchanged.
 *
 *	undone_test DIRECTORY		the fixture zstd
 */
#include "ctime.h"
#include "format/current/undone.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT = 8 };

static struct ck_checkpoint *cp;
static const struct ck_catalog *c;
static const struct ck_tensor *scalar;

/* Gets the item of the tensor from the cache, or undoes its transform. `of` replaces the
 * number of the transform. Returns an error if the file has changed. */
static int get(uint8_t of, struct ck_undone **out, struct ck_stored *stored)
{
	struct ck_item item = *ck_catalog_item(c, scalar->chunk);
	struct ck_item_want want = { .dtype = scalar->dtype,
				     .ndim = scalar->ndim,
				     .size = ck_tensor_box(scalar, 0) };
	struct ck_str transforms = c->transforms[item.transform];
	struct ck_diag d = { 0 };
	int rc = ck_stored_get(cp->files, &item, stored, &d);

	item.transform = of;
	*out = NULL;
	if (rc)
		return rc;
	rc = ck_undone_get(cp->undones, &item, stored, transforms, &want, out,
			   &d);
	return ck_stored_put(stored, rc, &d);
}

/* True if the archive is in the cache. Afterwards it is. */
static bool was_kept(uint8_t of)
{
	struct ck_stored stored;
	struct ck_undone *undone;
	bool kept;

	eq_i64(get(of, &undone, &stored), 0);
	kept = undone && undone->refs == 2;
	eq_u64(undone ? undone->len > 4 : 0, 1);
	ck_undones_keep(cp->undones, undone, true);
	return kept;
}

static void test_few(void)
{
	ok(!was_kept(1));
	ok(was_kept(1));
	for (uint8_t of = 2; of <= KEPT; of++)
		ok(!was_kept(of));
	ok(was_kept(1));
	ok(!was_kept(KEPT + 1));
	ok(was_kept(1));
	ok(!was_kept(2)); /* the least recently used */
	ok(was_kept(KEPT));
}

/* An archive in use stays valid after its eviction. */
static void test_used(void)
{
	struct ck_stored stored;
	struct ck_undone *used, *again;
	uint8_t byte;

	eq_i64(get(1, &used, &stored), 0);
	byte = used ? used->bytes[0] : 0;
	for (uint8_t of = 20; of < 20 + KEPT; of++)
		ok(!was_kept(of));
	eq_u64(used ? used->refs : 0, 1);
	eq_u64(used ? used->bytes[0] : 0, byte);
	eq_i64(get(1, &again, &stored), 0);
	ok(again != used);
	ck_undones_keep(cp->undones, again, true);
	ck_undones_keep(cp->undones, used,
			true); /* `again` stays in the cache */
	ok(was_kept(1));
}

/* A cached archive is not used if the ctime of its file has changed. */
static void test_touched(const char *path)
{
	ok(was_kept(1));
	ctime_chmod(AT_FDCWD, path, 0640);
	ok(!was_kept(1));
	ok(was_kept(1));
}

static void test_changed(const char *path)
{
	const struct timespec times[2] = { { 1000, 5 }, { 1000, 5 } };
	struct ck_stored stored;
	struct ck_undone *undone;

	ok(was_kept(1));
	eq_i64(utimensat(AT_FDCWD, path, times, 0), 0);
	eq_i64(get(1, &undone, &stored), -ESTALE);
	ck_undones_keep(cp->undones, undone, false);
	eq_i64(get(1, &undone, &stored), -ESTALE);
	ok(!undone || undone->refs == 1);
	ck_undones_keep(cp->undones, undone, false);
}

int main(int argc, char **argv)
{
	struct ck_format_options options = { .shardlinks =
						     CK_BENEATH_NO_SYMLINKS };
	char copy[] = "/tmp/ckptfs-undone-XXXXXX", command[512], path[512];
	const struct ck_data_file *file;
	struct ck_diag d = { 0 };

	if (argc != 2 || !mkdtemp(copy))
		return 1;
	snprintf(command, sizeof(command), "cp '%s'/* '%s'/.metadata %s",
		 argv[1], argv[1], copy);
	if (system(command) || ck_checkpoint_open(copy, &options, &cp, &d))
		return 1;
	c = ck_checkpoint_catalog(cp);
	scalar = ck_catalog_tensor(
		c, (uint32_t)ck_catalog_find(c, CK_STR("scalar")));
	file = ck_catalog_file(c, ck_catalog_item(c, scalar->chunk)->file);
	snprintf(path, sizeof(path), "%s/%.*s", copy, (int)file->path.len,
		 file->path.p);
	test_few();
	test_used();
	test_touched(path);
	test_changed(path);
	ck_catalog_put(c);
	ck_checkpoint_close(cp);
	snprintf(command, sizeof(command), "rm -r %s", copy);
	return system(command) ? 1 : tap_done();
}
