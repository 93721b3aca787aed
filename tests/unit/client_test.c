/* SPDX-License-Identifier: MIT */
/*
 * client: the library on the sample: paths, parts of ranks, refusals; damage is an error of
 * its box only; threads, fork(2), SIGBUS and many opens.
 *
 *	client_test FIXTURES
 */
#include "ckptfs/client.h"
#include "shell.h"
#include "tap.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *fixtures;
static char dir[] = "/tmp/ckptfs-client.XXXXXX";

static struct ckptfs *opened(const char *source)
{
	struct ckptfs *ck = NULL;
	int rc = ckptfs_open(source, NULL, &ck);

	if (rc)
		printf("# %s: %s\n", source, ckptfs_last_error()->text);
	return rc ? NULL : ck;
}

static struct ckptfs *sample(void)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/sample", fixtures);
	return opened(path);
}

/* --- paths ------------------------------------------------------------------------------ */

static void paths(void)
{
	struct ckptfs *ck = sample();
	struct ckptfs_list *list;
	struct ckptfs_stat st;
	char text[256] = "";

	eq_err(ckptfs_list(ck, "", &list), 0);
	eq_text(list->entries[0].name, "full");
	eq_u64(list->entries[0].type, S_IFDIR);
	ckptfs_list_free(list);
	eq_err(ckptfs_list(ck, "objects", &list), 0);
	eq_u64(list->n, 2 * ckptfs_objects(ck));
	ckptfs_list_free(list);
	eq_err(ckptfs_stat(ck, "/raw//./model.norm.weight", &st), 0);
	eq_u64(st.size, 64);
	ok(S_ISREG(st.mode));
	eq_i64(ckptfs_getxattr(ck, "raw/model.norm.weight", "user.ckptfs.shape",
			       text, sizeof(text)),
	       4);
	eq_text(text, "[16]");
	eq_i64(ckptfs_getxattr(ck, "raw/model.norm.weight", "user.ckptfs.shape",
			       text, 2),
	       -ERANGE);
	eq_i64(ckptfs_getxattr(ck, "raw/model.norm.weight", "user.x", NULL, 0),
	       -ENODATA);
	ok(ckptfs_listxattr(ck, "raw/model.norm.weight", text, sizeof(text)) >
	   0);
	eq_i64(ckptfs_read(ck, "raw/model.norm.weight", text, 100, 60), 4);
	eq_i64(ckptfs_read(ck, "raw/model.norm.weight", text, 100, 64), 0);
	eq_i64(ckptfs_read(ck, "raw", text, 1, 0), -EISDIR);
	eq_i64(ckptfs_read(ck, "raw/model.norm.weight/x", text, 1, 0),
	       -ENOTDIR);
	eq_i64(ckptfs_read(ck, "full/../raw", text, 1, 0), -EINVAL);
	eq_err(ckptfs_list(ck, "none", &list), -ENOENT);
	eq_text(ckptfs_last_error()->text, "none: No such file or directory");
	ok(!list);
	ckptfs_close(ck);
	ckptfs_close(NULL);
	ckptfs_list_free(NULL);
}

/* Rows 8 to 11 of wq are those of rank 2 of 4. */
static void parts(void)
{
	const uint64_t rows[2] = { 8, 0 }, sizes[2] = { 4, 16 };
	const uint64_t off[2] = { 1, 3 }, some[2] = { 2, 9 };
	float want[64], got[64], cut[18];
	struct ckptfs *ck = sample();
	struct ckptfs_box whole = { .fqn = "model.layers.0.attention.wq.weight",
				    .ndim = 2,
				    .offsets = rows,
				    .sizes = sizes,
				    .to = want };
	static const char *const paths[] = {
		"local/rank-2/model.layers.0.attention.wq.weight.npy",
		"sharded/4/rank-2/model.layers.0.attention.wq.weight.npy",
	};

	eq_err(ckptfs_read_box(ck, &whole), 0);
	for (size_t i = 0; i < 2; i++) {
		struct ckptfs_box box = { .path = paths[i], .to = got };

		eq_err(ckptfs_read_box(ck, &box), 0);
		eq_mem(got, sizeof(got), want, sizeof(want));
		box.ndim = 2;
		box.offsets = off;
		box.sizes = some;
		box.to = cut;
		eq_err(ckptfs_read_many(ck, &box, 1, 2), 0);
		for (size_t k = 0; k < 2; k++)
			eq_mem(cut + k * 9, 36, want + (k + 1) * 16 + 3, 36);
		box.sizes = sizes;
		eq_err(ckptfs_read_box(ck, &box), -ERANGE);
		ok(strstr(ckptfs_last_error()->text, "shape is [4,16]"));
	}
	whole = (struct ckptfs_box){ .path = "hf/model.safetensors",
				     .to = got };
	eq_err(ckptfs_read_box(ck, &whole), -ENOTTY);
	whole.path = "local";
	eq_err(ckptfs_read_box(ck, &whole), -ENOTTY);
	eq_text(ckptfs_last_error()->text, "local: not a file of a tensor");
	whole.path = "local/rank-9/x";
	eq_err(ckptfs_read_box(ck, &whole), -ENOENT);
	ckptfs_close(ck);
}

/* The parts of a file are the bytes of their tensors; keys with prefixes; order of files. */
static void places(void)
{
	static struct ckptfs_part all[100];
	static char file[4096], raw[4096];
	struct ckptfs *ck = sample();
	const struct ckptfs_tensor *t;
	int64_t n = ckptfs_parts(ck, "hf/model.safetensors", all, 100);
	char path[1024];

	ok(n > 1 && n < 100);
	for (int64_t i = 0; i < n; i++) {
		t = ckptfs_tensor_at(ck, all[i].tensor);
		(void)snprintf(path, sizeof(path), "raw/%s", t->stem);
		eq_u64(all[i].size, t->nbytes);
		eq_i64(ckptfs_read(ck, "hf/model.safetensors", file,
				   all[i].size, all[i].begin),
		       (int64_t)all[i].size);
		eq_i64(ckptfs_read(ck, path, raw, sizeof(raw), 0),
		       (int64_t)all[i].size);
		eq_mem(file, all[i].size, raw, all[i].size);
	}
	eq_i64(ckptfs_parts(ck, "hf/model.safetensors", NULL, 0), n);
	eq_i64(ckptfs_parts(ck, "raw", NULL, 0), -ENOTTY);
	eq_i64(ckptfs_parts(ck, "none", NULL, 0), -ENOENT);
	t = ckptfs_tensor(ck, "model.norm.weight");
	ok(t->key == t->fqn && t->key_len == t->fqn_len);
	ok(t->file != UINT32_MAX && t->position > 0);
	ckptfs_close(ck);
	(void)snprintf(path, sizeof(path), "%s/wrappers", fixtures);
	ck = opened(path);
	t = ckptfs_tensor(ck, "head.weight");
	eq_text(t->key, "module._orig_mod.head.weight");
	eq_u64(t->key_len, strlen(t->key));
	ckptfs_close(ck);
}

static void refusals(void)
{
	const uint64_t five[2] = { 5, 5 }, big[2] = { 16, UINT64_MAX };
	const uint64_t none[2] = { 0, 1 };
	struct ckptfs *ck = sample(), *other;
	float bytes[256];
	struct ckptfs_box box = { .fqn = "model.layers.0.attention.wq.weight",
				  .to = bytes };

	eq_err(ckptfs_open("/nonexistent", NULL, &other), -ENOENT);
	ok(!other && strstr(ckptfs_last_error()->text, "/nonexistent"));
	eq_err(ckptfs_open(fixtures, "kind=nonsense", &other), -EINVAL);
	eq_err(ckptfs_open(fixtures, "write", &other), -EINVAL);
	eq_err(ckptfs_open(fixtures, "hosts=a+b", &other), -EOPNOTSUPP);
	box.offsets = five;
	eq_err(ckptfs_read_box(ck, &box), -EINVAL); /* ndim is missing */
	box.ndim = 2;
	eq_err(ckptfs_read_box(ck, &box), 0);
	box.sizes = big;
	eq_err(ckptfs_read_box(ck, &box), -ERANGE);
	eq_text(ckptfs_last_error()->text,
		"model.layers.0.attention.wq.weight: the box is not within the "
		"tensor, whose shape is [16,16]");
	box.offsets = big;
	eq_err(ckptfs_read_box(ck, &box), -ERANGE);
	box.offsets = NULL;
	box.sizes = NULL;
	box.steps = none;
	eq_err(ckptfs_read_box(ck, &box), -EINVAL);
	box = (struct ckptfs_box){ .fqn = "nobody", .to = bytes };
	eq_err(ckptfs_read_box(ck, &box), -ENOENT);
	eq_text(ckptfs_last_error()->fqn, "nobody");
	box = (struct ckptfs_box){ .tensor = UINT64_MAX, .to = bytes };
	eq_err(ckptfs_read_box(ck, &box), -ENOENT);
	ok(!ckptfs_tensor(ck, "nobody"));
	ok(!ckptfs_tensor_at(ck, UINT64_MAX) && !ckptfs_object_at(ck, 1000000));
	eq_err(ckptfs_read_many(ck, NULL, 0, 0), 0);
	ckptfs_close(ck);
}

/* --- damage ------------------------------------------------------------------------------ */

/* Box [0,0] [4,16] of wq is at byte 2409 of __0_0.distcp, and its shape at 2575. */
static void damage(void)
{
	static const char wq[] = "model.layers.0.attention.wq.weight";
	const uint64_t rows[2] = { 4, 0 };
	float bytes[256];
	struct ckptfs_box boxes[2] = { { .fqn = wq, .to = bytes },
				       { .fqn = "model.norm.weight",
					 .to = bytes } };
	struct ckptfs *ck;
	const struct ckptfs_error *e;
	uint64_t lost = 0;
	char bad[64];

	shell("cp -r %s/sample %s/bad", fixtures, dir);
	shell("printf '\\005' | dd of=%s/bad/__0_0.distcp bs=1 seek=2575 "
	      "conv=notrunc 2>/dev/null",
	      dir);
	snprintf(bad, sizeof(bad), "%s/bad", dir);
	ck = opened(bad);
	eq_err(ckptfs_read_many(ck, boxes, 2, 2), -EIO);
	eq_err(boxes[1].err, 0);
	e = ckptfs_last_error();
	eq_i64(e->err, EIO);
	eq_text(e->fqn, wq);
	eq_text(e->file, "__0_0.distcp");
	eq_text(e->expected, "[4,16]");
	eq_text(e->found, "[5,16]");
	eq_text(e->text,
		"model.layers.0.attention.wq.weight: EIO: box [0,0] [4,16]: its "
		"item has another shape; __0_0.distcp at 2409; expected [4,16], "
		"found [5,16]");
	boxes[0].ndim = 2;
	boxes[0].offsets = rows;
	eq_err(ckptfs_read_box(ck, boxes), 0);
	for (uint64_t i = 0; i < ckptfs_tensors(ck); i++)
		lost += ckptfs_check_tensor(ck, i) != 0;
	eq_u64(lost, 1);
	ckptfs_close(ck);

	shell("truncate -s 3000 %s/bad/__1_0.distcp", dir);
	ck = opened(bad);
	lost = 0;
	for (uint64_t i = 0; i < ckptfs_tensors(ck); i++)
		lost += ckptfs_tensor_at(ck, i)->err != 0;
	ok(lost > 1);
	ckptfs_close(ck);
}

/* --- threads and fork --------------------------------------------------------------------- */

static atomic_bool stop;
static atomic_uint wrong;

static void *read_on(void *arg)
{
	static const char wq[] = "model.layers.0.attention.wq.weight";
	struct ckptfs *ck = arg;
	float first[256], bytes[256];
	struct ckptfs_box box = { .fqn = wq, .to = first };
	unsigned n = 0;

	if (ckptfs_read_box(ck, &box))
		atomic_fetch_add(&wrong, 1);
	box.to = bytes;
	while (n++ < 100 || !atomic_load(&stop))
		if (ckptfs_read_many(ck, &box, 1, 2) ||
		    memcmp(first, bytes, sizeof(bytes)) != 0)
			atomic_fetch_add(&wrong, 1);
	return NULL;
}

static int child(struct ckptfs *ck, const float *want)
{
	float bytes[256];
	struct ckptfs_box box = { .fqn = "model.layers.0.attention.wq.weight",
				  .to = bytes };
	int rc = ckptfs_read_box(ck, &box);

	ckptfs_close(ck);
	return rc || memcmp(want, bytes, sizeof(bytes)) != 0;
}

static void threads(void)
{
	struct ckptfs *ck = sample();
	float want[256];
	struct ckptfs_box box = { .fqn = "model.layers.0.attention.wq.weight",
				  .to = want };
	pthread_t t[4];
	int status;

	eq_err(ckptfs_read_box(ck, &box), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, read_on, ck);
	/* ThreadSanitizer does not let children of several threads go on. */
	for (unsigned i = 0; i < (TAP_THREADS ? 0 : 20); i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(child(ck, want));
		waitpid(pid, &status, 0);
		eq_i64(status, 0);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	eq_u64(atomic_load(&wrong), 0);
	ckptfs_close(ck);
}

static void on_bus(int number)
{
	(void)number;
	_exit(17);
}

/* SIGBUS that the library did not cause goes to the handler that was there before. */
static void bus(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct sigaction act = { .sa_handler = on_bus };

		sigaction(SIGBUS, &act, NULL);
		(void)sample();
		(void)sample();
		raise(SIGBUS);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 17);
}

/* --- many opens ---------------------------------------------------------------------------- */

static unsigned count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static void open_once(void)
{
	struct ckptfs *ck = sample();
	float bytes[16];
	struct ckptfs_box box = { .fqn = "model.norm.weight", .to = bytes };
	struct ckptfs_list *list;

	if (!ck || ckptfs_read_box(ck, &box) || ckptfs_list(ck, "hf", &list))
		abort();
	ckptfs_list_free(list);
	ckptfs_close(ck);
}

static void opens(void)
{
	uint64_t n = tap_is_long() ? 1000 : 50;
	struct mallinfo2 before;
	unsigned fds;

	for (unsigned i = 0; i < 10; i++)
		open_once();
	fds = count_fds();
	before = mallinfo2();
	for (uint64_t i = 0; i < n; i++)
		open_once();
	eq_u64(count_fds(), fds);
	/* Sanitizers have their own heap, and detect leaks. */
	ok(mallinfo2().uordblks < before.uordblks + 16384);
}

static void memory(void)
{
	uint8_t *p = ckptfs_alloc((size_t)3 << 20);

	ok(p && (uintptr_t)p % 4096 == 0 && p[(3 << 20) - 1] == 0);
	ckptfs_free(p, (size_t)3 << 20);
	ckptfs_free(NULL, 0);
	ok(!ckptfs_alloc((size_t)1 << 60));
	eq_i64(ckptfs_last_error()->err, ENOMEM);
	ok(ckptfs_version()[0]);
}

int main(int argc, char **argv)
{
	if (argc != 2 || !mkdtemp(dir))
		return 99;
	fixtures = argv[1];
	eq_i64(ckptfs_last_error()->err, 0);
	bus();
	paths();
	parts();
	places();
	refusals();
	damage();
	threads();
	opens();
	memory();
	shell("rm -rf %s", dir);
	return tap_done();
}
