/* SPDX-License-Identifier: MIT */
/*
 * client: the library on every fixture. Each tensor by ckptfs_read_box() has the bytes of
 * raw/, also in random boxes with steps and strides; damage is an error of its box only;
 * threads, fork(2) and many opens.
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

enum { DIMS = 64 };

static const char *fixtures;
static uint64_t state;
static char dir[] = "/tmp/ckptfs-client.XXXXXX";

static uint64_t below(uint64_t n)
{
	return tap_random(&state) % n;
}

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

/* --- each tensor against its file in raw/ --------------------------------------------- */

/* Bytes of raw/; *rc: an error. Caller frees them. */
static uint8_t *raw(struct ckptfs *ck, const struct ckptfs_tensor *t,
		    int64_t *rc)
{
	uint8_t *bytes = malloc(t->nbytes + 1);
	char *path;

	if (!bytes || asprintf(&path, "raw/%s", t->stem) < 0)
		abort();
	*rc = ckptfs_read(ck, path, bytes, t->nbytes + 1, 0);
	free(path);
	return bytes;
}

/* A random box with steps, to a destination with strides between guard bytes. */
struct cut {
	uint64_t off[DIMS], size[DIMS], step[DIMS];
	int64_t stride[DIMS];
	uint64_t room;	/* bytes */
	uint64_t first; /* position of the first element */
};

static void cut_make(const struct ckptfs_tensor *t, struct cut *c)
{
	uint64_t unit = t->itemsize;
	uint64_t turn = below(4);

	c->room = t->itemsize;
	c->first = 0;
	for (uint32_t k = 0; k < t->ndim; k++) {
		/* In C order, or in a random order of the dimensions. */
		uint32_t d = turn ? t->ndim - 1 - k : k;
		uint64_t n = (uint64_t)t->shape[d];

		c->off[d] = below(n + 1);
		c->step[d] = 1 + below(3) * below(n + 1);
		c->size[d] = (n - c->off[d] + c->step[d] - 1) / c->step[d];
		c->size[d] = turn == 3 ? c->size[d] : below(c->size[d] + 1);
		c->stride[d] = (int64_t)unit;
		unit *= c->size[d] + (turn == 2 ? below(3) : 0) + !c->size[d];
	}
	c->room = unit;
	for (uint32_t d = 0; d < t->ndim; d++)
		if (turn == 1 && c->size[d] && below(3) == 0) {
			c->first += (c->size[d] - 1) * (uint64_t)c->stride[d];
			c->stride[d] = -c->stride[d];
		}
}

static bool is_in(const struct cut *c, const struct ckptfs_tensor *t)
{
	for (uint32_t d = 0; d < t->ndim; d++)
		if (c->size[d] == 0)
			return false;
	return true;
}

/* Writes the elements of a cut of `all` as the library must. */
static void cut_copy(const struct cut *c, const struct ckptfs_tensor *t,
		     const uint8_t *all, uint8_t *to)
{
	uint64_t at[DIMS] = { 0 };
	uint32_t d;

	do {
		uint64_t from = 0;
		int64_t into = (int64_t)c->first;

		for (d = 0; d < t->ndim; d++) {
			from = from * (uint64_t)t->shape[d] + c->off[d] +
			       at[d] * c->step[d];
			into += (int64_t)at[d] * c->stride[d];
		}
		memcpy(to + into, all + from * t->itemsize, t->itemsize);
		for (d = t->ndim; d > 0 && ++at[d - 1] == c->size[d - 1]; d--)
			at[d - 1] = 0;
	} while (d > 0);
}

static bool cut_is_good(struct ckptfs *ck, uint64_t i, const uint8_t *all)
{
	const struct ckptfs_tensor *t = ckptfs_tensor_at(ck, i);
	static struct cut c;
	struct ckptfs_box box = { .tensor = i, .ndim = t->ndim };
	uint8_t *got, *want;
	bool good;

	cut_make(t, &c);
	got = malloc(c.room + 1);
	want = malloc(c.room + 1);
	memset(got, 0xa5, c.room + 1);
	memset(want, 0xa5, c.room + 1);
	box.offsets = c.off;
	box.sizes = c.size;
	box.steps = c.step;
	box.strides = c.stride;
	box.to = got + c.first;
	if (is_in(&c, t))
		cut_copy(&c, t, all, want);
	good = ckptfs_read_box(ck, &box) == 0 && box.err == 0 &&
	       memcmp(got, want, c.room + 1) == 0;
	if (!good)
		printf("# %s: a box differs\n", t->fqn);
	free(got);
	free(want);
	return good;
}

/* Dtype, shape and alias_of are those of the attributes of its file. */
static bool facts_are_good(struct ckptfs *ck, const struct ckptfs_tensor *t)
{
	char path[512], value[512] = "", shape[512] = "[";
	const struct ckptfs_tensor *of = ckptfs_tensor_at(ck, t->alias_of);
	int64_t len;

	snprintf(path, sizeof(path), "raw/%s", t->stem);
	for (uint32_t d = 0; d < t->ndim; d++)
		snprintf(shape + strlen(shape), 24, "%s%jd", d ? "," : "",
			 (intmax_t)t->shape[d]);
	strcat(shape, "]");
	len = ckptfs_getxattr(ck, path, "user.ckptfs.shape", value, 512);
	if (len != (int64_t)strlen(shape) ||
	    memcmp(value, shape, strlen(shape)) != 0)
		return false;
	len = ckptfs_getxattr(ck, path, "user.ckptfs.dtype", value, 512);
	if (len != (int64_t)strlen(t->dtype) ||
	    memcmp(value, t->dtype, strlen(t->dtype)) != 0)
		return false;
	len = ckptfs_getxattr(ck, path, "user.ckptfs.alias_of", value, 512);
	return of ? len == (int64_t)of->fqn_len &&
			       memcmp(value, of->fqn, of->fqn_len) == 0
		  : len == -ENODATA;
}

static bool tensor_is_good(struct ckptfs *ck, uint64_t i, unsigned cuts)
{
	const struct ckptfs_tensor *t = ckptfs_tensor_at(ck, i);
	int64_t want;
	uint8_t *all = raw(ck, t, &want);
	uint8_t *got = calloc(1, t->nbytes + 1);
	struct ckptfs_box box = { .fqn = t->fqn, .to = got };
	bool good;
	int rc;

	if (strlen(t->fqn) != t->fqn_len)
		box = (struct ckptfs_box){ .tensor = i, .to = got };
	rc = ckptfs_read_box(ck, &box);
	/* A tensor without bytes that can be counted is an empty file. */
	if (want < 0 || t->err)
		good = rc < 0 && (want >= 0 || rc == want) &&
		       strcmp(ckptfs_last_error()->fqn, t->fqn) == 0 &&
		       ckptfs_last_error()->text[0];
	else
		good = rc == 0 && (uint64_t)want == t->nbytes &&
		       memcmp(got, all, t->nbytes) == 0 &&
		       ckptfs_check_tensor(ck, i) == 0;
	if (!good)
		printf("# %s: %d, raw/ %jd, %s\n", t->fqn, rc, (intmax_t)want,
		       ckptfs_last_error()->text);
	for (unsigned k = 0; good && rc == 0 && k < cuts; k++)
		good = cut_is_good(ck, i, all);
	free(got);
	free(all);
	return good;
}

/* All tensors by one call of several threads equal those by single calls. */
static bool many_is_good(struct ckptfs *ck)
{
	uint64_t n = ckptfs_tensors(ck);
	struct ckptfs_box *boxes = calloc(n + 1, sizeof(*boxes));
	bool good = true;
	int64_t rc;

	for (uint64_t i = 0; i < n; i++) {
		boxes[i].tensor = i;
		boxes[i].to = malloc(ckptfs_tensor_at(ck, i)->nbytes + 1);
	}
	(void)!ckptfs_read_many(ck, boxes, n, 4);
	for (uint64_t i = 0; i < n; i++) {
		const struct ckptfs_tensor *t = ckptfs_tensor_at(ck, i);
		uint8_t *all = raw(ck, t, &rc);

		if (boxes[i].err)
			good &= rc < 0 || t->err;
		else
			good &= memcmp(boxes[i].to, all, t->nbytes) == 0;
		free(all);
		free(boxes[i].to);
	}
	free(boxes);
	return good;
}

static void fixture(const char *name, unsigned *nopened)
{
	char path[1024];
	struct ckptfs *ck;
	bool good = true;

	snprintf(path, sizeof(path), "%s/%s", fixtures, name);
	if (ckptfs_open(path, "", &ck))
		return;
	++*nopened;
	for (uint64_t i = 0; i < ckptfs_tensors(ck); i++) {
		const struct ckptfs_tensor *t = ckptfs_tensor_at(ck, i);

		good &= ckptfs_tensor_number(ck, t) == i;
		good &= facts_are_good(ck, t);
		good &= tensor_is_good(ck, i, 3);
	}
	good &= many_is_good(ck);
	tap_result(good, __FILE__, __LINE__, name);
	ckptfs_close(ck);
}

static void all_fixtures(void)
{
	DIR *d = opendir(fixtures);
	unsigned n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			fixture(e->d_name, &n);
	closedir(d);
	ok(n > 120);
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
	state = tap_seed(40);
	eq_i64(ckptfs_last_error()->err, 0);
	bus();
	all_fixtures();
	paths();
	refusals();
	damage();
	threads();
	opens();
	memory();
	shell("rm -rf %s", dir);
	return tap_done();
}
