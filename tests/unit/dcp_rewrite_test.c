/* SPDX-License-Identifier: MIT */
/*
 * `.metadata` with new places: of every fixture one, some and all boxes, once
 * and again; and what verifying must find: every byte that is not as it was
 * or should be, and what cannot be told apart by bytes.
 */
#include "dcp_rewrite.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- a `.metadata` in memory --------------------------------------------------- */

struct subject {
	struct ck_catalog *c;
	struct ck_buf old;
	struct ck_buf new;
	struct ck_change_of_place *changes;
	char (*paths)[64];
	uint32_t n;
	int fd;
	struct ck_diag d;
};

static int file_add(void *ctx, struct ck_str path, uint32_t *number)
{
	struct ck_catalog *c = ctx;
	struct ck_data_file file = { .size = UINT64_C(1) << 62 };
	int rc;

	for (uint32_t i = 0; i < c->nfiles; i++) {
		if (ck_str_eq(ck_catalog_str(c, c->files[i].path), path)) {
			*number = i;
			return 0;
		}
	}
	rc = ck_catalog_text_add(c, path, &file.path);
	*number = (uint32_t)c->nfiles;
	return rc ? rc : ck_catalog_file_add(c, &file);
}

static struct ck_str bytes_of(const struct ck_buf *b)
{
	return (struct ck_str){ b->data, b->len };
}

/* Takes the bytes. */
static bool subject_make(struct subject *s, struct ck_buf bytes)
{
	int rc;

	*s = (struct subject){ .c = ck_catalog_make("dcp"), .old = bytes };
	s->fd = memfd_create("metadata", MFD_CLOEXEC);
	rc = ck_dcp_parse(s->c, bytes.data, bytes.len, file_add, s->c, &s->d);
	if (rc == 0)
		rc = ck_catalog_finish(s->c, &s->d);
	if (rc)
		printf("# not read: %s\n", s->d.text);
	s->changes = calloc(s->c->nchunks + 1, sizeof(*s->changes));
	s->paths = calloc(s->c->nchunks + 1, sizeof(*s->paths));
	return rc == 0;
}

static void subject_free(struct subject *s)
{
	ck_catalog_free(s->c);
	ck_buf_fini(&s->old);
	ck_buf_fini(&s->new);
	free(s->changes);
	free(s->paths);
	close(s->fd);
}

static void change(struct subject *s, uint32_t chunk, unsigned generation)
{
	uint32_t i = s->n++;

	snprintf(s->paths[i], sizeof(s->paths[i]),
		 "__%u_ckptfs-%u-0123456789abcdef.distcp", chunk % 7,
		 generation);
	s->changes[i] = (struct ck_change_of_place){
		.chunk = chunk,
		.path = ck_str_from(s->paths[i]),
		.fpos = chunk % 5 ? chunk * 1000 : UINT64_C(1) << 40,
		.length = chunk + 1234,
	};
}

/* Every nth box that has an item. */
static __attribute__((noinline)) void change_some(struct subject *s,
						  uint32_t nth,
						  unsigned generation)
{
	s->n = 0;
	for (uint32_t i = nth / 2; i < s->c->nchunks; i += nth)
		if (s->c->chunks[i].file != CK_NO_FILE)
			change(s, i, generation);
}

static struct ck_dcp_wish wish(const struct subject *s)
{
	return (struct ck_dcp_wish){ s->c, bytes_of(&s->old), s->changes,
				     s->n };
}

static int rewrite(struct subject *s)
{
	struct ck_dcp_wish w = wish(s);
	int rc = ftruncate(s->fd, 0) ? -errno
				     : ck_dcp_rewrite(&w, s->fd, &s->d);
	off_t len = lseek(s->fd, 0, SEEK_END);

	s->new.len = 0;
	if (rc)
		return rc;
	for (off_t i = 0; i < len; i += 2048) {
		char part[2048];
		size_t n = ck_min((uint64_t)(len - i), sizeof(part));

		if (ck_pread_full(s->fd, part, n, (uint64_t)i))
			abort();
		ck_buf_add(&s->new, part, n);
	}
	return 0;
}

static int verify(struct subject *s)
{
	struct ck_dcp_wish w = wish(s);
	struct ck_dcp_places places;
	int rc = ck_dcp_verify_says(&w, bytes_of(&s->new), &places, &s->d);

	if (rc == 0)
		rc = ck_dcp_verify_is(&w, bytes_of(&s->new), &places, &s->d);
	ck_dcp_places_fini(&places);
	return rc;
}

/* The new bytes become the old ones, read anew. */
static void turn(struct subject *s)
{
	struct subject next;

	ok(subject_make(&next, s->new));
	s->new = (struct ck_buf){ 0 };
	subject_free(s);
	*s = next;
}

/* --- fixtures ---------------------------------------------------------------------- */

static bool load(const char *path, struct ck_buf *out)
{
	char part[2048];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	*out = (struct ck_buf){ 0 };
	if (fd < 0)
		return false;
	while ((n = read(fd, part, sizeof(part))) > 0)
		ck_buf_add(out, part, (size_t)n);
	close(fd);
	return true;
}

static __attribute__((noinline)) void test_fixture(struct subject *s)
{
	static const uint32_t nths[] = { 1000000, 3, 1 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(nths); i++) {
		size_t first;

		if (nths[i] > s->c->nchunks && s->c->nchunks)
			change_some(s, 2 * (uint32_t)s->c->nchunks - 1, 1);
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

static void fixture(struct subject *s, const char *fixtures, const char *name)
{
	char path[512];
	struct ck_buf bytes;

	snprintf(path, sizeof(path), "%s/%s/.metadata", fixtures, name);
	if (!load(path, &bytes) || !subject_make(s, bytes))
		abort();
}

/* --- canaries ----------------------------------------------------------------------- */

static __attribute__((noinline)) void test_every_wrong_byte_is_found(
	const char *fixtures)
{
	static const uint8_t masks[] = { 1, 0x20, 0xff };
	struct subject s;
	unsigned missed = 0;

	fixture(&s, fixtures, "plain");
	change_some(&s, 2, 1);
	ok(s.n > 1);
	eq_err(rewrite(&s), 0);
	eq_err(verify(&s), 0);
	for (size_t i = 0; i < s.new.len; i++) {
		for (size_t k = 0; k < CK_ARRAY_SIZE(masks); k++) {
			int rc;

			s.new.data[i] = (char)(s.new.data[i] ^ masks[k]);
			rc = verify(&s);
			missed += rc != -EIO;
			s.new.data[i] = (char)(s.new.data[i] ^ masks[k]);
		}
	}
	eq_u64(missed, 0);
	for (missed = 0; s.new.len > s.new.len / 2 + 1000; s.new.len--)
		missed += s.new.len &&verify(&s) == 0;
	ok(missed <= 1); /* the whole one */
	subject_free(&s);
}

static __attribute__((noinline)) void test_other_changes_are_found(
	const char *fixtures)
{
	struct subject s;
	struct ck_change_of_place keep;

	fixture(&s, fixtures, "dtensor");
	change_some(&s, 2, 1);
	ok(s.n > 1);
	eq_err(rewrite(&s), 0);
	keep = s.changes[1];
	s.changes[1].fpos++;
	eq_err(verify(&s), -EIO);
	s.changes[1] = keep;
	s.changes[1].length++;
	eq_err(verify(&s), -EIO);
	s.changes[1] = keep;
	s.changes[1].path = CK_STR("another");
	eq_err(verify(&s), -EIO);
	s.changes[1] = keep;
	s.changes[1].chunk--; /* another box than was changed */
	eq_err(verify(&s), -EIO);
	s.changes[1] = keep;
	s.n--; /* one that nobody asked for */
	eq_err(verify(&s), -EIO);
	s.n++;
	eq_err(verify(&s), 0);
	change_some(&s, 2, 2); /* none was written */
	eq_err(verify(&s), -EIO);
	subject_free(&s);
}

static __attribute__((noinline)) void test_catalog_is_compared(
	const char *fixtures)
{
	struct subject s;

	fixture(&s, fixtures, "nested");
	change_some(&s, 3, 1);
	eq_err(rewrite(&s), 0);
	eq_err(verify(&s), 0);
	for (int i = 0; i < 8; i++) {
		struct ck_catalog *c = s.c, keep = *s.c;
		struct ck_tensor t = c->tensors[0];
		struct ck_path_part part = c->parts[0];
		struct ck_chunk last = c->chunks[c->nchunks - 1];
		struct ck_object o = c->objects[0];

		switch (i) {
		case 0: c->tensors[0].names.key.len--; break;
		case 1: c->tensors[0].dtype++; break;
		case 2: c->tensors[0].ndim--; break;
		case 3: c->parts[0].is_index ^= 1; break;
		case 4: c->chunks[c->nchunks - 1].fpos++; break;
		case 5: c->objects[0].item.length++; break;
		case 6: c->nentries--; break;
		default: c->chunks[c->nchunks - 1].transform = 0x7fff; break;
		}
		eq_err(verify(&s), -EIO);
		*c = keep;
		c->tensors[0] = t;
		c->parts[0] = part;
		c->chunks[c->nchunks - 1] = last;
		c->objects[0] = o;
	}
	eq_err(verify(&s), 0);
	subject_free(&s);
}

/* --- what no torch writes ------------------------------------------------------------- */

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

/* Changes box 0: what comes of it. */
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
	/* one object, one state, and a state of which there was a copy */
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

/* An insertion is replaced only if it is one, whole; and keeps what hides a
 * transform that is in the state below it. */
static __attribute__((noinline)) void test_earlier_insertions(void)
{
	static const char plain[] = HEAD KEY(0) INFO "}(" FIELDS "ub" TAIL;
	static const char ours[] = HEAD KEY(0) INFO "}(" FIELDS
						    "u" OURS("a") "ub" TAIL;
	static const char other[] = HEAD KEY(0) INFO
		"}(" FIELDS "uVx\n0" OURS("a") "ub" TAIL;
	/* MARK is the argument of another opcode */
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
	change(&s, (uint32_t)s.c->nchunks, 1);
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
	test_every_wrong_byte_is_found(argv[1]);
	test_other_changes_are_found(argv[1]);
	test_catalog_is_compared(argv[1]);
	test_protocol_0();
	test_shared_objects_are_refused();
	test_earlier_insertions();
	test_bad_changes(argv[1]);
	return tap_done();
}
