/* SPDX-License-Identifier: MIT */
/*
 * Rewriting `.metadata` with new locations: one, some and all boxes of every fixture, repeated
 * rewrites, and files that PyTorch does not write.
 */
#include "metadata_case.h"

#include <dirent.h>

/* --- fixtures ---------------------------------------------------------------------- */

/* The new bytes become the old ones and are parsed. The places that the rewrite predicted must
 * be those that parsing finds. */
static void turn(struct subject *s)
{
	struct subject next;
	const struct ck_dcp_known *k = &s->known;

	ok(subject_make(&next, s->new));
	s->new = (struct ck_buf){ 0 };
	ck_dcp_known_next(&s->known);
	eq_u64(k->len, next.old.len);
	eq_u64(k->sum, ck_hash64_seeded(bytes_of(&next.old), k->seed));
	eq_u64(k->places.nchunks, next.known.places.nchunks);
	ok(k->places.nchunks == 0 ||
	   memcmp(k->places.chunks, next.known.places.chunks,
		  k->places.nchunks * sizeof(*k->places.chunks)) == 0);
	subject_free(s);
	*s = next;
}

static __attribute__((noinline)) void test_fixture(struct subject *s)
{
	static const uint32_t nths[] = { 1000000, 3, 1 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(nths); i++) {
		size_t first;

		if (nths[i] > s->c->chunks.n && s->c->chunks.n)
			change_some(s, 2 * (uint32_t)s->c->chunks.n - 1, 1);
		else
			change_some(s, nths[i], 1);
		eq_err(rewrite(s), 0);
		eq_err(verify(s), 0);
		ok(i || (s->n > 0) == (s->new.len > s->old.len));
		turn(s);
		first = s->old.len;
		change_some(s, nths[i], 2);
		eq_err(rewrite(s), 0);
		eq_err(verify(s), 0);
		if (nths[i] == 1)
			eq_u64(s->new.len, first);
		turn(s);
	}
	change_some(s, 4, 3);
	eq_err(rewrite(s), 0);
	eq_err(verify(s), 0);
	eq_u64(s->new.len, s->old.len);
}

static __attribute__((noinline)) unsigned test_fixtures(const char *fixtures)
{
	DIR *dir = opendir(fixtures);
	struct dirent *entry;
	unsigned n = 0;

	while (dir && (entry = readdir(dir))) {
		char path[512];
		static struct subject s;
		struct ck_buf bytes;

		snprintf(path, sizeof(path), "%s/%s/.metadata", fixtures,
			 entry->d_name);
		if (entry->d_name[0] == '.' || !load(path, &bytes))
			continue;
		printf("# %s\n", entry->d_name);
		if (subject_make(&s, bytes)) {
			test_fixture(&s);
			n++;
		}
		subject_free(&s);
	}
	if (dir)
		closedir(dir);
	return n;
}

/* --- files that PyTorch does not write ------------------------------------------------ */

#define META "ctorch.distributed.checkpoint.metadata\n"
#define FS   "ctorch.distributed.checkpoint.filesystem\n"
#define BOX(n)                                                                 \
	META "ChunkStorageMetadata\n)\x81}(Voffsets\n(I" #n                    \
	     "\ntVsizes\n(I1\ntub"
#define KEY(n) META "MetadataIndex\n)\x81}(Vfqn\nVw\nVoffset\n(I" #n "\ntub"
#define PROPS  META "TensorProperties\n)\x81(ctorch\nfloat32\ntb"
#define HEAD                                                                   \
	META "Metadata\n)\x81}(Vstate_dict_metadata\n}(Vw\n" META              \
	     "TensorStorageMetadata\n)\x81}(Vproperties\n" PROPS               \
	     "Vsize\n(I2\ntVchunks\n](" BOX(0) BOX(1) "eub"                    \
						      "uVstorage_data\n}("
#define INFO	FS "_StorageInfo\n)\x81"
#define FIELDS	"Vrelative_path\nVa\nVoffset\nI0\nVlength\nI9\n"
#define FIELDS1 "Vrelative_path\nVa\nVoffset\nI9\nVlength\nI9\n"
#define TAIL	"uub."

static void text_case(struct subject *s, const void *text, size_t len)
{
	struct ck_buf b = { 0 };

	ck_buf_add(&b, text, len);
	ok(subject_make(s, b));
}

/* Changes box 0. Returns the result of the rewrite. */
static int try(struct subject *s)
{
	s->n = 0;
	change(s, 0, 1);
	return rewrite(s);
}

static __attribute__((noinline)) void test_protocol_0(void)
{
	static const char good[] = HEAD KEY(0) INFO "}(" FIELDS "ub" KEY(1) INFO
		"(" FIELDS1 "db" TAIL;
	static const char hole[] = HEAD KEY(1) INFO "}(" FIELDS "ub" TAIL;
	static const char none[] = HEAD TAIL;
	struct subject s;

	text_case(&s, good, sizeof(good) - 1);
	eq_err(try(&s), 0);
	eq_err(verify(&s), 0);
	change_some(&s, 1, 2);
	eq_u64(s.n, 2);
	eq_err(rewrite(&s), 0);
	eq_err(verify(&s), 0);
	subject_free(&s);
	text_case(&s, hole, sizeof(hole) - 1);
	eq_err(try(&s), -EOPNOTSUPP);
	ok(strstr(s.d.text, "w, box 0"));
	ok(strstr(s.d.text, "no item"));
	subject_free(&s);
	text_case(&s, none, sizeof(none) - 1);
	eq_err(try(&s), -EOPNOTSUPP);
	subject_free(&s);
}

static __attribute__((noinline)) void test_shared_objects_are_refused(void)
{
	/* one object for two keys, one state for two objects, and a copied state */
	static const char object[] = HEAD KEY(0) INFO
		"}(" FIELDS "ubp1\n" KEY(1) "g1\n" TAIL;
	static const char state[] = HEAD KEY(0) INFO "}p1\n(" FIELDS "ub" KEY(1)
		INFO "g1\nb" TAIL;
	static const char twice[] = HEAD KEY(0) INFO "}20(" FIELDS "ub" KEY(1)
		INFO "}(" FIELDS1 "ub" TAIL;
	struct subject s;

	text_case(&s, object, sizeof(object) - 1);
	eq_err(try(&s), -EOPNOTSUPP);
	ok(strstr(s.d.text, "as one object"));
	subject_free(&s);
	text_case(&s, state, sizeof(state) - 1);
	eq_err(try(&s), -EOPNOTSUPP);
	subject_free(&s);
	text_case(&s, twice, sizeof(twice) - 1);
	eq_err(try(&s), -EOPNOTSUPP);
	subject_free(&s);
}

/* The stack of MARKs is full: a rewrite has no room for its own. */
static __attribute__((noinline)) void test_too_deep_is_refused(void)
{
	static const char begin[] = HEAD KEY(0);
	static const char info[] = INFO "}Vrelative_path\nVa\nsVoffset\nI0\ns"
					"Vlength\nI9\nsbp7\n";
	static const char end[] = "g7\n" TAIL;

	for (int marks = 253; marks < 255; marks++) {
		struct ck_buf b = { 0 };
		struct subject s;

		ck_buf_text(&b, begin);
		for (int i = 0; i < marks; i++)
			ck_buf_text(&b, "(");
		ck_buf_add(&b, info, sizeof(info) - 1);
		for (int i = 0; i < marks; i++)
			ck_buf_text(&b, "1");
		ck_buf_text(&b, end);
		ok(subject_make(&s, b));
		eq_err(try(&s), marks == 253 ? 0 : -EOPNOTSUPP);
		if (marks == 253)
			eq_err(verify(&s), 0);
		subject_free(&s);
	}
}

#define X(len, text) "X" len "\0\0\0" text
#define OURS(path)                                                             \
	"(" X("\x0d", "relative_path") X("\x01", path)                         \
		X("\x06", "offset") "J\0\0\0\0" X("\x06",                      \
						  "length") "J\x09\0\0\0"
#define NOT X("\x15", "transform_descriptors") "N"

static size_t len_after(const void *text, size_t len)
{
	struct subject s;
	size_t new;

	text_case(&s, text, len);
	eq_err(try(&s), 0);
	eq_err(verify(&s), 0);
	new = s.new.len;
	subject_free(&s);
	return new;
}

/* Only a complete insertion is replaced. A rewrite keeps the part of it that overrides a
 * transform in the state below. */
static __attribute__((noinline)) void test_earlier_insertions(void)
{
	static const char plain[] = HEAD KEY(0) INFO "}(" FIELDS "ub" TAIL;
	static const char ours[] = HEAD KEY(0) INFO "}(" FIELDS
						    "u" OURS("a") "ub" TAIL;
	static const char other[] = HEAD KEY(0) INFO
		"}(" FIELDS "uVx\n0" OURS("a") "ub" TAIL;
	/* here MARK is the argument of another opcode */
	static const char part[] = HEAD KEY(0) INFO
		"}(Vx\nK" OURS("a") "ub" TAIL;
	static const char more[] = HEAD KEY(0) INFO "}(" FIELDS "u" OURS("a")
		X("\x01", "x") "Nub" TAIL;
	static const char hides[] = HEAD KEY(0) INFO
		"}(Vtransform_descriptors\n](Vstream.zstd/1\neu" OURS("a") NOT
		"ub" TAIL;
	static const char has[] = HEAD KEY(0) INFO
		"}(" FIELDS
		"Vtransform_descriptors\n](Vstream.zstd/1\neub" TAIL;
	size_t size = sizeof(plain) - 1, grown = len_after(plain, size) - size;

	eq_u64(len_after(ours, sizeof(ours) - 1) -
		       len_after(plain, sizeof(plain) - 1),
	       0);
	eq_u64(len_after(other, sizeof(other) - 1),
	       len_after(plain, sizeof(plain) - 1) + 4);
	eq_u64(len_after(part, sizeof(part) - 1), sizeof(part) - 1 + grown);
	eq_u64(len_after(more, sizeof(more) - 1), sizeof(more) - 1 + grown);
	ok(len_after(hides, sizeof(hides) - 1) < sizeof(hides) - 1 + grown);
	eq_u64(len_after(has, sizeof(has) - 1), sizeof(has) - 1 + grown + 27);
}

static __attribute__((noinline)) void test_bad_changes(const char *fixtures)
{
	struct subject s;

	fixture(&s, fixtures, "plain");
	change(&s, 1, 1);
	change(&s, 0, 1);
	eq_err(rewrite(&s), -EINVAL);
	s.n = 0;
	change(&s, 1, 1);
	change(&s, 1, 1);
	eq_err(rewrite(&s), -EINVAL);
	s.n = 0;
	change(&s, (uint32_t)s.c->chunks.n, 1);
	eq_err(rewrite(&s), -EINVAL);
	s.n = 0;
	change(&s, 0, 1);
	s.changes[0].path = CK_STR("a\xff");
	eq_err(rewrite(&s), -EOPNOTSUPP);
	s.changes[0].path = CK_STR("a");
	s.changes[0].fpos = UINT64_MAX;
	eq_err(rewrite(&s), -EOPNOTSUPP);
	s.changes[0].fpos = INT64_MAX;
	eq_err(rewrite(&s), 0);
	eq_err(verify(&s), 0);
	subject_free(&s);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	ok(test_fixtures(argv[1]) > 40);
	test_too_deep_is_refused();
	test_protocol_0();
	test_shared_objects_are_refused();
	test_earlier_insertions();
	test_bad_changes(argv[1]);
	return tap_done();
}
