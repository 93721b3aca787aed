/* SPDX-License-Identifier: MIT */
/*
 * The view dcp/ over a catalog in memory: the text of `.metadata`, the sizes of files in
 * each layout and their parts, records that are made again, and texts that are kept.
 */
#include "catalogs.h"
#include "ckptfs/value.h"
#include "tap.h"
#include "view/dcp/dcp_view.h"

#include <errno.h>

/* --- records, as the tree makes them ----------------------------------------------- */

/* What the next call returns: an error, or a record of two parts. */
static struct {
	int rc;
	bool transient;
	unsigned calls;
	const char *text;
} record = { .text = "record" };

static int record_make(struct ck_checkpoint *cp, uint32_t object,
		       struct ck_slice **out, bool *transient)
{
	struct ck_slice_builder b = { 0 };

	(void)cp, (void)object;
	record.calls++;
	*transient = record.transient;
	if (record.rc)
		return record.rc;
	ck_slice_add_bytes(&b, ck_str_from(record.text));
	ck_slice_add_range(&b, 0, 500, 30);
	return ck_slice_make(&b, out);
}

/* --- a catalog ----------------------------------------------------------------------- */

static void value_add(struct ck_catalog *c, const char *key, uint8_t form,
		      uint8_t err)
{
	struct ck_item item = {
		.fpos = 9000, .length = 77, .form = form, .err = err
	};

	must(ck_catalog_object_add(c, ck_str_from(key), &item));
}

static struct ck_catalog *example(void)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "f", 100000, 0);
	tensor_add(c, "w", "float32", 2, DIMS(3, 2));
	item_add(c, DIMS(0, 0), DIMS(3, 2), 0, 0, 2000);
	object_add(c, "o");
	value_add(c, "v", CK_FORM_VALUE, 0);
	tensor_add(c, "scalar", "bfloat16", 0, NULL);
	item_add(c, NULL, NULL, 0, 3000, 2000);
	tensor_add(c, "empty", "int64", 2, DIMS(0, 7));
	tensor_add(c, "packed", "quint4x2", 1, DIMS(4));
	tensor_add(c, "bad\377", "int8", 1, DIMS(1));
	item_add(c, DIMS(0), DIMS(1), 0, 6000, 2000);
	finish(c);
	return c;
}

static struct ck_dcp_plan *plan_of(struct ck_catalog *c, int want)
{
	const struct ck_object_access access = { .record = record_make };
	struct ck_dcp_plan *p = NULL;

	eq_err(ck_dcp_plan_make(c, &access, NULL, &p), want);
	return p;
}

static struct ck_dcp_layout *layout_of(struct ck_dcp_plan *p, uint32_t number,
				       const char *name)
{
	struct ck_dcp_layout *l;
	struct ck_spec spec;

	ok(ck_spec_parse(ck_str_from(name), &spec));
	eq_err(ck_dcp_layout_make(p, p->base.c, number, &spec, NULL, &l), 0);
	return l;
}

/* --- .metadata -------------------------------------------------------------------------- */

#define DCP "torch.distributed.checkpoint."
#define OLD "torch.distributed._shard.sharded_tensor.metadata."
#define CLASS(name, state)                                                     \
	"{\"$class\":\"" name "\",\"args\":[],\"state\":" state "}"
#define SIZE(sizes)                                                            \
	"{\"$class\":\"torch.Size\",\"args\":[{\"$tuple\":[" sizes "]}]}"
#define CHUNK(offsets, sizes)                                                  \
	CLASS(DCP "metadata.ChunkStorageMetadata",                             \
	      "{\"offsets\":" SIZE(offsets) ",\"sizes\":" SIZE(sizes) "}")
#define TENSOR(dtype, size, chunks)                                                                       \
	CLASS(DCP "metadata.TensorStorageMetadata",                                                       \
	      "{\"properties\":" CLASS(                                                                   \
		      OLD "TensorProperties",                                                             \
		      "{\"$tuple\":[{\"$global\":\"torch." dtype                                          \
		      "\"},{\"$class\":\"torch.serialization._get_layout\","                              \
		      "\"args\":[\"torch.strided\"]},false,{\"$class\":\"" OLD                            \
		      "MEM_FORMAT_ENCODING\",\"args\":[0]},false]}") ",\"size\""                          \
								     ":" SIZE(                            \
									     size) ",\"chunks\":[" chunks \
										   "]}")
#define BYTES                                                                  \
	"{\"$class\":\"" DCP "metadata.BytesStorageMetadata\",\"args\":[]}"
#define INFO(file, offset, length)                                             \
	CLASS(DCP "filesystem._StorageInfo",                                   \
	      "{\"relative_path\":\"__" file "_0.distcp\",\"offset\":" offset  \
	      ",\"length\":" length "}")
#define OBJECT(key, offset, length)                                            \
	"[" CLASS(DCP "metadata.MetadataIndex",                                \
		  "{\"fqn\":\"" key                                            \
		  "\",\"index\":null}") "," INFO("0", offset, length) "]"
#define BOX(key, index, at, file, offset, length)                              \
	"[" CLASS(DCP "metadata.MetadataIndex",                                \
		  "{\"fqn\":\"" key "\",\"index\":" index ",\"offset\":" SIZE( \
			  at) "}") "," INFO(file, offset, length) "]"

/* Of two ranks. The object `v` has a record of 6 and 30 bytes. */
static const char golden[] = CLASS(
	DCP "metadata.Metadata",
	"{\"state_dict_metadata\":{"
	"\"w\":" TENSOR(
		"float32", "3,2",
		CHUNK("0,0", "2,2") "," CHUNK(
			"2,0",
			"1,2")) ","
				"\"o\":" BYTES ",\"v\":" BYTES ","
				"\"scalar\":" TENSOR(
					"bfloat16", "",
					CHUNK("",
					      "")) ","
						   "\"empty\":" TENSOR("int64", "0,7", CHUNK("0,0", "0,7")) "},\"planner_data\":null,\"storage_data\":{\"$dict\":[" OBJECT("o", "0", "1") "," OBJECT(
							   "v", "1",
							   "36") "," BOX("w",
									 "0",
									 "0,0",
									 "0",
									 "37",
									 "1180") "," BOX("w",
											 "1",
											 "2,0",
											 "1",
											 "0",
											 "1180") "," BOX("scalar",
													 "0",
													 "",
													 "0",
													 "1217",
													 "1180") "," BOX("empty",
															 "0",
															 "0,0",
															 "0",
															 "2397",
															 "1116") "]}}") "\n";

static void test_golden(void)
{
	struct ck_catalog *c = example();
	struct ck_dcp_plan *p = plan_of(c, 0);
	struct ck_dcp_layout *l = layout_of(p, 0, "2");
	struct ck_buf text = { 0 }, json = { 0 };
	struct ck_pickle read = { 0 };
	struct ck_diag d = { 0 };

	eq_err(ck_dcp_metadata_print(l, 100000, &text), 0);
	eq_err(ck_pickle_read(&read, text.data, text.len, NULL, &d), 0);
	eq_u64(read.end, text.len);
	eq_err(ck_pickle_json(&read, text.len, &json, &d), 0);
	eq_text(json.data, golden);
	eq_u64(p->left_out.n, 2);
	ck_pickle_fini(&read);
	ck_buf_fini(&json);
	ck_buf_fini(&text);
	ck_dcp_layout_put(l);
	ck_view_plan_put(p);
	ck_catalog_put(c);
}

/* --- files -------------------------------------------------------------------------------- */

/* Each part has its length; those that are made have as many bytes. */
static void parts_check(struct ck_slice *s)
{
	unsigned wrong = 0;

	for (uint32_t i = 0; i < s->nparts; i++) {
		struct ck_part part = ck_slice_part(s, i);
		struct ck_buf made = { 0 };

		if (part.kind != CK_PART_MADE)
			continue;
		wrong += s->make(s, part.number, &made) != 0 ||
			 made.len != ck_slice_part_len(s, i);
		ck_buf_fini(&made);
	}
	eq_u64(wrong, 0);
	eq_u64(ck_slice_begin(s, s->nparts), s->size);
}

static void test_files(void)
{
	static const char *const specs[] = { "1", "2", "3", "7", "tp=2,dp=2" };
	struct ck_catalog *c = example();
	struct ck_dcp_plan *p = plan_of(c, 0);

	for (uint32_t i = 0; i < CK_ARRAY_SIZE(specs); i++) {
		struct ck_dcp_layout *l = layout_of(p, i, specs[i]);

		for (uint32_t r = 0; r < l->spec.ranks; r++) {
			struct ck_slice *s;

			eq_err(ck_dcp_file_slice(l, r, &s), 0);
			eq_u64(s->size, l->files[r].size);
			ok(!s->has_loss);
			parts_check(s);
			ck_slice_free(s);
		}
		eq_u64(l->files[0].facts.mode, 0444);
		ck_dcp_layout_put(l);
	}
	ck_view_plan_put(p);
	ck_catalog_put(c);
}

/* --- objects ------------------------------------------------------------------------------ */

static int piece_read(struct ck_slice *s, uint32_t i, struct ck_buf *out)
{
	return s->make(s, ck_slice_part(s, i).number, out);
}

static void test_records(void)
{
	struct ck_catalog *c = example();
	struct ck_dcp_plan *p = plan_of(c, 0);
	struct ck_dcp_layout *l = layout_of(p, 0, "1");
	struct ck_buf text = { 0 };
	struct ck_slice *s;

	eq_err(ck_dcp_file_slice(l, 0, &s), 0);
	eq_u64(ck_slice_part(s, 0).kind, CK_PART_RANGE); /* o */
	eq_u64(ck_slice_part(s, 1).kind, CK_PART_MADE);
	eq_u64(ck_slice_part(s, 2).at.fpos, 500);
	eq_err(piece_read(s, 1, &text), 0);
	eq_text(text.data, "record");
	record.text = "longer now";
	eq_err(piece_read(s, 1, &text), -EIO);
	record.text = "record";
	record.rc = -ENODATA;
	eq_err(piece_read(s, 1, &text), -ENODATA);
	ck_slice_free(s);
	ck_dcp_layout_put(l);
	ck_view_plan_put(p);

	p = plan_of(c, 0); /* a record that cannot be made is left out */
	eq_u64(p->nobjects, 1);
	eq_u64(p->left_out.n, 3);
	ck_view_plan_put(p);
	record.transient = true;
	ck_view_plan_put(plan_of(c, -ENODATA));
	record.transient = false;
	record.rc = 0;
	ck_buf_fini(&text);
	ck_catalog_put(c);
}

/* An item of DCP keeps its place when its file is lost, and is read if its class alone is
 * unknown. */
static void test_lost_items(void)
{
	struct ck_catalog *c = catalog_new();
	struct ck_dcp_plan *p;
	struct ck_dcp_layout *l;
	struct ck_buf text = { 0 };
	struct ck_slice *s;

	file_add(c, "f", 100000, 0);
	value_add(c, "unknown class", CK_FORM_ARCHIVE, EBADMSG);
	value_add(c, "lost", CK_FORM_ARCHIVE, ENODATA);
	finish(c);
	p = plan_of(c, 0);
	l = layout_of(p, 0, "1");
	eq_u64(l->files[0].size, 154);
	eq_err(ck_dcp_file_slice(l, 0, &s), 0);
	ok(s->has_loss);
	eq_u64(ck_slice_part(s, 0).kind, CK_PART_RANGE);
	eq_err(piece_read(s, 1, &text), -ENODATA);
	ck_buf_fini(&text);
	ck_slice_free(s);
	ck_dcp_layout_put(l);
	ck_view_plan_put(p);
	ck_catalog_put(c);
}

/* --- texts ---------------------------------------------------------------------------------- */

static void *text_use(struct ck_dcp_texts *s, const struct ck_dcp_layout *l)
{
	struct ck_dcp_text *t;

	return ck_dcp_text_get(s, l, &t) ? NULL : t;
}

/* Two of three texts fit. A text in use stays; the last used one of the others does. */
static void test_texts(void)
{
	struct ck_catalog *c = example();
	struct ck_dcp_plan *p = plan_of(c, 0), *other = plan_of(c, 0);
	struct ck_dcp_layout *l[] = { layout_of(p, 0, "2"),
				      layout_of(p, 1, "2"),
				      layout_of(p, 2, "2"),
				      layout_of(other, 0, "2") };
	struct ck_dcp_texts s = { .most = 100000 };
	struct ck_dcp_text *a, *b;
	struct ck_slice *open;

	a = text_use(&s, l[0]);
	s.most = ck_dcp_text_len(a) * 2;
	eq_err(ck_dcp_text_slice(a, &open), 0);
	b = text_use(&s, l[1]);
	ck_dcp_text_put(b);
	ok(text_use(&s, l[1]) == b); /* kept */
	ck_dcp_text_put(b);
	ck_dcp_text_put(text_use(&s, l[2])); /* drops b: a is open */
	ok(text_use(&s, l[0]) == a);
	ck_dcp_text_put(a);
	ck_slice_free(open);
	ck_dcp_text_put(text_use(&s, l[1]));
	ck_dcp_text_put(text_use(&s, l[3])); /* drops those of the other plan */
	eq_u64(p->base.refs, 1 + 3);
	ck_dcp_texts_fini(&s);
	for (size_t i = 0; i < CK_ARRAY_SIZE(l); i++)
		ck_dcp_layout_put(l[i]);
	ck_view_plan_put(p);
	ck_view_plan_put(other);
	ck_catalog_put(c);
}

static void test_too_large(void)
{
	struct ck_catalog *c = example();
	struct ck_dcp_plan *p = plan_of(c, 0);
	struct ck_dcp_layout *l = layout_of(p, 0, "2");
	struct ck_dcp_texts s = { .most = 1000 };
	struct ck_dcp_text *t;

	eq_err(ck_dcp_text_get(&s, l, &t), -EFBIG);
	s.most = 100000;
	eq_err(ck_dcp_text_get(&s, l, &t), 0);
	ck_dcp_text_put(t);
	ck_dcp_texts_fini(&s);
	ck_dcp_layout_put(l);
	ck_view_plan_put(p);
	ck_catalog_put(c);
}

/* A layout of too many boxes ends early. */
static void test_many_boxes(void)
{
	struct ck_catalog *c = catalog_new();
	struct ck_dcp_plan *p;
	struct ck_dcp_layout *l;
	struct ck_spec spec;
	char key[8];

	file_add(c, "f", 1000, 0);
	for (unsigned i = 0; i < 6; i++) {
		snprintf(key, sizeof(key), "t%u", i);
		tensor_add(c, key, "int8", 1, DIMS(1LL << 40));
	}
	finish(c);
	p = plan_of(c, 0);
	ok(ck_spec_parse(CK_STR("1000000"), &spec));
	eq_err(ck_dcp_layout_make(p, c, 0, &spec, NULL, &l), -EFBIG);
	ck_view_plan_put(p);
	ck_catalog_put(c);
}

int main(void)
{
	test_golden();
	test_files();
	test_records();
	test_lost_items();
	test_texts();
	test_too_large();
	test_many_boxes();
	return tap_done();
}
