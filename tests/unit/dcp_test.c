/* SPDX-License-Identifier: MIT */
/* `.metadata` that PyTorch does not write: damage of one tensor, damage of the whole file, and
 * variants that are valid. */
#include "dcp_parse.h"
#include "model/catalog/catalog_edit.h"
#include "tap.h"

#include "dcp_cases.h"
#include "stepwise.h"

static int one_file(void *ctx, struct ck_str path, uint32_t *number)
{
	struct ck_catalog *c = ctx;
	struct ck_data_file file = { .size = 1000 };

	(void)path;
	*number = 0;
	return c->files.n ? 0 : ck_catalog_file_add(c, &file);
}

static int read_case(const void *bytes, size_t len, struct ck_buf *dump,
		     struct ck_diag *d)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	int rc = dcp_parse(c, bytes, len, one_file, c, d);

	if (rc == 0)
		rc = ck_catalog_finish(c, d);
	if (rc == 0)
		ck_catalog_dump(c, dump);
	ck_catalog_put(c);
	return rc;
}

static void test_cases(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(dcp_cases); i++) {
		struct ck_buf dump = { 0 };
		struct ck_diag d = { 0 };
		int rc = read_case(dcp_cases[i].bytes, dcp_cases[i].len, &dump,
				   &d);
		const char *text = rc ? d.text : dump.data;

		eq_err(rc, dcp_cases[i].is_error ? -EBADMSG : 0);
		ok(text && strstr(text, dcp_cases[i].want));
		printf("# %s, want %s\n", dcp_cases[i].name, dcp_cases[i].want);
		if (!text || !strstr(text, dcp_cases[i].want))
			printf("# got %s\n", text ? text : "nothing");
		ck_buf_fini(&dump);
	}
}

/* Objects of a class are decoded in one step if they have the form that picklers write, and
 * opcode by opcode otherwise. Both must give the same value. */
static void test_both_ways_to_read_an_object_agree(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(dcp_cases); i++) {
		struct ck_str in = { dcp_cases[i].bytes, dcp_cases[i].len };
		struct ck_buf dump = { 0 }, other = { 0 };
		size_t len;
		char *steps = stepwise(in, &len);

		eq_err(read_case(steps, len, &other, NULL),
		       read_case(in.p, in.len, &dump, NULL));
		ok(ck_str_eq((struct ck_str){ other.data, other.len },
			     (struct ck_str){ dump.data, dump.len }));
		ck_buf_fini(&dump);
		ck_buf_fini(&other);
		free(steps);
	}
}

static void test_every_truncation_is_refused(void)
{
	size_t accepted = 0;

	for (size_t len = 0; len < dcp_cases[0].len; len++) {
		char *copy = malloc(len + 1);
		struct ck_buf dump = { 0 };

		memcpy(copy, dcp_cases[0].bytes, len);
		accepted += read_case(copy, len, &dump, NULL) == 0;
		ck_buf_fini(&dump);
		free(copy);
	}
	eq_u64(accepted, 0);
}

/* --- planner_data ------------------------------------------------------------ */

#define CLASS(name) "ctorch.distributed.checkpoint.metadata\n" name "\n)\x81"
#define BYTES	    CLASS("BytesStorageMetadata")

/* Prints the paths of all entries, one a line: `|` before a name, `#` before an index. */
static void paths_show(const struct ck_catalog *c, struct ck_buf *out)
{
	for (size_t i = 0; i < c->listing->n; i++) {
		const struct ck_entry *e =
			ck_catalog_entry(c, c->listing->entries[i]);

		for (uint32_t k = 0; k < e->nparts; k++) {
			const struct ck_path_part *part = &e->path[k];

			ck_buf_text(out,
				    part->type == CK_PATH_INDEX ? "|#" : "|");
			ck_buf_str(out, ck_part_text(part));
		}
		ck_buf_text(out, "\n");
	}
}

/* Entries a.0, a.b and c with this planner_data. */
static int paths_read(const char *planner_data, struct ck_buf *out)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	struct ck_buf b = { 0 };
	int rc;

	ck_buf_text(&b, CLASS("Metadata") "}(Vstate_dict_metadata\n(");
	ck_buf_text(&b, "Va.0\n" BYTES "Va.b\n" BYTES "Vc\n" BYTES "d");
	ck_buf_text(&b, "Vstorage_data\n}Vplanner_data\n");
	ck_buf_text(&b, planner_data);
	ck_buf_text(&b, "ub.");
	rc = dcp_parse(c, b.data, b.len, one_file, c, NULL);
	if (rc == 0)
		paths_show(c, out);
	ck_buf_fini(&b);
	ck_catalog_put(c);
	return rc;
}

static void test_planner_data(void)
{
	static const struct {
		const char *planner_data, *want;
	} rows[] = {
		{ "N", "\n\n\n" },
		{ "(Va.0\n(Va\nI0\ntVa.b\n(Va\nVb\ntVc\n(Vc\ntd",
		  "|a|#0\n|a|b\n|c\n" },
		{ "(Va.0\n(Va.0\ntVa.b\n(lVa\naVx\nad", "|a.0\n|a|x\n\n" },
		{ "(Va.b\n(Va\nVb\ntVunknown\nNI5\nNd", "\n|a|b\n\n" },
		{ "(Va.0\n(Va\nI-1\ntVa.b\n(Va\nNtVc\n)d", "\n\n\n" },
		{ "(Va.0\nNVa.b\nVa\nVc\n(I7\ntd", "\n\n|#7\n" },
		{ "(Va.0\n(Va.\nVx\ntd", "|a.|x\n\n\n" },
		{ "(Vc\n(Vc\ntVc\n(Vc\ntd", NULL }, /* two paths of c */
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct ck_buf out = { 0 };

		eq_err(paths_read(rows[i].planner_data, &out),
		       rows[i].want ? 0 : -EBADMSG);
		if (rows[i].want)
			eq_text(out.data, rows[i].want);
		ck_buf_fini(&out);
	}
}

/* --- many boxes ---------------------------------------------------------------- */

enum { TENSORS = 4, BOXES_EACH = 200 };

static void add_tensor(struct ck_buf *b, unsigned tensor)
{
	ck_buf_printf(b, "Vt%u\n" CLASS("TensorStorageMetadata"), tensor);
	ck_buf_text(b, "}(Vproperties\n" CLASS("TensorProperties"));
	ck_buf_text(b, "(ctorch\nuint8\ntb");
	ck_buf_printf(b, "Vsize\n(I%d\ntVchunks\n](", BOXES_EACH);
	for (unsigned i = 0; i < BOXES_EACH; i++) {
		ck_buf_text(b, CLASS("ChunkStorageMetadata") "}(Voffsets\n");
		ck_buf_printf(b, "(I%u\ntVsizes\n(I1\ntub", i);
	}
	ck_buf_text(b, "eub");
}

static void add_row(struct ck_buf *b, unsigned tensor, unsigned i)
{
	ck_buf_text(b, CLASS("MetadataIndex"));
	ck_buf_printf(b, "}(Vfqn\nVt%u\nVoffset\n(I%u\ntub", tensor, i);
	ck_buf_text(b, "ctorch.distributed.checkpoint.filesystem\n"
		       "_StorageInfo\n)\x81");
	ck_buf_printf(b,
		      "}(Vrelative_path\nVf\nVoffset\nI%u\nVlength\nI1\n"
		      "ub",
		      tensor * BOXES_EACH + i);
}

/* The arrays made for the boxes of one tensor are reused for the next tensor. */
static void test_many_boxes(void)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	struct ck_buf b = { 0 };
	struct ck_diag d = { 0 };
	unsigned bad = 0;

	ck_buf_text(&b, CLASS("Metadata") "}(Vstate_dict_metadata\n(");
	for (unsigned t = 0; t < TENSORS; t++)
		add_tensor(&b, t);
	ck_buf_text(&b, "dVstorage_data\n(");
	for (unsigned t = 0; t < TENSORS; t++)
		for (unsigned i = 0; i < BOXES_EACH; i++)
			add_row(&b, t, i);
	ck_buf_text(&b, "dub.");
	eq_err(dcp_parse(c, b.data, b.len, one_file, c, &d), 0);
	printf("# %s\n", d.text);
	eq_u64(c->tensors.n, TENSORS);
	for (uint32_t t = 0; t < c->tensors.n; t++)
		for (uint32_t i = 0; i < ck_catalog_tensor(c, t)->nchunks;
		     i++) {
			const struct ck_item *k = ck_catalog_item(
				c, ck_catalog_tensor(c, t)->chunk + i);
			const int64_t *box =
				ck_tensor_box(ck_catalog_tensor(c, t), i);

			bad += box[0] != i || box[1] != 1 ||
			       k->fpos != t * BOXES_EACH + i;
		}
	eq_u64(c->chunks.n, TENSORS * BOXES_EACH);
	eq_u64(bad, 0);
	ck_buf_fini(&b);
	ck_catalog_put(c);
}

/* --- boxes without elements ------------------------------------------------------ */

/* Reads tensors of four elements. A box is two digits, its offset and size; a row is one
 * digit, its offset. Row i has its item at i. `found` gets the items in the order of the
 * boxes, `-` for a box without an item. */
static void empty_boxes_read(const char *boxes, const char *rows, char *found)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	struct ck_buf b = { 0 };
	int rc;

	ck_buf_text(&b, CLASS("Metadata") "}(Vstate_dict_metadata\n(Vt0\n");
	ck_buf_text(&b, CLASS("TensorStorageMetadata") "}(Vproperties\n");
	ck_buf_text(&b, CLASS("TensorProperties") "(ctorch\nuint8\ntb");
	ck_buf_text(&b, "Vsize\n(I4\ntVchunks\n](");
	for (const char *box = boxes; *box; box += 2) {
		ck_buf_text(&b, CLASS("ChunkStorageMetadata") "}(Voffsets\n");
		ck_buf_printf(&b, "(I%c\ntVsizes\n(I%c\ntub", box[0], box[1]);
	}
	ck_buf_text(&b, "eubdVstorage_data\n(");
	for (unsigned i = 0; rows[i]; i++) {
		ck_buf_text(&b, CLASS("MetadataIndex"));
		ck_buf_printf(&b, "}(Vfqn\nVt0\nVoffset\n(I%c\ntub", rows[i]);
		ck_buf_text(&b, "ctorch.distributed.checkpoint.filesystem\n"
				"_StorageInfo\n)\x81");
		ck_buf_printf(&b,
			      "}(Vrelative_path\nVf\nVoffset\nI%u\nVlength\n"
			      "I1\nub",
			      i);
	}
	ck_buf_text(&b, "dub.");
	rc = dcp_parse(c, b.data, b.len, one_file, c, NULL);
	for (uint32_t i = 0; rc == 0 && i < c->chunks.n; i++) {
		const struct ck_item *k = ck_catalog_item(c, i);

		*found++ = k->file == CK_NO_FILE ? '-' : (char)('0' + k->fpos);
	}
	strcpy(found, rc ? "refused" : "");
	ck_buf_fini(&b);
	ck_catalog_put(c);
}

static void test_empty_boxes(void)
{
	static const struct {
		const char *boxes, *rows, *items;
	} cases[] = {
		{ "0004", "0", "-0" }, /* as PyTorch 2.15 writes it */
		{ "0400", "0", "0-" },	     { "00000004", "0", "---0" },
		{ "022240", "02", "01-" },   { "000220022022", "20", "-1---0" },
		{ "022240", "024", "012" }, /* a row of its own */
		{ "022240", "402", "120" },  { "4002", "04", "10" },
		{ "0004", "00", "refused" }, { "00", "0", "0" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		char found[16];

		empty_boxes_read(cases[i].boxes, cases[i].rows, found);
		eq_text(found, cases[i].items);
	}
}

int main(void)
{
	test_cases();
	test_both_ways_to_read_an_object_agree();
	test_empty_boxes();
	test_planner_data();
	test_many_boxes();
	test_every_truncation_is_refused();
	return tap_done();
}
