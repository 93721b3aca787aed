/* SPDX-License-Identifier: MIT */
/*
 * Which boxes a rank has, by the arithmetic of PyTorch's placements: all meshes of two
 * dimensions and all lengths against a model that counts rows; numbers out of range; ranks
 * in names of files; and a value that holds itself many times.
 */
#include "format/ranks/ranks.h"
#include "tap.h"

#include <errno.h>

static struct ck_mesh_dim dim(uint8_t type, uint64_t size, uint32_t of,
			      uint64_t split)
{
	return (struct ck_mesh_dim){ .size = size,
				     .placement = { type, of, split } };
}

/* A pickle that is worth much, and its arena. */
struct room {
	struct ck_pickle p;
	struct ck_arena arena;
};

static void room_make(struct room *r)
{
	*r = (struct room){ 0 };
	eq_err(ck_pickle_read(&r->p, "N.", 2, NULL, NULL), 0);
}

static void room_fini(struct room *r)
{
	ck_pickle_fini(&r->p);
	ck_arena_fini(&r->arena);
}

/* --- a model: rows are numbers that are dealt out ------------------------------- */

enum { ROWS = 40 };

struct rows {
	int row[ROWS];
	int n;
};

/* torch.chunk */
static void chunk(const struct rows *from, int begin, int end, uint64_t parts,
		  uint64_t number, struct rows *to)
{
	int size = (end - begin + (int)parts - 1) / (int)parts;

	for (int i = begin + size * (int)number;
	     i < end && i < begin + size * (int)(number + 1); i++)
		to->row[to->n++] = from->row[i];
}

static void strided(struct rows *r, uint64_t split, uint64_t parts,
		    uint64_t number)
{
	int size = (r->n + (int)split - 1) / (int)split;
	struct rows to = { .n = 0 };

	for (int at = 0; at < r->n; at += size)
		chunk(r, at, at + size < r->n ? at + size : r->n, parts, number,
		      &to);
	*r = to;
}

static void plain(struct rows *r, uint64_t parts, uint64_t number)
{
	struct rows to = { .n = 0 };

	chunk(r, 0, r->n, parts, number, &to);
	*r = to;
}

/* One dimension: row i of the local tensor is row want.row[i]. */
static bool is_dealt(const struct ck_rank_piece *piece, const struct rows *want)
{
	if (piece->size[0] != want->n)
		return false;
	for (uint32_t b = 0; b < piece->nboxes; b++) {
		const int64_t *box = piece->boxes + 3 * (size_t)b;

		for (int64_t i = 0; i < box[1]; i++)
			if (box[2] + i >= want->n ||
			    want->row[box[2] + i] != box[0] + i)
				return false;
	}
	return want->n > 0 || (piece->nboxes == 1 && piece->boxes[1] == 0);
}

/* Of two dimensions of the mesh, both of which cut the one of the tensor. */
static bool agrees(struct room *r, int n, const struct ck_mesh_dim *mesh,
		   const uint64_t *at, const uint32_t *order,
		   const struct rows *want)
{
	int64_t shape[] = { n };
	struct ck_rank_place place = { .ndim = 1,
				       .shape = shape,
				       .nmesh = 2,
				       .mesh = mesh,
				       .coordinate = at,
				       .order = order,
				       .norder = 2 };
	struct ck_rank_piece piece;

	return ck_rank_boxes(&r->p, &place, &r->arena, &piece, NULL) == 0 &&
	       is_dealt(&piece, want);
}

static struct rows all(int n)
{
	struct rows r = { .n = n };

	for (int i = 0; i < n; i++)
		r.row[i] = i;
	return r;
}

/* For all orders that two dimensions can be cut in. */
static unsigned one_place(struct room *r, int n, uint64_t dp, uint64_t tp,
			  const uint64_t *at)
{
	static const uint32_t right[] = { 1, 0 }, left[] = { 0, 1 };
	struct ck_mesh_dim both[] = { dim(CK_PLACE_SHARD, dp, 0, 0),
				      dim(CK_PLACE_SHARD, tp, 0, 0) };
	struct rows want = all(n);
	unsigned wrong = 0;

	plain(&want, dp, at[0]);
	plain(&want, tp, at[1]);
	wrong += !agrees(r, n, both, at, NULL, &want);
	wrong += !agrees(r, n, both, at, left, &want);
	want = all(n);
	plain(&want, tp, at[1]);
	plain(&want, dp, at[0]);
	wrong += !agrees(r, n, both, at, right, &want);
	both[0] = dim(CK_PLACE_STRIDED, dp, 0, tp);
	wrong += !agrees(r, n, both, at, NULL, &want);
	wrong += !agrees(r, n, both, at, right, &want);
	/* As a view has it: no cut came before. */
	want = all(n);
	strided(&want, tp, dp, at[0]);
	plain(&want, tp, at[1]);
	wrong += tp > 1 && !agrees(r, n, both, at, left, &want);
	both[0] = dim(CK_PLACE_STRIDED, dp, 0, 7);
	want = all(n);
	strided(&want, 7, dp, at[0]);
	plain(&want, tp, at[1]);
	wrong += !agrees(r, n, both, at, NULL, &want);
	return wrong;
}

static void all_places(void)
{
	unsigned wrong = 0, seen = 0;
	struct room r;

	room_make(&r);
	for (uint64_t dp = 1; dp < 6; dp++)
		for (uint64_t tp = 1; tp < 5; tp++)
			for (int n = 0; n < ROWS; n++)
				for (uint64_t i = 0; i < dp * tp; i++) {
					uint64_t at[] = { i / tp, i % tp };

					wrong += one_place(&r, n, dp, tp, at);
					seen++;
				}
	eq_u64(wrong, 0);
	ok(seen > 5000);
	/* A canary: the order matters. */
	{
		struct ck_mesh_dim both[] = { dim(CK_PLACE_SHARD, 3, 0, 0),
					      dim(CK_PLACE_SHARD, 2, 0, 0) };
		struct rows want = all(13);
		uint64_t at[] = { 2, 0 };

		plain(&want, 2, 0);
		plain(&want, 3, 2);
		ok(!agrees(&r, 13, both, at, NULL, &want));
	}
	room_fini(&r);
}

/* --- several dimensions, hostile numbers ------------------------------------------ */

static int place_it(struct room *r, uint32_t ndim, const int64_t *shape,
		    uint32_t nmesh, const struct ck_mesh_dim *mesh,
		    const uint64_t *at, struct ck_rank_piece *out)
{
	struct ck_rank_place place = { .ndim = ndim,
				       .shape = shape,
				       .nmesh = nmesh,
				       .mesh = mesh,
				       .coordinate = at };
	struct ck_diag d = { 0 };
	int rc = ck_rank_boxes(&r->p, &place, &r->arena, out, &d);

	ok(rc == 0 || d.err == -rc);
	return rc;
}

static void combinations(void)
{
	static const struct ck_mesh_dim mesh[] = {
		{ .size = 2, .placement = { CK_PLACE_STRIDED, 0, 2 } },
		{ .size = 2, .placement = { CK_PLACE_STRIDED, 1, 3 } },
	};
	static const int64_t want[] = { 0, 0, 1, 1, 0, 0, 0, 2, 1, 1, 0, 1,
					0, 4, 1, 1, 0, 2, 2, 0, 1, 1, 1, 0,
					2, 2, 1, 1, 1, 1, 2, 4, 1, 1, 1, 2 };
	struct ck_rank_piece piece;
	struct room r;

	room_make(&r);
	eq_err(place_it(&r, 2, (const int64_t[]){ 4, 6 }, 2, mesh,
			(const uint64_t[]){ 0, 0 }, &piece),
	       0);
	eq_u64(piece.nboxes, 6);
	eq_mem(piece.boxes, 6 * 6 * sizeof(int64_t), want, sizeof(want));
	eq_err(place_it(&r, 0, NULL, 0, NULL, NULL, &piece), 0);
	eq_u64(piece.nboxes, 1);
	eq_err(place_it(&r, 2, (const int64_t[]){ 0, 6 }, 2, mesh,
			(const uint64_t[]){ 1, 1 }, &piece),
	       0);
	eq_u64(piece.nboxes, 1);
	eq_i64(piece.boxes[2], 0);
	room_fini(&r);
}

static void hostile(void)
{
	static const int64_t huge[] = { INT64_MAX, INT64_MAX };
	struct ck_mesh_dim mesh = dim(CK_PLACE_SHARD, 3, 2, 0);
	struct ck_rank_piece piece;
	uint64_t at = 0;
	struct room r;

	room_make(&r);
	eq_err(place_it(&r, 2, huge, 1, &mesh, &at, &piece), -EBADMSG);
	mesh = dim(CK_PLACE_SHARD, 3, 1, 0);
	at = 3;
	eq_err(place_it(&r, 2, huge, 1, &mesh, &at, &piece), -EBADMSG);
	at = 2;
	eq_err(place_it(&r, 2, huge, 1, &mesh, &at, &piece), 0);
	eq_i64(piece.boxes[1] + piece.boxes[3], INT64_MAX);
	mesh = dim(CK_PLACE_SHARD, UINT64_MAX, 1, 0);
	at = UINT64_MAX - 1;
	eq_err(place_it(&r, 2, huge, 1, &mesh, &at, &piece), 0);
	eq_i64(piece.size[1], 0);
	mesh = dim(CK_PLACE_STRIDED, 2, 0, 0);
	at = 0;
	eq_err(place_it(&r, 2, huge, 1, &mesh, &at, &piece), -EBADMSG);
	mesh.placement.split = UINT64_MAX;
	eq_err(place_it(&r, 2, huge, 1, &mesh, &at, &piece), -EBADMSG);
	mesh.placement.split = CK_RANK_BOXES + 1;
	eq_err(place_it(&r, 2, huge, 1, &mesh, &at, &piece), -EBADMSG);
	room_fini(&r);
	room_make(&r); /* what is spent is spent */
	mesh.size = 1; /* all of it in one box */
	eq_err(place_it(&r, 2, huge, 1, &mesh, &at, &piece), 0);
	eq_u64(piece.nboxes, 1);
	room_fini(&r);
}

/* --- names ------------------------------------------------------------------------ */

static void names_are(const char *const *names, size_t n, const char *want)
{
	struct ck_str list[16] = { 0 };
	struct ck_rank_name said[16];
	struct ck_buf out = { 0 };
	uint32_t families;

	for (size_t i = 0; i < n; i++)
		list[i] = ck_str_from(names[i]);
	eq_err(ck_rank_names(list, n, said, &families), 0);
	for (size_t i = 0; i < n; i++) {
		struct ck_str part = ck_rank_name_part(list[i], &said[i]);

		if (said[i].family == CK_RANK_NO_FAMILY)
			ck_buf_text(&out, "-");
		else
			ck_buf_printf(&out, "%" PRId64, said[i].family);
		if (said[i].number == CK_NO_RANK)
			ck_buf_text(&out, ":- ");
		else
			ck_buf_printf(&out, ":%" PRIu64 ":%.*s ",
				      said[i].number, (int)part.len, part.p);
	}
	eq_text(out.data, want);
	ck_buf_fini(&out);
}

#define NAMES(want, ...)                                                       \
	names_are((const char *const[]){ __VA_ARGS__ },                        \
		  sizeof((const char *const[]){ __VA_ARGS__ }) /               \
			  sizeof(char *),                                      \
		  want)

static void names(void)
{
	NAMES("0:0:model 0:1:model -:- ", "model_rank_0.pt", "model_rank_1.pt",
	      "config.pt");
	NAMES("0:0:optim 1:0:model 0:1:optim 1:1:model ",
	      "optim_world_size_8_rank_0.pt", "model_world_size_8_rank_0.pt",
	      "optim_world_size_8_rank_1.pt", "model_world_size_8_rank_1.pt");
	NAMES("0:0: 0:1: 0:10: ", "rank_0.pt", "rank_01.pt", "rank_10.pt");
	NAMES("0:0:dump 0:1:dump ", "dump_0.pt", "dump_1.pt");
	NAMES("0:0: 0:1: ", "mp_rank_00_model.pt", "mp_rank_01_model.pt");
	NAMES("-:100:model ", "model_100.pt");
	/* Two runs: the larger family. */
	NAMES("0:0:a 0:1:a 0:2:a -:7:a_0_b ", "a_0_b6.pt", "a_1_b6.pt",
	      "a_2_b6.pt", "a_0_b7.pt");
	NAMES("0:0:a_0_b 0:1:a_0_b 1:0:a_1_b 1:1:a_1_b ", "a_0_b0.pt",
	      "a_0_b1.pt", "a_1_b0.pt", "a_1_b1.pt");
	NAMES("0:- 0:1:x ", "x99999999999999999999.pt", "x1.pt");
}

static void stems(void)
{
	struct ck_str s = ck_rank_name_stem(CK_STR("a.b.pt"));

	eq_mem(s.p, s.len, "a.b", 3);
	s = ck_rank_name_stem(CK_STR("a"));
	eq_mem(s.p, s.len, "a", 1);
	s = ck_rank_name_stem(CK_STR(".pt"));
	eq_mem(s.p, s.len, ".pt", 3);
}

static void answers(void)
{
	struct ck_rank_answer file = { CK_NO_RANK, 0, 0 };

	ck_rank_answer_join(&file,
			    &(struct ck_rank_answer){ CK_NO_RANK, 8, 16 });
	ok(file.rank == CK_NO_RANK && file.world == 16);
	ck_rank_answer_join(&file, &(struct ck_rank_answer){ 3, 2, 4 });
	ck_rank_answer_join(&file, &(struct ck_rank_answer){ 5, 8, 8 });
	ck_rank_answer_join(&file, &(struct ck_rank_answer){ 1, 8, 8 });
	ok(file.rank == 5 && file.ranks == 8 && file.world == 16);
}

/* Pairs of one value, 200 deep: 2^200 of them cannot be visited. */
static void holds_ends(void)
{
	struct ck_pickle p = { 0 };
	struct ck_buf b = { 0 };

	ck_buf_u8(&b, 0x80);
	ck_buf_u8(&b, 2);
	ck_buf_text(&b, "ctorch.distributed.tensor\nDTensor\n0)");
	for (uint8_t i = 0; i < 200; i++) {
		ck_buf_u8(&b, 'q');
		ck_buf_u8(&b, i);
		ck_buf_u8(&b, 'h');
		ck_buf_u8(&b, i);
		ck_buf_u8(&b, 0x86);
	}
	ck_buf_text(&b, ".");
	eq_err(ck_pickle_read(&p, b.data, b.len, NULL, NULL), 0);
	ok(!ck_rank_holds_part(&p));
	ck_pickle_fini(&p);
	ck_buf_fini(&b);
}

int main(void)
{
	holds_ends();
	all_places();
	combinations();
	hostile();
	names();
	stems();
	answers();
	return tap_done();
}
