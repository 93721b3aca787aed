/* SPDX-License-Identifier: MIT */
/*
 * shortage: every call that can fail does so, one at a time; under a sanitizer each fourth
 * call outside of the long run. The steps of reading a
 * checkpoint are to open it, to open each tensor and each entry, and to check it. For each
 * step the first call fails, then the second, until the step has no further call.
 *
 * A failed allocation or a missing descriptor may fail a step, with its errno. It must not
 * change the result of a step that succeeds, and the same step succeeds when it is repeated.
 * A failed read fails the step or is reported by it; wrong bytes are never returned.
 *
 *	shortage_test DIRECTORY...	checkpoints, the first of one shard
 */
#include "object_item.h"
#include "read_case.h"
#include "shortage.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- steps ---------------------------------------------------------------- */

enum kind { OPEN, TENSOR, BOXES, JSON, ITEM, ENTRY_FAULT, CHECK, CHECK_FULL };

static const char *const kind_names[] = {
	"open", "tensor",	 "boxes", "json",
	"item", "entry's fault", "check", "check --full",
};

struct step {
	enum kind kind;
	uint32_t i; /* of a tensor or an entry */
};

/* The result of a step: its errno, or its output. */
struct outcome {
	int rc;
	struct ck_buf text;
};

static const char *dir;

static int open_it(struct ck_checkpoint **cp)
{
	static const struct ck_format_options options = { .write = true };
	struct ck_diag d = { 0 };

	return ck_checkpoint_open(dir, &options, cp, &d);
}

/* The bytes of a tensor as a mount would serve them. */
static int do_read(struct ck_checkpoint *cp, uint32_t tensor,
		   const struct ck_layout *layout, struct ck_buf *out)
{
	uint64_t len = ck_tensor_views[1]->size(cp->catalog, tensor);
	ck_auto_free void *bytes = malloc(len + 1);
	int rc = bytes ? read_case(cp, tensor, layout, bytes) : -ENOMEM;

	if (rc)
		return rc;
	ck_buf_add(out, bytes, len);
	return out->err;
}

/* Omits the text of the fault, which is shorter if memory is short. */
static void add_fault(const struct ck_fault *f, struct ck_buf *out)
{
	ck_buf_str(out, f->name);
	ck_buf_printf(out, " %d at %" PRIu64 "; ", f->err, f->pos);
}

/* Writes the faults of all boxes, then the bytes. */
static int do_tensor(struct ck_checkpoint *cp, uint32_t tensor,
		     struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(cp->catalog, tensor);
	const struct ck_layout *layout;
	struct ck_fault f;
	int rc = ck_layout_get(cp, cp->catalog, tensor, NULL, &layout);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < t->nchunks; i++)
		if (ck_box_has_fault(cp, cp->catalog, layout, tensor, i, &f))
			add_fault(&f, out);
	rc = out->err ? out->err : do_read(cp, tensor, layout, out);
	ck_layout_put(cp, layout);
	return rc;
}

static int do_boxes(struct ck_checkpoint *cp, uint32_t tensor,
		    struct ck_buf *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(cp->catalog, tensor);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < t->nchunks; i++) {
		const struct ck_layout *layout;
		struct ck_fault f;

		rc = ck_layout_get(cp, cp->catalog, tensor,
				   (const uint64_t *)ck_tensor_box(t, i),
				   &layout);
		if (rc)
			break;
		if (ck_box_has_fault(cp, cp->catalog, layout, tensor, i, &f))
			add_fault(&f, out);
		ck_layout_put(cp, layout);
	}
	return rc ? rc : out->err;
}

static int do_check(struct ck_checkpoint *cp, bool full, struct ck_buf *out)
{
	const struct ck_check_options options = { .full = full, .threads = 1 };
	struct ck_findings found;
	struct ck_diag d = { 0 };
	int rc = ck_checkpoint_check(cp, &options, &found, &d);

	for (size_t i = 0; i < found.n; i++)
		add_fault(&found.faults[i], out);
	ck_findings_fini(&found);
	return rc ? rc : out->err;
}

static int do_step(struct ck_checkpoint *cp, struct step s, struct ck_buf *out)
{
	struct ck_diag d = { 0 };

	switch (s.kind) {
	case TENSOR: return do_tensor(cp, s.i, out);
	case BOXES: return do_boxes(cp, s.i, out);
	case JSON: return ck_object_json(cp, s.i, out, &d);
	case ITEM: return object_item(cp, s.i, out, &d);
	case ENTRY_FAULT: return ck_object_print_fault(cp, s.i, true, out);
	case CHECK: return do_check(cp, false, out);
	case CHECK_FULL: return do_check(cp, true, out);
	case OPEN: break;
	}
	abort();
}

static struct outcome run(struct ck_checkpoint *cp, struct step s)
{
	struct outcome out = { 0 };

	out.rc = do_step(cp, s, &out.text);
	if (out.rc)
		out.text.len = 0;
	if (!out.rc && out.text.err)
		out.rc = out.text.err;
	return out;
}

static bool same(const struct outcome *a, const struct outcome *b)
{
	return a->rc == b->rc && a->text.len == b->text.len &&
	       (a->text.len == 0 ||
		memcmp(a->text.data, b->text.data, a->text.len) == 0);
}

/* --- one step, each of its calls failing -------------------------------------- */

struct want {
	enum what what;
	int rc; /* expected error of the step; 0: any */
	bool for_good;
};

/* True if a step with a failed call may have this result. */
static bool is_fine(const struct want *w, struct step s,
		    const struct outcome *got, const struct outcome *truth)
{
	if (w->what == READS &&
	    (s.kind == CHECK || s.kind == CHECK_FULL || s.kind == ENTRY_FAULT))
		return got->rc || got->text.len || same(got, truth);
	if (w->what == READS && got->rc)
		return true;
	return got->rc == w->rc || same(got, truth);
}

static void complain(const char *when, const struct want *w, struct step s,
		     unsigned n, const struct outcome *got)
{
	printf("# %s: %s %u, %s, call %u%s %s: %d \"%.*s\"\n", dir,
	       kind_names[s.kind], s.i, what_names[w->what], n,
	       w->for_good ? " and on" : "", when, got->rc,
	       (int)(got->text.len < 200 ? got->text.len : 200),
	       got->text.data ? got->text.data : "");
}

/* Runs a step in which call n fails. False if it has no such call. */
static bool fail_one(const struct want *w, struct step s, unsigned n,
		     const struct outcome *truth, unsigned *bad)
{
	struct ck_checkpoint *cp;
	struct outcome got, again;

	if (open_it(&cp))
		abort();
	trap_arm(w->what, n, w->for_good);
	got = run(cp, s);
	trap.on = false;
	if (!is_fine(w, s, &got, truth)) {
		complain("failed", w, s, n, &got);
		++*bad;
	}
	again = run(cp, s);
	if (w->what != READS && !same(&again, truth)) {
		complain("had failed", w, s, n, &again);
		++*bad;
	}
	ck_buf_fini(&got.text);
	ck_buf_fini(&again.text);
	ck_checkpoint_close(cp);
	return trap.fired;
}

/* The first call of a step that fails, and the distance to the next one. */
static unsigned distance(void)
{
	return tap_is_long() ? 1 : TAP_SLOW ? 8 : 2;
}

static unsigned first(struct step s)
{
	return (s.i + (unsigned)s.kind) % distance();
}

static void fail_step(const struct want *w, struct step s, unsigned *calls,
		      unsigned *bad)
{
	struct ck_checkpoint *cp;
	struct outcome truth;
	unsigned n = first(s);

	if (open_it(&cp))
		abort();
	truth = run(cp, s);
	ck_checkpoint_close(cp);
	while (fail_one(w, s, n, &truth, bad)) {
		n += distance();
		++*calls;
	}
	ck_buf_fini(&truth.text);
}

/* Opens a checkpoint while call n fails. If the open succeeds, the result is complete. */
static bool fail_open(const struct want *w, unsigned n,
		      const struct outcome *truth, unsigned *bad)
{
	const struct step all = { .kind = CHECK };
	struct ck_checkpoint *cp = NULL;
	struct outcome got = { 0 };

	trap_arm(w->what, n, w->for_good);
	got.rc = open_it(&cp);
	trap.on = false;
	if (got.rc == 0) {
		got = run(cp, all);
		ck_checkpoint_close(cp);
	}
	if (!is_fine(w, all, &got, truth)) {
		complain("failed opening", w, (struct step){ .kind = OPEN }, n,
			 &got);
		++*bad;
	}
	ck_buf_fini(&got.text);
	return trap.fired;
}

static void fail_all(const struct want *w, size_t ntensors, size_t nobjects)
{
	static const enum kind of_tensor[] = { TENSOR, BOXES };

	static const enum kind of_entry[] = { JSON, ITEM, ENTRY_FAULT };

	unsigned calls = 0, bad = 0, n = 0;
	struct outcome truth;
	struct ck_checkpoint *cp;

	if (open_it(&cp))
		abort();
	truth = run(cp, (struct step){ .kind = CHECK });
	ck_checkpoint_close(cp);
	while (fail_open(w, n, &truth, &bad)) {
		n += distance();
		calls++;
	}
	ck_buf_fini(&truth.text);
	for (uint32_t i = 0; i < ntensors; i++)
		for (size_t k = 0; k < CK_ARRAY_SIZE(of_tensor); k++)
			fail_step(w, (struct step){ of_tensor[k], i }, &calls,
				  &bad);
	for (uint32_t i = 0; i < nobjects; i++)
		for (size_t k = 0; k < CK_ARRAY_SIZE(of_entry); k++)
			fail_step(w, (struct step){ of_entry[k], i }, &calls,
				  &bad);
	fail_step(w, (struct step){ .kind = CHECK }, &calls, &bad);
	fail_step(w, (struct step){ .kind = CHECK_FULL }, &calls, &bad);
	printf("# %s: %s: %u calls failed, one at a time%s\n", dir,
	       what_names[w->what], calls,
	       w->for_good ? ", with all that follow" : "");
	ok(calls > 0);
	eq_u64(bad, 0);
}

static void test_directory(void)
{
	static const struct want wants[] = {
		{ MEMORY, -ENOMEM, false },
		{ MEMORY, -ENOMEM, true },
		{ DESCRIPTORS, -EMFILE, false },
		{ DESCRIPTORS, -EMFILE, true },
		{ READS, 0, false },
	};
	struct ck_checkpoint *cp;
	size_t ntensors, nobjects;

	if (open_it(&cp))
		abort();
	ntensors = cp->catalog->tensors.n;
	nobjects = cp->catalog->objects.n;
	ck_checkpoint_close(cp);
	for (size_t i = 0; i < CK_ARRAY_SIZE(wants); i++)
		fail_all(&wants[i], ntensors, nobjects);
}

/* --- a checkpoint with faults ------------------------------------------------- */

static char damaged[] = "/tmp/ckptfs-shortage-XXXXXX";

static void copy_file(const char *name)
{
	static char bytes[1 << 16];
	char path[512];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = read(fd, bytes, sizeof(bytes));
	close(fd);
	snprintf(path, sizeof(path), "%s/%s", damaged, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || len < 0 || write(fd, bytes, (size_t)len) != len)
		abort();
	close(fd);
}

static void spoil(int fd, uint64_t at)
{
	uint8_t byte;

	if (pread(fd, &byte, 1, (off_t)at) != 1)
		abort();
	byte ^= 0xff;
	if (pwrite(fd, &byte, 1, (off_t)at) != 1)
		abort();
}

/* Damages the header of one tensor's item, and one element of another tensor. */
static void damage(const char *shard)
{
	const struct ck_layout *layout;
	struct ck_checkpoint *cp;
	char path[512];
	int fd;

	copy_file(".metadata");
	copy_file(shard);
	snprintf(path, sizeof(path), "%s/%s", damaged, shard);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (open_it(&cp) || ck_layout_get(cp, cp->catalog, 1, NULL, &layout))
		abort();
	spoil(fd, ck_catalog_item(cp->catalog,
				  ck_catalog_tensor(cp->catalog, 0)->chunk)
			  ->fpos);
	spoil(fd, layout->extents[0].pos);
	ck_layout_put(cp, layout);
	ck_checkpoint_close(cp);
	close(fd);
}

static void test_damaged(const char *from)
{
	static const char shard[] = "__0_0.distcp";
	struct ck_checkpoint *cp;
	struct outcome faults;
	char path[512];

	dir = from;
	if (!mkdtemp(damaged))
		abort();
	damage(shard);
	dir = damaged;
	if (open_it(&cp))
		abort();
	faults = run(cp, (struct step){ .kind = CHECK_FULL });
	ok(faults.rc == 0 && faults.text.len > 0);
	ck_buf_fini(&faults.text);
	ck_checkpoint_close(cp);
	test_directory();
	snprintf(path, sizeof(path), "%s/%s", damaged, shard);
	unlink(path);
	snprintf(path, sizeof(path), "%s/.metadata", damaged);
	unlink(path);
	rmdir(damaged);
}

int main(int argc, char **argv)
{
	ck_log_detach();
	if (argc < 2)
		return 2;
	for (int i = 1; i < argc; i++) {
		dir = argv[i];
		test_directory();
	}
	test_damaged(argv[1]);
	return tap_done();
}
