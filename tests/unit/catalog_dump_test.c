/* SPDX-License-Identifier: MIT */
/* The text form of a catalog with one of everything. */
#include "catalogs.h"
#include "tap.h"

static const char want[] =
	"catalog kind=dcp\n"
	"file 0 size=1000 __0_0.distcp\n"
	"file 1 size=0 err=ENODATA sub/a%20b%0A%25.distcp\n"
	"tensor layers.0.weight dtype=bfloat16 shape=[4,3] bytes=24 chunks=2 "
	"kind=tensor key=layers.0._orig_mod.weight\n"
	" path\n"
	" chunk off=[0,0] size=[2,3] file=0 pos=0 length=100\n"
	" chunk off=[2,0] size=[2,3] file=1 pos=7 length=9 "
	"transform=stream.zstd/1 err=ENODATA\n"
	"object a%20b%2F%C2%85%0A file=0 pos=100 length=10\n"
	" path\n"
	"tensor step dtype=int64 shape=[] bytes=8 chunks=0 kind=tensor holes\n"
	" path\n"
	"tensor bad dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor "
	"err=EIO \"a box is not inside the tensor, box 0 offset [1] "
	"size [2]\"\n"
	" path\n"
	" chunk off=[1] size=[2] file=none pos=0 length=0 err=ENODATA\n"
	"object o file=none pos=0 length=0 err=ENODATA key=_orig_mod.o\n"
	" path\n"
	"global evil.module%20x.name\n";

static void fill(struct ck_catalog *c)
{
	struct ck_item item = { .file = 1, .fpos = 7, .length = 9 };

	file_add(c, "__0_0.distcp", 1000, 0);
	file_add(c, "sub/a b\n%.distcp", 0, ENODATA);
	must(ck_catalog_transform_add(c, CK_STR("stream.zstd/1"),
				      &item.transform));
	tensor_add(c, "layers.0._orig_mod.weight", "bfloat16", 2, DIMS(4, 3));
	item_add(c, DIMS(0, 0), DIMS(2, 3), 0, 0, 100);
	must(ck_catalog_chunk_add(c, DIMS(2, 0), DIMS(2, 3), &item));
	item = (struct ck_item){ .fpos = 100, .length = 10 };
	must(ck_catalog_object_add(c, CK_STR("a b/\xc2\x85\n"), &item));
	tensor_add(c, "step", "int64", 0, NULL);
	tensor_add(c, "bad", "float32", 1, DIMS(2));
	item_add(c, DIMS(1), DIMS(2), CK_NO_FILE, 0, 0);
	item = (struct ck_item){ .file = CK_NO_FILE };
	must(ck_catalog_object_add(c, CK_STR("_orig_mod.o"), &item));
	must(ck_catalog_global_add(c, CK_STR("evil.module x.name")));
}

int main(void)
{
	struct ck_catalog *c = catalog_new();
	struct ck_buf out = { 0 };

	fill(c);
	finish(c);
	ck_catalog_dump(c, &out);
	eq_u64(out.err ? 1 : 0, 0);
	eq_text(out.data, want);
	ck_buf_fini(&out);
	ck_catalog_put(c);
	return tap_done();
}
