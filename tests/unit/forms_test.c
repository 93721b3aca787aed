/* SPDX-License-Identifier: MIT */
/*
 * Items that need no header (blobs, elements at known strides) and replicas, read through
 * layouts and compared with brute force over random sharded tensors. The fault of an item is
 * reported, and its replica is read.
 */
#include "format/current/current.h"
#include "format/current/layout_internal.h"
#include "format/kind.h"
#include "model/catalog/fault.h"
#include "read_case.h"
#include "world.h"

static uint64_t no_rank(const struct ck_checkpoint *cp, uint32_t file)
{
	(void)cp, (void)file;
	return CK_NO_RANK;
}

static const struct ck_format format = { .name = "test", .rank = no_rank };

/* One random tensor in a checkpoint, and the location of the elements of each box. */
struct stored {
	struct ck_catalog *c; /* cp's */
	struct boxes b;
	struct ck_checkpoint cp;
	uint64_t next[NFILES]; /* first offset without a blob */
	struct ck_item good[BOXES_MAX];
	bool lost[BOXES_MAX];
};

static void must(int rc)
{
	if (rc)
		abort();
}

static bool is_empty(struct boxes *b, uint32_t i)
{
	return boxes_box_volume(b, i) == 0;
}

/* --- random items ------------------------------------------------------------- */

/* A random location for box i. Blobs do not overlap. */
static struct ck_item random_item(struct stored *s, uint32_t i, bool blob,
				  uint64_t *random)
{
	uint32_t file = (uint32_t)boxes_below(random, NFILES);
	struct ck_item item = { .file = file,
				.form = blob ? CK_FORM_BLOB : CK_FORM_ELEMENTS,
				.length = s->b.span[i] };

	if (is_empty(&s->b, i))
		item.length = 0;
	item.fpos = blob ? s->next[file]
			 : boxes_below(random, FILE_BYTES - item.length + 1);
	s->next[file] += blob ? item.length : 0;
	return item;
}

/* Makes an item unreadable. Only a blob may move: an archive that moves could share bytes with a
 * blob, and both would be EIO. */
static struct ck_item spoil(struct ck_item item, uint64_t *random)
{
	uint64_t ways = item.form == CK_FORM_BLOB ? 4 : 3;

	switch (boxes_below(random, item.length ? ways : 2)) {
	case 0: item.file = CK_NO_FILE; break;
	case 1: item.file = BIG + 1; break; /* a missing file */
	case 2: item.length--; break;
	default: item.form = CK_FORM_ARCHIVE;
	}
	return item;
}

static void add_box(struct stored *s, uint32_t i, uint64_t *random)
{
	struct ck_catalog *c = s->c;
	const int64_t *box = boxes_at(&s->b, i);
	bool blob = s->b.dense && boxes_one_in(random, 2);
	struct ck_item first = random_item(s, i, blob, random), second;
	struct ck_item there;
	bool bad = !is_empty(&s->b, i) && boxes_one_in(random, 3);
	bool replica = boxes_one_in(random, 2);

	s->good[i] = first;
	there = bad ? spoil(first, random) : first;
	must(ck_catalog_chunk_add(c, box, box + s->b.ndim, &there));
	if (!s->b.dense)
		must(ck_catalog_strides_add(c, s->b.strides +
						       (size_t)i * s->b.ndim));
	s->lost[i] = bad;
	if (!replica)
		return;
	second = random_item(s, i, false, random);
	if (boxes_one_in(random, 4)) {
		second = spoil(second, random);
	} else if (bad) {
		s->good[i] = second;
		s->lost[i] = false;
	} else {
		/* both are used in turn, so their bytes must be equal */
		second = first;
	}
	must(ck_catalog_replica_add(c, &second));
}

/* Opens the files of the world, all of which are in the catalog. */
static void begin(struct ck_checkpoint *cp, struct ck_catalog *c)
{
	pthread_mutex_init(&cp->changing, NULL);
	pthread_mutex_init(&cp->lock, NULL);
	cp->files = files_open();
	for (uint32_t i = 0; i < ck_files_count(cp->files); i++) {
		struct ck_data_file file = ck_file_described(cp, i);

		must(ck_catalog_file_add(c, &file));
	}
}

static void stored_make(struct stored *s, uint8_t dtype, uint64_t *random)
{
	struct ck_checkpoint *cp = &s->cp;

	memset(s, 0, sizeof(*s));
	boxes_make(&s->b, ck_dtype_at(dtype)->size, random);
	cp->format = &format;
	cp->catalog = s->c = ck_catalog_make("test");
	must(!s->c);
	begin(cp, s->c);
	must(ck_catalog_tensor_add(s->c, CK_STR("t"),
				   ck_str_from(ck_dtype_at(dtype)->name),
				   s->b.ndim, (const int64_t *)s->b.shape));
	for (uint32_t i = 0; i < s->b.n; i++)
		add_box(s, i, random);
	must(ck_catalog_finish(s->c, NULL));
	cp->layouts = ck_layouts_make(cp->catalog);
	cp->items_read = ck_items_read_make(cp->catalog);
	must(!cp->layouts || !cp->items_read);
}

static void stored_free(struct stored *s)
{
	ck_layouts_free(s->cp.layouts);
	ck_items_read_free(s->cp.items_read);
	ck_catalog_put(s->cp.catalog);
	ck_files_free(s->cp.files);
	pthread_mutex_destroy(&s->cp.changing);
	pthread_mutex_destroy(&s->cp.lock);
}

/* --- comparison ------------------------------------------------------------------ */

/* True if rc is 0 and all bytes are right, or rc is an error and an element is lost. */
static bool is_right(struct stored *s, const uint8_t *bytes, int rc)
{
	struct boxes *b = &s->b;
	uint64_t n = boxes_volume(b->shape, b->ndim);
	const uint64_t zeros[BOXES_DIMS] = { 0 };
	bool lost = false, right = true;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t index[BOXES_DIMS], src;
		const struct ck_item *item;
		int64_t box;

		boxes_index(b->ndim, zeros, b->shape, i, index);
		box = boxes_find(b, index, &src);
		if (box < 0 || s->lost[box]) {
			lost = true;
			continue;
		}
		item = &s->good[box];
		right &= rc || memcmp(bytes + i * b->item,
				      content[item->file] + item->fpos + src,
				      b->item) == 0;
	}
	return lost ? rc < 0 : rc == 0 && right;
}

static bool check(struct stored *s, bool plant)
{
	const struct ck_tensor *t = ck_catalog_tensor(s->cp.catalog, 0);
	uint8_t *bytes;
	bool right;
	int rc;

	if (t->err) /* a missing box has its own tests */
		return !plant;
	bytes = calloc(1, t->nbytes + 1);
	if (!bytes)
		abort();
	rc = read_case(&s->cp, 0, NULL, bytes);
	if (plant && t->nbytes)
		bytes[t->nbytes / 2] ^= 1;
	right = is_right(s, bytes, rc);
	free(bytes);
	return right;
}

static void test_random(void)
{
	static const char *const names[] = { "float32", "bfloat16", "uint8",
					     "complex128" };
	uint64_t cases = tap_cases("CKPTFS_CASES", TAP_SLOW ? 1000 : 3000,
				   TAP_SLOW ? 10000 : 200000);
	uint64_t random = tap_seed(48) | 1;
	unsigned wrong = 0, caught = 0;
	static struct stored s;

	for (uint64_t i = 0; i < cases; i++) {
		stored_make(&s, dtype_of(names[i % 4]), &random);
		wrong += !check(&s, false);
		caught += i % 8 == 0 && !check(&s, true);
		stored_free(&s);
	}
	printf("# %" PRIu64 " tensors; of %" PRIu64
	       " planted faults %u found\n",
	       cases, cases / 8, caught);
	eq_u64(wrong, 0);
	ok(caught > cases / 8 / 4); /* other cases lack a box */
}

/* --- single cases ----------------------------------------------------------------- */

/* Makes a tensor of four bytes whose item is `item`, with a replica. */
static void row_make(struct stored *s, struct ck_item item,
		     const struct ck_item *replica)
{
	static const int64_t box[] = { 0, 4 };
	struct ck_catalog *c = ck_catalog_make("test");

	memset(s, 0, sizeof(*s));
	must(!c);
	s->cp.format = &format;
	s->cp.catalog = s->c = c;
	begin(&s->cp, c);
	must(ck_catalog_tensor_add(c, CK_STR("t"), CK_STR("uint8"), 1,
				   box + 1));
	must(ck_catalog_chunk_add(c, box, box + 1, &item));
	if (replica)
		must(ck_catalog_replica_add(c, replica));
	must(ck_catalog_finish(c, NULL));
	s->cp.layouts = ck_layouts_make(c);
	s->cp.items_read = ck_items_read_make(c);
}

static void test_words(void)
{
	static struct stored s;
	struct ck_buf line = { 0 };
	struct ck_fault f;

	row_make(&s, (struct ck_item){ .length = 5, .form = CK_FORM_BLOB },
		 NULL);
	ok(ck_box_has_fault(&s.cp, s.c, NULL, 0, 0, &f));
	ck_fault_print(&f, true, &line);
	eq_text(line.data,
		"t: EBADMSG: box [0] [4]: its elements do not fit into its "
		"item; f0 at 0; expected 4 bytes, found 5");
	ck_buf_fini(&line);
	stored_free(&s);
}

/* Damage that is found by a read: the replica is read. If both are damaged, the fault of the
 * first is reported. An item written by a commit has no replica. */
static void test_later(void)
{
	const struct ck_item good = {
		.length = 4, .fpos = 9, .file = 1, .form = CK_FORM_BLOB
	};
	const struct ck_item archive = { .length = 9 };
	static struct stored s;
	const struct ck_layout *layout;
	uint8_t bytes[4];
	struct ck_fault f;

	row_make(&s, archive, &good);
	eq_err(read_case(&s.cp, 0, NULL, bytes), 0);
	ok(memcmp(bytes, content[1] + 9, 4) == 0);
	eq_err(ck_layout_get(&s.cp, s.c, 0, NULL, &layout), 0);
	ok(!layout->faulty && layout->extents[0].file == 1);
	ck_layout_put(&s.cp, layout);
	stored_free(&s);

	row_make(&s, archive, &archive);
	eq_err(read_case(&s.cp, 0, NULL, bytes), -EBADMSG);
	eq_err(ck_layout_get(&s.cp, s.c, 0, NULL, &layout), 0);
	ok(layout->faulty && ck_box_has_fault(&s.cp, s.c, layout, 0, 0, &f));
	ok(strstr(f.what.p, "no zip end record in 9 bytes") != NULL);
	ck_layout_put(&s.cp, layout);
	stored_free(&s);

	row_make(&s, archive, &good);
	must(ck_catalog_edit(s.c,
			     &(struct ck_edit){ .number = 0, .item = archive },
			     1, NULL));
	eq_err(read_case(&s.cp, 0, NULL, bytes), -EBADMSG);
	stored_free(&s);
}

/* An item known to be damaged becomes the replica, and a check reports it. */
static void test_known(void)
{
	const struct ck_item good = { .length = 4, .form = CK_FORM_BLOB };
	static const struct ck_check_options options = { .threads = 1 };
	static struct stored s;
	struct ck_findings findings = { 0 };

	row_make(&s, (struct ck_item){ .length = 4, .file = BIG + 1 }, &good);
	ok(ck_catalog_item(s.cp.catalog, 0)->err == 0);
	ok(ck_catalog_replica(s.cp.catalog, 0)->item.err == ENODATA);
	eq_err(ck_checkpoint_check(&s.cp, &options, &findings, NULL), 0);
	eq_u64(findings.n, 1);
	eq_mem(findings.faults[0].file.p, findings.faults[0].file.len, "f5", 2);
	eq_u64(findings.items_total, 2);
	ck_findings_fini(&findings);
	stored_free(&s);
}

int main(void)
{
	if (!world_begin() || !freopen("/dev/null", "w", stderr))
		return 2; /* each damaged box is a line of the log */
	test_random();
	test_words();
	test_later();
	test_known();
	return world_end();
}
