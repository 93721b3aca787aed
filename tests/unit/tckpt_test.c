/* SPDX-License-Identifier: MIT */
/*
 * tckpt: small checkpoints of torch_checkpointing. The test checks boxes by placements and by
 * lists, paths of all types, values in JSON and raw bytes, tensors that files lack, and refused
 * metadata. Both ranks of each save an item `m`; metadata.pkl describes its tensors.
 */
#include "torch_dir.h"

/* The value of a layout, or of a field. */
#define MESH                                                                   \
	"'mesh_spec { ( 'mesh_shape ( 2 t 'mesh_data ( 0 1 t 'mesh_dim_names N u "
#define DATA(shape, placement)                                                 \
	"'data { ( 'global_shape ( " shape                                     \
	" t 'dtype 'torch.float32 'placements [ ( " placement " e " MESH "u "
#define GROUP(ranks, type, data)                                               \
	"{ ( 'ranks ( " ranks " t 'sharding_metadata { ( 'type '" type         \
	" " data "u u "
#define SHARD	    "{ ( 'type 'Shard 'dim 0 u"
#define REPLICATE   "{ 'type 'Replicate s"
#define ROWS(shape) GROUP("0 1", "DTensorShardingMetadata", DATA(shape, SHARD))
#define PLAIN(shape)                                                           \
	GROUP("0 1", "DTensorShardingMetadata", DATA(shape, REPLICATE))
#define PATH(json, groups) "'" json " [ ( " groups "e "
#define ITEM(name, paths, layouts)                                             \
	"'" name " { ( 'nested_path_to_metadata { ( " paths                    \
	"u 'rank_to_layout_info { ( " layouts "u u "
#define DEFAULT "0 N 1 N "
#define LAYOUT(rank, path, type)                                               \
	rank " { ( 'file_path '" path " 'serialization_format { 'type '" type  \
	     " s u "
#define METADATA(version, items)                                               \
	"{ ( 'version '" version " 'world_size 2 'metadata { ( " items "u u"

static const char *const made[] = { "metadata.pkl", "m_0.pt",	"m_1.pt",
				    "v_0.json",	    "v_1.json", "x_0.pt",
				    "x_1.pt" };

static void clear(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(made); i++)
		unlinkat(tc_dirfd, made[i], 0);
}

static void metadata_put(const char *value)
{
	struct torch_case c = { .old = false };

	tc_pickle(&c, value);
	tc_put("metadata.pkl", c.b);
}

/* Both ranks save the item `m`. */
static void items_put(const char *first, const char *second,
		      const char *storages)
{
	tc_put("m_0.pt", tc_zip(first, storages));
	tc_put("m_1.pt", tc_zip(second, storages));
}

/* Compares the lines of the dump that begin with one of these words, without files. */
static void shows(const char *kind, const char *want)
{
	struct ck_checkpoint *cp;
	struct ck_buf dump = { 0 }, kept = { 0 };
	struct ck_diag d;

	if (!ok(tc_open_it("", &cp, &d) == 0)) {
		printf("# %s\n", d.text);
		clear();
		return;
	}
	eq_text(ck_checkpoint_kind(cp), kind);
	ck_catalog_dump(cp->catalog, &dump);
	for (char *line = strtok(dump.data, "\n"); line;
	     line = strtok(NULL, "\n"))
		if (strncmp(line, "catalog", 7) != 0 &&
		    strncmp(line, "file ", 5) != 0)
			ck_buf_printf(&kept, "%s\n", line);
	eq_text(kept.len ? kept.data : "", want);
	ck_buf_fini(&dump);
	ck_buf_fini(&kept);
	ck_checkpoint_close(cp);
	clear();
}

static void refused(const char *value, const char *words)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;

	metadata_put(value);
	items_put("{ 'w +7:2 s", "{ 'w +7:2 s", "7:2");
	eq_err(tc_open_it("", &cp, &d), -EBADMSG);
	if (!ok(strstr(d.text, words) != NULL &&
		strstr(d.text, ": metadata.pkl: ")))
		printf("# %.400s\n", d.text);
	ck_checkpoint_close(cp);
	clear();
}

/* --- tensors --------------------------------------------------------------------------------- */

#define BOTH                                                                   \
	"tensor m.w dtype=float32 shape=[3] bytes=12 chunks=2 kind=dtensor\n"  \
	" mesh size=2 placement=S(0)\n"                                        \
	" chunk off=[0] size=[2] file=0 pos=448 length=8\n"                    \
	" chunk off=[2] size=[1] file=1 pos=448 length=4\n"

static void test_versions(void)
{
	metadata_put(METADATA("2.0",
			      ITEM("m", PATH("[\"w\"]", ROWS("3")), DEFAULT)));
	items_put("{ 'w +7:2 s", "{ 'w +7:1 s", "7:2");
	tc_put("m_1.pt", tc_zip("{ 'w +7:1 s", "7:1"));
	shows("torch_checkpointing", BOTH);
	metadata_put("{ ( 'version '1.0 'world_size 2 'metadata { ( " PATH(
		"[\"m\",\"w\"]",
		ROWS("3")) "u 'rank_to_layout_info_mappings { ( 0 { 'm N s 1 { "
			   "u u");
	items_put("{ 'w +7:2 s", "{ 'w +7:1 s", "7:2");
	tc_put("m_1.pt", tc_zip("{ 'w +7:1 s", "7:1"));
	shows("torch_checkpointing", BOTH);
}

/* Listed boxes, of local tensors of any shape. */
static void test_boxes(void)
{
#define LISTED(rank, at, size, in)                                             \
	GROUP(rank, "default_tensor_v1",                                       \
	      "'data { ( 'global_shape [ ( 4 e 'dtype 'torch.float32 "         \
	      "'global_offsets [ ( " at "e 'local_sizes [ ( " size             \
	      "e 'local_offsets [ ( " in "e u ")
	metadata_put(METADATA(
		"2.0", ITEM("m",
			    PATH("[\"w\"]",
				 LISTED("0", "[ ( 0 e ", "[ ( 1 e ", "[ ( 1 e ")
					 LISTED("1", "[ ( 3 e [ ( 1 e ",
						"[ ( 1 e [ ( 2 e ",
						"[ ( 0 e [ ( 1 e ")),
			    DEFAULT)));
	items_put("{ 'w +7:2 s", "{ 'w +7:3 s", "7:2");
	tc_put("m_1.pt", tc_zip("{ 'w +7:3 s", "7:3"));
	shows("torch_checkpointing",
	      "tensor m.w dtype=float32 shape=[4] bytes=16 chunks=3 kind=tensor\n"
	      " chunk off=[0] size=[1] file=0 pos=452 length=4\n"
	      " chunk off=[1] size=[2] file=1 pos=452 length=8\n"
	      " chunk off=[3] size=[1] file=1 pos=448 length=4\n");
	metadata_put(METADATA(
		"2.0", ITEM("m",
			    PATH("[\"w\"]", LISTED("0", "[ ( 0 e ", "[ ( 3 e ",
						   "[ ( 0 e ")),
			    DEFAULT)));
	items_put("{ 'w +7:2 s", "{ s", "7:2");
	tc_put("m_1.pt", tc_zip("{", ""));
	shows("torch_checkpointing",
	      "tensor m.w dtype=float32 shape=[2] bytes=0 chunks=0 kind=dtensor err=EIO \"metadata.pkl: boxes beyond the local tensor\"\n"
	      "own tensor m.w dtype=float32 shape=[2] bytes=8 chunks=1 kind=dtensor own\n"
	      " chunk off=[0] size=[2] file=0 pos=448 length=8\n");
}

/* Keys of dicts in metadata.pkl are in JSON, in torch files in Python. */
static void test_paths(void)
{
	metadata_put(METADATA(
		"2.0", ITEM("m",
			    PATH("[0]", ROWS("4")) PATH("[true]", ROWS("4"))
				    PATH("[null,1.5]",
					 ROWS("4")) PATH("[\"0\"]", ROWS("2"))
					    PATH("[\"a.b\",0]", ROWS("4")),
			    DEFAULT)));
	items_put(
		"{ ( 0 +7:2 '0 +7:2:0:1:1 T +7:2 N { f1.5 +7:2 s 'a.b [ ( +7:2 e u",
		"{ ( 0 +7:2 '0 +7:2:0:1:1 T +7:2 N { f1.5 +7:2 s 'a.b [ ( +7:2 e u",
		"7:2");
#define ROW(name, path)                                                        \
	"tensor m." name                                                       \
	" dtype=float32 shape=[4] bytes=16 chunks=2 kind=dtensor\n" path       \
	" mesh size=2 placement=S(0)\n"                                        \
	" chunk off=[0] size=[2] file=0 pos=1024 length=8\n"                   \
	" chunk off=[2] size=[2] file=1 pos=1024 length=8\n"
	shows("torch_checkpointing",
	      ROW("0",
		  " path str:m int:0\n") "tensor m.0~2 dtype=float32 shape=[2] bytes=8 chunks=2 kind=dtensor\n"
					 " path str:m str:0\n"
					 " mesh size=2 placement=S(0)\n"
					 " chunk off=[0] size=[1] file=0 pos=1024 length=4\n"
					 " chunk off=[1] size=[1] file=1 pos=1024 length=4\n" ROW(
						 "True",
						 " path str:m bool:True\n")
						 ROW("None.1.5",
						     " path str:m none:None float:1.5\n")
							 ROW("a.b.0",
							     " path str:m str:a.b index:0\n"));
}

/* A key that is not Unicode, which PyTorch stores as three bytes. */
static void test_surrogates(void)
{
	metadata_put(METADATA(
		"2.0", ITEM("m", PATH("[\"\\ud800\"]", ROWS("4")), DEFAULT)));
	items_put("{ '\xed\xa0\x80 +7:2 s", "{ '\xed\xa0\x80 +7:2 s", "7:2");
	shows("torch_checkpointing",
	      "tensor m.%ED%A0%80 dtype=float32 shape=[4] bytes=16 chunks=2 kind=dtensor\n"
	      " mesh size=2 placement=S(0)\n"
	      " chunk off=[0] size=[2] file=0 pos=448 length=8\n"
	      " chunk off=[2] size=[2] file=1 pos=448 length=8\n");
}

/* A plain tensor is what its file has, whatever its record; other shapes have no whole one. */
static void test_plain(void)
{
	metadata_put(METADATA("2.0",
			      ITEM("m", PATH("[\"w\"]", PLAIN("2")), DEFAULT)));
	items_put("{ 'w +7:2 s", "{ 'w +7:2 s", "7:2");
	shows("torch_checkpointing",
	      "tensor m.w dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " chunk off=[0] size=[2] file=0 pos=448 length=8\n"
	      " replica file=1 pos=448 length=8\n");
	metadata_put(METADATA("2.0",
			      ITEM("m", PATH("[\"w\"]", PLAIN("2")), DEFAULT)));
	items_put("{ 'w +7:2 s", "{ 'w +7:1 s", "7:2");
	tc_put("m_1.pt", tc_zip("{ 'w +7:1 s", "7:1"));
	shows("torch_checkpointing",
	      "tensor m.w dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor own\n"
	      " chunk off=[0] size=[2] file=0 pos=448 length=8\n"
	      "own tensor m.w dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor own\n"
	      " chunk off=[0] size=[1] file=1 pos=448 length=4\n");
}

/* --- what files lack ------------------------------------------------------------------------- */

static void test_absent(void)
{
	metadata_put(METADATA("2.0", ITEM("m",
					  PATH("[\"w\"]", PLAIN("2")) PATH(
						  "[\"x\"]", ROWS("2"))
						  PATH("[\"p\"]", PLAIN("2")),
					  DEFAULT)));
	items_put("{ ( 'w +7:2 'p +7:2 u", "{ 'w +7:2 s", "7:2");
	tc_put("m_1.pt", tc_zip("{ 'w +7:2 s", "7:2"));
	shows("torch_checkpointing",
	      "tensor m.w dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " chunk off=[0] size=[2] file=0 pos=576 length=8\n"
	      " replica file=1 pos=448 length=8\n"
	      "tensor m.p dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " chunk off=[0] size=[2] file=0 pos=576 length=8\n"
	      "lost m.x file=0 err=ENODATA \"metadata.pkl lists it, the file does not have it\"\n"
	      "lost m.x file=1 err=ENODATA \"metadata.pkl lists it, the file does not have it\"\n"
	      "note a plain tensor that only some ranks have: m.p\n");
}

/* Tensors inside of values are found. */
static void test_values(void)
{
	metadata_put(METADATA(
		"2.0",
		ITEM("m", PATH("[\"t\",0]", ROWS("2")), DEFAULT) ITEM(
			"v", PATH("[\"lr\"]", GROUP("0 1", "Mine", "'data { ")),
			LAYOUT("0", "v_0.json", "JsonSerialization")
				LAYOUT("1", "v_1.json", "RawSerialization"))));
	items_put("{ 't ( +7:2 t s", "{ 't ( +7:2 t s", "7:2");
	tc_put_text("v_0.json", "{\"lr\": NaN}");
	tc_put_text("v_1.json", "{\"lr\": NaN}");
	shows("torch_checkpointing",
	      "object m.t file=0 pos=64 length=148 value=133 storages=1\n"
	      "object v file=2 pos=0 length=11 value=22 storages=0\n"
	      "own object m.t file=1 pos=64 length=148 value=133 storages=1\n"
	      "own object v file=3 pos=0 length=11 value=54 storages=0\n");
}

/* --- refused metadata ------------------------------------------------------------------------ */

static void test_refused(void)
{
	refused(METADATA("3.0", ""), "unknown version");
	refused("{ ( 'version N 'world_size 2 'metadata { u",
		"unknown version");
	refused("{ ( 'version '2.0 'world_size 0 'metadata { u", "world_size");
	refused("{ ( 'version '2.0 'world_size 2 'metadata [ u", "a dict");
	refused("{ ( 'version '1.0 'world_size 2 'metadata { u",
		"no rank_to_layout_info_mappings");
	refused("{ ( 'version '2.0 'world_size 1073741824 'metadata { " ITEM(
			"m", "", "") "s u",
		"more memory");
	refused("{ ( 'version '2.0 'world_size 1000000 'metadata { " ITEM(
			"m", "", "") "s u",
		"more memory");
	refused(METADATA("2.0", "'m 7 "), "an item");
	refused(METADATA("2.0", ITEM("m", "", "2 N ")), "beyond");
	refused(METADATA("2.0", ITEM("m", "", "0 7 ")), "layout");
	refused(METADATA("2.0", ITEM("m", "", LAYOUT("0", "", "x"))), "layout");
	refused(METADATA("2.0", ITEM("m", "",
				     LAYOUT("0", "m_1.pt",
					    "TorchSerialization") "1 N ")),
		"the file m_1.pt twice");
	refused(METADATA("2.0", ITEM("m", PATH("7", ""), DEFAULT)),
		"a path that is not a list");
	refused(METADATA("2.0", ITEM("m", PATH("[[]]", ""), DEFAULT)),
		"a part of a path");
	refused(METADATA("2.0", ITEM("m", PATH("[", ""), DEFAULT)), "JSON");
	refused(METADATA("2.0",
			 ITEM("m", PATH("[1]", "") PATH("[\n1]", ""), DEFAULT)),
		"a path twice");
	refused("{ ( 'version '2.0 'world_size 2 'metadata @my:Class u",
		"it names my.Class");
	refused("{ ( 'version '2.0 'world_size 2 'metadata { 'x @os:system ( "
		"'true t R u",
		"os.system");
}

/* A pickle of another program is not judged. */
static void test_others(void)
{
	metadata_put("{ ( 'version '2.0 'metadata { u");
	items_put("{ 'w +7:2 s", "{ 'w +7:2 s", "7:2");
	shows("ranks",
	      "tensor w dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " chunk off=[0] size=[2] file=0 pos=448 length=8\n"
	      " replica file=1 pos=448 length=8\n"
	      "note ranks: 2 files such as m_0.pt are read as one file per rank, only because of the numbers in their names; if they are steps, -o kind=torch shows each file separately\n");
}

/* Files that metadata.pkl does not list are found by their default names, below its ranks. */
static void test_default_names(void)
{
	metadata_put(METADATA("2.0",
			      ITEM("m", PATH("[\"w\"]", PLAIN("2")), DEFAULT)));
	items_put("{ 'w +7:2 s", "{ 'w +7:2 s", "7:2");
	tc_put("x_0.pt", tc_zip("5", ""));
	tc_put("x_1.pt", tc_zip("6", ""));
	tc_put("x_2.pt", tc_zip("7", ""));
	shows("torch_checkpointing",
	      "tensor m.w dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " chunk off=[0] size=[2] file=0 pos=448 length=8\n"
	      " replica file=1 pos=448 length=8\n"
	      "object x file=2 pos=64 length=8 value=5 storages=0\n"
	      "own object x file=3 pos=64 length=8 value=5 storages=0\n");
	unlinkat(tc_dirfd, "x_2.pt", 0);
}

int main(void)
{
	tc_begin();
	test_versions();
	test_boxes();
	test_paths();
	test_surrogates();
	test_plain();
	test_absent();
	test_values();
	test_refused();
	test_others();
	test_default_names();
	return tc_end();
}
