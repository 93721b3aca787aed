/* SPDX-License-Identifier: MIT */
/*
 * digest: a pass with one hasher for each tensor that is read. Lines are those of `xxhsum -H2`,
 * which has two spaces before a name, or a space and an asterisk. No state.
 */
#include "digest.h"

/* The argument of the callbacks. */
struct digesting {
	struct ck_digest *all;
	struct ck_hasher **hashers; /* by row; NULL while the row is not read */
};

static int digest_begin(void *arg, size_t row)
{
	struct digesting *g = arg;

	g->hashers[row] = ck_hasher_make(0);
	return g->hashers[row] ? 0 : -ENOMEM;
}

static int digest_take(void *arg, const struct ck_pass_block *b)
{
	const struct digesting *g = arg;

	ck_hasher_add(g->hashers[b->row],
		      (struct ck_str){ (const char *)b->bytes[0], b->len });
	return 0;
}

static void digest_end(void *arg, size_t row, unsigned from, int rc)
{
	struct digesting *g = arg;

	(void)from;
	g->all[row].err = -rc;
	ck_hasher_sum128(g->hashers[row], g->all[row].sum);
	ck_hasher_free(ck_steal(&g->hashers[row]));
}

int ck_digests_compute(const struct ck_pass_source *from, struct ck_digest *all,
		       size_t n, const struct ck_digest_options *o)
{
	struct ck_pass_row *rows = calloc(n + 1, sizeof(*rows));
	struct digesting g = { all, calloc(n + 1, sizeof(struct ck_hasher *)) };
	const struct ck_pass pass = {
		.from = { *from },
		.nfrom = 1,
		.rows = rows,
		.n = n,
		.threads = o->threads,
		.begin = digest_begin,
		.take = digest_take,
		.end = digest_end,
		.arg = &g,
		.progress = o->progress,
		.progress_arg = o->arg,
	};
	int rc = rows && g.hashers ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && rc == 0; i++)
		rows[i].tensor[0] = all[i].tensor;
	if (rc == 0)
		rc = ck_pass_run(&pass);
	free(rows);
	free(g.hashers);
	return rc;
}

uint64_t ck_digests_bytes(const struct ck_catalog *c,
			  const struct ck_digest *all, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ck_pass_tensor_bytes(c, all[i].tensor);
	return sum;
}

/* --- lines ------------------------------------------------------------------------- */

void ck_digest_print(const struct ck_catalog *c, const struct ck_digest *d,
		     struct ck_buf *out)
{
	char hex[CK_DIGEST_HEX];

	ck_sum128_hex(d->sum, hex);
	ck_buf_text(out, hex);
	ck_buf_text(out, "  raw/");
	ck_buf_str(out, ck_tensor_names(c, d->tensor).stem);
	ck_buf_text(out, "\n");
}

static bool is_hex(struct ck_str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!strchr("0123456789abcdefABCDEF", s.p[i]) || !s.p[i])
			return false;
	return true;
}

static bool line_parse(struct ck_str line, struct ck_digest_line *out)
{
	static const struct ck_str top = { "raw/", 4 };
	const size_t len = CK_DIGEST_HEX - 1;

	if (line.len <= len + 2 + top.len || line.p[len] != ' ' ||
	    (line.p[len + 1] != ' ' && line.p[len + 1] != '*'))
		return false;
	out->hex = (struct ck_str){ line.p, len };
	out->stem = (struct ck_str){ line.p + len + 2, line.len - len - 2 };
	if (!is_hex(out->hex) || !ck_str_starts(out->stem, top))
		return false;
	out->stem.p += top.len;
	out->stem.len -= top.len;
	return true;
}

int ck_digest_line_take(struct ck_cur *at, size_t *number,
			struct ck_digest_line *out)
{
	struct ck_str line;

	while (ck_cur_left(at)) {
		++*number;
		if (!ck_cur_line(at, &line)) {
			line = (struct ck_str){ (const char *)at->p,
						ck_cur_left(at) };
			at->p = at->end;
		}
		if (line.len && line.p[line.len - 1] == '\r')
			line.len--;
		if (line.len == 0 || line.p[0] == '#')
			continue;
		return line_parse(line, out) ? 1 : -EBADMSG;
	}
	return 0;
}
