/* SPDX-License-Identifier: MIT */
/*
 * torch_files: tensors in one or several files of torch.save, in a zip archive or in the format
 * before 1.6. The test checks their locations, lost files and tensors, and refused files.
 */
#include "format/load/numbered.h"
#include "model/catalog/catalog_edit.h"
#include "torch_dir.h"

/* --- tensors --------------------------------------------------------------------------------- */

static void test_tensors(void)
{
	tc_put("model.pt",
	       tc_legacy(
		       "{ ( 'a +7:6 'b +7:6 't +7:6:0:3,2:1,3 'part +7:6:2:2:1 "
		       "'wide +8:1:0:1099511627776,3:0,0 "
		       "'huge +8:1:0:1099511627776,1099511627776:0,0 "
		       "'one +7:6:5:1,1:77,99 'zero +7:6:6:0,3:3,1 'far "
		       "+7:6:5:2:1 'less +8:1:0:2:1 u",
		       "7:6 8:1", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=1662 model.pt\n"
		"tensor a dtype=float32 shape=[6] bytes=24 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[6] file=0 pos=1626 length=24\n"
		"tensor b dtype=float32 shape=[6] bytes=24 chunks=1 kind=tensor\n"
		" alias_of=a\n"
		" chunk off=[0] size=[6] file=0 pos=1626 length=24\n"
		"tensor t dtype=float32 shape=[3,2] bytes=24 chunks=1 kind=tensor\n"
		" chunk off=[0,0] size=[3,2] file=0 pos=1626 length=24 strides=[4,12]\n"
		"tensor part dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[2] file=0 pos=1634 length=8\n"
		"tensor wide dtype=float32 shape=[1099511627776,3] bytes=13194139533312 chunks=1 kind=tensor\n"
		" chunk off=[0,0] size=[1099511627776,3] file=0 pos=1658 length=4 strides=[0,0]\n"
		"tensor huge dtype=float32 shape=[1099511627776,1099511627776] bytes=0 chunks=1 kind=tensor err=EIO \"too many elements to count, shape [1099511627776,1099511627776]\"\n"
		" chunk off=[0,0] size=[1099511627776,1099511627776] file=0 pos=1658 length=4 strides=[0,0]\n"
		"tensor one dtype=float32 shape=[1,1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0,0] size=[1,1] file=0 pos=1646 length=4\n"
		"tensor zero dtype=float32 shape=[0,3] bytes=0 chunks=1 kind=tensor\n"
		" chunk off=[0,0] size=[0,3] file=0 pos=1626 length=0\n"
		"tensor far dtype=float32 shape=[2] bytes=0 chunks=0 kind=tensor err=EBADMSG \"model.pt: storage 7: its storage is too small\"\n"
		"tensor less dtype=float32 shape=[2] bytes=0 chunks=0 kind=tensor err=EBADMSG \"model.pt: storage 8: its storage is too small\"\n");
	tc_put("model.pt",
	       tc_zip("{ ( 'a +7:6 'b +8:2 'short +9:4 'away +10:1 'm "
		      "@torch._utils:_rebuild_meta_tensor_no_storage ( "
		      "@torch:float32 ( 2 t ( 1 t F t R u",
		      "7:6 8:2 9:3"));
	tc_shows(
		"model.pt",
		"file 0 size=1826 model.pt\n"
		"tensor a dtype=float32 shape=[6] bytes=24 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[6] file=0 pos=960 length=24\n"
		"tensor b dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[2] file=0 pos=1088 length=8\n"
		"tensor short dtype=float32 shape=[4] bytes=0 chunks=0 kind=tensor err=EBADMSG \"model.pt: storage 9: its storage has 12 bytes, its pickle has 16\"\n"
		"tensor away dtype=float32 shape=[1] bytes=0 chunks=0 kind=tensor err=EBADMSG \"model.pt: storage 10: its storage is not in the file\"\n"
		"tensor m dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[2] file=none pos=0 length=0 err=ENODATA\n");
	/* Storages of an unknown class, and packed ones. */
	tc_put("model.pt",
	       tc_zip("{ ( 'v $7:Float:6 's ( $7:Float:6 t u", "7:6"));
	tc_shows("model.pt",
		 "file 0 size=938 model.pt\n"
		 "object v file=0 pos=64 length=128 value=56 storages=1\n"
		 "object s file=0 pos=64 length=128 value=57 storages=1\n");
}

/* --- before 1.6 -------------------------------------------------------------------------------- */

#define TWO "{ ( 'a +7:3 'b +8:2 'c +9:1 u"
/* The second tensor, if its storage has a wrong length. */
#define WRONG_LENGTH                                                           \
	"tensor b dtype=float32 shape=[2] bytes=0 chunks=0 kind=tensor "       \
	"err=EBADMSG \"model.pt: storage 8: the lengths in its storage and "   \
	"its pickle differ\"\n"

static void test_legacy_lengths(void)
{
	/* The length in the file is used, and not the one in the pickle. */
	tc_put("model.pt", tc_legacy(TWO, "7:3 8:1 9:1", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=574 model.pt\n"
		"tensor a dtype=float32 shape=[3] bytes=12 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[3] file=0 pos=538 length=12\n" WRONG_LENGTH
		"tensor c dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=570 length=4\n");
	tc_put("model.pt", tc_legacy(TWO, "7:3 8:4 9:1", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=586 model.pt\n"
		"tensor a dtype=float32 shape=[3] bytes=12 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[3] file=0 pos=538 length=12\n" WRONG_LENGTH
		"tensor c dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=582 length=4\n");
	/* Longer than the file: the locations of later storages are unknown. */
	tc_put("model.pt", tc_legacy(TWO, "7:3 8:1000/2 9:1", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=578 model.pt\n"
		"tensor a dtype=float32 shape=[3] bytes=12 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[3] file=0 pos=538 length=12\n" WRONG_LENGTH
		"tensor c dtype=float32 shape=[1] bytes=0 chunks=0 kind=tensor err=EBADMSG \"model.pt: storage 9: where its storage begins is not known, since one before has no good length\"\n");
	tc_put("model.pt",
	       tc_legacy(TWO, "7:3 8:18446744073709551615/2 9:1", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=578 model.pt\n"
		"tensor a dtype=float32 shape=[3] bytes=12 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[3] file=0 pos=538 length=12\n" WRONG_LENGTH
		"tensor c dtype=float32 shape=[1] bytes=0 chunks=0 kind=tensor err=EBADMSG \"model.pt: storage 9: where its storage begins is not known, since one before has no good length\"\n");
	/* A truncated file. */
	tc_put("model.pt", tc_legacy(TWO, "7:3 8:2/1 9:1/0", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=570 model.pt\n"
		"tensor a dtype=float32 shape=[3] bytes=12 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[3] file=0 pos=538 length=12\n"
		"tensor b dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[2] file=0 pos=558 length=8\n"
		"tensor c dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=574 length=4 err=ENODATA\n");
}

static void test_legacy_lists(void)
{
	/* In any order. */
	tc_put("model.pt", tc_legacy(TWO, "9:1 7:3 8:2", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=578 model.pt\n"
		"tensor a dtype=float32 shape=[3] bytes=12 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[3] file=0 pos=550 length=12\n"
		"tensor b dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[2] file=0 pos=570 length=8\n"
		"tensor c dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=538 length=4\n");
	tc_put("model.pt", tc_legacy(TWO, "7:3 8:2", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=560 model.pt\n"
		"tensor a dtype=float32 shape=[3] bytes=12 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[3] file=0 pos=532 length=12\n"
		"tensor b dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[2] file=0 pos=552 length=8\n"
		"tensor c dtype=float32 shape=[1] bytes=0 chunks=0 kind=tensor err=EBADMSG \"model.pt: storage 9: its storage is not in the file\"\n");
	tc_put("model.pt", tc_legacy(TWO, "7:3 8:2 7:3", NULL));
	tc_refused("model.pt", "storage 2 of its list: listed before");
	tc_put("model.pt", tc_legacy(TWO, "7:3 6:2 9:1", NULL));
	tc_refused("model.pt", "storage 1 of its list: nothing refers to it");
	tc_put("model.pt", tc_legacy(TWO, "7:3 8:2 9:1", "[ ( 7 8 9 e"));
	tc_refused("model.pt", "storage 0 of its list: nothing refers to it");
	tc_put("model.pt", tc_legacy(TWO, "7:3 8:2 9:1", "( '7 '8 '9 t"));
	tc_refused("model.pt", "no list of storages");
	tc_put("model.pt", tc_legacy(TWO, "7:3", "@os:system ( 'true t R"));
	tc_refused("model.pt", "os.system");
	tc_put("model.pt", tc_legacy("{ ( 'a +7:3 'b +7:2 u", "7:3", NULL));
	tc_refused("model.pt", "storage 7 has two lengths: 12 and 8 bytes");
}

static void test_legacy_storages(void)
{
	/* Packed storages are counted in bytes; the file continues behind them. */
	tc_put("model.pt",
	       tc_legacy("{ ( 'q $6:QUInt4x2:4 'a +7:1 u", "6:4/1 7:1", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=328 model.pt\n"
		"object q file=0 pos=74 length=212 value=59 storages=1\n"
		"tensor a dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=324 length=4\n");
	tc_put("model.pt",
	       tc_legacy("{ ( 'q $6:Strange:4 'a +7:1 u", "6:4/1 7:1", NULL));
	tc_refused("model.pt", "storage 6: 4 of torch.StrangeStorage");
	tc_put("model.pt", tc_legacy("{ ( 'q $6:Double:4611686018427387904 u",
				     "6:1", NULL));
	tc_refused("model.pt", "storage 6: 4611686018427387904 of");
	/* A storage that is a part of another one, and a class with its source. */
	tc_put("model.pt",
	       tc_legacy(
		       "{ 'a ( 'storage @torch:FloatStorage '7 'cpu 2 ( '8 0 2 "
		       "t t Q s",
		       "7:2", NULL));
	tc_refused("model.pt", "a part of another one");
	tc_put("model.pt",
	       tc_legacy(
		       "{ ( 'a +7:1 'c ( 'module @mine:Net 'net.py 'class t Q ) "
		       "R u",
		       "7:1", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=299 model.pt\n"
		"tensor a dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=295 length=4\n"
		"object c file=0 pos=74 length=201 value=17 storages=0\n");
}

/* Values are little-endian whatever the file states, as in torch.load. */
static void test_legacy_big_endian(void)
{
	struct ck_buf b = tc_legacy("{ 'a +7:2 s", "7:2", NULL);
	char *at = memmem(b.data, b.len, "little_endian\x88", 14);

	at[13] = '\x89';
	tc_put("model.pt", b);
	tc_shows(
		"model.pt",
		"file 0 size=249 model.pt\n"
		"tensor a dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[2] file=0 pos=241 length=8\n");
}

/* --- several files ----------------------------------------------------------------------------- */

static void test_files(void)
{
	tc_put("model.pt", tc_zip("{ 'w +7:1 s", "7:1"));
	tc_put("optimizer.pt", tc_legacy("{ 'state { 0 +7:1 s s", "7:1", NULL));
	tc_put("a.pt", tc_zip("5", ""));
	tc_shows(
		"",
		"file 0 size=622 a.pt\n"
		"file 1 size=938 model.pt\n"
		"file 2 size=256 optimizer.pt\n"
		"object a file=0 pos=64 length=8 value=5 storages=0\n"
		"tensor model.w dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=1 pos=448 length=4\n"
		"tensor optimizer.state.0 dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" path str:optimizer str:state int:0\n"
		" chunk off=[0] size=[1] file=2 pos=252 length=4\n");
	tc_put("model.pt", tc_zip("{ 'w +7:1 s", "7:1"));
	tc_put("model.bin", tc_zip("{ 'w +7:1 s", "7:1"));
	tc_shows(
		"",
		"file 0 size=938 model.bin\n"
		"file 1 size=938 model.pt\n"
		"tensor model.w dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=448 length=4\n"
		"tensor model.w~2 dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" path str:model str:w\n"
		" chunk off=[0] size=[1] file=1 pos=448 length=4\n");
	tc_put("model.pt", tc_zip("{ 'w +7:1 s", "7:1"));
	tc_put("a.pt", tc_zip("{ 'w", ""));
	tc_shows(
		"",
		"file 0 size=622 a.pt\n"
		"file 1 size=938 model.pt\n"
		"tensor model.w dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=1 pos=448 length=4\n"
		"lost file=0 err=EBADMSG \"data.pkl: pickle: byte 10: STOP without exactly one object\"\n");
	tc_put("a.pt", tc_zip("{ 'w", ""));
	tc_refused("", "a.pt: data.pkl");
}

#define P1 "p-00001-of-00002.bin"
#define P2 "p-00002-of-00002.bin"

static void test_pieces(void)
{
	tc_put(P1, tc_zip("{ ( 'a +7:1 'b +7:1 u", "7:1"));
	tc_put(P2, tc_legacy("{ ( 'c +7:1 'b +8:1 'd 5 u", "7:1 8:1", NULL));
	tc_put("a.pt", tc_zip("{ 'x +7:1 s", "7:1"));
	tc_shows(
		"",
		"file 0 size=1066 p-00001-of-00002.bin\n"
		"file 1 size=417 p-00002-of-00002.bin\n"
		"file 2 size=938 a.pt\n"
		"tensor a dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=576 length=4\n"
		"tensor b dtype=float32 shape=[1] bytes=0 chunks=0 kind=tensor err=EIO \"in p-00001-of-00002.bin and p-00002-of-00002.bin\"\n"
		"tensor c dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=1 pos=401 length=4\n"
		"object d file=1 pos=74 length=301 value=5 storages=0\n"
		"tensor a.x dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=2 pos=448 length=4\n");
	tc_put("lord-of-rings-1-of-2.bin", tc_zip("{ 'a +7:1 s", "7:1"));
	tc_shows(
		"",
		"file 0 size=938 lord-of-rings-1-of-2.bin\n"
		"tensor a dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=448 length=4\n"
		"lost err=ENODATA \"lord-of-rings-2-of-2.bin is missing: its "
		"tensors are not shown until it is in the directory\"\n");
	/* One that is no torch file is damage, and not missing. */
	tc_put(P1, tc_zip("{ 'a +7:1 s", "7:1"));
	tc_put_text(P2, "text");
	tc_shows(
		"",
		"file 0 size=938 p-00001-of-00002.bin\n"
		"file 1 size=4 p-00002-of-00002.bin\n"
		"tensor a dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=448 length=4\n"
		"lost file=1 err=EBADMSG \"not made by torch.save\"\n");
}

/* Other files beside pieces, an index, or a whole model with an index, which is not used. A
 * damaged or dangerous one is lost alone. */
static void test_beside(void)
{
	tc_put(P1, tc_zip("{ ( 'a.x 1 'b 2 u", ""));
	tc_put(P2, tc_zip("{ 'c 3 s", ""));
	tc_put("a.pt", tc_zip("{ 'x 4 s", ""));
	tc_put("optimizer.pt", tc_zip("{ 'x @posix:system ( 'true t R s", ""));
	tc_put_text("model.bin", "PK\3\4");
	tc_shows(
		"",
		"file 0 size=622 p-00001-of-00002.bin\n"
		"file 1 size=622 p-00002-of-00002.bin\n"
		"file 2 size=622 a.pt\n"
		"file 3 size=4 model.bin\n"
		"file 4 size=622 optimizer.pt\n"
		"object a.x file=0 pos=64 length=30 value=5 storages=0\n"
		" path str:a.x\n"
		"object b file=0 pos=64 length=30 value=5 storages=0\n"
		"object c file=1 pos=64 length=16 value=5 storages=0\n"
		"object a.x~2 file=2 pos=64 length=16 value=5 storages=0\n"
		" path str:a str:x\n"
		"lost file=3 err=EBADMSG \"no zip end record in 4 bytes\"\n"
		"lost file=4 err=EBADMSG \"data.pkl: pickle: dangerous global posix.system: refused\"\n");
	tc_put("pytorch_model.bin", tc_zip("{ 'a 1 s", ""));
	tc_put("optimizer.pt", tc_zip("{ 'x 4 s", ""));
	tc_put(P1, tc_zip("{ 'b 2 s", ""));
	tc_put_text("pytorch_model.bin.index.json",
		    "{\"weight_map\":{\"b\":\"" P1 "\"}}");
	tc_shows(
		"",
		"file 0 size=622 pytorch_model.bin\n"
		"file 1 size=622 optimizer.pt\n"
		"object a file=0 pos=64 length=16 value=5 storages=0\n"
		"object optimizer.x file=1 pos=64 length=16 value=5 storages=0\n"
		"note pytorch_model.bin is shown, as transformers loads it; pytorch_model.bin.index.json beside it is not used\n");
}

/* Files of which n has no number. */
static void test_numbered(void)
{
	static const struct {
		const char *name;
		uint64_t i, n;
	} cases[] = {
		{ "m-1-of-2.bin", 1, 2 },
		{ "m-00003-of-00002.bin", 3, 2 },
		{ "m-2-of-3-1-of-999999999.bin", 1, 999999999 },
		{ "m-1-of-1000000000.bin", 0, 0 },
		{ "m-1-of-18446744073709551617.bin", 0, 0 },
		{ "-1-of-2.bin", 0, 0 },
		{ "m1-of-2.bin", 0, 0 },
		{ "m--of-2.bin", 0, 0 },
		{ "m-1-of-.bin", 0, 0 },
		{ "m-1-of-2.pt", 0, 0 },
		{ ".bin", 0, 0 },
	};
	struct ck_numbered_name got;

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		bool is = ck_numbered_of(cases[i].name, ".bin", &got);

		ok(is == (cases[i].n > 0));
		ok(!is || (got.i == cases[i].i && got.n == cases[i].n));
	}
}

/* Checks the number of lines about missing files, and the text of the last one. */
static void missing(const char *const *names, size_t n, size_t want,
		    const char *text)
{
	struct ck_catalog *c = ck_catalog_make("");
	struct ck_dir_names all = { 0 };

	for (size_t i = 0; i < n; i++)
		if (ck_dir_names_add(&all, names[i]))
			abort();
	if (!c || ck_numbered_lose(c, &all, ".bin"))
		abort();
	eq_u64(c->nlosses, want);
	if (want && c->nlosses == want)
		eq_text(c->losses[want - 1].what.p, text);
	ck_dir_names_fini(&all);
	ck_catalog_put(c);
}

static void test_missing(void)
{
	static const char *const all[] = { "a-2-of-2.bin", "a-1-of-2.bin",
					   "b-01-of-01.bin", "c.bin" };
	static const char *const two[] = { "a-2-of-2.bin", "a-1-of-3.bin",
					   "b-1-of-2.bin", "b-2-of-2.bin" };
	static const char *const odd[] = { "a-0-of-2.bin", "a-7-of-2.bin" };
	static const char *const far[] = { "a-000000017-of-999999999.bin" };

	missing(all, 4, 0, "");
	missing(two, 4, 3,
		"a-3-of-3.bin is missing: its tensors are not shown until it "
		"is in the directory");
	missing(odd, 2, 2,
		"a-2-of-2.bin is missing: its tensors are not shown until it "
		"is in the directory");
	missing(far, 1, 17, "999999982 more files are missing");
}

static void test_index(void)
{
	static const char text[] =
		"{\"metadata\":{},\"weight_map\":{\"b\":\"" P2 "\",\"a\":\"" P1
		"\",\"e\":\"" P1 "\",\"x\":\"../model.pt\",\"y\":\"gone.bin\","
		"\"a.b\":\"" P1 "\"}}";

	tc_put(P1, tc_zip("{ ( 'a +7:1 'b +7:1 u", "7:1"));
	tc_put(P2, tc_legacy("{ ( 'c +7:1 'b +8:1 u", "7:1 8:1", NULL));
	tc_put_text("x.bin.index.json", text);
	tc_shows(
		"",
		"file 0 size=406 p-00002-of-00002.bin\n"
		"file 1 size=1066 p-00001-of-00002.bin\n"
		"file 2 size=0 err=ENODATA ../model.pt\n"
		"file 3 size=0 err=ENODATA gone.bin\n"
		"tensor b dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=0 pos=402 length=4\n"
		"tensor a dtype=float32 shape=[1] bytes=4 chunks=1 kind=tensor\n"
		" chunk off=[0] size=[1] file=1 pos=576 length=4\n"
		"lost file=2 err=ENODATA \"is refused: not beneath the checkpoint's directory\"\n"
		"lost file=3 err=ENODATA \"is missing\"\n"
		"lost e file=1 err=EBADMSG \"the index names it, its file has no such entry\"\n"
		"lost x file=2 err=ENODATA \"the index names it, its file cannot be read\"\n"
		"lost y file=3 err=ENODATA \"the index names it, its file cannot be read\"\n"
		"lost a.b file=1 err=EBADMSG \"the index names it, its file has no such entry\"\n"
		"note entries that the index does not name: 2\n");
	tc_put_text("x.bin.index.json", "{\"weight_map\":{\"a\":5}}");
	tc_refused("", "the name of no file");
	tc_put_text("x.bin.index.json", text);
	tc_put_text("pytorch_model.bin.index.json", "{}");
	tc_refused("", "pytorch_model.bin.index.json: ");
	tc_put_text("x.bin.index.json", "{\"weight_map\":{}}");
	tc_shows("", "");
}

/* --- refused files ----------------------------------------------------------------------------- */

static void test_dangerous(void)
{
	static const char evil[] = "{ ( 'a +7:1 'x @posix:system ( 'true t R u";

	tc_put("model.pt", tc_zip(evil, "7:1"));
	tc_refused("model.pt", "posix.system");
	tc_put("model.pt", tc_legacy(evil, "7:1", NULL));
	tc_refused("model.pt", "posix.system");
	/* One dangerous file among others is enough. */
	tc_put("model.pt", tc_zip("{ 'w +7:1 s", "7:1"));
	tc_put("optimizer.pt", tc_legacy(evil, "7:1", NULL));
	tc_refused("", "optimizer.pt: ");
	tc_put(P1, tc_zip("{ 'w +7:1 s", "7:1"));
	tc_put(P2, tc_zip(evil, "7:1"));
	tc_refused("", P2 ": ");
}

static void test_refused(void)
{
	struct ck_buf zip = tc_zip("{ 'w +7:1 s", "7:1"), cut = { 0 };

	ck_buf_add(&cut, zip.data, zip.len / 2);
	tc_put("model.pt", cut);
	tc_refused("model.pt", "");
	ck_buf_fini(&zip);
	tc_put("model.pt", tc_legacy("{ 'w +7:1 s", "", NULL));
	tc_shows(
		"model.pt",
		"file 0 size=227 model.pt\n"
		"tensor w dtype=float32 shape=[1] bytes=0 chunks=0 kind=tensor err=EBADMSG \"model.pt: storage 7: its storage is not in the file\"\n");
}

/* posiy.system is an unknown function. Flipping one bit makes it posix.system, which is refused
 * by name. No flipped bit runs the function. */
static void test_bit_of_a_name(void)
{
	char canary[80], value[160];
	struct ck_buf bytes[2];

	(void)snprintf(canary, sizeof(canary), "%s.canary", tc_dir);
	(void)snprintf(value, sizeof(value),
		       "{ ( 'w 5 'x @posiy:system ( 'touch\t%s t R u", canary);
	bytes[0] = tc_zip(value, "");
	bytes[1] = tc_legacy(value, "", NULL);
	for (int i = 0; i < 2; i++) {
		unsigned named = 0;

		for (size_t bit = 0; bit < 8 * bytes[i].len; bit++) {
			struct ck_checkpoint *cp;
			struct ck_buf copy = { 0 };
			struct ck_diag d;

			ck_buf_add(&copy, bytes[i].data, bytes[i].len);
			copy.data[bit / 8] ^= (char)(1 << bit % 8);
			tc_put("model.pt", copy);
			named += tc_open_it("model.pt", &cp, &d) == -EBADMSG &&
				 strstr(d.text,
					"dangerous global posix.system");
			ck_checkpoint_close(cp);
		}
		eq_u64(named, 1);
		ck_buf_fini(&bytes[i]);
	}
	ok(access(canary, F_OK) != 0);
	tc_clear();
}

int main(void)
{
	tc_begin();
	test_tensors();
	test_legacy_lengths();
	test_legacy_lists();
	test_legacy_storages();
	test_legacy_big_endian();
	test_files();
	test_pieces();
	test_beside();
	test_numbered();
	test_missing();
	test_index();
	test_dangerous();
	test_refused();
	test_bit_of_a_name();
	return tc_end();
}
