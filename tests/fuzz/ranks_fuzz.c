/* SPDX-License-Identifier: MIT */
/*
 * ranks: any bytes as the pickle of a rank's file, and as names of files. Each value in the dict
 * of the file is refused, is not a tensor, or has boxes. The boxes are inside the tensor and the
 * local tensor, and have as many elements as the local tensor.
 */
#include "format/ranks/ranks.h"
#include "must.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads zeros. The first byte depends on the length of the key. Fails beyond 4096. */
static int read_storage(void *ctx, struct ck_str key, void *buf, size_t len,
			uint64_t at, struct ck_diag *d)
{
	(void)ctx;
	if (at > 4096)
		return ck_fail(d, ENODATA, "no such bytes");
	memset(buf, 0, len);
	if (len)
		memset(buf, (int)(key.len & 7), 1);
	return 0;
}

/* Elements of a box or local tensor, as far as they can be counted. */
static double count(const int64_t *size, uint32_t ndim)
{
	double n = 1;

	for (uint32_t i = 0; i < ndim; i++)
		n *= (double)size[i];
	return n;
}

static void box_look(const struct ck_rank_part *part,
		     const struct ck_rank_piece *piece, const int64_t *box)
{
	const int64_t *size = box + part->ndim, *local = size + part->ndim;

	for (uint32_t i = 0; i < part->ndim; i++) {
		must(box[i] >= 0 && size[i] >= 0 && local[i] >= 0);
		must(box[i] <= part->shape[i] &&
		     size[i] <= part->shape[i] - box[i]);
		must(local[i] <= piece->size[i] &&
		     size[i] <= piece->size[i] - local[i]);
	}
}

static void piece_look(const struct ck_rank_part *part,
		       const struct ck_rank_piece *piece)
{
	double elements = 0, most = count(piece->size, part->ndim);

	must(piece->nboxes > 0 && piece->nboxes <= CK_RANK_BOXES);
	for (uint32_t i = 0; i < piece->nboxes; i++) {
		const int64_t *box = piece->boxes + (size_t)i * 3 * part->ndim;

		box_look(part, piece, box);
		elements += count(box + part->ndim, part->ndim);
	}
	must(elements <= most * 1.000001);
	must(part->kind != CK_KIND_DTENSOR || elements >= most * 0.999999);
}

static void value_look(struct ck_pickle *p, const struct ck_pv *v)
{
	struct ck_rank_seen seen = { 0 };
	const struct ck_rank_storages storages = { NULL, read_storage, false,
						   &seen };
	struct ck_arena arena = { 0 };
	struct ck_rank_part part;
	struct ck_diag d = { 0 };
	int rc = ck_rank_part_read(p, v, &storages, &arena, &part, &d);

	must(rc >= 0 ||
	     ((rc == -EBADMSG || rc == -ENODATA) && d.err == -rc && *d.text));
	if (rc == 1) {
		must(part.ndim <= CK_MAX_DIMS && part.dtype.len > 0);
		must(part.answer.rank == CK_NO_RANK ||
		     part.answer.rank <= CK_RANK_MAX);
		must(part.outside ? part.npieces == 0
				  : part.kind != CK_KIND_DTENSOR ||
					    part.npieces == 1);
		for (uint32_t i = 0; i < part.npieces; i++)
			piece_look(&part, &part.pieces[i]);
	}
	ck_arena_fini(&arena);
}

static void names_look(const uint8_t *data, size_t size)
{
	struct ck_str names[32];
	struct ck_rank_name said[32];
	const char *text = (const char *)data;
	uint32_t families;
	size_t n = 0;

	for (size_t i = 0, from = 0; i <= size && n < 32; i++) {
		if (i < size && text[i] != '\n')
			continue;
		names[n++] = (struct ck_str){ text + from, i - from };
		from = i + 1;
		if (from > size)
			break;
	}
	must(ck_rank_names(names, n, said, &families) == 0);
	must(families <= n / 2);
	for (size_t i = 0; i < n; i++) {
		must(said[i].family < (int64_t)families);
		must(said[i].at + said[i].len <= names[i].len);
		must(ck_rank_name_part(names[i], &said[i]).len <= said[i].at);
		must(ck_rank_name_stem(names[i]).len <= names[i].len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_pickle p = { 0 };

	if (size && size < 4096)
		names_look(data, size);
	if (ck_pickle_read(&p, data, size, NULL, NULL) == 0) {
		const struct ck_plist *list = ck_pv_list(&p.root);

		(void)ck_rank_holds_part(&p);
		value_look(&p, &p.root);
		for (uint32_t i = 0; list && i < list->count; i++)
			value_look(&p, &list->items[i]);
	}
	ck_pickle_fini(&p);
	return 0;
}
