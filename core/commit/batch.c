/* SPDX-License-Identifier: MIT */
/*
 * batch: allocates ranges of new files to staged boxes. There is one file for each
 * rank that saved the boxes, and bytes are written to their final location at once.
 * Disk space is allocated before the first byte, so that the write returns ENOSPC,
 * not the commit. A range freed at the end of a file shortens the file; elsewhere
 * it becomes a hole, which later items that fit reuse. A tensor that is written
 * many times before a commit thus alternates between two ranges.
 *
 * A batch has a lock, until a commit takes the batch.
 */
#include "ckptfs/memory.h"
#include "commit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* --- choice of files -------------------------------------------------------------- */

static uint64_t rank_of(const struct ck_catalog *c, uint32_t chunk)
{
	uint32_t file = ck_catalog_item(c, chunk)->file;

	return file < c->files.n ? ck_catalog_file(c, file)->rank : CK_NO_RANK;
}

/* Distinct ranks of the data files, "no rank" counted as one; counting stops when
 * there are too many. */
struct ranks {
	uint64_t list[CK_SHARDS_MAX + 1];
	uint32_t n;
	struct ck_bits seen; /* of files */
};

static void ranks_add(struct ranks *ranks, const struct ck_catalog *c,
		      uint32_t chunk)
{
	uint32_t file = ck_catalog_item(c, chunk)->file, at = 0;
	uint64_t rank;

	if (file < c->files.n && ck_bits_has(&ranks->seen, file))
		return;
	if (file < c->files.n)
		ck_bits_set(&ranks->seen, file);
	rank = rank_of(c, chunk);
	while (at < ranks->n && ranks->list[at] != rank)
		at++;
	if (at == ranks->n)
		ranks->list[ranks->n++] = rank;
}

/* For all boxes of the checkpoint. Returns 0, or -ENOMEM. */
static int has_many_ranks(const struct ck_catalog *c, bool *many)
{
	struct ranks ranks = { .n = 0 };

	if (ck_bits_make(&ranks.seen, c->files.n))
		return -ENOMEM;
	for (uint32_t i = 0; i < c->chunks.n && ranks.n <= CK_SHARDS_MAX; i++)
		ranks_add(&ranks, c, i);
	*many = ranks.n > CK_SHARDS_MAX;
	ck_bits_fini(&ranks.seen);
	return 0;
}

struct ck_batch *ck_batch_make(const struct ck_writer *w, bool shared)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(w->cp);
	struct ck_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	pthread_mutex_init(&b->lock, NULL);
	/* All ranks of the checkpoint decide whether there is one file for each
	 * rank: stages that share the files of a batch are opened one by one, and
	 * later ones may have any rank. */
	if (ck_bits_make(&b->tensors, c->tensors.n) == 0 &&
	    (!shared || has_many_ranks(c, &b->one_file) == 0))
		return b;
	ck_batch_free(b);
	return NULL;
}

void ck_batch_free(struct ck_batch *b)
{
	if (!b)
		return;
	for (uint32_t i = 0; i < b->nshards; i++) {
		ck_fd_cleanup(&b->shards[i].fd);
		free(b->shards[i].unused.r);
	}
	pthread_mutex_destroy(&b->lock);
	free(b->kept);
	ck_bits_fini(&b->tensors);
	free(b);
}

/* File of a rank; CK_SHARDS_MAX if there are too many. */
static uint32_t shard_of(struct ck_batch *b, uint64_t rank)
{
	uint32_t i = 0;

	while (i < b->nshards && b->shards[i].rank != rank)
		i++;
	if (i == b->nshards && i < CK_SHARDS_MAX)
		b->shards[b->nshards++] = (struct ck_shard){ .fd = -1,
							     .rank = rank };
	return i;
}

/* Chooses the file of each rank. Returns false if a box has no rank, or there are
 * too many ranks. */
static bool choose_by_rank(const struct ck_catalog *c, struct ck_cuts *cuts)
{
	uint32_t before = cuts->batch->nshards;

	if (cuts->batch->one_file)
		return false;
	for (uint32_t i = 0; i < cuts->n; i++) {
		struct ck_cut *cut = &cuts->cuts[i];
		uint64_t rank = rank_of(c, cut->chunk);

		if (rank != CK_NO_RANK)
			cut->shard = shard_of(cuts->batch, rank);
		if (rank == CK_NO_RANK || cut->shard == CK_SHARDS_MAX) {
			cuts->batch->nshards = before;
			return false;
		}
	}
	return true;
}

static int choose_shards(const struct ck_catalog *c, struct ck_cuts *cuts)
{
	uint32_t shard;

	if (choose_by_rank(c, cuts))
		return 0;
	shard = shard_of(cuts->batch, CK_NO_RANK);
	for (uint32_t i = 0; i < cuts->n; i++)
		cuts->cuts[i].shard = shard;
	return shard < CK_SHARDS_MAX ? 0 : -EMFILE;
}

/* --- planning of ranges ----------------------------------------------------------- */

static int cut_plan(struct ck_cuts *cuts, const struct ck_tensor *t,
		    struct ck_cut *cut)
{
	struct ck_payload_block *room = &cuts->rooms[cut->shard];
	const int64_t *box = ck_tensor_box(t, cut->chunk - t->chunk);
	int rc;

	cut->fpos = room->target.size;
	ck_item_form_fini(&cut->form);
	rc = ck_item_form_make(&cut->form, t->dtype, t->ndim, box + t->ndim,
			       cut->fpos);
	if (rc)
		return rc;
	room->uses++;
	room->target.size += cut->form.head.len + cut->form.data_len +
			     cut->form.tail.len;
	return room->target.size > INT64_MAX ? -EFBIG : 0;
}

/* Plans all items of a file, one behind the other. */
static int room_plan(struct ck_cuts *cuts, const struct ck_tensor *t,
		     uint32_t shard, uint64_t begin)
{
	int rc = 0;

	cuts->rooms[shard] = (struct ck_payload_block){
		.target = { .fd = -1, .size = begin },
		.begin = begin,
	};
	for (uint32_t i = 0; i < cuts->n && !rc; i++)
		if (cuts->cuts[i].shard == shard)
			rc = cut_plan(cuts, t, &cuts->cuts[i]);
	return rc;
}

/* Bytes by which the length of an item may depend on its offset. */
enum { PADDING = 64 };

/* Plans the range that was planned at the end of a file in a free range instead, if
 * one fits. */
static int room_fit(struct ck_cuts *cuts, const struct ck_tensor *t,
		    uint32_t shard)
{
	const struct ck_payload_block *room = &cuts->rooms[shard];
	const struct ck_shard *in = &cuts->batch->shards[shard];
	uint64_t len = room->target.size - room->begin;
	const struct ck_range *r = NULL;

	len -= ck_min(len, PADDING);
	while ((r = ck_ranges_fit(&in->unused, len, r))) {
		int rc = room_plan(cuts, t, shard, r->begin);

		if (rc || room->target.size <= r->end)
			return rc;
	}
	return room_plan(cuts, t, shard, in->size);
}

/* Takes [begin, size) of the files. */
static void rooms_take(struct ck_cuts *cuts)
{
	for (uint32_t i = 0; i < cuts->nrooms; i++) {
		struct ck_shard *shard = &cuts->batch->shards[i];
		const struct ck_payload_block *room = &cuts->rooms[i];

		if (room->begin == shard->size)
			shard->size = room->target.size;
		else
			ck_ranges_take(&shard->unused, room->begin,
				       room->target.size);
		shard->uses += room->uses;
	}
}

/* Must hold the lock of the batch. */
static int rooms_plan(struct ck_cuts *cuts, const struct ck_catalog *c,
		      const struct ck_tensor *t)
{
	struct ck_batch *b = cuts->batch;
	int rc = choose_shards(c, cuts);

	if (rc)
		return rc;
	cuts->rooms = calloc(b->nshards + 1UL, sizeof(*cuts->rooms));
	if (!cuts->rooms)
		return -ENOMEM;
	cuts->nrooms = b->nshards;
	for (uint32_t i = 0; i < cuts->nrooms && !rc; i++) {
		rc = room_plan(cuts, t, i, b->shards[i].size);
		if (rc == 0 && cuts->rooms[i].uses && b->shards[i].unused.n)
			rc = room_fit(cuts, t, i);
	}
	if (rc == 0)
		rooms_take(cuts);
	return rc;
}

static void cuts_fini(struct ck_cuts *cuts)
{
	for (uint32_t i = 0; i < cuts->n; i++)
		ck_item_form_fini(&cuts->cuts[i].form);
	free(cuts->cuts);
	free(cuts->rooms);
	*cuts = (struct ck_cuts){ 0 };
}

int ck_cuts_plan(struct ck_cuts *out, const struct ck_writer *w,
		 struct ck_batch *b, uint32_t tensor, uint32_t first,
		 uint32_t n)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(w->cp);
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	int rc;

	*out = (struct ck_cuts){ .batch = b };
	out->cuts = calloc(n + 1UL, sizeof(*out->cuts));
	if (!out->cuts)
		return -ENOMEM;
	for (uint32_t i = first; i < first + n; i++)
		if (!ck_tensor_box_is_empty(t, i))
			out->cuts[out->n++].chunk = t->chunk + i;
	pthread_mutex_lock(&b->lock);
	rc = rooms_plan(out, c, t);
	pthread_mutex_unlock(&b->lock);
	if (rc)
		cuts_fini(out);
	return rc;
}

/* --- disk space ------------------------------------------------------------------- */

/* Zeros [begin, end) before it is reused, since writers may skip zeros. Returns
 * false if that fails. */
static bool room_blank(const struct ck_shard *shard, uint64_t begin,
		       uint64_t end)
{
	if (shard->fd < 0)
		return true;
	if (end == shard->size && ftruncate(shard->fd, (off_t)begin) == 0)
		return true;
	return fallocate(shard->fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
			 (off_t)begin, (off_t)(end - begin)) == 0;
}

/* Frees [begin, end) for reuse. If it cannot be zeroed, or there is no memory to
 * record it, it stays unused. */
static void room_free(struct ck_shard *shard, uint64_t begin, uint64_t end)
{
	struct ck_ranges *unused = &shard->unused;
	bool last = end == shard->size;

	/* Together with an unused range before it. */
	if (last && unused->n && unused->r[unused->n - 1].end == begin)
		begin = unused->r[unused->n - 1].begin;
	if (!room_blank(shard, begin, end) ||
	    (!last && ck_ranges_add(unused, begin, end)))
		return;
	if (last) {
		shard->size = begin;
		ck_ranges_cut(unused, begin);
	}
}

/* Frees [begin, end). Must hold the lock. */
static void give_back(struct ck_shard *shard, uint64_t begin, uint64_t end,
		      uint32_t uses)
{
	shard->uses -= uses;
	if (shard->uses) {
		room_free(shard, begin, end);
		return;
	}
	shard->size = 0;
	shard->unused.n = 0;
	ck_fd_cleanup(&shard->fd);
}

static int room_make(struct ck_payload_block *room, struct ck_shard *shard,
		     const struct ck_writer *w, struct ck_diag *d)
{
	struct ck_target *t = &room->target;
	uint64_t len = t->size - room->begin;

	if (shard->fd < 0) {
		int rc = ck_file_make(w, &shard->fd, d);

		if (rc)
			return rc;
	}
	t->fd = shard->fd;
	if (fallocate(t->fd, 0, (off_t)room->begin, (off_t)len) == 0)
		return 0;
	/* Some filesystems cannot allocate space in advance. */
	if (errno == EOPNOTSUPP && ftruncate(t->fd, (off_t)shard->size) == 0)
		return 0;
	return ck_fail(d, errno, "no room for %ju bytes in %s: %s",
		       (uintmax_t)len, ck_show(ck_str_from(w->cp->path)),
		       strerror(errno));
}

/* Frees the disk space; the locations stay planned. */
static void room_unmake(struct ck_payload_block *room, struct ck_shard *shard)
{
	uint32_t others = shard->uses - room->uses;

	ck_target_unmap(&room->target);
	room->target.fd = -1;
	if (others == 0)
		ck_fd_cleanup(&shard->fd);
	else
		(void)fallocate(shard->fd,
				FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
				(off_t)room->begin,
				(off_t)(room->target.size - room->begin));
}

int ck_cuts_make(struct ck_cuts *cuts, const struct ck_writer *w,
		 struct ck_diag *d)
{
	uint32_t i = 0;
	int rc = 0;

	pthread_mutex_lock(&cuts->batch->lock);
	for (; i < cuts->nrooms && !rc; i++)
		if (cuts->rooms[i].uses)
			rc = room_make(&cuts->rooms[i], &cuts->batch->shards[i],
				       w, d);
	for (; rc && i > 0 && i--;)
		if (cuts->rooms[i].uses)
			room_unmake(&cuts->rooms[i], &cuts->batch->shards[i]);
	pthread_mutex_unlock(&cuts->batch->lock);
	return rc;
}

void ck_cuts_drop(struct ck_cuts *cuts)
{
	if (!cuts->batch)
		return;
	pthread_mutex_lock(&cuts->batch->lock);
	for (uint32_t i = cuts->nrooms; i > 0 && i--;) {
		struct ck_payload_block *room = &cuts->rooms[i];

		ck_target_unmap(&room->target);
		if (room->uses)
			give_back(&cuts->batch->shards[i], room->begin,
				  room->target.size, room->uses);
	}
	pthread_mutex_unlock(&cuts->batch->lock);
	cuts_fini(cuts);
}

/* --- whole items ---------------------------------------------------------------------- */

static int cut_seal(const struct ck_cuts *cuts, struct ck_cut *cut)
{
	struct ck_item_form *form = &cut->form;
	int fd = cuts->rooms[cut->shard].target.fd;
	uint64_t data = cut->fpos + form->head.len;
	int rc = ck_item_form_sum(form, fd, data);

	if (rc == 0)
		rc = ck_pwrite_full(fd, form->head.data, form->head.len,
				    cut->fpos);
	if (rc == 0)
		rc = ck_pwrite_full(fd, form->tail.data, form->tail.len,
				    data + form->data_len);
	return rc;
}

/* Writes the archive around the elements of each item; may be repeated. */
static int cuts_seal(struct ck_cuts *cuts)
{
	int rc = 0;

	for (uint32_t i = 0; i < cuts->nrooms; i++)
		ck_target_unmap(&cuts->rooms[i].target);
	for (uint32_t i = 0; i < cuts->n && !rc; i++)
		rc = cut_seal(cuts, &cuts->cuts[i]);
	return rc;
}

static struct ck_staged_item kept_of(const struct ck_cut *cut)
{
	const struct ck_item_form *form = &cut->form;

	return (struct ck_staged_item){
		.chunk = cut->chunk,
		.shard = cut->shard,
		.fpos = cut->fpos,
		.length = form->head.len + form->data_len + form->tail.len,
	};
}

/* Discards staged items of the boxes [first, last]. */
static void replace(struct ck_batch *b, uint32_t first, uint32_t last)
{
	size_t n = 0;

	for (size_t i = 0; i < b->nkept; i++) {
		const struct ck_staged_item *kept = &b->kept[i];

		if (kept->chunk < first || kept->chunk > last)
			b->kept[n++] = *kept;
		else
			give_back(&b->shards[kept->shard], kept->fpos,
				  kept->fpos + kept->length, 1);
	}
	b->nkept = n;
}

/* `kept` must have room, and there must be a box. */
static void keep(struct ck_batch *b, const struct ck_cuts *cuts,
		 uint32_t tensor)
{
	if (ck_bits_has(&b->tensors, tensor))
		replace(b, cuts->cuts[0].chunk, cuts->cuts[cuts->n - 1].chunk);
	else
		b->ntensors++;
	ck_bits_set(&b->tensors, tensor);
	for (uint32_t i = 0; i < cuts->n; i++)
		b->kept[b->nkept++] = kept_of(&cuts->cuts[i]);
}

int ck_cuts_keep(struct ck_cuts *cuts, uint32_t tensor)
{
	struct ck_batch *b = cuts->batch;
	struct ck_staged_item *room;
	int rc = cuts_seal(cuts);

	if (rc)
		return rc;
	pthread_mutex_lock(&b->lock);
	room = ck_grow(b->kept, &b->kept_cap, b->nkept, cuts->n, sizeof(*room));
	if (room)
		b->kept = room;
	if (room && cuts->n)
		keep(b, cuts, tensor);
	pthread_mutex_unlock(&b->lock);
	if (room)
		cuts_fini(cuts);
	return room ? 0 : -ENOMEM;
}

void ck_batch_clear(struct ck_batch *b)
{
	pthread_mutex_lock(&b->lock);
	replace(b, 0, UINT32_MAX);
	ck_bits_clear_all(&b->tensors);
	b->ntensors = 0;
	pthread_mutex_unlock(&b->lock);
}

uint32_t ck_batch_count(struct ck_batch *b, uint64_t *bytes)
{
	uint32_t n;

	pthread_mutex_lock(&b->lock);
	n = b->ntensors;
	*bytes = 0;
	for (size_t i = 0; i < b->nkept; i++)
		*bytes += b->kept[i].length;
	pthread_mutex_unlock(&b->lock);
	return n;
}

/* --- moving ------------------------------------------------------------------------------ */

enum { COPY = 1 << 20 };

static int cut_copy(int from, uint64_t fpos, int to, uint64_t to_fpos,
		    uint64_t len, void *buf)
{
	int rc = 0;

	for (uint64_t at = 0; at < len && !rc; at += COPY) {
		size_t n = (size_t)ck_min(COPY, len - at);

		rc = ck_pread_full(from, buf, n, fpos + at);
		if (rc == 0)
			rc = ck_pwrite_full(to, buf, n, to_fpos + at);
	}
	return rc;
}

int ck_cuts_copy(const struct ck_cuts *from, const struct ck_cuts *to)
{
	void *buf = ck_pages_alloc(COPY);
	int rc = buf ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < from->n && !rc; i++) {
		const struct ck_cut *a = &from->cuts[i], *b = &to->cuts[i];

		rc = cut_copy(from->rooms[a->shard].target.fd,
			      a->fpos + a->form.head.len,
			      to->rooms[b->shard].target.fd,
			      b->fpos + b->form.head.len, a->form.data_len,
			      buf);
	}
	ck_pages_free(buf, buf ? COPY : 0);
	return rc;
}
