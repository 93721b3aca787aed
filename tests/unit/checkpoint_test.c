/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint in a directory of its own: which changes of its files count as a new save, and
 * which metadata files are accepted. Then entries of an unknown class, missing shards, and
 * checks by several threads.
 *
 *	checkpoint_test DIRECTORY	a checkpoint of one shard, __0_0.distcp
 */
#include "ckptfs/format.h"
#include "ctime.h"
#include "object_item.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLASS(name) "ctorch.distributed.checkpoint.metadata\n" name "\n)\x81"

static char dir[] = "/tmp/ckptfs-checkpoint-XXXXXX";
static int dirfd_;
static struct ck_buf metadata, shard; /* of DIRECTORY */

/* --- files ------------------------------------------------------------------- */

static void read_file(const char *from, const char *name, struct ck_buf *out)
{
	char path[512], part[1024];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", from, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while ((n = read(fd, part, sizeof(part))) > 0)
		ck_buf_add(out, part, (size_t)n);
	if (fd < 0 || n < 0 || out->err)
		abort();
	close(fd);
}

static void write_file(const char *name, const void *bytes, size_t len)
{
	int fd = openat(dirfd_, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0600);

	if (fd < 0 || ck_write_full(fd, bytes, len))
		abort();
	close(fd);
}

/* Restores the files of DIRECTORY. */
static void restore(void)
{
	unlinkat(dirfd_, ".metadata", 0);
	write_file(".metadata", metadata.data, metadata.len);
	write_file("__0_0.distcp", shard.data, shard.len);
}

static int open_as(enum ck_beneath links, struct ck_checkpoint **cp,
		   struct ck_diag *d)
{
	struct ck_format_options options = { .shardlinks = links };

	*d = (struct ck_diag){ 0 };
	return ck_checkpoint_open(dir, &options, cp, d);
}

static struct ck_checkpoint *opened(void)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;

	if (open_as(CK_BENEATH_NO_SYMLINKS, &cp, &d))
		abort();
	return cp;
}

/* --- changes -------------------------------------------------------------------- */

static void set_mtime(time_t sec, long nsec)
{
	struct timespec times[2] = { { 0, UTIME_OMIT }, { sec, nsec } };

	if (utimensat(dirfd_, ".metadata", times, 0))
		abort();
}

static void move_metadata(void)
{
	write_file("new", metadata.data, metadata.len);
	if (renameat(dirfd_, "new", dirfd_, ".metadata"))
		abort();
	set_mtime(1000, 5);
}

static void append_metadata(void)
{
	int fd = openat(dirfd_, ".metadata", O_WRONLY | O_APPEND | O_CLOEXEC);

	if (write(fd, "x", 1) != 1)
		abort();
	close(fd);
	set_mtime(1000, 5);
}

static void touch_second(void)
{
	set_mtime(1001, 5);
}

static void touch_nanosecond(void)
{
	set_mtime(1000, 6);
}

static void remove_metadata(void)
{
	unlinkat(dirfd_, ".metadata", 0);
}

/* Makes stat(2) of `.metadata` fail with ELOOP. */
static void loop_metadata(void)
{
	unlinkat(dirfd_, ".metadata", 0);
	if (symlinkat(".metadata", dirfd_, ".metadata"))
		abort();
}

static void move_directory(void)
{
	char moved[sizeof(dir) + 4];

	snprintf(moved, sizeof(moved), "%s.new", dir);
	if (rename(dir, moved))
		abort();
}

static void move_back(void)
{
	char moved[sizeof(dir) + 4];

	snprintf(moved, sizeof(moved), "%s.new", dir);
	(void)rename(moved, dir);
}

/* Backup programs change the ctime of a file by a hard link. */
static void chmod_metadata(void)
{
	ctime_chmod(dirfd_, ".metadata", 0640);
}

static void write_same(void)
{
	ctime_write(dirfd_, ".metadata", metadata.data, metadata.len, 0);
}

/* Writes other bytes in place and restores the times, as `cp -p` does. */
static void write_other(void)
{
	const char last = metadata.data[metadata.len - 1] ^ 1;

	ctime_write(dirfd_, ".metadata", &last, 1, (off_t)metadata.len - 1);
}

static void test_changes(void)
{
	static const struct {
		void (*make)(void);
		enum ck_fate change;
		int same, err; /* of ck_checkpoint_same(); errno of the fate */
	} changes[] = {
		{ touch_second, CK_FATE_SAVED, -ESTALE, 0 },
		{ touch_nanosecond, CK_FATE_SAVED, -ESTALE, 0 },
		{ append_metadata, CK_FATE_SAVED, -ESTALE, 0 },
		{ move_metadata, CK_FATE_SAVED, -ESTALE, 0 },
		{ remove_metadata, CK_FATE_NO_METADATA, -ESTALE, 0 },
		{ loop_metadata, CK_FATE_UNSEEN, -ELOOP, ELOOP },
		{ move_directory, CK_FATE_MOVED, 0, 0 },
		{ chmod_metadata, CK_FATE_NONE, 0, 0 },
		{ write_same, CK_FATE_NONE, 0, 0 },
		{ write_other, CK_FATE_SAVED, -ESTALE, 0 },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(changes); i++) {
		struct ck_checkpoint *cp;
		struct ck_diag d = { 0 };
		int err = -1;

		restore();
		set_mtime(1000, 5);
		cp = opened();
		eq_err(ck_checkpoint_same(cp, &d), 0);
		eq_i64(ck_checkpoint_fate(cp, &err), CK_FATE_NONE);
		eq_i64(err, 0);
		changes[i].make();
		eq_err(ck_checkpoint_same(cp, &d), changes[i].same);
		eq_i64(ck_checkpoint_fate(cp, &err), changes[i].change);
		eq_i64(err, changes[i].err);
		eq_i64(ck_checkpoint_fate(cp, &err), changes[i].change);
		ck_checkpoint_close(cp);
		move_back();
	}
	restore();
}

/* A new directory at the path of a removed checkpoint is not that checkpoint. */
static void test_removed(void)
{
	struct ck_checkpoint *cp = opened();
	struct ck_diag d = { 0 };
	int err;

	unlinkat(dirfd_, ".metadata", 0);
	unlinkat(dirfd_, "__0_0.distcp", 0);
	close(dirfd_);
	if (rmdir(dir))
		abort();
	eq_err(ck_checkpoint_same(cp, &d), -ESTALE);
	ok(strstr(d.text, ".metadata was removed") != NULL);
	eq_i64(ck_checkpoint_fate(cp, &err), CK_FATE_NO_DIRECTORY);
	if (mkdir(dir, 0700))
		abort();
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	restore();
	eq_i64(ck_checkpoint_fate(cp, &err), CK_FATE_NO_DIRECTORY);
	ck_checkpoint_close(cp);
}

/* --- accepted metadata files ---------------------------------------------------- */

static void link_to(const char *target)
{
	unlinkat(dirfd_, ".metadata", 0);
	if (symlinkat(target, dirfd_, ".metadata"))
		abort();
}

static void test_metadata_links(void)
{
	static const struct {
		const char *target;
		enum ck_beneath links;
		int rc;
		const char *words;
	} rows[] = {
		{ "here", CK_BENEATH_NO_SYMLINKS, -ELOOP, "shardlinks" },
		{ "here", CK_BENEATH_SYMLINKS, 0, "" },
		{ "/etc/passwd", CK_BENEATH_SYMLINKS, -EXDEV, "leads out" },
		{ "nowhere", CK_BENEATH_SYMLINKS, -ENOENT, "No such file" },
	};

	write_file("here", metadata.data, metadata.len);
	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct ck_checkpoint *cp = NULL;
		struct ck_diag d;

		link_to(rows[i].target);
		eq_err(open_as(rows[i].links, &cp, &d), rows[i].rc);
		printf("# %s\n", d.text);
		ok(strstr(d.text, rows[i].words) != NULL);
		ck_checkpoint_close(cp);
	}
	unlinkat(dirfd_, "here", 0);
	restore();
}

static void test_metadata_too_long(void)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;
	int fd = openat(dirfd_, ".metadata", O_WRONLY | O_CLOEXEC);

	if (ftruncate(fd, (4LL << 30) + 1))
		abort(); /* a hole */
	close(fd);
	eq_err(open_as(CK_BENEATH_NO_SYMLINKS, &cp, &d), -EBADMSG);
	ok(strstr(d.text, "at most") != NULL);
	restore();
}

static void test_no_directory(void)
{
	static const struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp;
	struct ck_diag d = { 0 };

	eq_err(ck_checkpoint_open("/nonexistent", &options, &cp, &d), -ENOENT);
	eq_err(ck_checkpoint_open("/etc/passwd", &options, &cp, &d), -EBADMSG);
	remove_metadata();
	eq_err(open_as(CK_BENEATH_NO_SYMLINKS, &cp, &d), -EBADMSG);
	restore();
}

/* --- entries of an unknown class ------------------------------------------------ */

/* Writes two entries of 10 bytes: the first is in the shard, the second past its end. */
static void write_unknown(void)
{
	struct ck_buf b = { 0 };

	ck_buf_text(&b, CLASS("Metadata") "}(Vstate_dict_metadata\n(");
	ck_buf_text(&b, "Vgood\ncm\nC\n)\x81Vbeyond\ncm\nC\n)\x81"
			"dVstorage_data\n(");
	for (int i = 0; i < 2; i++) {
		ck_buf_text(&b, CLASS("MetadataIndex"));
		ck_buf_printf(&b, "}Vfqn\nV%s\nsb", i ? "beyond" : "good");
		ck_buf_text(&b, "ctorch.distributed.checkpoint.filesystem\n"
				"_StorageInfo\n)\x81}(Vrelative_path\n"
				"V__0_0.distcp\nVoffset\n");
		ck_buf_printf(&b, "I%d\nVlength\nI10\nub", i ? 1 << 20 : 0);
	}
	ck_buf_text(&b, "dub.");
	write_file(".metadata", b.data, b.len);
	ck_buf_fini(&b);
}

/* The bytes of such an item can be read if the shard has them. Its value cannot be decoded. */
static void test_unknown_class(void)
{
	struct ck_object_place place;
	struct ck_checkpoint *cp;

	write_unknown();
	cp = opened();
	eq_u64(cp->catalog->objects.n, 2);
	for (uint32_t i = 0; i < cp->catalog->objects.n; i++) {
		const struct ck_object *o = ck_catalog_object(cp->catalog, i);
		bool good = o->item.fpos == 0;
		struct ck_buf out = { 0 };
		struct ck_diag d = { 0 };

		eq_err(object_item(cp, i, &out, &d), good ? 0 : -ENODATA);
		eq_mem(out.data, out.len, shard.data, good ? 10 : 0);
		eq_err(ck_object_json(cp, i, &out, &d), -EBADMSG);
		printf("# %s\n", d.text);
		ok(strstr(d.text, "unknown class") != NULL);
		eq_i64(ck_object_place(cp, i, &place), 1);
		ok(ck_object_known_faulty(cp, i));
		ck_buf_fini(&out);
	}
	ck_checkpoint_close(cp);
	restore();
}

/* --- missing shards ------------------------------------------------------------- */

static void test_missing_shard(void)
{
	struct ck_object_place place;
	struct ck_checkpoint *cp;
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };

	unlinkat(dirfd_, "__0_0.distcp", 0);
	cp = opened();
	ok(cp->catalog->objects.n > 0);
	eq_err(object_item(cp, 0, &out, &d), -ENODATA);
	eq_err(ck_object_json(cp, 0, &out, &d), -ENODATA);
	eq_err(ck_object_place(cp, 0, &place), -ENODATA);
	eq_u64(out.len, 0);
	ck_buf_fini(&out);
	ck_checkpoint_close(cp);
	restore();
}

/* The shard is removed after it was opened. */
static void test_shard_gone(void)
{
	struct ck_checkpoint *cp = opened();
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };

	unlinkat(dirfd_, "__0_0.distcp", 0);
	eq_err(object_item(cp, 0, &out, &d), -ESTALE);
	eq_err(ck_object_json(cp, 0, &out, &d), -ESTALE);
	ok(!ck_object_known_faulty(cp, 0)); /* the loss may be transient */
	eq_err(ck_object_print_fault(cp, 0, true, &out), 0);
	ok(out.len > 0);
	ck_buf_fini(&out);
	ck_checkpoint_close(cp);
	restore();
}

/* --- layouts -------------------------------------------------------------------- */

static void test_known_layouts(void)
{
	struct ck_checkpoint *cp = opened();
	const struct ck_layout *first, *again;
	uint64_t seen, items;

	ok(ck_layout_known(cp, cp->catalog, 0) == NULL);
	ck_layout_put(cp, NULL);
	eq_err(ck_layout_get(cp, cp->catalog, 0, NULL, &first), 0);
	again = ck_layout_known(cp, cp->catalog, 0);
	ok(again == first);
	ck_layout_put(cp, again);
	ck_layout_put(cp, first);
	ck_layouts_count(cp, &seen, &items);
	eq_u64(seen, ck_catalog_tensor(cp->catalog, 0)->nchunks);
	ok(items > seen);
	ck_checkpoint_close(cp);
}

/* --- checks --------------------------------------------------------------------- */

/* The first call, before an item is read, has the totals. */
static void note_progress(void *arg, const struct ck_check_progress *p)
{
	struct ck_check_progress *last = arg;

	eq_u64(p->items, last->items_total ? last->items + 1 : 0);
	ok(p->items_total > 0);
	*last = *p;
}

static void test_check_threads(void)
{
	static const unsigned threads[] = { 0, 1, 3, 1000 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(threads); i++) {
		struct ck_check_progress last = { 0 };
		struct ck_check_options options = { .full = true,
						    .threads = threads[i],
						    .progress = note_progress,
						    .arg = &last };
		struct ck_checkpoint *cp = opened();
		struct ck_findings found;
		struct ck_diag d = { 0 };

		eq_err(ck_checkpoint_check(cp, &options, &found, &d), 0);
		eq_u64(found.n, 0);
		eq_u64(found.items, found.items_total);
		eq_u64(last.items, last.items_total);
		eq_u64(last.bytes, last.bytes_total);
		ck_findings_fini(&found);
		ck_checkpoint_close(cp);
	}
}

/* The order of findings does not depend on the number of threads: entries by name, and their
 * boxes and records by offset. */
static void test_check_order(void)
{
	struct ck_buf texts[2] = { { 0 } };

	for (size_t i = 16; i < shard.len; i += 97)
		shard.data[i] ^= 1;
	write_file("__0_0.distcp", shard.data, shard.len);
	for (size_t i = 0; i < 2; i++) {
		struct ck_check_options options = { .full = true,
						    .threads = i ? 8 : 1 };
		struct ck_checkpoint *cp = opened();
		struct ck_findings found;
		struct ck_diag d = { 0 };

		eq_err(ck_checkpoint_check(cp, &options, &found, &d), 0);
		ok(found.n > 1);
		for (size_t k = 0; k < found.n; k++) {
			ck_buf_text(&texts[i], "# ");
			ck_fault_print(&found.faults[k], true, &texts[i]);
			ck_buf_text(&texts[i], "\n");
		}
		ck_findings_fini(&found);
		ck_checkpoint_close(cp);
	}
	fputs(texts[0].data, stdout);
	eq_text(texts[1].data, texts[0].data);
	ck_buf_fini(&texts[0]);
	ck_buf_fini(&texts[1]);
	for (size_t i = 16; i < shard.len; i += 97)
		shard.data[i] ^= 1;
	restore();
}

/* Regression: boxes were sorted by address, but tensors may share their arrays of boxes. */
static void test_findings_order(void)
{
	static const int64_t boxes[3][2] = { { 8, 1 }, { 4, 1 }, { 4, 2 } };
	const uint32_t order[] = { 1, 2, 0 };
	struct ck_findings f = { 0 };
	unsigned wrong = 0;

	for (uint32_t i = 0; i < 3; i++)
		eq_err(ck_findings_add(
			       &f, &(struct ck_fault){ .name = CK_STR("w"),
						       .box = boxes[i],
						       .ndim = 1,
						       .what = CK_STR("") }),
		       0);
	ck_findings_sort(&f);
	for (uint32_t i = 0; i < 3; i++)
		wrong += f.faults[i].box != boxes[order[i]];
	eq_u64(wrong, 0);
	ck_findings_fini(&f);
}

int main(int argc, char **argv)
{
	if (argc != 2 || !mkdtemp(dir))
		return 2;
	ck_log_detach();
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	read_file(argv[1], ".metadata", &metadata);
	read_file(argv[1], "__0_0.distcp", &shard);
	restore();
	test_changes();
	test_removed();
	test_metadata_links();
	test_metadata_too_long();
	test_no_directory();
	test_unknown_class();
	test_missing_shard();
	test_shard_gone();
	test_known_layouts();
	test_check_threads();
	test_check_order();
	unlinkat(dirfd_, ".metadata", 0);
	unlinkat(dirfd_, "__0_0.distcp", 0);
	close(dirfd_);
	rmdir(dir);
	ck_buf_fini(&metadata);
	ck_buf_fini(&shard);
	test_findings_order();
	return tap_done();
}
