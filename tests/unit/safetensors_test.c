/* SPDX-License-Identifier: MIT */
/*
 * safetensors: accepted and refused headers, and the catalogs of checkpoints with one file,
 * several files, an index, and sharding information.
 */
#include "format/safetensors/safetensors_internal.h"
#include "model/catalog/fault.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/ckptfs-safetensors-XXXXXX";
static int dirfd_;

/* --- headers ------------------------------------------------------------------------------------- */

#define F32(name, shape, begin, end)                                           \
	"\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape                    \
	"],\"data_offsets\":[" #begin "," #end "]}"

static const struct {
	const char *json;
	uint64_t end;
	const char *why; /* NULL: the header is accepted */
} headers[] = {
	{ "{}", 0, NULL },
	{ " { } \n\t", 0, NULL },
	{ "{" F32("a", "2", 0, 8) "}", 8, NULL },
	{ "{" F32("a", "", 0, 4) "}", 4, NULL },
	{ "{" F32("a", "2,0,3", 0, 0) "," F32("b", "1", 0, 4) "}", 4, NULL },
	{ "{" F32("b", "1", 4, 8) "," F32("a", "1", 0, 4) "}", 8, NULL },
	{ "{" F32("", "1", 0, 4) "}", 4, NULL },
	{ "{\"__metadata__\":{\"a\":\"b\"}," F32("a", "1", 0, 4) "}", 4, NULL },
	{ "{\"__metadata__\":null}", 0, NULL },
	{ "{\"a\":{\"x\":[{}],\"shape\":[],\"dtype\":\"U8\",\"data_offsets\":"
	  "[0,1]}}",
	  1, NULL },
	{ "{\"a\":{\"dtype\":\"F4\",\"shape\":[3,4],\"data_offsets\":[0,6]}}",
	  6, NULL },
	{ "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}",
	  3, NULL },
	/* a file shorter than its header states: the names are known */
	{ "{" F32("a", "2", 0, 8) "}", 5, NULL },
	{ "[]", 0, "no object" },
	{ "{", 0, "no key" },
	{ "{} x", 0, "behind" },
	{ "{" F32("a", "2", 0, 8) "}", 9, "bytes behind" },
	{ "{}", 1, "bytes behind" },
	{ "{" F32("a", "2", 0, 4) "}", 4, "bytes of its shape" },
	{ "{" F32("a", "1", 4, 8) "}", 8, "where its bytes begin" },
	{ "{" F32("a", "1", 0, 4) "," F32("b", "1", 0, 4) "}", 4,
	  "where its bytes begin" },
	{ "{" F32("a", "1", 0, 4) "," F32("b", "1", 8, 12) "}", 12,
	  "where its bytes begin" },
	{ "{" F32("a", "2", 0, 8) "," F32("b", "0", 4, 4) "}", 8,
	  "where its bytes begin" },
	{ "{" F32("a", "1", 4, 0) "}", 4, "data_offsets" },
	{ "{\"a\":{\"dtype\":\"F99\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
	  "unknown dtype" },
	{ "{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4, "without" },
	{ "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "without" },
	{ "{\"a\":[\"F32\",[],[0,4]]}", 4, "no object" },
	{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
	  4, "no size" },
	{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}",
	  4, "no size" },
	{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
	  "data_offsets" },
	{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}",
	  4, "data_offsets" },
	{ "{" F32("a", "4611686018427387904,4611686018427387904,0", 0, 0) "}",
	  0, "whole number of bytes" },
	{ "{\"a\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}",
	  3, "odd number" },
	{ "{\"a\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,0]}}", 0,
	  "whole number" },
	{ "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[3],\"data_offsets\":[0,2]}}",
	  2, "whole number" },
	{ "{" F32("a", "1", 0, 4) "," F32("a", "1", 0, 4) "}", 4,
	  "two values" },
	{ "{\"__metadata__\":{\"a\":1}}", 0, "no string" },
	{ "{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, "two values" },
};

static void test_headers(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(headers); i++) {
		struct ck_safetensors s;
		struct ck_diag d = { 0 };
		int rc = ck_safetensors_read(&s, ck_str_from(headers[i].json),
					     headers[i].end, &d);

		printf("# %zu: %s\n", i, d.text);
		eq_err(rc, headers[i].why ? -EBADMSG : 0);
		ok(!headers[i].why || strstr(d.text, headers[i].why));
		ck_safetensors_fini(&s);
	}
}

static void test_values(void)
{
	static const char json[] =
		"{" F32("b", "1,2", 4, 12) ",\"__metadata__\":{\"k\":\"v\"}," F32(
			"a", "", 0,
			4) ",\"h\":{\"dtype\":\"F4\",\"shape\":[2,4],"
			   "\"data_offsets\":[12,16]}}";
	struct ck_safetensors s;

	eq_err(ck_safetensors_read(&s, CK_STR(json), 16, NULL), 0);
	eq_u64(s.n, 3);
	ok(ck_str_is(s.tensors[0].name, "a"));
	ok(ck_str_is(s.tensors[1].name, "b"));
	ok(ck_str_is(s.tensors[1].dtype, "float32"));
	eq_u64(s.tensors[1].ndim, 2);
	eq_i64(s.shapes[s.tensors[1].shape + 1], 2);
	ok(ck_str_is(s.tensors[2].dtype, "float4_e2m1fn_x2"));
	eq_i64(s.shapes[s.tensors[2].shape + 1], 2);
	ok(ck_str_is(ck_safetensors_note(&s, "k"), "v"));
	ok(ck_safetensors_note(&s, "x").p == NULL);
	eq_u64(s.end, 16);
	ck_safetensors_fini(&s);
}

static void test_headers_cut_and_flipped(void)
{
	unsigned others = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(headers); i++) {
		size_t all = strlen(headers[i].json);

		for (size_t k = 0; k < 9 * all; k++) {
			size_t len = k < all ? k : all;
			char *copy = malloc(len + !len);
			struct ck_safetensors s;
			int rc;

			memcpy(copy, headers[i].json, len);
			if (k >= all)
				copy[k % all] ^= (char)(1 << (k / all - 1));
			rc = ck_safetensors_read(&s,
						 (struct ck_str){ copy, len },
						 headers[i].end, NULL);
			others += rc && rc != -EBADMSG;
			ck_safetensors_fini(&s);
			free(copy);
		}
	}
	eq_u64(others, 0);
}

/* --- checkpoints --------------------------------------------------------------------------------- */

static void put(const char *name, const void *bytes, size_t len)
{
	int fd = openat(dirfd_, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0640);

	if (fd < 0 || ck_write_full(fd, bytes, len))
		abort();
	close(fd);
}

/* A file with this header. Its data differ at each position. */
static void put_file(const char *name, const char *json, size_t data)
{
	struct ck_buf b = { 0 };
	uint64_t n = strlen(json);

	ck_buf_u64(&b, n);
	ck_buf_text(&b, json);
	for (size_t i = 0; i < data; i++)
		ck_buf_u8(&b, (uint8_t)(i + 1));
	put(name, b.data, b.len);
	ck_buf_fini(&b);
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static const char *const made[] = {
	"a.safetensors",
	"b.safetensors",
	"model.safetensors",
	"c.safetensors",
	"shard-00001-model-00001-of-00001.safetensors",
	"shard-00002-model-00001-of-00001.safetensors",
	"model.safetensors.index.json",
	"x.safetensors.index.json",
	"y.safetensors.index.json",
	"link.safetensors",
	"other",
};

static void clear(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(made); i++)
		unlinkat(dirfd_, made[i], 0);
}

static int open_with(const char *name, const struct ck_format_options *options,
		     struct ck_checkpoint **cp, struct ck_diag *d)
{
	char path[128];

	*d = (struct ck_diag){ 0 };
	*cp = NULL;
	(void)snprintf(path, sizeof(path), "%s%s%s", dir, *name ? "/" : "",
		       name);
	return ck_checkpoint_open(path, options, cp, d);
}

/* Compares the dump of a checkpoint without its first line. */
static void shows(const char *name, const char *want)
{
	const struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp;
	struct ck_buf dump = { 0 };
	struct ck_diag d;
	const char *rest;

	if (!ok(open_with(name, &options, &cp, &d) == 0)) {
		printf("# %s\n", d.text);
		return;
	}
	eq_text(ck_checkpoint_kind(cp), "safetensors");
	ck_catalog_dump(cp->catalog, &dump);
	rest = strchr(dump.data, '\n');
	eq_text(rest ? rest + 1 : "", want);
	ck_buf_fini(&dump);
	ck_checkpoint_close(cp);
}

static void refused(const char *name, const char *words)
{
	const struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp;
	struct ck_diag d;

	eq_err(open_with(name, &options, &cp, &d), -EBADMSG);
	printf("# %s\n", d.text);
	ok(strstr(d.text, words) != NULL);
	ck_checkpoint_close(cp);
}

#define ONE "{" F32("a", "2", 0, 8) "," F32("b", "", 8, 12) "}"

static void test_one_file(void)
{
	put_file("other", ONE, 12);
	shows("other",
	      "file 0 size=127 other\n"
	      "tensor a dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[0] size=[2] file=0 pos=115 length=8\n"
	      "tensor b dtype=float32 shape=[] bytes=4 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[] size=[] file=0 pos=123 length=4\n");
	clear();
}

#define A1 "{" F32("a", "2", 0, 8) "}"
#define B1 "{" F32("b", "1", 0, 4) "}"

/* All files in natural order, or model.safetensors alone if it exists. */
static void test_directory(void)
{
	put_file("b.safetensors", B1, 4);
	put_file("a.safetensors", A1, 8);
	put_text("other", "nothing");
	shows("",
	      "file 0 size=70 a.safetensors\n"
	      "file 1 size=66 b.safetensors\n"
	      "tensor a dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[0] size=[2] file=0 pos=62 length=8\n"
	      "tensor b dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[0] size=[1] file=1 pos=62 length=4\n");
	put_file("model.safetensors", "{}", 0);
	shows("", "file 0 size=10 model.safetensors\n");
	clear();
}

/* A name in two files without sharding information is not a tensor. */
static void test_twice(void)
{
	put_file("a.safetensors", A1, 8);
	put_file("b.safetensors", A1, 8);
	shows("",
	      "file 0 size=70 a.safetensors\n"
	      "file 1 size=70 b.safetensors\n"
	      "tensor a dtype=float32 shape=[2] bytes=0 chunks=0 kind=tensor "
	      "err=EIO \"in a.safetensors and b.safetensors, without sharding "
	      "information\"\n"
	      " path\n");
	clear();
}

/* Tensors in the order of the index, from the files that it names. */
static void test_index(void)
{
	put_file("a.safetensors",
		 "{" F32("a", "2", 0, 8) "," F32("x", "1", 8, 12) "}", 12);
	put_file("b.safetensors", B1, 4);
	put_file("c.safetensors", "{\"a\":0}", 4);
	put_text("model.safetensors.index.json",
		 "{\"metadata\":{\"total_size\":12},\"weight_map\":{"
		 "\"b\":\"b.safetensors\",\"a\":\"a.safetensors\","
		 "\"c\":\"c.safetensors\",\"d\":\"b.safetensors\","
		 "\"e\":\"missing.safetensors\"}}");
	put_text("x.safetensors.index.json", "nothing");
	shows("",
	      "file 0 size=66 b.safetensors\n"
	      "file 1 size=128 a.safetensors\n"
	      "file 2 size=19 c.safetensors\n"
	      "file 3 size=0 err=ENODATA missing.safetensors\n"
	      "tensor b dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[0] size=[1] file=0 pos=62 length=4\n"
	      "tensor a dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[0] size=[2] file=1 pos=116 length=8\n"
	      "lost file=2 err=EBADMSG \"JSON: byte 5: an entry that is no "
	      "object\"\n"
	      "lost file=3 err=ENODATA \"is missing\"\n"
	      "lost c file=2 err=ENODATA \"the index names it, its file cannot "
	      "be read\"\n"
	      "lost d file=0 err=EBADMSG \"the index names it, its file has no "
	      "such tensor\"\n"
	      "lost e file=3 err=ENODATA \"the index names it, its file cannot "
	      "be read\"\n"
	      "note tensors that the index does not name: 1\n");
	clear();
}

static void test_index_refused(void)
{
	put_file("a.safetensors", A1, 8);
	put_text("x.safetensors.index.json",
		 "{\"weight_map\":{\"a\":\"a.safetensors\"}}");
	shows("",
	      "file 0 size=70 a.safetensors\n"
	      "tensor a dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[0] size=[2] file=0 pos=62 length=8\n");
	put_text("y.safetensors.index.json", "{}");
	refused("", "x.safetensors.index.json, y.safetensors.index.json");
	unlinkat(dirfd_, "x.safetensors.index.json", 0);
	refused("", "y.safetensors.index.json: it has no weight_map");
	put_text("y.safetensors.index.json", "{\"weight_map\":{\"a\":1}}");
	refused("", "the name of no file");
	put_text("y.safetensors.index.json",
		 "{\"weight_map\":{\"a\":\"x\",\"a\":\"y\"}}");
	refused("", "two values of key a");
	put_text("y.safetensors.index.json", "{\"weight_map\":[]}");
	refused("", "no object");
	put_text("y.safetensors.index.json", "[1,");
	refused("", "no object");
	put_text("y.safetensors.index.json",
		 "{\"weight_map\":{\"a\":\"../other.safetensors\"}}");
	refused("", "../other.safetensors: is refused");
	clear();
}

#define INFO(text)	  "\"__metadata__\":{\"DCP_SHARDING_INFO\":\"" text "\"}"
#define OFFSETS(name, at) "\\\"" name "\\\":{\\\"saved_offsets\\\":[" at "]}"
#define SHARD1		  "shard-00001-model-00001-of-00001.safetensors"
#define SHARD2		  "shard-00002-model-00001-of-00001.safetensors"

static void test_shards(void)
{
	put_file(SHARD1,
		 "{" INFO("{" OFFSETS("a", "0,0") "," OFFSETS(
			 "r", "0") "}") "," F32("a", "1,2", 0,
						8) "," F32("r", "1", 8, 12) "}",
		 12);
	put_file(SHARD2,
		 "{" INFO("{" OFFSETS("a", "1,0") "," OFFSETS(
			 "r", "0") "}") "," F32("a", "2,2", 0,
						16) "," F32("r", "1", 16,
							    20) "}",
		 20);
	shows("",
	      "file 0 size=233 " SHARD1 "\n"
	      "file 1 size=243 " SHARD2 "\n"
	      "tensor a dtype=float32 shape=[3,2] bytes=24 chunks=2 "
	      "kind=tensor guessed\n"
	      " path\n"
	      " chunk off=[0,0] size=[1,2] file=0 pos=221 length=8\n"
	      " chunk off=[1,0] size=[2,2] file=1 pos=223 length=16\n"
	      "tensor r dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor "
	      "guessed\n"
	      " path\n"
	      " chunk off=[0] size=[1] file=0 pos=229 length=4\n"
	      " replica file=1 pos=239 length=4\n");
	clear();
}

/* Sharding information that is malformed, or does not match the tensors of its file. */
static void test_shards_faulty(void)
{
	static const char *const infos[] = {
		"nothing",
		"{}",
		"{" OFFSETS("b", "0") "}",
		"{" OFFSETS("a", "0,0") "}",
		"{" OFFSETS("a", "") "}",
		"{" OFFSETS("a", "-1") "}",
		"{" OFFSETS("a", "0.5") "}",
		"{\\\"a\\\":{}}",
		"{\\\"a\\\":[0]}",
		"{\\\"a\\\":{\\\"saved_offsets\\\":0}}",
		"{" OFFSETS("a", "0") "} x",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(infos); i++) {
		const struct ck_format_options options = { 0 };
		struct ck_checkpoint *cp;
		struct ck_buf json = { 0 };
		struct ck_diag d;

		ck_buf_printf(
			&json,
			"{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"%s\"},%s}",
			infos[i], F32("a", "2", 0, 8));
		put_file("a.safetensors", json.data, 8);
		printf("# %s\n", json.data);
		if (ok(open_with("", &options, &cp, &d) == 0)) {
			eq_u64(ck_catalog_tensor(cp->catalog, 0)->err, EIO);
			ck_checkpoint_close(cp);
		}
		ck_buf_fini(&json);
	}
	clear();
}

/* Boxes of one tensor with different dtypes or numbers of dimensions, or far apart. */
static void test_shards_differ(void)
{
	static const char *const others[] = {
		"{" INFO("{" OFFSETS(
			"a", "2") "}") ",\"a\":{\"dtype\":\"I32\","
				       "\"shape\":[2],\"data_offsets\":[0,8]}}",
		"{" INFO("{" OFFSETS("a", "2,0") "}") "," F32("a", "1,2", 0,
							      8) "}",
		"{" INFO("{" OFFSETS("a", "9223372036854775807") "}") "," F32(
			"a", "2", 0, 8) "}",
	};

	put_file(
		SHARD1,
		"{" INFO("{" OFFSETS("a", "0") "}") "," F32("a", "2", 0, 8) "}",
		8);
	for (size_t i = 0; i < CK_ARRAY_SIZE(others); i++) {
		const struct ck_format_options options = { 0 };
		struct ck_checkpoint *cp;
		struct ck_diag d;

		put_file(SHARD2, others[i], 8);
		if (ok(open_with("", &options, &cp, &d) == 0)) {
			const struct ck_tensor *t =
				ck_catalog_tensor(cp->catalog, 0);

			eq_u64(t->err, EIO);
			printf("# %s\n", ck_show(ck_tensor_fault(t)));
			ck_checkpoint_close(cp);
		}
	}
	clear();
}

static void test_aliases(void)
{
	put_file("a.safetensors",
		 "{\"__metadata__\":{\"format\":\"pt\",\"tied\":\"a\",\"no\":"
		 "\"nothing\",\"a\":\"a\"}," F32("a", "2", 0, 8) "}",
		 8);
	shows("a.safetensors",
	      "file 0 size=135 a.safetensors\n"
	      "tensor a dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[0] size=[2] file=0 pos=127 length=8\n"
	      "tensor tied dtype=float32 shape=[2] bytes=8 chunks=1 "
	      "kind=tensor\n"
	      " path\n"
	      " alias_of=a\n"
	      " chunk off=[0] size=[2] file=0 pos=127 length=8\n"
	      "note metadata: a = a, format = pt, no = nothing, tied = a\n");
	clear();
}

/* Refused files, and files that are only too short. */
static void test_files_faulty(void)
{
	uint64_t n = 100000001;

	put("a.safetensors", "1234567", 7);
	refused("", "no safetensors file");
	put("a.safetensors", &n, 8);
	refused("", "a header of 100000001 bytes");
	n = 0;
	put("a.safetensors", &n, 8);
	refused("", "a header of 0 bytes");
	put("a.safetensors", "PK\3\4\0\0\0\0", 8);
	refused("", "begins with an archive of torch.save");
	put_file("a.safetensors", "nothing", 0);
	refused("", "a.safetensors: JSON: byte 0");
	put_file("b.safetensors", B1, 4);
	shows("",
	      "file 0 size=15 a.safetensors\n"
	      "file 1 size=66 b.safetensors\n"
	      "tensor b dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[0] size=[1] file=1 pos=62 length=4\n"
	      "lost file=0 err=EBADMSG \"JSON: byte 0: no value\"\n");
	put_file("a.safetensors", A1, 3);
	unlinkat(dirfd_, "b.safetensors", 0);
	shows("",
	      "file 0 size=65 a.safetensors\n"
	      "tensor a dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
	      " path\n"
	      " chunk off=[0] size=[2] file=0 pos=62 length=8 err=ENODATA\n");
	clear();
}

/* A link to a file in another directory, as in hub caches. */
static void test_linkroot(void)
{
	char root[] = "/tmp/ckptfs-linkroot-XXXXXX", blob[64];
	struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp;
	struct ck_diag d;

	if (!mkdtemp(root))
		abort();
	put_file("other", A1, 8);
	(void)snprintf(blob, sizeof(blob), "%s/blob", root);
	eq_i64(renameat(dirfd_, "other", AT_FDCWD, blob), 0);
	eq_i64(symlinkat(blob, dirfd_, "link.safetensors"), 0);
	eq_err(open_with("", &options, &cp, &d), -ELOOP);
	printf("# %s\n", d.text);
	options.linkroot = dir;
	eq_err(open_with("", &options, &cp, &d), -ELOOP);
	options.linkroot = root;
	if (ok(open_with("", &options, &cp, &d) == 0)) {
		eq_u64(cp->catalog->tensors.n, 1);
		eq_u64(ck_catalog_tensor(cp->catalog, 0)->err, 0);
		ck_checkpoint_close(cp);
	}
	options.linkroot = blob;
	eq_err(open_with("", &options, &cp, &d), -ENOTDIR);
	ok(strstr(d.text, "linkroot=") != NULL);
	unlink(blob);
	rmdir(root);
	clear();
}

static void test_ranks(void)
{
	ok(ck_safetensors_rank(CK_STR(SHARD1)) == 0);
	ok(ck_safetensors_rank(CK_STR(SHARD2)) == 1);
	ok(ck_safetensors_rank(CK_STR("d/shard-7-model-x")) == 6);
	ok(ck_safetensors_rank(CK_STR("shard-0-model-x")) == CK_NO_RANK);
	ok(ck_safetensors_rank(CK_STR("shard--model-x")) == CK_NO_RANK);
	ok(ck_safetensors_rank(CK_STR("shard-1-modem-x")) == CK_NO_RANK);
	ok(ck_safetensors_rank(CK_STR("model.safetensors")) == CK_NO_RANK);
	ok(ck_safetensors_rank(CK_STR("shard-99999999999999999999-model-x")) ==
	   CK_NO_RANK);
}

int main(void)
{
	if (!mkdtemp(dir))
		abort();
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_headers();
	test_values();
	test_headers_cut_and_flipped();
	test_one_file();
	test_directory();
	test_twice();
	test_index();
	test_index_refused();
	test_shards();
	test_shards_faulty();
	test_shards_differ();
	test_aliases();
	test_files_faulty();
	test_linkroot();
	test_ranks();
	clear();
	rmdir(dir);
	return tap_done();
}
