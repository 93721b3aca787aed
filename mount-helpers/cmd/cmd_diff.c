/* SPDX-License-Identifier: MIT */
/*
 * diff: compares the tensors of two checkpoints by name, without a mount. Names, shapes and
 * dtypes are compared in the catalogs; bytes of tensors that have both in common are read. The main
 * thread prints; ck_tensors_compare() reads in several threads.
 */
#include "ckptfs/json.h"
#include "commands.h"
#include "diff_names.h"
#include "picked_source.h"
#include "values/compare.h"
#include <math.h>
#include <stdio.h>

enum { A, B, SIDES };

/* A name of one checkpoint or of both. */
struct row {
	uint32_t tensor[SIDES]; /* CK_NO_TENSOR: not there */
	size_t compared; /* index in `compared`; SIZE_MAX: form differs, or one side */
};

struct diffing {
	struct ck_format_options options;
	struct ck_hosts_options hosts; /* no hosts */
	bool stats, json, has_tolerance;
	struct ck_tolerance tolerance;
	const char *paths[SIDES];
	struct ck_picked_source sources[SIDES];
	struct row *rows; /* in natural order of the names */
	struct ck_compared *compared;
	size_t nrows, ncompared;
	size_t only[SIDES], changed, unread, within;
};

/* --- names ------------------------------------------------------------------------------ */

static const struct ck_tensor *tensor_at(const struct diffing *d,
					 const struct row *r, int side)
{
	return ck_catalog_tensor(d->sources[side].from.c, r->tensor[side]);
}

static struct ck_str name_of(const struct diffing *d, const struct row *r)
{
	int side = r->tensor[A] == CK_NO_TENSOR ? B : A;

	return ck_tensor_names(d->sources[side].from.c, r->tensor[side]).name;
}

/* True if both tensors have one dtype and shape. */
static bool is_alike(const struct diffing *d, const struct row *r)
{
	const struct ck_tensor *a = tensor_at(d, r, A), *b = tensor_at(d, r, B);

	return a->dtype == b->dtype && ck_tensor_is_alike(a, b);
}

static void row_add(struct diffing *d, uint32_t a, uint32_t b)
{
	struct row *r = &d->rows[d->nrows++];

	*r = (struct row){ { a, b }, SIZE_MAX };
	d->only[A] += b == CK_NO_TENSOR;
	d->only[B] += a == CK_NO_TENSOR;
	if (a == CK_NO_TENSOR || b == CK_NO_TENSOR)
		return;
	if (!is_alike(d, r)) {
		d->changed++;
		return;
	}
	r->compared = d->ncompared;
	d->compared[d->ncompared++].row =
		(struct ck_pass_row){ .tensor = { a, b } };
}

/* Merges the sorted lists of both. */
static int rows_make(struct diffing *d)
{
	const struct ck_picked *a = &d->sources[A].picked;
	const struct ck_picked *b = &d->sources[B].picked;
	size_t i = 0, k = 0, most = a->ntensors + b->ntensors;

	d->rows = calloc(most + 1, sizeof(*d->rows));
	d->compared = calloc(a->ntensors + 1, sizeof(*d->compared));
	if (!d->rows || !d->compared)
		return ck_trouble("out of memory");
	while (i < a->ntensors || k < b->ntensors) {
		int order = i == a->ntensors ? 1 : k == b->ntensors ? -1 : 0;

		if (order == 0)
			order = ck_str_natural_cmp(
				ck_tensor_names(d->sources[A].from.c,
						a->tensors[i])
					.name,
				ck_tensor_names(d->sources[B].from.c,
						b->tensors[k])
					.name);
		row_add(d, order <= 0 ? a->tensors[i] : CK_NO_TENSOR,
			order >= 0 ? b->tensors[k] : CK_NO_TENSOR);
		i += order <= 0;
		k += order >= 0;
	}
	return CK_EXIT_FINE;
}

/* --- bytes ------------------------------------------------------------------------------ */

static bool is_changed(const struct diffing *d, const struct ck_compared *c)
{
	if (c->err || !c->differs)
		return false;
	return !d->has_tolerance || c->diff.form.size == 0 || c->diff.beyond;
}

/* Names a tensor that cannot be read. */
static void report_unread(const struct diffing *d, const struct ck_compared *c)
{
	struct ck_buf line = { 0 };

	ck_picked_source_fault(&d->sources[c->from], c->row.tensor[c->from],
			       c->err, &line);
	(void)ck_trouble("%s: %s", ck_show(ck_str_from(d->paths[c->from])),
			 line.err ? "out of memory" : line.data);
	ck_buf_fini(&line);
}

static void count(struct diffing *d)
{
	for (size_t i = 0; i < d->ncompared; i++) {
		const struct ck_compared *c = &d->compared[i];
		bool changed = is_changed(d, c);

		d->changed += changed;
		d->within += !c->err && c->differs && !changed;
		d->unread += c->err != 0;
		if (c->err)
			report_unread(d, c);
	}
}

static int compare(struct diffing *d)
{
	const struct ck_pass_source from[SIDES] = { d->sources[A].from,
						    d->sources[B].from };
	struct ck_progress progress = { 0 };
	const struct ck_compare_options o = {
		.values = d->stats || d->has_tolerance,
		.tolerance = d->tolerance,
		.progress = ck_pass_progress_add,
		.arg = &progress,
	};
	uint64_t total = 0;
	int rc;

	for (size_t i = 0; i < d->ncompared; i++)
		total += ck_pass_tensor_bytes(from[A].c,
					      d->compared[i].row.tensor[A]);
	ck_pass_progress_begin(&progress, total);
	rc = ck_tensors_compare(from, d->compared, d->ncompared, &o);
	ck_pass_progress_end(&progress);
	if (rc)
		return ck_trouble("%s", strerror(-rc));
	count(d);
	return CK_EXIT_FINE;
}

/* --- lines ------------------------------------------------------------------------------ */

static void print_form(const struct ck_tensor *t, struct ck_buf *out)
{
	ck_buf_escaped(out, t->facts->dtype_name);
	ck_buf_text(out, " ");
	ck_dims_print(out, t->shape, t->ndim);
}

static double share_of(const struct ck_value_diff *v)
{
	return v->n ? (double)v->changed / (double)v->n : 0;
}

static void print_change(const struct diffing *d, const struct ck_compared *c,
			 struct ck_buf *out)
{
	const struct ck_value_diff *v = &c->diff;

	ck_buf_text(out, "other bytes");
	if (d->stats && v->finite)
		ck_buf_printf(out, "; largest difference %.9g, mean %.9g",
			      v->max, ck_value_diff_mean(v));
	if (d->stats && v->n)
		ck_buf_printf(out, "; changed %.4g %%", 100 * share_of(v));
}

/* Returns false if the row is no difference. */
static bool print_row(const struct diffing *d, const struct row *r,
		      struct ck_buf *out)
{
	const struct ck_compared *c = &d->compared[r->compared];

	if (r->compared != SIZE_MAX && !is_changed(d, c))
		return false;
	ck_buf_escaped(out, name_of(d, r));
	ck_buf_text(out, ": ");
	for (int side = A; side < SIDES; side++)
		if (r->tensor[!side] == CK_NO_TENSOR)
			ck_buf_printf(out, "only in %s",
				      ck_show(ck_str_from(d->paths[side])));
	if (r->tensor[A] == CK_NO_TENSOR || r->tensor[B] == CK_NO_TENSOR)
		return true;
	if (r->compared != SIZE_MAX) {
		print_change(d, c, out);
		return true;
	}
	print_form(tensor_at(d, r, A), out);
	ck_buf_text(out, " and ");
	print_form(tensor_at(d, r, B), out);
	return true;
}

static void print_text(const struct diffing *d, struct ck_buf *out)
{
	for (size_t i = 0; i < d->nrows; i++)
		if (print_row(d, &d->rows[i], out))
			ck_buf_text(out, "\n");
	ck_buf_printf(out, "tensors in both: %zu, of which %zu differ",
		      d->nrows - d->only[A] - d->only[B], d->changed);
	if (d->within)
		ck_buf_printf(out, ", %zu within the tolerance", d->within);
	if (d->unread)
		ck_buf_printf(out, ", %zu cannot be read", d->unread);
	ck_buf_printf(out, "; only in A: %zu; only in B: %zu\n", d->only[A],
		      d->only[B]);
}

/* --- JSON ------------------------------------------------------------------------------- */

static void json_names(const struct diffing *d, const char *before, int side,
		       struct ck_buf *out)
{
	bool first = true;

	ck_buf_printf(out, "%s[", before);
	for (size_t i = 0; i < d->nrows; i++) {
		if (d->rows[i].tensor[!side] != CK_NO_TENSOR)
			continue;
		ck_buf_text(out, first ? "\n" : ",\n");
		ck_buf_json_str(out, name_of(d, &d->rows[i]));
		first = false;
	}
	ck_buf_text(out, "]");
}

static void json_form(const char *before, const struct ck_tensor *t,
		      struct ck_buf *out)
{
	ck_buf_printf(out, ",\"%s\":{\"dtype\":", before);
	ck_buf_json_str(out, t->facts->dtype_name);
	ck_buf_text(out, ",\"shape\":");
	ck_dims_print(out, t->shape, t->ndim);
	ck_buf_text(out, "}");
}

/* null: there is no such number. */
static void json_number(const char *before, double x, struct ck_buf *out)
{
	ck_buf_printf(out, ",\"%s\":", before);
	if (isfinite(x))
		ck_buf_printf(out, "%.17g", x);
	else
		ck_buf_text(out, "null");
}

static void json_change(const struct diffing *d, const struct row *r,
			struct ck_buf *out)
{
	const struct ck_value_diff *v;

	ck_buf_text(out, "{\"fqn\":");
	ck_buf_json_str(out, name_of(d, r));
	json_form("a", tensor_at(d, r, A), out);
	json_form("b", tensor_at(d, r, B), out);
	if (r->compared != SIZE_MAX) {
		ck_buf_text(out, ",\"bytes\":true");
		v = &d->compared[r->compared].diff;
		if (d->stats) {
			json_number("max_abs", v->finite ? v->max : (double)NAN,
				    out);
			json_number("mean_abs", ck_value_diff_mean(v), out);
			json_number("changed", share_of(v), out);
		}
	}
	ck_buf_text(out, "}");
}

static void json_changes(const struct diffing *d, struct ck_buf *out)
{
	bool first = true;

	ck_buf_text(out, ",\n\"changed\":[");
	for (size_t i = 0; i < d->nrows; i++) {
		const struct row *r = &d->rows[i];

		if (r->tensor[A] == CK_NO_TENSOR ||
		    r->tensor[B] == CK_NO_TENSOR ||
		    (r->compared != SIZE_MAX &&
		     !is_changed(d, &d->compared[r->compared])))
			continue;
		ck_buf_text(out, first ? "\n" : ",\n");
		json_change(d, r, out);
		first = false;
	}
	ck_buf_text(out, "]");
}

static void print_json(const struct diffing *d, struct ck_buf *out)
{
	bool first = true;

	json_names(d, "{\"version\":1,\"only_a\":", A, out);
	json_names(d, ",\n\"only_b\":", B, out);
	json_changes(d, out);
	ck_buf_text(out, ",\n\"unreadable\":[");
	for (size_t i = 0; i < d->nrows; i++) {
		const struct row *r = &d->rows[i];

		if (r->compared == SIZE_MAX || !d->compared[r->compared].err)
			continue;
		ck_buf_text(out, first ? "\n" : ",\n");
		ck_buf_json_str(out, name_of(d, r));
		first = false;
	}
	ck_buf_text(out, "]}\n");
}

/* --- the command ------------------------------------------------------------------------ */

static int status_of(const struct diffing *d)
{
	if (d->unread || d->sources[A].losses || d->sources[B].losses)
		return CK_EXIT_TROUBLE;
	return d->changed || d->only[A] || d->only[B] ? CK_EXIT_DAMAGE
						      : CK_EXIT_FINE;
}

static int diff(struct diffing *d, char **patterns, size_t n)
{
	struct ck_buf out = { 0 };
	int rc = CK_EXIT_FINE;

	for (int side = A; side < SIDES && rc == 0; side++)
		rc = ck_picked_source_open(&d->sources[side], d->paths[side],
					   &d->options, &d->hosts, patterns, n);
	for (size_t i = 0; i < n && rc == 0; i++)
		if (!d->sources[A].picked.is_used[i] &&
		    !d->sources[B].picked.is_used[i])
			ck_pick_warn(d->sources[A].from.c, patterns[i]);
	if (rc == 0)
		rc = rows_make(d);
	if (rc == 0)
		rc = compare(d);
	if (rc)
		return rc;
	if (n == 0 && d->only[A] + d->only[B] == d->nrows)
		ck_diff_names_hint(d->sources, d->paths);
	if (d->json)
		print_json(d, &out);
	else
		print_text(d, &out);
	rc = d->json ? ck_print_json(&out) : ck_print(&out);
	return rc ? rc : status_of(d);
}

static int parse_number(struct diffing *d, const char *option, double *out)
{
	char *end;

	*out = strtod(optarg, &end);
	d->has_tolerance = true;
	if (end == optarg || *end || !(*out >= 0))
		return ck_trouble("diff: option --%s: expected a number of at "
				  "least 0, found %s",
				  option, ck_show(ck_str_from(optarg)));
	return CK_EXIT_FINE;
}

static int parse(struct diffing *d, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "stats", no_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "atol", required_argument, NULL, 'a' },
		{ "rtol", required_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 && (letter = ck_getopt(argc, argv, "o:", longs)) != -1)
		switch (letter) {
		case 's': d->stats = true; break;
		case 'j': d->json = true; break;
		case 'a':
			rc = parse_number(d, "atol", &d->tolerance.absolute);
			break;
		case 'r':
			rc = parse_number(d, "rtol", &d->tolerance.relative);
			break;
		case 'o':
			rc = ck_parse_reading(&d->options, &d->hosts, NULL,
					      optarg);
			break;
		default: rc = CK_EXIT_TROUBLE;
		}
	if (rc == 0 && argc - optind < SIDES)
		rc = ck_usage();
	if (rc == 0 && (d->hosts.list.n || d->hosts.hostfile))
		rc = ck_trouble("diff: option hosts: both sources must be on "
				"this host");
	return rc;
}

int ck_cmd_diff(int argc, char **argv)
{
	struct diffing d = { .options.shardlinks = CK_BENEATH_NO_SYMLINKS };
	int rc = parse(&d, argc, argv);

	if (rc == 0) {
		d.paths[A] = argv[optind];
		d.paths[B] = argv[optind + 1];
		rc = diff(&d, argv + optind + SIDES,
			  (size_t)(argc - optind - SIDES));
	}
	for (int side = A; side < SIDES; side++)
		ck_picked_source_close(&d.sources[side]);
	free(d.rows);
	free(d.compared);
	ck_hosts_options_fini(&d.hosts);
	ck_format_options_fini(&d.options);
	return rc;
}
