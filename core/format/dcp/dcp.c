/* SPDX-License-Identifier: MIT */
/*
 * The format dcp: a directory with one `.metadata`. Reads it into the catalog when a
 * checkpoint is loaded, and writes a new one for a commit (dcp_rewrite.h). Its state,
 * cp->own, is constant after load(), except for the known bytes and locations, which
 * only the thread of the commit uses.
 */
#include "dcp.h"
#include "ckptfs/memory.h"
#include "dcp_common.h"
#include "dcp_files.h"
#include "dcp_internal.h"
#include "dcp_kind.h"
#include "dcp_rewrite.h"
#include "nested.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Up to this length, in bytes, a new `.metadata` is also parsed: 0.1 s. */
static const uint64_t parse_most = 16 << 20;

/* cp->own */
struct own {
	struct ck_dcp_common common; /* constant */
	struct ck_dcp_nested nested; /* constant */
	/* Locations in `.metadata`, if opened for writing. Used by the thread that
	 * commits. */
	struct ck_dcp_known known;
};

static struct ck_dcp_known *known_of(const struct ck_checkpoint *cp)
{
	struct own *own = cp->own;

	return &own->known;
}

static int is_there(int dirfd, const char *name)
{
	return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

/* An error other than ENOENT is returned: it does not mean that the file is missing.
 * Over several hosts `.metadata` was looked up before, so this is not called for it. */
int ck_dcp_is_here(const struct ck_src *src, struct ck_diag *d)
{
	int rc = src->file || src->elsewhere
			 ? -ENOENT
			 : is_there(src->dirfd, CK_DCP_METADATA_NAME);

	if (rc == 0 || rc == -ENOENT)
		return rc == 0;
	return ck_fail(d, -rc, ".metadata: %s", strerror(-rc));
}

bool ck_dcp_is_part(const char *name)
{
	struct ck_str suffix = CK_STR(".distcp");
	size_t len = strlen(name);

	return strcmp(name, CK_DCP_METADATA_NAME) == 0 ||
	       ck_dcp_metadata_rank(name) != CK_NO_RANK ||
	       (len > suffix.len &&
		strcmp(name + len - suffix.len, suffix.p) == 0);
}

/* ck_format.complete. FileSystemWriter renames `.metadata` to its name at the end; the
 * check of its bytes is for writers that do not. */
static int complete(const struct ck_src *src, struct ck_diag *d)
{
	ck_auto_fd int fd = ck_open_beneath(
		src->dirfd, CK_STR(CK_DCP_METADATA_NAME),
		O_RDONLY | O_NONBLOCK | O_NOCTTY, CK_BENEATH_SYMLINKS);
	unsigned char first = 0, last = 0;
	struct stat st;

	if (fd < 0)
		return ck_fail(d, -fd, ".metadata: %s", strerror(-fd));
	if (fstat(fd, &st))
		return ck_fail(d, errno, ".metadata: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return ck_fail(d, EBADMSG, ".metadata: is no regular file");
	if (st.st_size < 2 || ck_pread_full(fd, &first, 1, 0) ||
	    ck_pread_full(fd, &last, 1, (uint64_t)st.st_size - 1) ||
	    first != 0x80 || last != '.')
		return ck_fail(d, EBADMSG,
			       ".metadata: is not written to its end");
	return 0;
}

/* --- loading -------------------------------------------------------------------- */

static int add_file(void *ctx, struct ck_str path, uint32_t *number)
{
	struct ck_checkpoint *cp = ctx;

	return ck_files_add(cp->files, path, number);
}

uint64_t ck_dcp_rank_of(const struct ck_checkpoint *cp, uint32_t file)
{
	return ck_dcp_rank(ck_files_info(cp->files, file)->path);
}

static bool is_shard(const char *name)
{
	return ck_dcp_rank(ck_str_from(name)) != CK_NO_RANK &&
	       ck_name_ends(name, ".distcp");
}

static uint64_t rank_of(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct own *own = cp->own;
	uint64_t rank = ck_dcp_rank_of(cp, file);

	return rank != CK_NO_RANK
		       ? rank
		       : ck_dcp_nested_rank(
				 &own->nested,
				 ck_files_info(cp->files, file)->path);
}

static int read_pages(int fd, const struct stat *st, void **out,
		      struct ck_diag *d)
{
	struct ck_metadata_text text = { 0 };
	int rc = ck_metadata_text_read(fd, st, CK_DCP_METADATA_NAME,
				       ck_format_dcp.metadata_most, &text, d);

	if (rc)
		ck_metadata_text_fini(&text);
	*out = text.pages;
	return rc;
}

static int parse(struct ck_checkpoint *cp, struct ck_catalog *c,
		 struct ck_str bytes, bool write, struct ck_diag *d)
{
	const struct ck_dcp_numbers numbers = { add_file, cp, NULL };
	struct ck_dcp_places places;
	int rc = ck_dcp_parse_places(c, bytes, &numbers, write ? &places : NULL,
				     d);

	if (rc || !write)
		return rc;
	ck_dcp_known_make(known_of(cp), c, &places, bytes);
	ck_metadata_note_sum(cp, known_of(cp)->seed, known_of(cp)->sum);
	ck_dcp_places_fini(&places);
	return 0;
}

static int load_here(struct ck_checkpoint *cp, struct ck_catalog *c,
		     const struct ck_format_options *options,
		     const struct ck_fetched_metadata *fetched,
		     struct ck_diag *d)
{
	ck_auto_fd int fd = -1;
	struct ck_metadata_text text = { 0 };
	int rc = ck_metadata_open(cp, c, CK_DCP_METADATA_NAME, options, fetched,
				  &fd, d);

	if (rc)
		return rc;
	if (!options->write) /* for writing, parse() records the hash */
		ck_metadata_hash_begin(&text);
	rc = ck_metadata_text_read(fd, &cp->metadata, CK_DCP_METADATA_NAME,
				   ck_format_dcp.metadata_most, &text, d);
	ck_metadata_hash_end(cp, &text, rc == 0);
	if (rc == 0)
		rc = parse(cp, c, (struct ck_str){ text.pages, text.len },
			   options->write, d);
	ck_metadata_text_fini(&text);
	return rc;
}

static int load_remote(struct ck_checkpoint *cp, struct ck_catalog *c,
		       const struct ck_fetched_metadata *fetched,
		       struct ck_diag *d)
{
	int rc = ck_metadata_take(cp, c, CK_DCP_METADATA_NAME, fetched, d);

	return rc ? rc
		  : parse(cp, c,
			  (struct ck_str){ fetched->pages, fetched->info.size },
			  false, d);
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	struct own *own = calloc(1, sizeof(*own));
	int rc;

	cp->own = own;
	if (!own)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = fetched->pages ? load_remote(cp, c, fetched, d)
			    : load_here(cp, c, options, fetched, d);
	if (rc == 0)
		rc = ck_dcp_common_load(cp, c, &own->common, d);
	if (rc == 0)
		rc = ck_dcp_flat_load(cp, c, options, d);
	if (rc == 0 && ck_dcp_nested_make(cp->files, &own->nested))
		rc = ck_fail(d, ENOMEM, "out of memory");
	return rc;
}

static void forget(struct ck_checkpoint *cp)
{
	struct own *own = cp->own;

	if (!own)
		return;
	ck_dcp_common_fini(&own->common);
	ck_dcp_known_fini(&own->known);
	ck_dcp_nested_fini(&own->nested);
	free(own);
}

/* --- writing -------------------------------------------------------------------- */

/* Reads the bytes of the metadata file again, if it is still the same file. Follows the
 * same link as the load. */
static int read_again(const struct ck_checkpoint *cp, void **pages,
		      struct ck_diag *d)
{
	ck_auto_fd int fd = -1;
	struct stat st;
	int rc = ck_metadata_open_again(cp, &fd, &st, d);

	return rc ? rc : read_pages(fd, &st, pages, d);
}

static int rewrite(const struct ck_checkpoint *cp, struct ck_dcp_request *w,
		   int fd, struct ck_diag *d)
{
	size_t len = (size_t)cp->metadata.st_size;
	void *pages = NULL;
	int rc = read_again(cp, &pages, d);

	if (rc == 0)
		rc = ck_dcp_rewrite(w, (struct ck_str){ pages, len }, fd, d);
	ck_pages_free(pages, pages ? len : 0);
	return rc;
}

static int verify(const struct ck_dcp_request *w, int fd, struct ck_diag *d)
{
	struct ck_str bytes;
	void *pages = NULL;
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return ck_fail(d, errno, ".metadata: %s", strerror(errno));
	rc = read_pages(fd, &st, &pages, d);
	if (rc)
		return rc;
	bytes = (struct ck_str){ pages, (size_t)st.st_size };
	rc = ck_dcp_verify_is(w, bytes, d);
	if (rc == 0 && (bytes.len <= parse_most || !w->known->places.roomy))
		rc = ck_dcp_verify_parsed(w, bytes, d);
	ck_pages_free(pages, bytes.len);
	return rc;
}

/* Reads the new bytes after the old ones were freed, to bound memory. */
static int write_changes(struct ck_checkpoint *cp,
			 const struct ck_change_of_place *changes, uint32_t n,
			 int fd, struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_dcp_request w = {
		.catalog = c, .known = known_of(cp), .changes = changes, .n = n
	};
	int rc = rewrite(cp, &w, fd, d);

	if (rc == 0)
		rc = verify(&w, fd, d);
	ck_dcp_request_fini(&w);
	return rc;
}

static int movable(const struct ck_checkpoint *cp, uint32_t chunk,
		   struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	return ck_dcp_place_check(c, known_of(cp), chunk, d);
}

static void switched(struct ck_checkpoint *cp)
{
	ck_dcp_known_next(known_of(cp));
	ck_metadata_note_sum(cp, known_of(cp)->seed, known_of(cp)->sum);
}

const struct ck_format ck_format_dcp = {
	.name = "dcp",
	.suffix = ".distcp",
	.has_sidecar = true,
	.is_part = ck_dcp_is_part,
	.metadata = CK_DCP_METADATA_NAME,
	/* A million boxes take 140 MiB. */
	.metadata_most = 4ULL << 30,
	.shard_name = ck_dcp_shard_name,
	.is_ours = ck_dcp_is_ours,
	.is_carried = ck_dcp_is_carried,
	.is_shard = is_shard,
	.rank = rank_of,
	.head = ck_dcp_head,
	.sum = ck_dcp_sum,
	.pickle_sum = ck_dcp_pickle_sum,
	.load = load,
	.write = write_changes,
	.movable = movable,
	.switched = switched,
	.forget = forget,
	.complete = complete,
	.is_sure = true,
};
