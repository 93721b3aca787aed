/* SPDX-License-Identifier: MIT */
/*
 * report: writes a checkpoint as one page of HTML, without a mount. The main thread builds the data
 * and writes; ck_figures_compute() and ck_checkpoint_check() read in several threads.
 */
#include "commands.h"
#include "html_data.h"
#include "html_page.h"
#include "offline_tree.h"
#include "picked_source.h"
#include "values/tensor_figures.h"
#include <fcntl.h>
#include <unistd.h>

struct reporting {
	struct ck_format_options options;
	struct ck_hosts_options hosts;
	const char *path; /* of the page */
	bool values;
	struct ck_html_file file;
	struct ck_picked_source source;
	struct ck_html_data data;
	struct ck_figured *figured; /* of rows that are no aliases */
	size_t nfigured;
};

/* --- values ----------------------------------------------------------------------------------- */

/* Lists the tensors to read: each memory once. */
static int figured_list(struct reporting *r)
{
	r->figured = calloc(r->data.n + 1UL, sizeof(*r->figured));
	if (!r->figured)
		return ck_trouble("out of memory");
	for (uint32_t i = 0; i < r->data.n; i++)
		if (r->data.rows[i].alias == CK_HTML_NO_ROW)
			r->figured[r->nfigured++].tensor =
				r->data.rows[i].tensor;
	return CK_EXIT_FINE;
}

static int figures_compute(struct reporting *r)
{
	struct ck_progress progress = { 0 };
	const struct ck_figures_options o = { .progress = ck_pass_progress_add,
					      .arg = &progress };
	uint64_t bytes = 0;
	int rc;

	for (size_t i = 0; i < r->nfigured; i++)
		bytes += ck_pass_tensor_bytes(r->source.from.c,
					      r->figured[i].tensor);
	ck_pass_progress_begin(&progress, bytes);
	rc = ck_figures_compute(&r->source.from, r->figured, r->nfigured, &o);
	ck_pass_progress_end(&progress);
	return rc ? ck_trouble("%s", strerror(-rc)) : CK_EXIT_FINE;
}

/* Gives the rows their figures. A tensor that was not read is damaged, if no row says so yet. */
static int figures_take(struct reporting *r)
{
	struct ck_buf line = { 0 };
	size_t at = 0;
	int rc = 0;

	for (uint32_t i = 0; i < r->data.n && rc == 0; i++) {
		struct ck_html_row *row = &r->data.rows[i];
		const struct ck_figured *f;

		if (row->alias != CK_HTML_NO_ROW)
			continue;
		f = &r->figured[at++];
		if (f->err == 0)
			row->figures = &f->figures;
		if (f->err == 0 || row->damage.len)
			continue;
		line.len = 0;
		ck_picked_source_fault(&r->source, f->tensor, f->err, &line);
		rc = line.err ? line.err
			      : ck_html_data_damage(
					&r->data, i,
					(struct ck_str){ line.data, line.len });
	}
	ck_buf_fini(&line);
	for (uint32_t i = 0; i < r->data.n; i++) {
		struct ck_html_row *row = &r->data.rows[i];

		if (row->alias == CK_HTML_NO_ROW)
			continue;
		row->figures = r->data.rows[row->alias].figures;
		if (row->damage.len == 0)
			row->damage = r->data.rows[row->alias].damage;
	}
	return rc ? ck_trouble("out of memory") : CK_EXIT_FINE;
}

static int values_add(struct reporting *r)
{
	int rc = figured_list(r);

	r->data.has_values = true;
	if (rc == 0)
		rc = figures_compute(r);
	return rc ? rc : figures_take(r);
}

/* --- the page --------------------------------------------------------------------------------- */

static int page_write(struct reporting *r)
{
	struct ck_html_source source;
	struct ck_buf out = { 0 };

	if (ck_html_source_of(r->source.from.cp, r->source.from.c, &source))
		return ck_trouble("out of memory");
	ck_buf_str(&out, ck_html_page.before);
	ck_html_data_print(&r->data, &source, NULL, NULL, &out);
	ck_buf_str(&out, ck_html_page.behind);
	return ck_html_file_write(&r->file, &out);
}

static int report(struct reporting *r)
{
	struct ck_diag d = { 0 };
	int rc = ck_html_data_add(&r->data, r->source.from.cp, r->source.from.c,
				  &d);

	if (rc == 0)
		rc = ck_html_data_sort(&r->data);
	if (rc)
		return ck_trouble("%s", d.text[0] ? d.text : strerror(-rc));
	rc = r->values ? values_add(r) : CK_EXIT_FINE;
	return rc ? rc : page_write(r);
}

/* --- the command ------------------------------------------------------------------------------ */

/* All options of a reading have a `=`; another value of -o is the path of the page. */
static int parse_o(struct reporting *r, const char *value)
{
	if (strchr(value, '='))
		return ck_parse_reading(&r->options, &r->hosts, NULL, value);
	r->path = value;
	return CK_EXIT_FINE;
}

static int parse(struct reporting *r, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "output", required_argument, NULL, 'w' },
		{ "values", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 && (letter = ck_getopt_hosts(argc, argv, "o:", longs,
						    &r->hosts)) != -1)
		switch (letter) {
		case 'w': r->path = optarg; break;
		case 'v': r->values = true; break;
		case 'o': rc = parse_o(r, optarg); break;
		default: rc = CK_EXIT_TROUBLE;
		}
	if (rc == 0 && argc - optind != 1)
		rc = ck_usage();
	return rc ? rc : ck_check_hosts(&r->hosts);
}

int ck_cmd_report(int argc, char **argv)
{
	struct reporting r = { .path = "report.html",
			       .file.dirfd = -1,
			       .options.shardlinks = CK_BENEATH_NO_SYMLINKS };
	int rc = parse(&r, argc, argv);

	if (rc == 0)
		rc = ck_html_file_find(&r.file, r.path);
	/* A run directory is refused by ck_picked_source_open(). */
	if (rc == 0)
		rc = ck_picked_source_open(&r.source, argv[optind], &r.options,
					   &r.hosts, NULL, 0);
	if (rc == 0)
		rc = report(&r);
	ck_html_data_fini(&r.data);
	free(r.figured);
	ck_picked_source_close(&r.source);
	ck_html_file_fini(&r.file);
	ck_hosts_options_fini(&r.hosts);
	ck_format_options_fini(&r.options);
	return rc;
}
