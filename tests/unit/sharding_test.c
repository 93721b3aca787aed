/* SPDX-License-Identifier: MIT */
/*
 * What a catalog knows of a tensor besides its bytes: what kind it is, how a job had
 * it on its ranks, whose alias it is, the types of the keys on the way to it. All of
 * it is in the dump, where it says more than the key.
 */
#include "catalogs.h"
#include "tap.h"

#include <errno.h>

static struct ck_path_part part(const char *text, uint8_t type)
{
	return (struct ck_path_part){ text, (uint32_t)strlen(text), type };
}

static void path_add(struct ck_catalog *c, const struct ck_path_part *parts,
		     uint32_t n)
{
	struct ck_path_part *path = ck_catalog_path_add(c, n);

	if (!path)
		abort();
	memcpy(path, parts, n * sizeof(*parts));
}

#define PATH(c, ...)                                                           \
	path_add(c, (const struct ck_path_part[]){ __VA_ARGS__ },              \
		 sizeof((const struct ck_path_part[]){ __VA_ARGS__ }) /        \
			 sizeof(struct ck_path_part))

static void dump_is(const struct ck_catalog *c, const char *want)
{
	struct ck_buf out = { 0 };

	ck_catalog_dump(c, &out);
	eq_text(out.data, want);
	ck_buf_fini(&out);
}

static void one_byte(struct ck_catalog *c, const char *key)
{
	tensor_add(c, key, "uint8", 1, DIMS(1));
	item_add(c, DIMS(0), DIMS(1), 0, 0, 1);
	PATH(c, part(key, CK_PATH_STR));
}

/* --- paths --------------------------------------------------------------------- */

static void paths_add(struct ck_catalog *c)
{
	object_add(c, "a.b"); /* no path */
	object_add(c, "model.w");
	PATH(c, part("model", CK_PATH_STR), part("w", CK_PATH_STR));
	object_add(c, "model.x.w");
	PATH(c, part("model", CK_PATH_STR), part("x.w", CK_PATH_STR));
	object_add(c, "s.0");
	PATH(c, part("s", CK_PATH_STR), part("0", CK_PATH_INT));
	object_add(c, "s.1");
	PATH(c, part("s", CK_PATH_STR), part("1", CK_PATH_INDEX));
	object_add(c, "1.5.True");
	PATH(c, part("1.5", CK_PATH_FLOAT), part("True", CK_PATH_BOOL));
	object_add(c, "None.[1]");
	PATH(c, part("None", CK_PATH_NONE), part("[1]", CK_PATH_OTHER));
	object_add(c, ".");
	PATH(c, part("", CK_PATH_STR), part("", CK_PATH_STR));
	object_add(c, "two words.");
	PATH(c, part("two words.", CK_PATH_STR));
	object_add(c, "q.r");
	PATH(c, part("q", CK_PATH_STR));
}

#define ITEM " file=0 pos=0 length=1\n"

static void test_paths(void)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "__0_0.distcp", 10, 0);
	paths_add(c);
	finish(c);
	dump_is(c, "catalog kind=dcp\n"
		   "file 0 size=10 __0_0.distcp\n"
		   "object a.b" ITEM " path\n"
		   "object model.w" ITEM "object model.x.w" ITEM
		   " path str:model str:x.w\n"
		   "object s.0" ITEM " path str:s int:0\n"
		   "object s.1" ITEM " path str:s index:1\n"
		   "object 1.5.True" ITEM " path float:1.5 bool:True\n"
		   "object None.[1]" ITEM " path none:None other:[1]\n"
		   "object %2E" ITEM "object two%20words." ITEM
		   " path str:two%20words.\n"
		   "object q.r" ITEM " path str:q\n");
	ck_catalog_put(c);
}

/* --- kind and sharding ----------------------------------------------------------- */

static void sharded_add(struct ck_catalog *c, const char *key, uint8_t kind,
			const struct ck_sharding *sharding)
{
	one_byte(c, key);
	ck_catalog_tensor_kind(c, kind);
	if (sharding)
		must(ck_catalog_tensor_sharding(c, sharding));
}

static void test_sharding(void)
{
	struct ck_mesh_dim dims[] = {
		{ CK_STR("fsdp"), 4, { .type = CK_PLACE_SHARD } },
		{ CK_STR("t p"),
		  2,
		  { .type = CK_PLACE_STRIDED, .dim = 1, .split = 2 } },
		{ { 0 }, 8, { .type = CK_PLACE_REPLICATE } },
		{ { 0 }, 1, { .type = CK_PLACE_PARTIAL } },
	};
	struct ck_sharding sharding = { 2, dims };
	struct ck_catalog *c = catalog_new();

	file_add(c, "0.pt", 10, 0);
	sharded_add(c, "a", CK_KIND_DTENSOR, &sharding);
	sharded_add(c, "b", CK_KIND_DTENSOR, &sharding);
	sharding = (struct ck_sharding){ 2, dims + 2 };
	sharded_add(c, "c", CK_KIND_SHARDED_TENSOR, &sharding);
	sharded_add(c, "d", CK_KIND_FLAT_PARAM, NULL);
	finish(c);
	memset(dims, 0, sizeof(dims)); /* they were copied */
	ok(ck_catalog_tensor(c, 0)->facts->sharding ==
	   ck_catalog_tensor(c, 1)->facts->sharding);
#define TENSOR(name, kind)                                                     \
	"tensor " name " dtype=uint8 shape=[1] bytes=1 chunks=1 kind=" kind "\n"
#define CHUNK " chunk off=[0] size=[1] file=0 pos=0 length=1\n"
#define MESH                                                                   \
	" mesh size=4 placement=S(0) name=fsdp\n"                              \
	" mesh size=2 placement=SS(1,2) name=t%20p\n"
	dump_is(c,
		"catalog kind=dcp\nfile 0 size=10 0.pt\n" TENSOR(
			"a", "dtensor") MESH CHUNK TENSOR("b",
							  "dtensor") MESH CHUNK
			TENSOR("c",
			       "sharded_tensor") " mesh size=8 placement=R\n"
						 " mesh size=1 placement=P\n" CHUNK
							 TENSOR("d",
								"flat_param")
								 CHUNK);
	ck_catalog_put(c);
}

/* --- aliases ----------------------------------------------------------------------- */

static void test_aliases(void)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "0.pt", 10, 0);
	one_byte(c, "a");
	one_byte(c, "b");
	must(ck_catalog_tensor_alias(c, 0));
	one_byte(c, "c"); /* the first is meant, whichever was named */
	must(ck_catalog_tensor_alias(c, 1));
	finish(c);
	eq_u64(c->nbytes, 1);
	eq_u64(ck_tensor_naliases(ck_catalog_tensor(c, 0)), 2);
	dump_is(c,
		"catalog kind=dcp\nfile 0 size=10 0.pt\n" TENSOR("a", "tensor")
			CHUNK TENSOR("b", "tensor") " alias_of=a\n" CHUNK
				TENSOR("c", "tensor") " alias_of=a\n" CHUNK);
	ck_catalog_put(c);
}

static void alias_is(struct ck_catalog *c, int want)
{
	eq_err(ck_catalog_tensor_alias(c, 0), want);
}

static void test_no_alias(void)
{
	struct ck_catalog *c = catalog_new();

	file_add(c, "0.pt", 10, 0);
	one_byte(c, "a");
	alias_is(c, -EINVAL); /* of itself */
	tensor_add(c, "b", "uint8", 1, DIMS(1));
	alias_is(c, -EINVAL); /* fewer chunks */
	item_add(c, DIMS(0), DIMS(1), 0, 1, 1);
	alias_is(c, -EINVAL); /* another place */
	tensor_add(c, "c", "int8", 1, DIMS(1));
	item_add(c, DIMS(0), DIMS(1), 0, 0, 1);
	alias_is(c, -EINVAL); /* another dtype */
	tensor_add(c, "d", "uint8", 1, DIMS(2));
	item_add(c, DIMS(0), DIMS(1), 0, 0, 1);
	alias_is(c, -EINVAL); /* another shape */
	tensor_add(c, "e", "uint8", 1, DIMS(1));
	item_add(c, DIMS(1), DIMS(1), 0, 0, 1);
	alias_is(c, -EINVAL); /* another box */
	tensor_add(c, "f", "uint8", 2, DIMS(1, 1));
	item_add(c, DIMS(0, 0), DIMS(1, 1), 0, 0, 1);
	alias_is(c, -EINVAL);
	one_byte(c, "g");
	alias_is(c, 0);
	alias_is(c, -EINVAL); /* twice */
	eq_u64(ck_tensor_naliases(ck_catalog_tensor(c, 0)), 1);
	ck_catalog_put(c);
}

/* The same bytes as rows and as columns. */
static void transposed_add(struct ck_catalog *c, const char *key,
			   const uint64_t *strides)
{
	struct ck_item item = { .length = 4, .form = CK_FORM_ELEMENTS };

	tensor_add(c, key, "uint8", 2, DIMS(2, 2));
	must(ck_catalog_chunk_add(c, DIMS(0, 0), DIMS(2, 2), &item));
	must(ck_catalog_strides_add(c, strides));
}

static void test_transposed(void)
{
	struct ck_catalog *c = catalog_new();
	const uint64_t rows[] = { 2, 1 }, columns[] = { 1, 2 };

	file_add(c, "0.pt", 10, 0);
	transposed_add(c, "a", rows);
	transposed_add(c, "b", columns);
	alias_is(c, -EINVAL);
	transposed_add(c, "c", rows);
	alias_is(c, 0);
	ck_catalog_put(c);
}

int main(void)
{
	test_transposed();
	test_paths();
	test_sharding();
	test_aliases();
	test_no_alias();
	return tap_done();
}
