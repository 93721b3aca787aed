/* SPDX-License-Identifier: MIT */
/*
 * load_gather: the files of a checkpoint that is being loaded, some of which may be on other
 * hosts. A format sees the directories of all hosts as one directory. The bytes that
 * formats read first are fetched from all remote files in one batch.
 */
#include "load_gather.h"

#include <errno.h>
#include <unistd.h>

/* --- names and damage ------------------------------------------------------------------- */

int ck_src_has_name(const struct ck_src *src, bool (*wanted)(const char *name),
		    struct ck_diag *d)
{
	const struct ck_dir_want want = { wanted, 1,
					  src->by_search ? CK_DIR_BRIEF
							 : SIZE_MAX };
	struct ck_dir_names names = { 0 };
	int rc = src->file ? 0
			   : ck_dir_names_read(ck_src_dir(src), &want, &names);

	if (rc == 0)
		rc = names.n > 0;
	ck_dir_names_fini(&names);
	return rc < 0 ? ck_fail(d, -rc, "%s", strerror(-rc)) : rc;
}

int ck_fail_none_usable(const struct ck_catalog *c, const char *first, size_t n,
			struct ck_diag *d)
{
	struct ck_str what;
	size_t i = 0;

	while (i + 1 < c->nlosses && c->losses[i].file == CK_NO_FILE)
		i++;
	what = c->losses[i].what;
	return ck_fail(d, EBADMSG, "%s: %.*s%s", ck_show(ck_str_from(first)),
		       (int)what.len, what.p,
		       n > 1 ? "; no other file is any better" : "");
}

/* --- bytes in use ------------------------------------------------------------------------- */

static void need(struct ck_checkpoint *cp, const struct ck_item *item)
{
	uint64_t end;

	if (item->file < ck_files_count(cp->files) &&
	    ck_add(&end, item->fpos, item->length))
		ck_files_need(cp->files, item->file, end);
}

static void need_items(struct ck_checkpoint *cp, struct ck_items items)
{
	for (uint32_t i = 0; i < items.n; i++)
		need(cp, ck_items_at(items, i));
}

/* Records the end of the bytes in use of each file. A replica that ends before it is
 * not used. */
static void need_all(struct ck_checkpoint *cp, const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->chunks.n; i++)
		need(cp, ck_catalog_item(c, i));
	for (uint32_t i = 0; i < c->replicas.n; i++)
		need(cp, &ck_catalog_replica(c, i)->item);
	for (uint32_t i = 0; i < c->objects.n; i++)
		need_items(cp, ck_items_of_object(c, ck_catalog_object(c, i)));
}

/* --- choice of the metadata file -------------------------------------------------- */

int ck_metadata_open_first(struct ck_checkpoint *cp, struct ck_catalog *c,
			   const struct ck_dir_names *names,
			   const struct ck_format_options *options,
			   struct ck_diag *d)
{
	const struct ck_fetched_metadata nothing = { 0 };
	int first = -ESTALE;

	if (cp->elsewhere)
		return 0;
	if (names->n == 0)
		return ck_fail(d, ESTALE, "its files were removed just now");
	for (size_t i = 0; i < names->n; i++) {
		struct ck_diag other = { 0 };
		int fd, rc = ck_metadata_open(cp, c, names->all[i], options,
					      &nothing, &fd, i ? &other : d);

		if (rc == 0) {
			close(fd);
			return 0;
		}
		if (ck_is_shortage(rc))
			return ck_fail(d, -rc, "%s", strerror(-rc));
		first = i ? first : rc;
	}
	return first;
}

/* Makes a remote file the metadata file, with the facts that its host reported. */
static int take_far(struct ck_checkpoint *cp, struct ck_catalog *c,
		    uint32_t file, struct ck_diag *d)
{
	struct ck_fetched_metadata fetched = { .info = *ck_files_info(cp->files,
								      file) };

	fetched.info.mode &= ~fetched.info.closed;
	cp->metadata_remote = true;
	cp->metadata_file = file;
	return ck_metadata_take(cp, c, fetched.info.path.p, &fetched, d);
}

/* Makes a local file the metadata file. Its time and rights are combined with those of
 * replicas on other hosts. */
static int take_here(struct ck_checkpoint *cp, struct ck_catalog *c,
		     uint32_t file, const struct ck_format_options *options,
		     struct ck_diag *d)
{
	const struct ck_file_info *info = ck_files_info(cp->files, file);
	const struct ck_fetched_metadata fetched = {
		.info.mtime = ck_files_mtime(cp->files, file)
	};
	int fd, rc;

	cp->elsewhere->metadata_closed =
		ck_file_access_noted(ck_files_access(cp->files, file)).closed;
	rc = ck_metadata_open(cp, c, info->path.p, options, &fetched, &fd, d);
	if (rc == 0)
		close(fd);
	return rc;
}

static int take(struct ck_checkpoint *cp, struct ck_catalog *c, uint32_t file,
		const struct ck_format_options *options, struct ck_diag *d)
{
	const struct ck_file_info *info = ck_files_info(cp->files, file);

	if (!ck_files_is_seen(cp->files, file))
		return ck_fail(d, EIO, "%s: %s", ck_show(info->path),
			       ck_file_why_down());
	if (info->err)
		return ck_fail(d, info->err, "%s: %s", ck_show(info->path),
			       info->why ? info->why
					 : strerrordesc_np(info->err));
	if (ck_files_differs(cp->files, file))
		return ck_fail(d, EIO, "%s: %s", ck_show(info->path),
			       ck_files_differs(cp->files, file));
	return ck_files_is_remote(cp->files, file)
		       ? take_far(cp, c, file, d)
		       : take_here(cp, c, file, options, d);
}

/* The first file that was not tried, by rank, then by number; n if all were tried. */
static uint32_t next_of(const struct ck_checkpoint *cp,
			uint64_t (*rank)(const struct ck_checkpoint *cp,
					 uint32_t file),
			const bool *tried)
{
	uint32_t n = ck_files_count(cp->files), best = n;

	for (uint32_t i = 0; i < n; i++)
		if (!tried[i] &&
		    (best == n || (rank && rank(cp, i) < rank(cp, best))))
			best = i;
	return best;
}

static int take_first(struct ck_checkpoint *cp, struct ck_catalog *c,
		      const struct ck_format_options *options,
		      uint64_t (*rank)(const struct ck_checkpoint *cp,
				       uint32_t file),
		      struct ck_diag *d)
{
	uint32_t n = ck_files_count(cp->files);
	ck_auto_free bool *tried = calloc(n + 1UL, sizeof(*tried));
	int first = 0;

	if (!tried)
		return ck_fail(d, ENOMEM, "out of memory");
	for (uint32_t k = 0; k < n; k++) {
		uint32_t file = next_of(cp, rank, tried);
		struct ck_diag other = { 0 };
		int rc = take(cp, c, file, options, first ? &other : d);

		if (rc == 0 || ck_is_shortage(rc))
			return rc;
		tried[file] = true;
		first = first ? first : rc;
	}
	return first ? first
		     : ck_fail(d, ESTALE, "its files were removed just now");
}

/* --- edges of files ---------------------------------------------------------------------------- */

enum {
	EDGE_MOST = 256 << 10, /* bytes at each end of a file, */
	EDGE_LEAST = 4 << 10,
	EDGES = 32 << 20, /* and of all ends together */
};

static void edges_want(const struct ck_checkpoint *cp, struct ck_fetch *f,
		       uint32_t file, uint64_t edge)
{
	uint64_t size = ck_files_info(cp->files, file)->size;

	if (size <= 2 * edge) {
		ck_fetch_add(f, file, 0, (size_t)size);
		return;
	}
	ck_fetch_add(f, file, 0, (size_t)edge);
	ck_fetch_add(f, file, size - edge, (size_t)edge);
}

static bool is_far(const struct ck_checkpoint *cp, uint32_t file)
{
	return ck_files_is_remote(cp->files, file) &&
	       ck_files_is_seen(cp->files, file) &&
	       !ck_files_info(cp->files, file)->err;
}

/* Fetches the wanted ranges, and frees the list of them. */
static int edges_of(struct ck_checkpoint *cp, struct ck_fetch *f)
{
	int rc = 0;

	if (ck_fetch_is_pending(f))
		rc = cp->elsewhere->bring(cp->elsewhere, f);
	if (rc == 0)
		ck_files_keep(cp->files, f);
	ck_fetch_fini(f);
	return rc;
}

/* Fetches the edges of all remote files in one batch: headers and tables are there. Other
 * bytes are fetched when they are read. */
static int edges_bring(struct ck_checkpoint *cp)
{
	uint32_t n = ck_files_count(cp->files), far = 0;
	struct ck_fetch f = { 0 };

	for (uint32_t i = 0; i < n; i++)
		far += is_far(cp, i);
	for (uint32_t i = 0; i < n && far; i++)
		if (is_far(cp, i))
			edges_want(cp, &f, i,
				   ck_max(EDGE_LEAST,
					  ck_min(EDGE_MOST,
						 (uint64_t)EDGES / 2 / far)));
	return edges_of(cp, &f);
}

/* --- steps of a load -------------------------------------------------------------- */

int ck_checkpoint_gather(struct ck_checkpoint *cp, struct ck_catalog *c,
			 const struct ck_format_options *options,
			 uint64_t (*rank)(const struct ck_checkpoint *cp,
					  uint32_t file),
			 struct ck_diag *d)
{
	const struct ck_ids shown = { c->meta.uid, c->meta.gid };
	int rc;

	if (!cp->elsewhere)
		return 0;
	for (uint32_t i = 0; i < ck_files_count(cp->files); i++)
		ck_files_need_end(cp->files, i);
	rc = cp->elsewhere->files(cp->elsewhere, cp->files,
				  cp->metadata_name ? &shown : NULL, d);
	if (rc == 0 && !cp->metadata_name)
		rc = take_first(cp, c, options, rank, d);
	if (rc == 0 && edges_bring(cp))
		rc = ck_fail(d, ENOMEM, "out of memory");
	return rc;
}

int ck_checkpoint_gather_one(struct ck_checkpoint *cp, struct ck_catalog *c,
			     uint32_t file, struct ck_diag *d)
{
	const struct ck_ids shown = { c->meta.uid, c->meta.gid };
	struct ck_fetch f = { 0 };
	int rc;

	if (!cp->elsewhere)
		return 0;
	/* files() requests each file from the hosts only once */
	need_all(cp, c);
	ck_files_need_end(cp->files, file);
	rc = cp->elsewhere->files(cp->elsewhere, cp->files, &shown, d);
	if (rc == 0 && is_far(cp, file)) {
		edges_want(cp, &f, file, EDGE_MOST);
		rc = edges_of(cp, &f);
	}
	return rc ? ck_fail(d, -rc, "%s", strerror(-rc)) : 0;
}

/* Adds a note if a host was down and no metadata lists the files. */
static int note_partly(struct ck_catalog *c)
{
	return c->partly ? ck_catalog_note_add(
				   c, "a host that was not there may have "
				      "more files, which only another mount "
				      "finds")
			 : 0;
}

int ck_checkpoint_gather_all(struct ck_checkpoint *cp, struct ck_catalog *c,
			     struct ck_diag *d)
{
	const struct ck_ids shown = { c->meta.uid, c->meta.gid };
	struct ck_fetch nothing = { 0 };
	int rc;

	need_all(cp, c);
	rc = cp->elsewhere->files(cp->elsewhere, cp->files, &shown, d);
	if (rc)
		return rc;
	ck_files_keep(cp->files, &nothing);
	rc = cp->elsewhere->opened(cp->elsewhere, cp->files, &c->partly);
	/* Directories may have been listed for small files. A metadata file names all
	 * data files, so a host that was down hides no file. */
	if (cp->format->metadata)
		c->partly = false;
	if (rc == 0)
		rc = note_partly(c);
	return rc ? ck_fail(d, -rc, "hosts: %s", strerror(-rc)) : 0;
}
