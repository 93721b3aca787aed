/* SPDX-License-Identifier: MIT */
/*
 * views: full/, raw/, local/, objects/ and .ckptfs/ in the tree, for each checkpoint of a
 * directory. Names, sizes, modes, times and slices agree with plain loops over the catalog.
 *
 *	views_test DIRECTORY	of checkpoints; a checkpoint that cannot be opened is skipped
 */
#include "ckptfs/report.h"
#include "format/current/current.h"
#include "model/catalog/catalog_edit.h"
#include "report/shard_map.h"
#include "syntax/npy.h"
#include "tap.h"
#include "tree_walk.h"

#include <dirent.h>
#include <sys/stat.h>

static struct ck_checkpoint *cp;
static const struct ck_catalog *c;
static struct ck_root *root;
static struct ck_tree *tree;

/* --- reports --------------------------------------------------------------------- */

static unsigned printed;

/* A report that is one byte longer each time. */
static void print_live(void *arg, struct ck_root *of, struct ck_buf *out)
{
	unsigned *n = arg;

	(void)of;
	++*n;
	for (unsigned i = 0; i < *n; i++)
		ck_buf_text(out, "x");
}

/* The other views have tests of their own. */
static const struct ck_view_options view = {
	.views = (char[]){ "full+raw+local+objects" },
};
static const struct ck_tree_options options = {
	.umask = 022, .view = &view, .status = print_live, .arg = &printed
};

static void line(struct ck_buf *out, const char *path, uint64_t size,
		 mode_t mode, struct timespec mtime)
{
	ck_buf_printf(out, "%s %" PRIu64 " %o %jd.%ld\n", path, size, mode,
		      (intmax_t)mtime.tv_sec, mtime.tv_nsec);
}

/* --- nodes of the tree ----------------------------------------------------------- */

struct walked {
	struct ck_buf text;
	size_t slices, wrong;
};

/* True if the slice of a file is as long as the file, and its parts have no gaps. */
static bool is_slice_good(const struct ck_node_stat *st)
{
	const struct ck_catalog *of;
	struct ck_slice *s;
	uint64_t end = 0;
	bool good;

	if (tree_slice(tree, st->number, &of, &s))
		return false;
	for (uint32_t i = 0; i < s->nparts; i++)
		end += ck_slice_part_len(s, i);
	good = of == c && s->size == st->size && end == s->size;
	ck_slice_free(s);
	ck_catalog_put(of);
	return good;
}

#define STATS "/.ckptfs/stats"

static void each(void *arg, const char *path, const struct ck_node_stat *st)
{
	struct walked *w = arg;

	/* The size of stats depends on earlier reads. */
	line(&w->text, path, strcmp(path, STATS) == 0 ? 0 : st->size, st->mode,
	     st->mtime);
	if (st->type != CK_TYPE_FILE)
		return;
	w->slices++;
	w->wrong += !is_slice_good(st);
}

/* --- expected nodes ---------------------------------------------------------------- */

static void dir_expect(struct ck_buf *out, const char *path)
{
	line(out, path, 0, S_IFDIR | (c->dir_mode & 0555), c->meta.mtime);
}

static void tensors_expect(struct ck_buf *out, bool npy)
{
	char path[1024];

	dir_expect(out, npy ? "/full" : "/raw");
	for (uint32_t i = 0; i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);
		bool counted = !t->err || t->nbytes;
		struct ck_str stem = ck_tensor_names(c, i).stem;
		uint64_t header = npy && counted
					  ? ck_npy_header_len(t->dtype, t->ndim,
							      t->shape)
					  : 0;

		snprintf(path, sizeof(path), "/%s/%.*s%s", npy ? "full" : "raw",
			 (int)stem.len, stem.p, npy ? ".npy" : "");
		line(out, path, header + t->nbytes,
		     S_IFREG | (t->facts->mode & 0444), t->facts->mtime);
	}
}

/* The directory in local/ with the boxes of a data file. */
static const char *owner_of(uint32_t file)
{
	static char name[2][1024];
	static unsigned which;
	char *out = name[which++ % 2];
	struct ck_str path = ck_catalog_file(c, file)->path;
	uint64_t rank = ck_catalog_file(c, file)->rank;
	struct ck_buf stem = { 0 };

	if (rank != CK_NO_RANK) {
		snprintf(out, sizeof(name[0]), "rank-%" PRIu64, rank);
		return out;
	}
	ck_name_stem(path, 1, &stem);
	snprintf(out, sizeof(name[0]), "file-%s", stem.data);
	ck_buf_fini(&stem);
	return out;
}

static bool has_owner(uint32_t chunk, const char *owner)
{
	uint32_t file = ck_catalog_item(c, chunk)->file;

	return file < c->files.n && strcmp(owner_of(file), owner) == 0;
}

static void offsets_print(struct ck_buf *out, const struct ck_tensor *t,
			  uint32_t i)
{
	struct ck_buf text = { 0 };
	char hex[33];

	for (uint32_t d = 0; d < t->ndim; d++)
		ck_buf_printf(&text, "%s%" PRId64, d ? "," : "",
			      ck_tensor_box(t, i)[d]);
	if (text.len > 40) {
		ck_hash128_hex((struct ck_str){ text.data, text.len }, hex);
		ck_buf_printf(out, "%%@~%s", hex);
	} else {
		ck_buf_printf(out, "%%@%s", text.data);
	}
	ck_buf_fini(&text);
}

static void box_expect(struct ck_buf *out, const struct ck_tensor *t,
		       uint32_t i, const char *owner)
{
	struct ck_attr attr = ck_catalog_attr(
		c, (struct ck_items){ .of = c, .chunk = t->chunk + i, .n = 1 });
	struct ck_str stem = ck_tensor_names(c, t->entry.number).stem;
	const int64_t *size = ck_tensor_box(t, i) + t->ndim;
	uint64_t bytes = ck_dtype_at(t->dtype)->size;
	struct ck_buf path = { 0 };
	bool siblings = false;

	for (uint32_t k = 0; k < t->nchunks; k++)
		siblings |= k != i && has_owner(t->chunk + k, owner);
	ck_buf_printf(&path, "/local/%s/%.*s", owner, (int)stem.len, stem.p);
	if (siblings && t->ndim)
		offsets_print(&path, t, i);
	for (uint32_t d = 0; d < t->ndim; d++)
		bytes *= (uint64_t)size[d];
	if (ck_dtype_at(t->dtype)->size && !t->err)
		bytes += ck_npy_header_len(t->dtype, t->ndim, size);
	ck_buf_text(&path, ".npy");
	line(out, path.data, t->err ? 0 : bytes, S_IFREG | (attr.mode & 0444),
	     attr.mtime);
	ck_buf_fini(&path);
}

static void owner_expect(struct ck_buf *out, const char *owner)
{
	char path[1100];

	snprintf(path, sizeof(path), "/local/%s", owner);
	dir_expect(out, path);
	for (uint32_t i = 0; i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);

		for (uint32_t k = 0; k < t->nchunks && !t->apart; k++)
			if (has_owner(t->chunk + k, owner))
				box_expect(out, t, k, owner);
	}
}

static void local_expect(struct ck_buf *out)
{
	dir_expect(out, "/local");
	for (uint32_t i = 0; i < c->files.n; i++) {
		char owner[1024];
		bool seen = false;

		snprintf(owner, sizeof(owner), "%s", owner_of(i));
		for (uint32_t k = 0; k < i; k++)
			seen |= strcmp(owner, owner_of(k)) == 0;
		if (!seen)
			owner_expect(out, owner);
	}
}

/* --- edits --------------------------------------------------------------------------- */

static int find_in(const char *dir, const char *name, struct ck_node_stat *st)
{
	struct ck_node_stat in;
	int rc = tree_lookup(tree, CK_TREE_ROOT, ck_str_from("local"), &in);

	rc = rc ? rc : tree_lookup(tree, in.number, ck_str_from(dir), &in);
	return rc ? rc : tree_lookup(tree, in.number, ck_str_from(name), st);
}

static void edited(const struct ck_edit *edit)
{
	struct ck_catalog *next = ck_catalog_next(c);

	eq_err(ck_catalog_edit(next, edit, 1, NULL), 0);
	pthread_mutex_lock(&cp->changing);
	ck_checkpoint_publish(cp, next, NULL);
	pthread_mutex_unlock(&cp->changing);
	ck_catalog_put(c);
	c = ck_checkpoint_catalog(cp);
}

/* local/ shows the entries of the current catalog after a rename and a removal. */
static void test_edits(void)
{
	const struct ck_new_entry other = { .key = CK_STR("other") };
	const struct ck_edit rename = { .kind = CK_EDIT_RENAME, .new = &other };
	const struct ck_edit gone = { .kind = CK_EDIT_REMOVE };
	const struct ck_catalog *of;
	struct ck_node_stat st;
	struct ck_slice *s;
	char name[300];

	snprintf(name, sizeof(name), "%s.npy",
		 ck_show(ck_tensor_names(c, 0).stem));
	eq_err(find_in("rank-0", name, &st), 0);
	eq_err(find_in("rank-0", "other.npy", &st), -ENOENT);
	edited(&rename);
	eq_err(find_in("rank-0", name, &st), -ENOENT);
	eq_err(find_in("rank-0", "other.npy", &st), 0);
	edited(&gone);
	eq_err(find_in("rank-0", "other.npy", &st), -ENOENT);
	eq_err(tree_stat(tree, st.number, &st), -ESTALE);
	eq_err(tree_slice(tree, st.number, &of, &s), -ESTALE);
}

/* --- generated files ----------------------------------------------------------------- */

static void object_expect(struct ck_buf *out, uint32_t i)
{
	const struct ck_object *o = ck_catalog_object(c, i);
	struct ck_buf path = { 0 }, json = { 0 }, item = { 0 };
	struct ck_str stem = ck_object_names(c, i).stem;
	struct ck_object_gaps gaps;
	uint64_t len;

	if (ck_object_json(cp, i, &json, NULL))
		json.len = 0;
	len = ck_object_item(cp, i, &item, &gaps, NULL) ? 0 : item.len;
	for (uint32_t k = 0; k < gaps.n; k++)
		len += gaps.list[k].place.length;
	free(gaps.list);
	ck_buf_printf(&path, "/objects/%.*s.json", (int)stem.len, stem.p);
	line(out, path.data, json.len, S_IFREG | (o->mode & 0444), o->mtime);
	path.len = 0;
	ck_buf_printf(&path, "/objects/%.*s.pt", (int)stem.len, stem.p);
	line(out, path.data, len, S_IFREG | (o->mode & 0444), o->mtime);
	ck_buf_fini(&path);
	ck_buf_fini(&json);
	ck_buf_fini(&item);
}

static void report_expect(struct ck_buf *out, const char *path,
			  void (*print)(const struct ck_catalog *c,
					struct ck_buf *out))
{
	mode_t mode = S_IFREG | (c->meta.mode & c->dir_mode & 0444);
	struct ck_buf text = { 0 };

	print(c, &text);
	line(out, path, text.len, mode, c->meta.mtime);
	ck_buf_fini(&text);
}

static void print_damage(const struct ck_catalog *of, struct ck_buf *out)
{
	(void)of;
	ck_damage_print(ck_root_damage(root), out);
}

static void print_log(const struct ck_catalog *of, struct ck_buf *out)
{
	(void)of;
	ck_log_snapshot(out);
}

static void maps_expect(struct ck_buf *out)
{
	mode_t mode = S_IFREG | (c->meta.mode & c->dir_mode & 0444);

	dir_expect(out, "/.ckptfs/shards");
	for (uint32_t i = 0; i < c->tensors.n; i++) {
		struct ck_str stem = ck_tensor_names(c, i).stem;
		struct ck_buf text = { 0 }, path = { 0 };

		ck_buf_printf(&path, "/.ckptfs/shards/%.*s.svg", (int)stem.len,
			      stem.p);
		ck_shard_map_print(c, i, &text);
		line(out, path.data, text.len, mode, c->meta.mtime);
		ck_buf_fini(&text);
		ck_buf_fini(&path);
	}
}

/* `status` was printed once, when its name was looked up. */
static void made_expect(struct ck_buf *out)
{
	mode_t mode = S_IFREG | (c->meta.mode & c->dir_mode & 0444);

	dir_expect(out, "/objects");
	for (uint32_t i = 0; i < c->objects.n; i++)
		object_expect(out, i);
	dir_expect(out, "/.ckptfs");
	line(out, "/.ckptfs/status", 1, mode, c->meta.mtime);
	report_expect(out, "/.ckptfs/damage", print_damage);
	report_expect(out, "/.ckptfs/log", print_log);
	report_expect(out, "/.ckptfs/tensors.csv", ck_report_csv);
	report_expect(out, "/.ckptfs/tensors.jsonl", ck_report_jsonl);
	report_expect(out, "/.ckptfs/state_dict.json", ck_report_state_dict);
	line(out, STATS, 0, mode, c->meta.mtime);
	maps_expect(out);
}

/* The size of a live report is that of its last lookup. An open report keeps its text. */
static void test_live(void)
{
	const struct ck_catalog *of;
	struct ck_node_stat in, a, b;
	struct ck_slice *s;

	eq_err(tree_lookup(tree, CK_TREE_ROOT, CK_STR(".ckptfs"), &in), 0);
	eq_err(tree_lookup(tree, in.number, CK_STR("status"), &a), 0);
	eq_err(tree_slice(tree, a.number, &of, &s), 0);
	eq_err(tree_lookup(tree, in.number, CK_STR("status"), &b), 0);
	eq_u64(b.number, a.number);
	eq_u64(b.size, a.size + 1);
	eq_u64(s->size, a.size);
	eq_err(tree_stat(tree, a.number, &a), 0);
	eq_u64(a.size, b.size);
	ck_slice_free(s);
	ck_catalog_put(of);
}

/* --- each checkpoint ---------------------------------------------------------------- */

static void compare(const char *name)
{
	struct walked w = { .wrong = 0 };
	struct ck_buf want = { 0 };

	w.wrong += tree_walk(tree, CK_TREE_ROOT, "", each, &w);
	tensors_expect(&want, true);
	tensors_expect(&want, false);
	local_expect(&want);
	made_expect(&want);
	if (w.wrong || strcmp(w.text.data, want.data) != 0)
		printf("# %s\n", name);
	eq_u64(w.wrong, 0);
	eq_text(w.text.data, want.data);
	/* Canary: one other digit is detected. */
	want.data[want.len - 3] ^= 1;
	ok(strcmp(w.text.data, want.data) != 0);
	ck_buf_fini(&w.text);
	ck_buf_fini(&want);
}

/* Compares one checkpoint. Returns the number of compared ones. */
static unsigned one(const char *top, const char *name)
{
	static const struct ck_format_options reads = { 0 };
	char path[1024];
	bool few;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	if (ck_checkpoint_open(path, &reads, &cp, NULL))
		return 0;
	c = ck_checkpoint_catalog(cp);
	/* The loops are quadratic; rows that only local/ shows are in own_test.c. */
	few = c->chunks.n <= 5000 && !c->own_tensors && !c->own_objects;
	if (few) {
		printed = 0;
		eq_err(ck_root_make(cp, ck_views, ck_nviews, &options, &root),
		       0);
		eq_err(ck_tree_make(root, &tree), 0);
		compare(name);
		if (strcmp(name, "sample") == 0) {
			test_edits();
			test_live();
		}
		ck_tree_free(tree);
		ck_root_free(root);
	}
	ck_catalog_put(c);
	ck_checkpoint_close(cp);
	return few;
}

int main(int argc, char **argv)
{
	const int step = TAP_SLOW && !tap_is_long() ? 3 : 1;
	unsigned compared = 0;
	struct dirent **list;
	int n;

	if (argc != 2)
		return 2;
	n = scandir(argv[1], &list, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (name[0] != '.' &&
		    (i % step == 0 || strcmp(name, "sample") == 0))
			compared += one(argv[1], name);
		free(list[i]);
	}
	free(n < 0 ? NULL : list);
	ok(compared > 40U / (unsigned)step);
	return tap_done();
}
