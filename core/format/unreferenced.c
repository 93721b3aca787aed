/* SPDX-License-Identifier: MIT */
/*
 * unreferenced: counts bytes that the metadata does not use:
 *
 *   - bytes of data files that belong to no item;
 *   - files in the directory with the suffix of data files that the metadata does not name;
 *   - such files in subdirectories that the metadata names.
 *
 * Files are compared by device and inode, because metadata can spell one path in several
 * ways. The state is local to one call; any thread may call ck_checkpoint_dead().
 */
#include "format/load/load_names.h"
#include "kind.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Entries of a directory that are read. */
enum { ENTRIES_MOST = 1 << 20 };

/* A file that the metadata names. Rows are sorted by device and inode, so that two names of
 * one file are neighbours. */
struct row {
	struct ck_file_id id; /* first */
	uint64_t size, live;  /* bytes; bytes of its items */
};

struct rows {
	struct row *list;
	size_t n;
};

/* --- files that the metadata names ------------------------------------------ */

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return ck_add(&sum, a, b) ? sum : UINT64_MAX;
}

static void count_live(struct rows *rows, const struct ck_item *item)
{
	if (item->file < rows->n)
		rows->list[item->file].live = plus(rows->list[item->file].live,
						   item->length);
}

/* Returns zeros if device and inode are not known yet. A remote file gets an id that no other
 * file has. */
static struct ck_file_id id_of(const struct ck_files *files, uint32_t i)
{
	if (ck_files_is_remote(files, i))
		return (struct ck_file_id){ 0, (ino_t)i + 1 };
	if (!ck_files_is_seen(files, i))
		return (struct ck_file_id){ 0, 0 };
	return ck_files_id(files, i);
}

static void count_items(struct rows *rows, struct ck_items items)
{
	for (uint32_t i = 0; i < items.n; i++)
		count_live(rows, ck_items_at(items, i));
}

static void count_boxes(struct rows *rows, const struct ck_catalog *c,
			const struct ck_tensor *t, struct ck_item_walk *walk)
{
	for (uint32_t i = 0; i < t->nchunks; i++)
		count_live(rows, ck_item_walk_to(walk, c, t->chunk + i));
}

/* Fills the rows, not sorted: row i is data file i. */
static void rows_fill(struct rows *rows, const struct ck_checkpoint *cp,
		      const struct ck_catalog *c)
{
	struct ck_item_walk walk = { 0 };

	for (uint32_t i = 0; i < rows->n; i++)
		rows->list[i] = (struct row){
			.id = id_of(cp->files, i),
			.size = ck_catalog_file(c, i)->err
					? 0
					: ck_catalog_file(c, i)->size,
		};
	for (uint32_t i = 0; i < rows->n && cp->format->head; i++)
		rows->list[i].live = cp->format->head(cp, i);
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (ck_tensor_alias_of(ck_catalog_tensor(c, i)) ==
			    CK_NO_TENSOR &&
		    ck_catalog_tensor(c, i)->entry.role != CK_ROLE_COPY)
			count_boxes(rows, c, ck_catalog_tensor(c, i), &walk);
	for (uint32_t i = 0; i < c->replicas.n; i++)
		count_live(rows, &ck_catalog_replica(c, i)->item);
	for (uint32_t i = 0; i < c->objects.n; i++)
		count_items(rows,
			    ck_items_of_object(c, ck_catalog_object(c, i)));
}

/* Id of the local file with the name of data file i; zeros if there is no such file. */
static struct ck_file_id id_here(const struct ck_checkpoint *cp,
				 const struct ck_catalog *c, uint32_t i)
{
	ck_auto_fd int fd = ck_open_beneath(cp->dirfd,
					    ck_catalog_file(c, i)->path, O_PATH,
					    CK_BENEATH_SYMLINKS);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return (struct ck_file_id){ 0, 0 };
	return ck_file_id_of(&st);
}

/* Sets unknown ids by a stat. Adds a row for the local file with the name of a remote data
 * file, so that the local file does not count as unreferenced. */
static void rows_identify(struct rows *rows, const struct ck_checkpoint *cp,
			  const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->files.n; i++) {
		struct ck_file_id *id = &rows->list[i].id;

		if (id->ino == 0)
			*id = id_here(cp, c, i);
		else if (ck_files_is_remote(cp->files, i))
			rows->list[rows->n++].id = id_here(cp, c, i);
	}
}

static int rows_make(struct rows *rows, struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	rows->n = c->files.n;
	rows->list = calloc(2 * rows->n + 1, sizeof(*rows->list));
	if (!rows->list)
		return -ENOMEM;
	rows_fill(rows, cp, c);
	rows_identify(rows, cp, c);
	qsort(rows->list, rows->n, sizeof(*rows->list), ck_file_id_cmp);
	return 0;
}

/* Counts unused bytes of the files in the rows. Rows with the same id count as one file. If
 * items overlap, a file has no unused bytes rather than a negative number. */
static uint64_t dead_inside(const struct rows *rows)
{
	uint64_t dead = 0, live = 0;

	for (size_t i = 0; i < rows->n; i++) {
		const struct row *row = &rows->list[i];

		live = plus(live, row->live);
		if (i + 1 < rows->n && ck_file_id_cmp(row, row + 1) == 0)
			continue;
		dead = plus(dead, row->size > live ? row->size - live : 0);
		live = 0;
	}
	return dead;
}

static bool is_known(const struct rows *rows, struct ck_file_id id)
{
	const struct row key = { .id = id };

	return bsearch(&key, rows->list, rows->n, sizeof(key), ck_file_id_cmp);
}

/* --- files in a directory ----------------------------------------------------- */

static bool ends_with(const char *name, const char *suffix)
{
	size_t len = strlen(name), end = strlen(suffix);

	return len >= end && strcmp(name + len - end, suffix) == 0;
}

struct beside {
	const struct ck_checkpoint *cp;
	const struct rows *rows;
	int dirfd;	/* the directory that is listed */
	bool below;	/* it is below the directory of the checkpoint */
	uint64_t *dead; /* sum of bytes */
};

static bool may_be_dead(const struct beside *b, const char *name)
{
	return b->below ? b->cp->format->is_shard(name)
			: ends_with(name, b->cp->format->suffix);
}

/* Adds the size of a file without a row. The inode number in the entry saves most calls of
 * stat(2). */
static int dead_entry(void *arg, const struct dirent *e)
{
	const struct beside *b = arg;
	struct stat st;

	if (may_be_dead(b, e->d_name) &&
	    !is_known(b->rows, (struct ck_file_id){ b->cp->dev, e->d_ino }) &&
	    fstatat(b->dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode) && !is_known(b->rows, ck_file_id_of(&st)))
		*b->dead = plus(*b->dead, (uint64_t)st.st_size);
	return 0;
}

/* --- files in subdirectories that the metadata names --------------------------- */

/* True if another checkpoint may own the files of `dir`: there is a metadata file in `dir`, or
 * in a directory between it and the checkpoint's. Also true if that cannot be verified. */
static bool is_of_another(const struct ck_checkpoint *cp, struct ck_str dir)
{
	while (dir.len) {
		ck_auto_fd int fd = ck_open_beneath(cp->dirfd, dir, O_PATH,
						    CK_BENEATH_NO_SYMLINKS);
		const char *slash = memrchr(dir.p, '/', dir.len);

		if (fd < 0 || faccessat(fd, cp->format->metadata, F_OK,
					AT_SYMLINK_NOFOLLOW) == 0)
			return true;
		dir.len = slash ? (size_t)(slash - dir.p) : 0;
	}
	return false;
}

static int dead_below(const struct ck_checkpoint *cp, const struct rows *rows,
		      struct ck_str dir, uint64_t *dead)
{
	ck_auto_fd int fd = ck_open_beneath(
		cp->dirfd, dir, O_RDONLY | O_DIRECTORY, CK_BENEATH_NO_SYMLINKS);
	struct beside b = { cp, rows, fd, true, dead };

	if (fd < 0 || is_of_another(cp, dir))
		return 0;
	return ck_dir_each((struct ck_directory){ fd, NULL }, ENTRIES_MOST,
			   dead_entry, &b);
}

/* Returns the *n subdirectories of local data files, sorted, some more than once. Caller frees
 * the array. NULL if memory is short. */
static struct ck_str *dirs_make(const struct ck_checkpoint *cp, size_t *n)
{
	uint32_t most = ck_files_count(cp->files);
	struct ck_str *dirs = calloc(most + 1UL, sizeof(*dirs));

	*n = 0;
	for (uint32_t i = 0; dirs && i < most; i++) {
		struct ck_str path = ck_files_info(cp->files, i)->path;
		const char *slash = memrchr(path.p, '/', path.len);

		if (slash && slash > path.p &&
		    !ck_files_is_remote(cp->files, i))
			dirs[(*n)++] = (struct ck_str){
				path.p, (size_t)(slash - path.p)
			};
	}
	if (*n)
		qsort(dirs, *n, sizeof(*dirs), ck_str_cmp);
	return dirs;
}

static int dead_in_dirs(const struct ck_checkpoint *cp, const struct rows *rows,
			uint64_t *dead)
{
	ck_auto_free struct ck_str *dirs = NULL;
	size_t n;
	int rc = 0;

	if (!cp->format->is_shard)
		return 0;
	dirs = dirs_make(cp, &n);
	if (!dirs)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (i == 0 || !ck_str_eq(dirs[i], dirs[i - 1]))
			rc = dead_below(cp, rows, dirs[i], dead);
	return rc;
}

static int dead_beside(const struct ck_checkpoint *cp, const struct rows *rows,
		       uint64_t *dead)
{
	struct beside b = { cp, rows, cp->dirfd, false, dead };

	/* Without a suffix of their own, data files cannot be distinguished. */
	return cp->format->suffix
		       ? ck_dir_each((struct ck_directory){ cp->dirfd, NULL },
				     ENTRIES_MOST, dead_entry, &b)
		       : 0;
}

int ck_checkpoint_dead(struct ck_checkpoint *cp, uint64_t *bytes)
{
	struct rows rows;
	int rc = rows_make(&rows, cp);

	*bytes = 0;
	if (rc)
		return rc;
	*bytes = dead_inside(&rows);
	rc = cp->file ? 0 : dead_beside(cp, &rows, bytes);
	if (rc == 0 && !cp->file)
		rc = dead_in_dirs(cp, &rows, bytes);
	free(rows.list);
	return rc;
}
