/* SPDX-License-Identifier: MIT */
/*
 * report: writes a checkpoint as one page of HTML, without a mount. The main thread builds the data
 * and writes; ck_figures_compute() and ck_checkpoint_check() read in several threads.
 */
#include "commands.h"
#include "html_data.h"
#include "html_page.h"
#include "html_values.h"
#include "offline_tree.h"
#include "picked_source.h"
#include "report_run.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct reporting {
	struct ck_format_options options;
	struct ck_hosts_options hosts;
	const char *path; /* of the page */
	bool wants_values;
	struct ck_html_file file;
	struct ck_picked_source source;
	struct ck_html_data data;
	struct ck_report_run run; /* of a run directory */
	struct ck_html_values values;
};

/* --- values ----------------------------------------------------------------------------------- */

static int values_add(struct reporting *r)
{
	struct ck_progress progress = { 0 };
	int rc;

	ck_pass_progress_begin(
		&progress, ck_html_values_bytes(&r->data, &r->source.from, 0));
	rc = ck_html_values_add(&r->values, &r->data, &r->source.from, 0,
				&progress);
	ck_pass_progress_end(&progress);
	return rc ? ck_trouble("%s", strerror(-rc)) : CK_EXIT_FINE;
}

/* --- the page --------------------------------------------------------------------------------- */

/* A line for a user who waits at a terminal; scripts need none. size: bytes of the page. */
static void written_print(const struct reporting *r, size_t size)
{
	if (!r->file.is_stream && isatty(STDERR_FILENO))
		fprintf(stderr, "%s: %" PRIu32 " tensors, %.1f MiB\n",
			ck_show(ck_str_from(r->path)), r->data.n,
			(double)size / (1 << 20));
}

static int page_write(struct reporting *r)
{
	struct ck_html_source source;
	struct ck_buf out = { 0 };
	size_t size;
	int rc;

	if (ck_html_source_of(r->source.from.cp, r->source.from.c, &source))
		return ck_trouble("out of memory");
	ck_buf_str(&out, ck_html_page.before);
	ck_html_data_print(&r->data, &source,
			   r->run.data ? ck_report_run_print : NULL, &r->run,
			   &out);
	ck_buf_str(&out, ck_html_page.behind);
	size = out.len;
	rc = ck_html_file_write(&r->file, &out);
	if (rc == 0)
		written_print(r, size);
	return rc;
}

static int report_run(struct reporting *r, const char *src)
{
	int rc = ck_report_run_make(
		ck_checkpoint_run(r->source.from.cp), src, &r->data,
		r->wants_values ? &r->values : NULL, &r->run);

	return rc ? rc : page_write(r);
}

static int report_one(struct reporting *r)
{
	struct ck_diag d = { 0 };
	int rc = ck_html_data_add(&r->data, r->source.from.cp, r->source.from.c,
				  &d);

	if (rc == 0)
		rc = ck_html_data_sort(&r->data);
	if (rc)
		return ck_trouble("%s", d.text[0] ? d.text : strerror(-rc));
	rc = r->wants_values ? values_add(r) : CK_EXIT_FINE;
	return rc ? rc : page_write(r);
}

/* --- the command ------------------------------------------------------------------------------ */

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
		case 'v': r->wants_values = true; break;
		case 'o':
			rc = ck_parse_reading_or_output(&r->options, &r->hosts,
							optarg, &r->path);
			break;
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
			       .source.takes_run = true,
			       .options.shardlinks = CK_BENEATH_NO_SYMLINKS };
	int rc = parse(&r, argc, argv);

	if (rc == 0)
		rc = ck_html_file_find(&r.file, r.path);
	if (rc == 0)
		rc = ck_picked_source_open(&r.source, argv[optind], &r.options,
					   &r.hosts, NULL, 0);
	if (rc == 0)
		rc = ck_html_file_spare(&r.file, &r.source);
	if (rc == 0)
		rc = ck_checkpoint_run(r.source.from.cp)
			     ? report_run(&r, argv[optind])
			     : report_one(&r);
	ck_report_run_fini(&r.run);
	ck_html_data_fini(&r.data);
	ck_html_values_fini(&r.values);
	ck_picked_source_close(&r.source);
	ck_html_file_fini(&r.file);
	ck_hosts_options_fini(&r.hosts);
	ck_format_options_fini(&r.options);
	return rc;
}
