/* SPDX-License-Identifier: MIT */
/*
 * check_digests: the lines are compared with all whole tensors of the catalog, which are read
 * once. `named` marks those that a line names. No state.
 */
#include "check_digests.h"
#include "cli.h"
#include "picked_source.h"
#include "values/digest.h"
#include <fcntl.h>

enum { TEXT_MOST = 1 << 30 };

struct comparing {
	const struct ck_catalog *c;
	struct ck_findings *out;
	struct ck_digest *all;
	size_t n;
	size_t *at;	      /* index in `all`, by tensor */
	bool *named;	      /* by index in `all`: a line names it */
	struct ck_str *found; /* sorted names of findings before the pass */
	size_t nfound;
};

/* --- the file ----------------------------------------------------------------------- */

static int check_lines(const char *path, struct ck_str text)
{
	struct ck_cur at = ck_cur_make(text.p, text.len);
	struct ck_digest_line line;
	size_t number = 0;
	int rc;

	while ((rc = ck_digest_line_take(&at, &number, &line)) > 0)
		continue;
	return rc ? ck_trouble("%s: line %zu: expected 32 hex digits, two "
			       "spaces and raw/NAME, as ckptfs digest prints "
			       "them",
			       ck_show(ck_str_from(path)), number)
		  : CK_EXIT_FINE;
}

int ck_check_digests_read(const char *path, struct ck_buf *text)
{
	ck_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? -errno : ck_read_all(fd, TEXT_MOST, text);

	if (rc)
		return ck_trouble("%s: %s", ck_show(ck_str_from(path)),
				  strerror(-rc));
	return check_lines(path, (struct ck_str){ text->data, text->len });
}

/* --- findings ------------------------------------------------------------------------- */

static int differs(struct comparing *k, const struct ck_digest *d,
		   struct ck_str hex)
{
	char expected[CK_DIGEST_HEX] = "", found[CK_DIGEST_HEX];
	struct ck_fault f = { .name = ck_tensor_names(k->c, d->tensor).name,
			      .kind = "digest",
			      .what = CK_STR("its digest differs"),
			      .expected = expected,
			      .found = found };

	memcpy(expected, hex.p, CK_DIGEST_HEX - 1);
	ck_sum128_hex(d->sum, found);
	return strcasecmp(expected, found) == 0 ? 0
						: ck_findings_add(k->out, &f);
}

static int line_compare(struct comparing *k, const struct ck_digest_line *line)
{
	int64_t entry = ck_catalog_find(k->c, line->stem);
	struct ck_entry_id id;

	if (entry >= 0)
		id = k->c->listing->entries[entry];
	if (entry < 0 || id.is_object || !ck_tensor_is_whole(k->c, id.i))
		return ck_findings_add(
			k->out, &(struct ck_fault){
					.name = line->stem,
					.kind = "digest",
					.what = CK_STR("no tensor, the file of "
						       "digests has it") });
	k->named[k->at[id.i]] = true;
	if (k->all[k->at[id.i]].err)
		return 0;
	return differs(k, &k->all[k->at[id.i]], line->hex);
}

static int name_cmp(const void *a, const void *b)
{
	return ck_str_natural_cmp(*(const struct ck_str *)a,
				  *(const struct ck_str *)b);
}

static bool has_finding(const struct comparing *k, struct ck_str name)
{
	return k->nfound &&
	       bsearch(&name, k->found, k->nfound, sizeof(name), name_cmp);
}

/* Adds tensors without a digest, of which one side has none. */
static int add_others(struct comparing *k)
{
	int rc = 0;

	for (size_t i = 0; i < k->n && rc == 0; i++) {
		const struct ck_digest *d = &k->all[i];
		struct ck_fault f = {
			.name = ck_tensor_names(k->c, d->tensor).name,
			.kind = "digest",
			.err = d->err,
			.what = CK_STR("not in the file of digests"),
		};

		if (d->err)
			f.what = CK_STR("its bytes cannot be read");
		if (d->err ? !has_finding(k, f.name) : !k->named[i])
			rc = ck_findings_add(k->out, &f);
	}
	return rc;
}

static int compare(struct comparing *k, struct ck_str text)
{
	struct ck_cur at = ck_cur_make(text.p, text.len);
	struct ck_digest_line line;
	size_t number = 0;
	int rc = 0;

	while (rc == 0 && ck_digest_line_take(&at, &number, &line) > 0)
		rc = line_compare(k, &line);
	return rc ? rc : add_others(k);
}

/* --- the tensors ------------------------------------------------------------------------ */

static int tensors_list(struct comparing *k)
{
	uint32_t n = k->c->tensors.n;

	k->all = calloc(n + 1UL, sizeof(*k->all));
	k->at = calloc(n + 1UL, sizeof(*k->at));
	k->named = calloc(n + 1UL, sizeof(*k->named));
	if (!k->all || !k->at || !k->named)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		if (ck_tensor_is_whole(k->c, i)) {
			k->at[i] = k->n;
			k->all[k->n++].tensor = i;
		}
	return 0;
}

/* Keeps the names of the findings, sorted. */
static int findings_list(struct comparing *k)
{
	const struct ck_findings *f = k->out;

	ck_findings_sort(k->out);
	k->found = calloc(f->n + 1, sizeof(*k->found));
	if (!k->found)
		return -ENOMEM;
	for (size_t i = 0; i < f->n; i++)
		if (!f->faults[i].is_warning && f->faults[i].name.p)
			k->found[k->nfound++] = f->faults[i].name;
	return 0;
}

int ck_check_digests(struct ck_checkpoint *cp, struct ck_route *route,
		     struct ck_str text, struct ck_findings *out)
{
	const struct ck_pass_source from = { cp, out->catalog, route };
	struct comparing k = { .c = out->catalog, .out = out };
	struct ck_progress progress = { 0 };
	struct ck_digest_options o = { .progress = ck_pass_progress_add,
				       .arg = &progress };
	int rc = tensors_list(&k);

	ck_log_detach(); /* what cannot be read is a finding */
	if (rc == 0)
		rc = findings_list(&k);
	if (rc == 0) {
		ck_pass_progress_begin(&progress,
				       ck_digests_bytes(k.c, k.all, k.n));
		rc = ck_digests_compute(&from, k.all, k.n, &o);
		ck_pass_progress_end(&progress);
	}
	if (rc == 0)
		rc = compare(&k, text);
	ck_findings_sort(out);
	free(k.all);
	free(k.at);
	free(k.named);
	free(k.found);
	return rc;
}
