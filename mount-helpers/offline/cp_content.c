/* SPDX-License-Identifier: MIT */
/*
 * cp_content: the id of a copied file's contents. Ids of two runs are equal only if both
 * read the same save with the same options. An id has no bytes of tensors: instead it has the
 * times and inode of every data file, as they were when the checkpoint was opened. A
 * data file that changes later fails the copy, or changes the ids of the next run. The ctime
 * reveals bytes that were written in place with the old mtime restored. The hash of a
 * checkpoint is computed once and kept; any thread may ask for an id.
 */
#include "cp_internal.h"
#include <inttypes.h>

/* A checkpoint, or a step of a run directory. After a step was closed, another one can have
 * its address: the inode and the time of its metadata distinguish them. */
struct ck_content_source {
	const struct ck_checkpoint *cp;
	ino_t ino;
	struct timespec mtime;
	char sum[CK_CONTENT_HEX];
};

static void time_add(struct ck_buf *out, struct timespec t)
{
	ck_buf_u64(out, (uint64_t)t.tv_sec);
	ck_buf_u64(out, (uint64_t)t.tv_nsec);
}

/* The dump of the catalog has names, shapes, and the location of every item. */
static void source_print(struct ck_checkpoint *cp, const struct stat *metadata,
			 struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	ck_buf_text(out, CK_VERSION);
	ck_buf_u64(out, metadata->st_ino);
	time_add(out, metadata->st_mtim);
	time_add(out, metadata->st_ctim);
	time_add(out, c->meta.mtime);
	for (uint32_t i = 0; i < c->files.n; i++) {
		ck_buf_u64(out, ck_files_id(cp->files, i).ino);
		time_add(out, ck_files_info(cp->files, i)->mtime);
		ck_buf_u64(out, ck_files_ctime(cp->files, i));
	}
	ck_catalog_dump(c, out);
}

static const char *source_add(struct ck_contents *s, struct ck_checkpoint *cp,
			      const struct stat *metadata)
{
	struct ck_content_source *all = ck_grow(s->sources, &s->cap, s->n, 1,
						sizeof(*all));
	struct ck_buf text = { 0 };

	if (!all)
		return NULL;
	s->sources = all;
	source_print(cp, metadata, &text);
	all[s->n] = (struct ck_content_source){ .cp = cp,
						.ino = metadata->st_ino,
						.mtime = metadata->st_mtim };
	if (!text.err)
		ck_hash128_hex((struct ck_str){ text.data, text.len },
			       all[s->n++].sum);
	ck_buf_fini(&text);
	return text.err ? NULL : all[s->n - 1].sum;
}

/* Must hold the lock. NULL: out of memory. */
static const char *source_sum(struct ck_contents *s, struct ck_checkpoint *cp)
{
	const struct stat metadata = ck_checkpoint_metadata(cp);

	for (size_t i = 0; i < s->n; i++) {
		const struct ck_content_source *is = &s->sources[i];

		if (is->cp == cp && is->ino == metadata.st_ino &&
		    is->mtime.tv_sec == metadata.st_mtim.tv_sec &&
		    is->mtime.tv_nsec == metadata.st_mtim.tv_nsec)
			return is->sum;
	}
	return source_add(s, cp, &metadata);
}

/* Prints kind, number and length of a part, and its bytes unless a data file contains them.
 * Returns 0 or an error of slice->make(). */
static int part_print(const struct ck_slice *slice, uint32_t i,
		      struct ck_buf *out)
{
	const struct ck_part part = ck_slice_part(slice, i);
	uint64_t len = ck_slice_part_len(slice, i);

	ck_buf_u8(out, part.kind);
	ck_buf_u32(out, part.number);
	ck_buf_u64(out, len);
	if (part.kind == CK_PART_RANGE)
		ck_buf_u64(out, part.at.fpos);
	else if (part.kind == CK_PART_BYTES)
		ck_buf_add(out, part.at.bytes, len);
	else if (part.kind == CK_PART_MADE)
		return slice->make(slice, part.number, out);
	return 0;
}

static int file_print(const struct ck_cp_file *f, struct ck_buf *out)
{
	const struct ck_slice *slice = ck_open_slice_slice(f->source.opened);
	int rc = 0;

	ck_buf_u64(out, f->size);
	ck_buf_u32(out, f->st.mode & 0777);
	time_add(out, f->st.mtime);
	for (uint32_t i = 0; i < slice->nparts && rc == 0; i++)
		rc = part_print(slice, i, out);
	return rc ? rc : out->err;
}

void ck_content_of(struct ck_contents *s, const struct ck_cp_file *f,
		   char out[static CK_CONTENT_HEX])
{
	struct ck_checkpoint *cp = ck_root_checkpoint(f->from.node.dir.root);
	struct ck_buf text = { 0 };
	const char *sum;

	out[0] = '\0';
	pthread_mutex_lock(&s->lock);
	sum = source_sum(s, cp);
	if (sum)
		ck_buf_text(&text, sum);
	pthread_mutex_unlock(&s->lock);
	if (sum && file_print(f, &text) == 0)
		ck_hash128_hex((struct ck_str){ text.data, text.len }, out);
	ck_buf_fini(&text);
}

void ck_contents_fini(struct ck_contents *s)
{
	free(s->sources);
	pthread_mutex_destroy(&s->lock);
}
