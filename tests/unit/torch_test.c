/* SPDX-License-Identifier: MIT */
/*
 * torch: paths of nested state dicts, the legacy container, and checkpoints of several files of
 * torch.save: pieces of one, or the files of ranks. The test writes its files, except those of two
 * ranks of a DTensor.
 *
 *	torch_test DIRECTORY	rank_0.pt, rank_1.pt
 */
#include "ckptfs/format.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static char dir[] = "/tmp/ckptfs-torch-XXXXXX";
static int dirfd_;
static const char *fixtures;

/* --- files of the legacy container ---------------------------------------------------------- */

#define STR1(s) "X\1\0\0\0" s
#define ORDERED "ccollections\nOrderedDict\n"
/* Lengths, sizes and strides are strings of one byte. */
#define TYPED(class, key, numel, view, dims)                                   \
	"ctorch._utils\n_rebuild_tensor_v2\n"                                  \
	"((X\7\0\0\0storagectorch\n" class "\n" STR1(                          \
		key) "X\3\0\0\0cpuK" numel view "tQK\0" dims "\x89" ORDERED    \
		     ")RtR"
#define ONE(n)	      "K" n "\x85K\1\x85"
#define T(key, n)     TYPED("FloatStorage", key, n, "N", ONE(n))
#define BYTES(key, n) TYPED("ByteStorage", key, n, "N", ONE(n))
#define LIT(s)	      (s), sizeof(s) - 1

static const char *const made[] = { "x.pt",	    "y.pt",	   "rank_0.pt",
				    "rank_1.pt",    "rank_2.pt",   "rank_40.pt",
				    "m-1-of-2.bin", "m-2-of-2.bin" };

static void clear(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(made); i++)
		unlinkat(dirfd_, made[i], 0);
}

static void put(const char *name, const struct ck_buf *b)
{
	int fd = openat(dirfd_, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0640);

	if (b->err || fd < 0 || ck_write_full(fd, b->data, b->len))
		abort();
	close(fd);
}

/* Copies one of the fixtures to another name. */
static void put_copy(const char *from, const char *name)
{
	struct ck_buf b = { 0 };
	static char bytes[8192];
	char path[512];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", fixtures, from);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
	if (n <= 0)
		abort();
	ck_buf_add(&b, bytes, (size_t)n);
	put(name, &b);
	ck_buf_fini(&b);
	close(fd);
}

/* `value` is a pickle without PROTO and STOP. Keys have one byte. */
static void put_value(const char *name, const char *value, size_t len,
		      const char *keys, const char *storages, size_t bytes)
{
	struct ck_buf b = { 0 };

	ck_buf_add(&b, LIT("\x80\2\x8a\nl\xfc\x9c"
			   "F\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}X\r\0\0\0"
			   "little_endian\x88s.\x80\2"));
	ck_buf_add(&b, value, len);
	ck_buf_add(&b, LIT(".\x80\2]("));
	for (; *keys; keys++) {
		ck_buf_add(&b, LIT("X\1\0\0\0"));
		ck_buf_add(&b, keys, 1);
	}
	ck_buf_text(&b, "e.");
	ck_buf_add(&b, storages, bytes);
	put(name, &b);
	ck_buf_fini(&b);
}

#define PUT(name, value, keys, storages)                                       \
	put_value(name, LIT(value), keys, LIT(storages))
/* Storages of two floats, and of eight bytes. */
#define TWO   "\2\0\0\0\0\0\0\0abcdefgh"
#define EIGHT "\x8\0\0\0\0\0\0\0abcdefgh"

/* --- opened checkpoints ----------------------------------------------------------------------- */

static int open_it(const char *name, struct ck_checkpoint **cp,
		   struct ck_diag *d)
{
	static const struct ck_format_options options = { 0 };
	char path[128];

	*cp = NULL;
	*d = (struct ck_diag){ 0 };
	(void)snprintf(path, sizeof(path), "%s%s%s", dir, *name ? "/" : "",
		       name);
	return ck_checkpoint_open(path, &options, cp, d);
}

/* The dump of a checkpoint must contain all of these lines. */
static void shows(const char *name, const char *kind, const char *const *lines,
		  size_t n)
{
	struct ck_checkpoint *cp;
	struct ck_buf dump = { 0 };
	struct ck_diag d;
	bool all = true;

	if (!ok(open_it(name, &cp, &d) == 0)) {
		printf("# %s\n", d.text);
		return;
	}
	eq_text(ck_checkpoint_kind(cp), kind);
	ck_catalog_dump(cp->catalog, &dump);
	ck_buf_u8(&dump, 0);
	for (size_t i = 0; i < n; i++) {
		bool has = strstr(dump.data, lines[i]) != NULL;

		if (!has)
			printf("# no line: %s\n", lines[i]);
		all &= has;
	}
	ok(all);
	for (char *rest = NULL, *line = strtok_r(dump.data, "\n", &rest);
	     line && !all; line = strtok_r(NULL, "\n", &rest))
		printf("# %s\n", line);
	ck_buf_fini(&dump);
	ck_checkpoint_close(cp);
}

#define SHOWS(name, kind, ...)                                                 \
	shows(name, kind, (const char *const[]){ __VA_ARGS__ },                \
	      CK_ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))

static void refused(const char *name, const char *words)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;

	eq_err(open_it(name, &cp, &d), -EBADMSG);
	if (!ok(strstr(d.text, words) != NULL))
		printf("# %s\n", d.text);
	ck_checkpoint_close(cp);
}

/* --- flattening ------------------------------------------------------------------------------- */

static void test_types_of_keys_stay_in_paths(void)
{
	PUT("x.pt",
	    "}(K\0" T("a", "\2") STR1("0")
		    T("b", "\2") "N" T("a", "\2") "\x88" T(
			    "b", "\2") "G?\xf8\0\0\0\0\0\0" T("a", "\2")
			    STR1("l") "](" T("b", "\2") "eu",
	    "ab", TWO TWO);
	SHOWS("x.pt", "torch",
	      "tensor 0 dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n path int:0\n",
	      "tensor 0~2 dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n path str:0\n",
	      " path none:None\n alias_of=0\n",
	      " path bool:True\n alias_of=0~2\n", " path float:1.5\n",
	      "tensor l.0 dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n path str:l index:0\n");
	clear();
}

static void test_two_paths_of_one_key(void)
{
	PUT("x.pt",
	    "}(" STR1("a") "}(K\0K\1" STR1("0") "K\2u"
						"X\3\0\0\0a.0K\3"
						"X\5\0\0\0a.0~2K\4u",
	    "", "");
	SHOWS("x.pt", "torch", "object a.0 ",
	      " path str:a int:0\nobject a.0~2 ",
	      " path str:a str:0\nobject a.0~3 ",
	      " path str:a.0\nobject a.0~2~2 ", " path str:a.0~2\n");
	clear();
}

static void test_empty_mappings_are_entries(void)
{
	PUT("x.pt",
	    "}(" STR1("e") "}" STR1("o") ORDERED ")R" STR1("l") "](}K\5eu", "",
	    "");
	SHOWS("x.pt", "torch", "object e ", "object o ",
	      " path str:l index:0\n", " path str:l index:1\n");
	clear();
}

static void test_python2_and_counter(void)
{
	PUT("x.pt",
	    "}(" STR1("o") ORDERED "](](" STR1("w") T("a", "\2") "ee\x85R" STR1(
		    "c") "ccollections\nCounter\n}" STR1("k") "K\3s\x85Ru",
	    "a", TWO);
	SHOWS("x.pt", "torch",
	      "tensor o.w dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n",
	      "object c.k ");
	clear();
}

static void test_a_cycle_is_refused(void)
{
	PUT("x.pt", "}q\0" STR1("a") "h\0s", "", "");
	refused("x.pt", "nested");
	PUT("x.pt", "}" STR1("a") "]q\0(h\0}es", "", "");
	refused("x.pt", "nested");
	clear();
}

/* Each level contains the level before twice, behind `first` and behind `second`. */
static void put_doubling(const char *name, const char *leaf, size_t len,
			 unsigned levels, const char *first, size_t nfirst,
			 const char *second, size_t nsecond, const char *end)
{
	struct ck_buf b = { 0 };

	ck_buf_add(&b, leaf, len);
	ck_buf_add(&b, LIT("q\0"));
	for (unsigned i = 1; i <= levels; i++) {
		ck_buf_text(&b, "0"); /* pops it */
		ck_buf_add(&b, first, nfirst);
		ck_buf_text(&b, "h");
		ck_buf_u8(&b, (uint8_t)(i - 1));
		ck_buf_add(&b, second, nsecond);
		ck_buf_text(&b, "h");
		ck_buf_u8(&b, (uint8_t)(i - 1));
		ck_buf_text(&b, end);
		ck_buf_text(&b, "q");
		ck_buf_u8(&b, (uint8_t)i);
	}
	put_value(name, b.data, b.len, "", "", 0);
	ck_buf_fini(&b);
}

static void test_a_doubling_dag_is_refused(void)
{
	put_doubling("x.pt", LIT("}"), 60, LIT("]("), LIT(""), "e");
	refused("x.pt", "more memory than its size allows");
	put_doubling("x.pt", LIT("K\1"), 60, LIT("}(K\0"), LIT("K\1"), "u");
	refused("x.pt", "more memory than its size allows");
	clear();
}

/* Each path gets a name of its own, in less than quadratic time and memory. */
static void test_very_many_paths_of_one_key(void)
{
	clock_t began = clock();
	struct ck_checkpoint *cp;
	struct ck_diag d;

	put_doubling("x.pt", LIT("K\1"), 15, LIT("}(K\0"), LIT(STR1("0")), "u");
	if (ok(open_it("x.pt", &cp, &d) == 0))
		eq_u64(cp->catalog->objects.n, 1 << 15);
	else
		printf("# %s\n", d.text);
	ck_checkpoint_close(cp);
	ok(clock() - began < 10 * CLOCKS_PER_SEC || !tap_is_long());
	clear();
}

/* All files together may use 64 MiB. */
static void test_many_files_share_memory(void)
{
	put_doubling("y.pt", LIT("K\1"), 16, LIT("}(K\0"), LIT(STR1("0")), "u");
	put_doubling("x.pt", LIT("K\1"), 16, LIT("}(K\0"), LIT(STR1("0")), "u");
	SHOWS("", "torch", "object x.0",
	      "lost file=1 err=EBADMSG \"y.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0: "
	      "needs more memory than its size allows\"\n");
	clear();
}

static void test_a_path_twice(void)
{
	PUT("x.pt", ORDERED "](](" STR1("w") "K\1e](" STR1("w") "K\2ee\x85R",
	    "", "");
	refused("x.pt", "two entries are called w");
	PUT("y.pt", "}" STR1("w") "K\1s", "", "");
	SHOWS("", "torch", "object y.w ",
	      "lost file=0 err=EBADMSG \"two entries are called x.w\"\n");
	clear();
	PUT("rank_0.pt",
	    ORDERED "](](" STR1("w") "K\1e](" STR1("w") "K\2ee\x85R", "", "");
	PUT("rank_1.pt", "}" STR1("w") "K\1s", "", "");
	SHOWS("", "ranks", "object w file=1 ",
	      "lost file=0 err=EBADMSG \"two entries are called w\"\n");
	clear();
}

/* The check for a list of pairs runs for each of the dicts. */
static void test_one_list_of_very_many_dicts(void)
{
	enum { MANY = 20000 };
	struct ck_buf b = { 0 };

	ck_buf_text(&b, "](](");
	for (int i = 0; i < MANY; i++)
		ck_buf_text(&b, "K\1K\1\x86");
	ck_buf_add(&b, LIT("Neq\0"));
	for (int i = 0; i < MANY; i++)
		ck_buf_add(&b, LIT(ORDERED "h\0\x85R"));
	ck_buf_text(&b, "e");
	put_value("x.pt", b.data, b.len, "", "", 0);
	ck_buf_fini(&b);
	refused("x.pt", "more memory than its size allows");
	clear();
}

/* --- the legacy container ----------------------------------------------------------------------- */

#define BOTH "}(" STR1("a") BYTES("a", "\x8") STR1("b") BYTES("b", "\x8") "u"
/* The first tensor, if its storage has a wrong length. */
#define WRONG_LENGTH                                                           \
	"tensor a dtype=uint8 shape=[8] bytes=0 chunks=0 kind=tensor "         \
	"err=EBADMSG \"x.pt: storage a: the lengths in its storage and its "   \
	"pickle differ\"\n"

static void test_a_storage_of_another_length(void)
{
	/* longer than in the pickle; the file continues behind it */
	PUT("x.pt", BOTH, "ab", "\x9\0\0\0\0\0\0\0abcdefghi" EIGHT);
	SHOWS("x.pt", "torch", WRONG_LENGTH,
	      "tensor b dtype=uint8 shape=[8] bytes=8 chunks=1 kind=tensor\n chunk off=[0] size=[8] file=0 pos=352 length=8\n");
	/* shorter */
	PUT("x.pt", BOTH, "ab", "\7\0\0\0\0\0\0\0abcdefg" EIGHT);
	SHOWS("x.pt", "torch", WRONG_LENGTH,
	      " chunk off=[0] size=[8] file=0 pos=350 length=8\n");
	/* longer than the file */
	PUT("x.pt", BOTH, "ab",
	    "\xff\xff\xff\xff\xff\xff\xff\xff"
	    "abcdefgh" EIGHT);
	SHOWS("x.pt", "torch", WRONG_LENGTH,
	      "tensor b dtype=uint8 shape=[8] bytes=0 chunks=0 kind=tensor err=EBADMSG \"x.pt: storage b: where its storage begins is not known, since one before has no good length\"\n");
	clear();
}

/* A wrong length leads to bytes that resemble another length. */
static void test_a_wrong_length_does_not_move_others(void)
{
	PUT("x.pt", BOTH, "ab",
	    "\x10\0\0\0\0\0\0\0abcdefgh"
	    "\x8\0\0\0\0\0\0\0\x8\0\0\0\0\0\0\0");
	SHOWS("x.pt", "torch", WRONG_LENGTH,
	      "tensor b dtype=uint8 shape=[8] bytes=0 chunks=0 kind=tensor err=EBADMSG \"x.pt: storage b: where its storage begins is not known, since one before has no good length\"\n");
	clear();
}

static void test_a_cut_file(void)
{
	PUT("x.pt", BOTH, "ab", EIGHT "\x8\0\0\0\0\0\0\0abcd");
	SHOWS("x.pt", "torch",
	      " chunk off=[0] size=[8] file=0 pos=335 length=8\n",
	      " chunk off=[0] size=[8] file=0 pos=351 length=8 err=ENODATA\n");
	clear();
}

static void test_storages_that_are_refused(void)
{
	PUT("x.pt",
	    TYPED("FloatStorage", "a", "\2", STR1("v") "K\0K\1\x87", ONE("\1")),
	    "a", TWO);
	refused("x.pt", "a part of another one");
	PUT("x.pt", "](" T("a", "\2") T("a", "\1") "e", "a", TWO);
	refused("x.pt", "two lengths");
	PUT("x.pt", T("a", "\2"), "aa", TWO TWO);
	refused("x.pt", "listed before");
	PUT("x.pt", T("a", "\2"), "ab", TWO TWO);
	refused("x.pt", "nothing refers to it");
	PUT("x.pt", T("a", "\2"), "", "");
	SHOWS("x.pt", "torch",
	      "err=EBADMSG \"x.pt: storage a: its storage is not in the file\"");
	clear();
}

/* --- several files --------------------------------------------------------------------------- */

static void test_a_name_in_two_pieces(void)
{
	PUT("m-1-of-2.bin", "}" STR1("w") T("a", "\2") "s", "a", TWO);
	PUT("m-2-of-2.bin", "}" STR1("w") T("a", "\2") "s", "a", TWO);
	SHOWS("", "torch",
	      "tensor w dtype=float32 shape=[2] bytes=0 chunks=0 kind=tensor err=EIO \"in m-1-of-2.bin and m-2-of-2.bin\"\n");
	clear();
}

/* A box of one file is not shown as the whole tensor. */
static void test_a_cut_tensor_in_two_pieces(void)
{
	put_copy("rank_0.pt", "m-1-of-2.bin");
	put_copy("rank_1.pt", "m-2-of-2.bin");
	SHOWS("", "torch",
	      "tensor w dtype=float32 shape=[3,2] bytes=0 chunks=0 kind=tensor err=EIO \"in m-1-of-2.bin and m-2-of-2.bin\"\n",
	      "tensor mine dtype=int16 ");
	clear();
}

#define DANGER "}" STR1("w") "cos\nsystem\nX\2\0\0\0id\x85Rs"

static void test_a_dangerous_global(void)
{
	PUT("x.pt", "}" STR1("w") T("a", "\2") "s", "a", TWO);
	PUT("y.pt", DANGER, "", "");
	refused("", "os.system");
	clear();
	PUT("rank_0.pt", DANGER, "", "");
	PUT("rank_1.pt", "}" STR1("w") T("a", "\2") "s", "a", TWO);
	SHOWS("", "ranks",
	      "tensor w dtype=float32 shape=[2] bytes=8 chunks=1 kind=tensor\n chunk off=[0] size=[2] file=1 ",
	      "lost file=0 err=EBADMSG \"pickle: dangerous global os.system: refused\"\n");
	clear();
}

static void test_doubled_ranks(void)
{
	put_copy("rank_0.pt", "rank_0.pt");
	put_copy("rank_1.pt", "rank_1.pt");
	put_copy("rank_1.pt", "rank_2.pt");
	SHOWS("", "ranks",
	      " chunk off=[0,0] size=[2,2] file=0 pos=1984 length=16\n chunk off=[2,0] size=[1,2] file=1 pos=2048 length=8\n",
	      "lost file=2 err=EIO \"is of rank 1, as rank_1.pt is\"\n");
	clear();
	/* the file whose name has its rank is used, in any order */
	put_copy("rank_1.pt", "rank_0.pt");
	put_copy("rank_1.pt", "rank_1.pt");
	SHOWS("", "ranks", "kind=dtensor holes\n",
	      " chunk off=[2,0] size=[1,2] file=1 pos=2048 length=8\n",
	      "lost file=0 err=EIO \"is of rank 1, as rank_1.pt is\"\n",
	      "lost err=ENODATA \"files like rank_0.pt are missing for 1 of 2 ranks: 0\"\n");
	clear();
}

static void test_missing_ranks(void)
{
	PUT("rank_0.pt", "}" STR1("w") T("a", "\2") "s", "a", TWO);
	PUT("rank_40.pt", "}" STR1("w") T("a", "\2") "s", "a", TWO);
	SHOWS("", "ranks", " replica file=1 pos=200 length=8\n",
	      "files like rank_0.pt are missing for 39 of 41 ranks: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, ...\"\n");
	clear();
}

/* The copy of the lowest rank is lost, and that of the next rank has other strides. */
static void test_a_copy_with_strides(void)
{
#define SQUARE(strides)                                                        \
	"}" STR1("w") TYPED("FloatStorage", "a", "\4", "N",                    \
			    "K\2K\2\x86" strides) "s"
	PUT("rank_0.pt", SQUARE("K\2K\1\x86"), "a",
	    "\3\0\0\0\0\0\0\0abcdefghijkl");
	PUT("rank_1.pt", SQUARE("K\1K\2\x86"), "a",
	    "\4\0\0\0\0\0\0\0abcdefghijklmnop");
	SHOWS("", "ranks",
	      " chunk off=[0,0] size=[2,2] file=1 pos=204 length=16 strides=[4,8]\n replica file=0 pos=0 length=0 err=EBADMSG\n");
	clear();
}

int main(int argc, char **argv)
{
	if (argc != 2 || !mkdtemp(dir))
		return 2;
	ck_log_detach();
	fixtures = argv[1];
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_types_of_keys_stay_in_paths();
	test_two_paths_of_one_key();
	test_empty_mappings_are_entries();
	test_python2_and_counter();
	test_a_cycle_is_refused();
	test_a_doubling_dag_is_refused();
	test_very_many_paths_of_one_key();
	test_many_files_share_memory();
	test_a_path_twice();
	test_one_list_of_very_many_dicts();
	test_a_storage_of_another_length();
	test_a_wrong_length_does_not_move_others();
	test_a_cut_file();
	test_storages_that_are_refused();
	test_a_name_in_two_pieces();
	test_a_cut_tensor_in_two_pieces();
	test_a_dangerous_global();
	test_doubled_ranks();
	test_missing_ranks();
	test_a_copy_with_strides();
	close(dirfd_);
	rmdir(dir);
	return tap_done();
}
