/* SPDX-License-Identifier: MIT */
/*
 * client_boxes: the library on every fixture. Each tensor by ckptfs_read_box() and
 * ckptfs_read_many() has the bytes of raw/, also in random boxes with steps and strides; its
 * facts are those of the attributes.
 *
 *	client_boxes_test FIXTURES
 */
#include "ckptfs/client.h"
#include "tap.h"

#include <dirent.h>

enum { DIMS = 64 };

static const char *fixtures;
static uint64_t state;

static uint64_t below(uint64_t n)
{
	return tap_random(&state) % n;
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

int main(int argc, char **argv)
{
	if (argc != 2)
		return 99;
	fixtures = argv[1];
	state = tap_seed(40);
	all_fixtures();
	return tap_done();
}
