/* SPDX-License-Identifier: MIT */
/*
 * Items that are damaged or hold no tensor (EBADMSG). S-P3, S-Z6 and S-N4 of
 * the security statements.
 */
#include "item_case.h"
#include "tap.h"

/* --- malformed ------------------------------------------------------------------------ */

static void test_every_changed_value_is_refused(void)
{
	static const struct {
		const char *what;
		const char *rebuild, *tag, *storage, *key, *dtype;
		int64_t numel, offset, size, stride;
	} rows[] = {
		{ .what = "persistent id of other kind", .tag = "module" },
		{ .what = "unknown rebuild", .rebuild = "_rebuild_tensor_v4" },
		{ .what = "sparse", .rebuild = "_rebuild_sparse_tensor" },
		{ .what = "v3 without dtype", .rebuild = "_rebuild_tensor_v3" },
		{ .what = "first form with hooks",
		  .rebuild = "_rebuild_tensor" },
		{ .what = "qtensor without quantizer",
		  .rebuild = "_rebuild_qtensor" },
		{ .what = "v2 with dtype", .dtype = "float32" },
		{ .what = "v3 with unknown dtype",
		  .rebuild = "_rebuild_tensor_v3",
		  .dtype = "float99" },
		{ .what = "v3 with other dtype than its storage",
		  .rebuild = "_rebuild_tensor_v3",
		  .dtype = "int32" },
		{ .what = "unknown storage", .storage = "NopeStorage" },
		{ .what = "v2 of untyped storage",
		  .storage = "UntypedStorage" },
		{ .what = "missing record", .key = "1" },
		{ .what = "key of another record", .key = "../version" },
		{ .what = "record shorter than numel", .numel = 7 },
		{ .what = "record longer than numel", .numel = 5 },
		{ .what = "numel negative", .numel = -6 },
		{ .what = "numel wraps", .numel = (1ll << 62) + 6 },
		{ .what = "offset negative", .offset = -1 },
		{ .what = "size negative", .size = -2 },
		{ .what = "stride negative", .stride = -3 },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct iw_tensor good = iw_tensor_default(), t = good;
		struct iw *w = iw_make();
		struct got got;
		struct pk p;

		t.rebuild = rows[i].rebuild ? rows[i].rebuild : t.rebuild;
		t.persid_tag = rows[i].tag ? rows[i].tag : t.persid_tag;
		t.storage = rows[i].storage ? rows[i].storage : t.storage;
		t.key = rows[i].key ? rows[i].key : t.key;
		t.dtype = rows[i].dtype;
		t.numel = rows[i].numel ? rows[i].numel : t.numel;
		t.offset = rows[i].offset;
		t.size[0] = rows[i].size ? rows[i].size : t.size[0];
		t.stride[0] = rows[i].stride ? rows[i].stride : t.stride[0];
		pk_begin(&p);
		pk_tensor(&p, &t, true);
		iw_item(w, pk_end(&p), "little", (struct ck_str){ zeros, 24 });
		ck_buf_fini(&p.b);
		tap_eq_i64(locate(w, &good, &got, NULL), -EBADMSG, __FILE__,
			   __LINE__, rows[i].what);
		iw_free(w);
	}
}

/* Pieces of a tensor's pickle with other opcodes in their place. Names
 * without memo opcodes, so that they can be exchanged. */
static const struct ck_str pieces[] = {
	CK_STR("\x80\2ctorch._utils\n_rebuild_tensor_v2\n("),
	CK_STR("(X\7\0\0\0storagectorch\nFloatStorage\n"),
	CK_STR("X\1\0\0\0"
	       "0"),
	CK_STR("X\3\0\0\0cpu"),
	CK_STR("K\6tQ"),
	CK_STR("K\0"),
	CK_STR("K\2K\3\x86"),
	CK_STR("K\3K\1\x86"),
	CK_STR("\x89"),
	CK_STR("ccollections\nOrderedDict\n)R"),
	CK_STR("tR"),
	CK_STR("."),
};

#define PIECE(i, text) (i), CK_STR(text)

static const struct {
	const char *what;
	int rc;
	uint8_t piece;
	struct ck_str text;
} exchanges[] = {
	{ "nothing", 0, PIECE(5, "K\0") },
	{ "torch.Size", 0, PIECE(6, "ctorch\nSize\nK\2K\3\x86\x85R") },
	{ "size as list", 0,
	  PIECE(6, "](K\2K\3"
		   "e") },
	{ "hooks as dict", 0, PIECE(9, "}") },
	{ "no hooks", 0, PIECE(9, "N") },
	{ "bits None", 0, PIECE(9, "NN") },
	{ "bits empty", 0, PIECE(9, "N}") },
	{ "bit false", 0, PIECE(9, "N}X\3\0\0\0neg\x89s") },
	{ "bytes after STOP", -EBADMSG, PIECE(11, "..") },
	{ "no STOP", -EBADMSG, PIECE(11, "") },
	{ "two objects", -EBADMSG, PIECE(11, "N.") },
	{ "BUILD of a tensor", -EBADMSG, PIECE(10, "tR}b") },
	{ "BUILD of a tensor with None", -EBADMSG, PIECE(10, "tRNb") },
	{ "items of a tensor", -EBADMSG, PIECE(10, "tRK\0K\0s") },
	{ "APPEND to a tensor", -EBADMSG,
	  PIECE(10, "tRK\0"
		    "a") },
	{ "tensor in a tuple", -EBADMSG, PIECE(10, "tR\x85") },
	{ "tensor by NEWOBJ", -EBADMSG, PIECE(10, "t\x81") },
	{ "a parameter of it", 0,
	  PIECE(10, "tRq\1"
		    "0ctorch._utils\n_rebuild_parameter\nh\1\x88}\x87R") },
	{ "a parameter of one argument", -EBADMSG,
	  PIECE(10, "tRq\1"
		    "0ctorch._utils\n_rebuild_parameter\nh\1\x85R") },
	{ "a tensor of its type", 0,
	  PIECE(10, "tq\1"
		    "0q\2"
		    "0ctorch._tensor\n_rebuild_from_type_v2\n(h\2ctorch\n"
		    "Tensor\nh\1}tR") },
	{ "a parameter of its type", 0,
	  PIECE(10, "tq\1"
		    "0q\2"
		    "0ctorch._tensor\n_rebuild_from_type_v2\n(h\2"
		    "ctorch.nn.parameter\nParameter\nh\1}tR") },
	{ "a tensor of a subclass", 0,
	  PIECE(10, "tq\1"
		    "0q\2"
		    "0ctorch._tensor\n_rebuild_from_type_v2\n(h\2cm\n"
		    "Tensor\nh\1}tR") },
	{ "a subclass with a state that is no dict", -EBADMSG,
	  PIECE(10, "tq\1"
		    "0q\2"
		    "0ctorch._tensor\n_rebuild_from_type_v2\n(h\2cm\n"
		    "Tensor\nh\1K\5tR") },
	{ "a subclass that a function of its own makes", -EBADMSG,
	  PIECE(10, "tq\1"
		    "0q\2"
		    "0ctorch._tensor\n_rebuild_from_type_v2\n(cm\nmake\ncm\n"
		    "Tensor\nh\1}tR") },
	{ "a type of three arguments", -EBADMSG,
	  PIECE(10, "tq\1"
		    "0q\2"
		    "0ctorch._tensor\n_rebuild_from_type_v2\n(h\2ctorch\n"
		    "Tensor\nh\1tR") },
	{ "a type and a list of arguments", -EBADMSG,
	  PIECE(10, "tq\1"
		    "0q\2"
		    "0ctorch._tensor\n_rebuild_from_type_v2\n(h\2ctorch\n"
		    "Tensor\n]}tR") },
	{ "torch.Size of nothing", -EBADMSG, PIECE(6, "ctorch\nSize\n)R") },
	{ "grad is None", -EBADMSG, PIECE(8, "N") },
	{ "seven of six arguments", -EBADMSG, PIECE(9, "NNN") },
	{ "arguments missing", -EBADMSG, PIECE(8, "") },
	{ "unknown bit", -EBADMSG, PIECE(9, "N}X\3\0\0\0inv\x88s") },
	{ "bit that is no bool", -EBADMSG, PIECE(9, "N}X\3\0\0\0negK\1s") },
	{ "bit without a name", -EBADMSG, PIECE(9, "N}K\3\x88s") },
	{ "bits as list", -EBADMSG, PIECE(9, "N]") },
	{ "hooks a number", -EBADMSG, PIECE(9, "K\0") },
	{ "requires_grad a number", -EBADMSG, PIECE(8, "K\0") },
	{ "requires_grad None", -EBADMSG, PIECE(8, "N") },
	{ "stride too short", -EBADMSG, PIECE(7, "K\3\x85") },
	{ "stride too long", -EBADMSG, PIECE(7, "K\3K\1K\1\x87") },
	{ "stride a number", -EBADMSG, PIECE(7, "K\3") },
	{ "stride None", -EBADMSG, PIECE(7, "N") },
	{ "stride of floats", -EBADMSG,
	  PIECE(7, "G@\x08\0\0\0\0\0\0G?\xf0\0\0\0\0\0\0\x86") },
	{ "size with a bool", -EBADMSG, PIECE(6, "\x88K\3\x86") },
	{ "size of 128 bits", -EBADMSG,
	  PIECE(6, "\x8a\x10"
		   "0123456789abcdeKK\3\x86") },
	{ "size of nothing else", -EBADMSG, PIECE(6, "ctorch\nSize\n)R") },
	{ "offset None", -EBADMSG, PIECE(5, "N") },
	{ "offset a bool", -EBADMSG, PIECE(5, "\x89") },
	{ "offset above int64", -EBADMSG,
	  PIECE(5, "\x8a\x09\0\0\0\0\0\0\0\0\1") },
	{ "storage no persistent id", -EBADMSG, PIECE(4, "K\6t") },
	{ "storage of four parts", -EBADMSG, PIECE(4, "tQ") },
	{ "storage of six parts", -EBADMSG, PIECE(4, "K\6NtQ") },
	{ "storage as list", -EBADMSG, PIECE(4, "K\6lQ") },
	{ "numel a bool", -EBADMSG, PIECE(4, "\x88tQ") },
	{ "location None", -EBADMSG, PIECE(3, "N") },
	{ "key a number", -EBADMSG, PIECE(2, "K\0") },
	{ "class a text", -EBADMSG,
	  PIECE(1, "(X\7\0\0\0storageX\x0c\0\0\0"
		   "FloatStorage") },
	{ "class a call", -EBADMSG,
	  PIECE(1, "(X\7\0\0\0storagectorch\nFloatStorage\n)R") },
	{ "old class name", 0,
	  PIECE(1, "(X\7\0\0\0storagectorch.cuda\nFloatStorage\n") },
	{ "dangerous global in the hooks", -EBADMSG,
	  PIECE(9, "cposix\nsystem\n") },
	{ "dangerous global as attribute", -EBADMSG,
	  PIECE(9, "N}X\3\0\0\0negcbuiltins\neval\ns") },
	{ "text persistent id", -EBADMSG, PIECE(4, "K\6tPstorage\n") },
	{ "extension registry", -EBADMSG, PIECE(9, "\x82\1") },
};

static void test_exchanged_parts_of_the_pickle(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(exchanges); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct iw *w = iw_make();
		struct ck_buf b = { 0 };
		struct got got;

		for (size_t k = 0; k < CK_ARRAY_SIZE(pieces); k++) {
			ck_buf_str(&b, k == exchanges[i].piece
					       ? exchanges[i].text
					       : pieces[k]);
		}
		iw_item(w, (struct ck_str){ b.data, b.len }, "little",
			(struct ck_str){ zeros, 24 });
		ck_buf_fini(&b);
		tap_eq_i64(try_item(w, &t, &got), exchanges[i].rc, __FILE__,
			   __LINE__, exchanges[i].what);
	}
}

static void test_what_is_no_tensor(void)
{
	static const struct {
		struct ck_str pickle;
		const char *text;
	} rows[] = {
		{ CK_STR("\x80\2K\7."), "found a value" },
		{ CK_STR("\x80\2N."), "found a value" },
		{ CK_STR("\x80\2(X\7\0\0\0storageNNNNtQ."), "found a value" },
		{ CK_STR("\x80\2ctorch._utils\n_rebuild_tensor_v2\n."),
		  "found torch._utils._rebuild_tensor_v2" },
		{ CK_STR("\x80\2ctorch.distributed.tensor\nDTensor\n)R."),
		  "found torch.distributed.tensor.DTensor" },
		{ CK_STR("\x80\2ctorch._utils\n"
			 "_rebuild_meta_tensor_no_storage\n)R."),
		  "a meta tensor with 0 arguments" },
		{ CK_STR("\x80\2ctorch._tensor\n_rebuild_from_type_v2\n"
			 "(ctorch._utils\n_rebuild_wrapper_subclass\n"
			 "c__main__\nMine\n)}tR."),
		  "no dense tensor in data.pkl: found __main__.Mine" },
		{ CK_STR("\x80\2"
			 "cos\nsystem\n)R."),
		  "os.system" },
		{ CK_STR(""), "data.pkl" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct iw_tensor t = iw_tensor_default();
		struct iw *w = iw_make();
		struct ck_diag d = { 0 };
		struct got got;

		iw_item(w, rows[i].pickle, "little",
			(struct ck_str){ zeros, 24 });
		eq_err(locate(w, &t, &got, &d), -EBADMSG);
		if (!ok(strstr(d.text, rows[i].text)))
			printf("# %s\n", d.text);
		iw_free(w);
	}
}

static void test_other_archives(void)
{
	struct iw_tensor t = iw_tensor_default();
	struct iw *w = item(&t);
	struct got got;

	w->out.len = w->dir; /* TorchScript */
	iw_record(w, "constants.pkl", CK_STR("N."));
	iw_finish(w);
	eq_err(try_item(w, &t, &got), -EBADMSG);

	w = iw_make();
	iw_record(w, "version", CK_STR("3\n"));
	iw_finish(w);
	eq_err(try_item(w, &t, &got), -EBADMSG);

	w = iw_make();
	iw_hole(w, "data.pkl", UINT64_C(1) << 40);
	iw_finish(w);
	eq_err(try_item(w, &t, &got), -EBADMSG);

	w = iw_make();
	eq_err(try_item(w, &t, &got), -EBADMSG);
}

/* --- all damage of some kinds ------------------------------------------------------------- */

static void test_every_truncation_is_refused(void)
{
	struct iw_tensor t = iw_tensor_default();
	struct iw *w = item(&t);
	unsigned accepted = 0;
	struct got got;

	for (; w->out.len > 0 && w->out.len--;)
		accepted += locate(w, &t, &got, NULL) == 0;
	eq_u64(accepted, 0);
	w->out.len = 0;
	iw_free(w);
}

/* A flip in the pickle may say another stride; elsewhere it must be refused
 * or change nothing. Whatever is accepted lies inside the storage. */
static void test_every_bit_flip_is_refused_or_harmless(void)
{
	struct iw_tensor t = iw_tensor_default();
	struct iw *w = item(&t);
	unsigned moved = 0, outside = 0, wrong = 0;
	struct got good, got;

	eq_err(locate(w, &t, &good, NULL), 0);
	for (size_t bit = 0; bit < w->out.len * 8; bit++) {
		const struct iw_place *r = &w->at[0];
		int rc;

		w->out.data[bit / 8] ^= (char)(1 << bit % 8);
		rc = locate(w, &t, &got, NULL);
		w->out.data[bit / 8] ^= (char)(1 << bit % 8);
		wrong += rc != 0 && rc != -EBADMSG && rc != -EIO;
		if (rc < 0)
			continue;
		outside += got.ipos + got.strides[0] + 2 * got.strides[1] + 4 >
			   w->at[4].data + w->at[4].len;
		if (bit / 8 < r->data || bit / 8 >= r->data + r->len)
			moved += memcmp(&good, &got, sizeof(got)) != 0;
	}
	eq_u64(moved, 0);
	eq_u64(outside, 0);
	eq_u64(wrong, 0);
	iw_free(w);
}

static void test_errors_of_the_source(void)
{
	for (unsigned i = 1; i <= 3; i++) {
		struct iw_tensor t = iw_tensor_default();
		struct iw *w = iw_make();
		struct got got;
		struct pk p;

		pk_begin(&p);
		pk_tensor(&p, &t, true);
		for (int k = 0; k < 5000; k++) /* data.pkl apart */
			ck_buf_text(&p.b, "N0");
		w->fail_at = i;
		iw_item(w, pk_end(&p), "little", (struct ck_str){ zeros, 24 });
		ck_buf_fini(&p.b);
		eq_err(locate(w, &t, &got, NULL), -ESTALE);
		w->fail_at = 0;
		eq_err(locate(w, &t, &got, NULL), 0);
		iw_free(w);
	}
}

int main(void)
{
	test_every_changed_value_is_refused();
	test_exchanged_parts_of_the_pickle();
	test_what_is_no_tensor();
	test_other_archives();
	test_every_truncation_is_refused();
	test_every_bit_flip_is_refused_or_harmless();
	test_errors_of_the_source();
	return tap_done();
}
