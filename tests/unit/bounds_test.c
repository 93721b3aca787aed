/* SPDX-License-Identifier: MIT */
/*
 * S-P5 and S-P6: whatever a pickle or a `.metadata` says, reading it takes at
 * most 64 MiB and 40 bytes for each of its bytes, about a second and 200 ns
 * for each, and no stack that grows with it. Each bomb is read in a process
 * of its own, on a stack of 64 KiB, under a limit for its memory. The long run judges the
 * time.
 */
#include "ckptfs/pickle.h"
#include "dcp_parse.h"
#include "model/catalog/catalog_edit.h"
#include "tap.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SANITIZED (TAP_ADDRESSES || TAP_THREADS)

enum {
	STACK = SANITIZED ? 1 << 20 : 64 << 10,
	/* Pages of the process itself that are touched for the first time. */
	SLACK = 4 << 20,
	PER_BYTE = 40,
	BASE = 64 << 20,
};

/* What is read, and how. */
struct bomb {
	const char *name;
	struct ck_buf bytes;
	bool is_metadata;
};

static int no_file(void *ctx, struct ck_str path, uint32_t *number)
{
	(void)ctx, (void)path;
	*number = 0;
	return 0;
}

static int read_metadata(const struct bomb *b, struct ck_diag *d)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	int rc = dcp_parse(c, b->bytes.data, b->bytes.len, no_file, NULL, d);

	if (rc == 0)
		rc = ck_catalog_finish(c, d);
	ck_catalog_put(c);
	return rc;
}

static void *read_bomb(void *arg)
{
	const struct bomb *b = arg;
	static struct ck_diag d;
	static struct ck_pickle p;
	static int rc;

	if (b->is_metadata) {
		rc = read_metadata(b, &d);
	} else {
		rc = ck_pickle_read(&p, b->bytes.data, b->bytes.len, NULL, &d);
		if (rc == 0)
			ck_pickle_fini(&p);
	}
	printf("# %s: %s\n", b->name, rc ? d.text : "read");
	return &rc;
}

static uint64_t peak(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss * 1024;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* In the child. 0: read or refused within the bounds. */
static int measure(struct bomb *b)
{
	uint64_t most = BASE + (uint64_t)PER_BYTE * b->bytes.len;
	struct rlimit room = { 8ULL << 30, 8ULL << 30 };
	uint64_t before = peak();
	double begin = seconds();
	pthread_attr_t attr;
	pthread_t thread;
	void *rc;

	if (!SANITIZED)
		setrlimit(RLIMIT_AS, &room);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	if (pthread_create(&thread, &attr, read_bomb, b) ||
	    pthread_join(thread, &rc))
		return 1;
	printf("#   %zu bytes in: %.1f MiB of %.1f, %.2f s\n", b->bytes.len,
	       (double)(peak() - before) / 1048576, (double)most / 1048576,
	       seconds() - begin);
	if (*(int *)rc != 0 && *(int *)rc != -EBADMSG)
		return 2;
	if (SANITIZED)
		return 0;
	if (peak() - before > most + SLACK)
		return 3;
	if (TAP_SLOW || !tap_is_long())
		return 0;
	return seconds() - begin > 1 + 200e-9 * (double)b->bytes.len ? 4 : 0;
}

/* Takes the bytes. */
static void bounded(struct bomb *b)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		exit(measure(b)); /* a build for coverage counts it, too */
	waitpid(child, &status, 0);
	printf("# %s\n", b->name);
	eq_i64(status, 0);
	ck_buf_fini(&b->bytes);
}

static void add(struct ck_buf *b, const char *text)
{
	ck_buf_text(b, text);
}

static void add_times(struct ck_buf *b, const char *piece, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ck_buf_text(b, piece);
}

/* head, n times piece, tail; no NUL in them. */
static void repeated(const char *name, const char *head, const char *piece,
		     size_t n, const char *tail)
{
	struct bomb b = { .name = name };

	add(&b.bytes, head);
	add_times(&b.bytes, piece, tap_times(n));
	add(&b.bytes, tail);
	bounded(&b);
}

static void exactly(const char *name, const char *bytes, size_t len)
{
	struct bomb b = { .name = name };

	ck_buf_add(&b.bytes, bytes, len);
	bounded(&b);
}

#define EXACTLY(name, bytes) exactly(name, bytes, sizeof(bytes) - 1)

static void test_depth(void)
{
	repeated("lists, a million deep", "", "]", 1000000, "N.");
	repeated("lists, a million deep and closed", "", "(", 1000000, "N.");
	repeated("tuples, a million deep", "N", "\x85", 1000000, ".");
	repeated("calls, a million deep", "cm\nC\n", ")R", 1000000, ".");
	/* each list is filled only after its parent has it */
	repeated("lists, a million deep through the memo", "]q\x01",
		 "h\x01]q\x01"
		 "a",
		 1000000, ".");
}

static void test_doubling(void)
{
	repeated("tuples that hold the one before twice", "N", "2\x86", 1000000,
		 ".");
	repeated("5 million DUPs", "(]", "2", 5000000, "l.");
	EXACTLY("a list in itself", "]q\x01h\x01"
				    "a.");
	EXACTLY("a dict in itself", "}q\x01K\x01h\x01s.");
}

static void test_declared_lengths(void)
{
	EXACTLY("LONG_BINPUT 0xffffffff", "Nr\xff\xff\xff\xff.");
	EXACTLY("LONG_BINGET 0xffffffff", "Nr\xff\xff\xff\xff"
					  "j\xff\xff\xff\xff.");
	EXACTLY("FRAME of 2^63", "\x80\4\x95\0\0\0\0\0\0\0\x80N.");
	EXACTLY("BINBYTES8 of 2^63", "\x80\4\x8e\0\0\0\0\0\0\0\x80N.");
	EXACTLY("BINUNICODE of 4 GiB", "X\xff\xff\xff\xffN.");
	EXACTLY("LONG4 of 2 GiB", "\x80\2\x8b\xff\xff\xff\x7fN.");
}

static void test_many_small_values(void)
{
	repeated("empty dicts", "(", "}", 2500000, "l.");
	repeated("objects",
		 "cm\nC\nq\x01"
		 "0(",
		 "h\x01)\x81", 1000000, "l.");
	repeated("memo slots", "N",
		 "q\x01h\x01"
		 "0",
		 4000000, ".");
	repeated("globals", "(", "ca\nb\n", 4000000, "l.");
}

/* Different globals, as many as may be, named again and again: with a hash
 * that is known they could be made to collide. */
static void test_globals(void)
{
	struct bomb b = { .name = "4096 globals, each 500 times" };

	add(&b.bytes, "(");
	for (size_t k = 0; k < tap_times(500); k++)
		for (int i = 0; i < 4096; i++)
			ck_buf_printf(&b.bytes, "cm\n%d\n0", i);
	add(&b.bytes, "l.");
	bounded(&b);
}

static void test_long_numbers(void)
{
	struct bomb b = { .name = "numbers of 4300 digits" };

	add(&b.bytes, "(");
	for (size_t k = 0; k < tap_times(4000); k++) {
		add(&b.bytes, "L");
		add_times(&b.bytes, "9", 4300);
		add(&b.bytes, "L\n");
	}
	add(&b.bytes, "l.");
	bounded(&b);
}

/* --- `.metadata`: what the hooks do with shared values -------------------- */

#define META "torch.distributed.checkpoint.metadata"

/* A string by BINUNICODE. */
static void add_str(struct ck_buf *b, const char *text)
{
	uint32_t len = (uint32_t)strlen(text);

	ck_buf_text(b, "X");
	ck_buf_add(b, &len, sizeof(len));
	ck_buf_text(b, text);
}

/* Puts a tuple of n ones into slot 1, classes into 2 (chunk), 3 (tensor), 4
 * (index), 5 (info). */
static void add_prologue(struct ck_buf *b, size_t n)
{
	add(b, "\x80\2(");
	add_times(b, "K\1", n);
	add(b, "tq\1"
	       "0c" META "\nChunkStorageMetadata\nq\2"
	       "0c" META "\nTensorStorageMetadata\nq\3"
	       "0c" META "\nMetadataIndex\nq\4"
	       "0ctorch.distributed.checkpoint.filesystem\n_StorageInfo\nq\5"
	       "0");
}

/* One object whose state is in slot 6, n times. */
static void add_objects(struct ck_buf *b, char class, size_t n)
{
	char object[] = "h?)\x81h\6b";

	object[1] = class;
	add(b, "(");
	add_times(b, object, n);
	add(b, "l.");
}

static void test_one_state_for_many_objects(void)
{
	static const struct {
		const char *name, *key, *other;
		char class;
	} kinds[] = {
		{ "chunks of one state", "offsets", "sizes", 2 },
		{ "tensors of one state", "size", "x", 3 },
		{ "indexes of one state", "offset", "x", 4 },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(kinds); i++) {
		struct bomb b = { .name = kinds[i].name, .is_metadata = true };

		add_prologue(&b.bytes, 100000);
		add(&b.bytes, "}(");
		add_str(&b.bytes, kinds[i].key);
		add(&b.bytes, "h\1");
		add_str(&b.bytes, kinds[i].other);
		add(&b.bytes, "h\1");
		add_str(&b.bytes, "fqn");
		add_str(&b.bytes, "w");
		add(&b.bytes, "uq\6"
			      "0");
		add_objects(&b.bytes, kinds[i].class, 500000);
		bounded(&b);
	}
}

/* A path of n equal parts, in records of a known and of an unknown class. */
static void test_paths_of_many_parts(size_t len, size_t n, size_t records)
{
	static const char classes[] = { 5, 7 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(classes); i++) {
		struct bomb b = { .name = "paths of many parts",
				  .is_metadata = true };
		ck_auto_free char *part = calloc(len + 1, 1);

		memset(part, 'a', len);
		add_prologue(&b.bytes, 1);
		add(&b.bytes, "cvendor\nInfo\nq\7"
			      "0");
		add_str(&b.bytes, part);
		add(&b.bytes, "q\10"
			      "0cpathlib\nPosixPath\n(");
		add_times(&b.bytes, "h\10", n);
		add(&b.bytes, "tRq\11"
			      "0}(");
		add_str(&b.bytes, "relative_path");
		add(&b.bytes, "h\11");
		add_str(&b.bytes, "offset");
		add(&b.bytes, "K\1");
		add_str(&b.bytes, "length");
		add(&b.bytes, "K\1uq\6"
			      "0");
		add_objects(&b.bytes, classes[i], records);
		bounded(&b);
	}
}

/* A state of many fields is searched once for each object. */
static void test_many_fields(void)
{
	struct bomb b = { .name = "objects of one state of many fields",
			  .is_metadata = true };

	add_prologue(&b.bytes, 1);
	add(&b.bytes, "}(");
	add_times(&b.bytes, "NN", 1000000);
	add(&b.bytes, "uq\6"
		      "0");
	add_objects(&b.bytes, 2, 500000);
	bounded(&b);
}

static void test_long_names(void)
{
	struct ck_buf name = { 0 };

	add_times(&name, "n", 1000000);
	for (char class = 4; class <= 5; class ++) {
		struct bomb b = { .name = "rows that share a long name",
				  .is_metadata = true };

		add_prologue(&b.bytes, 1);
		add(&b.bytes, "}(");
		add_str(&b.bytes, class == 4 ? "fqn" : "relative_path");
		add_str(&b.bytes, name.data);
		add_str(&b.bytes, "offset");
		add(&b.bytes, class == 4 ? "h\1" : "K\1");
		add_str(&b.bytes, "length");
		add(&b.bytes, "K\1"
			      "uq\6"
			      "0");
		add_objects(&b.bytes, class, 500000);
		bounded(&b);
	}
	ck_buf_fini(&name);
}

/* chunks: one chunk many times, so that its box is copied as often; then
 * tensors: one tensor under many keys. */
static void test_one_chunk_many_times(void)
{
	struct bomb b = { .name = "one box of 100000 dimensions, many times",
			  .is_metadata = true };

	add_prologue(&b.bytes, 100000);
	add(&b.bytes, "h\2)\x81}(");
	add_str(&b.bytes, "offsets");
	add(&b.bytes, "h\1");
	add_str(&b.bytes, "sizes");
	add(&b.bytes, "h\1ubq\7"
		      "0h\3)\x81}(");
	add_str(&b.bytes, "size");
	add(&b.bytes, "h\1");
	add_str(&b.bytes, "chunks");
	add(&b.bytes, "(");
	add_times(&b.bytes, "h\7", 500000);
	add(&b.bytes, "lub.");
	bounded(&b);
}

static void test_one_tensor_under_many_keys(void)
{
	struct bomb b = { .name = "one tensor of 50000 boxes, 50000 keys",
			  .is_metadata = true };

	add_prologue(&b.bytes, 1);
	add(&b.bytes, "h\2)\x81}(");
	add_str(&b.bytes, "offsets");
	add(&b.bytes, "h\1");
	add_str(&b.bytes, "sizes");
	add(&b.bytes, "h\1ubq\7"
		      "0h\3)\x81}(");
	add_str(&b.bytes, "size");
	add(&b.bytes, "h\1");
	add_str(&b.bytes, "chunks");
	add(&b.bytes, "(");
	add_times(&b.bytes, "h\7", 50000);
	add(&b.bytes, "lubq\10"
		      "0c" META "\nMetadata\n)\x81}(");
	add_str(&b.bytes, "storage_data");
	add(&b.bytes, "}");
	add_str(&b.bytes, "state_dict_metadata");
	add(&b.bytes, "}(");
	for (int i = 0; i < 50000; i++) {
		char key[8];

		snprintf(key, sizeof(key), "%d", i);
		add_str(&b.bytes, key);
		add(&b.bytes, "h\10");
	}
	add(&b.bytes, "uub.");
	bounded(&b);
}

/* Many entries that have one long path, or one long step in it. */
static void test_one_path_for_many_entries(const char *name, unsigned steps,
					   unsigned len)
{
	enum { ENTRIES = 100000 };
	struct bomb b = { .name = name, .is_metadata = true };
	char *step = malloc(len + 1);
	char key[16];

	memset(step, 'x', len);
	step[len] = '\0';
	add(&b.bytes, "\200\4c" META "\nBytesStorageMetadata\n)\x81q\1"
		      "0");
	add_str(&b.bytes, step);
	add(&b.bytes, "q\2"
		      "0(");
	add_times(&b.bytes, "h\2", steps);
	add(&b.bytes, "tq\3"
		      "0c" META "\nMetadata\n)\x81}(");
	add_str(&b.bytes, "storage_data");
	add(&b.bytes, "}");
	for (int planned = 0; planned < 2; planned++) {
		add_str(&b.bytes,
			planned ? "planner_data" : "state_dict_metadata");
		add(&b.bytes, "}(");
		for (int i = 0; i < ENTRIES; i++) {
			snprintf(key, sizeof(key), "%d", i);
			add_str(&b.bytes, key);
			add(&b.bytes, planned ? "h\3" : "h\1");
		}
		add(&b.bytes, "u");
	}
	add(&b.bytes, "ub.");
	free(step);
	bounded(&b);
}

int main(void)
{
	/* As the daemon: large arrays go back when they grow. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	test_depth();
	test_doubling();
	test_declared_lengths();
	test_many_small_values();
	test_globals();
	test_long_numbers();
	test_one_state_for_many_objects();
	test_many_fields();
	test_long_names();
	test_one_chunk_many_times();
	test_paths_of_many_parts(500000, 2000, 1);
	test_paths_of_many_parts(0, 100000, 2000);
	test_paths_of_many_parts(1, 1000, 50000);
	test_one_tensor_under_many_keys();
	test_one_path_for_many_entries("one long path for many entries", 2000,
				       1);
	test_one_path_for_many_entries("one long step for many entries", 1,
				       10000);
	test_one_path_for_many_entries("one short path for many entries", 3, 1);
	return tap_done();
}
