/* SPDX-License-Identifier: MIT */
/*
 * inspect: lists the tensors of a checkpoint without a mount, as a table, as JSON or as CSV,
 * or prints their sum only. One thread.
 */
#include "ckptfs/format.h"
#include "ckptfs/json.h"
#include "ckptfs/report.h"
#include "commands.h"
#include "inspect_layers.h"
#include "inspect_pick.h"
#include "inspect_run.h"
#include "inspect_summary.h"
#include "offline_tree.h"
#include <errno.h>
#include <stdio.h>

enum style { TABLE, JSON, CSV };

struct inspection {
	const struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	struct ck_format_options options;
	struct ck_hosts_options hosts;
	char *glob; /* NULL: all entries */
	enum style style;
	bool chunks, summary_only;
	struct ck_picked picked;
	struct ck_totals by_dtype, by_prefix; /* of the picked tensors */
	struct ck_layers layers;	      /* of the picked tensors */
	struct ck_summary summary;
	struct ck_alike alike; /* of all entries */
	struct ck_buf out;
};

static struct ck_str alike_stem(const struct inspection *in, size_t i)
{
	return ck_entry_names(in->c, in->alike.rows[i].entry).stem;
}

/* ck_report_prefixed() as JSON. */
static void print_prefixed_json(struct inspection *in)
{
	const struct ck_listing *l = in->c->listing;

	for (size_t i = 0; i < l->nprefixed; i++) {
		ck_buf_text(&in->out, i ? ",\n" : "\n");
		ck_buf_json_str(&in->out,
				ck_entry_names(in->c, l->prefixed[i]).stem);
	}
}

/* --- table ---------------------------------------------------------------- */

/* Columns whose width depends on their contents. */
enum { DTYPE, SHAPE, BYTES, CHUNKS, COLUMNS };

/* Limits the width: one shape of a million numbers must not lengthen every line. */
enum { WIDTH_MOST = 48 };

static void tensor_cells(const struct ck_tensor *t,
			 struct ck_buf cells[static COLUMNS])
{
	for (int i = 0; i < COLUMNS; i++)
		cells[i].len = 0;
	ck_buf_escaped(&cells[DTYPE], t->facts->dtype_name);
	ck_dims_print(&cells[SHAPE], t->shape, t->ndim);
	ck_buf_printf(&cells[BYTES], "%ju", (uintmax_t)t->nbytes);
	ck_buf_printf(&cells[CHUNKS], "%u", t->nchunks);
}

static void print_row(struct ck_buf *out, const char *const cells[],
		      const size_t width[static COLUMNS])
{
	ck_buf_printf(out, "%-*s  %-*s  %*s  %*s  ", (int)width[DTYPE],
		      cells[DTYPE], (int)width[SHAPE], cells[SHAPE],
		      (int)width[BYTES], cells[BYTES], (int)width[CHUNKS],
		      cells[CHUNKS]);
}

static void print_grid(struct inspection *in, const struct ck_tensor *t)
{
	int64_t grid[CK_MAX_DIMS];
	int rc = ck_report_grid(t, grid);

	if (rc == -ENOMEM)
		in->out.err = rc;
	if (rc)
		return;
	ck_buf_text(&in->out, "    grid ");
	ck_dims_print(&in->out, grid, t->ndim);
	ck_buf_text(&in->out, "\n");
}

/* Appends the hosts that have a file. */
static void print_hosts(struct inspection *in, uint32_t file)
{
	const struct ck_remote_source *e = in->cp->elsewhere;
	const char *name;

	for (uint32_t i = 0; e && (name = e->host(e, file, i)) != NULL; i++)
		ck_buf_printf(&in->out, "%s%s", i ? "," : "  on ", name);
}

static void print_boxes(struct inspection *in, const struct ck_tensor *t)
{
	const struct ck_catalog *c = in->c;

	print_grid(in, t);
	for (uint32_t i = 0; i < t->nchunks; i++) {
		const struct ck_item *chunk = ck_catalog_item(c, t->chunk + i);
		const int64_t *box = ck_tensor_box(t, i);
		struct ck_fault fault;

		ck_buf_text(&in->out, "    ");
		ck_dims_print(&in->out, box, t->ndim);
		ck_buf_text(&in->out, " ");
		ck_dims_print(&in->out, box + t->ndim, t->ndim);
		if (chunk->file != CK_NO_FILE) {
			ck_buf_text(&in->out, "  ");
			ck_buf_escaped(&in->out,
				       ck_catalog_file(c, chunk->file)->path);
			ck_buf_printf(&in->out, "  pos %ju  length %ju",
				      (uintmax_t)chunk->fpos,
				      (uintmax_t)chunk->length);
			print_hosts(in, chunk->file);
		}
		if (ck_catalog_box_has_fault(c, t, i, &fault)) {
			ck_buf_text(&in->out, "  ! ");
			fault.box = NULL; /* the line has both */
			fault.file.p = NULL;
			ck_fault_print(&fault, false, &in->out);
		}
		ck_buf_text(&in->out, "\n");
	}
}

static void print_total(struct inspection *in, const struct ck_total *t)
{
	ck_buf_printf(&in->out,
		      "tensors %ju, bytes %ju, chunks %ju, elements %ju",
		      (uintmax_t)t->tensors, (uintmax_t)t->bytes,
		      (uintmax_t)t->chunks, (uintmax_t)t->elements);
}

static void print_named_total(struct inspection *in, const char *what,
			      const struct ck_total *t)
{
	ck_buf_printf(&in->out, "%s ", what);
	ck_buf_escaped(&in->out, t->name);
	ck_buf_text(&in->out, ": ");
	print_total(in, t);
	ck_buf_text(&in->out, "\n");
}

static void print_layers_row(struct inspection *in,
			     const struct ck_layers_row *row)
{
	ck_buf_text(&in->out, "prefix ");
	ck_layers_row_name(row, &in->out);
	ck_buf_text(&in->out, ": ");
	print_total(in, &row->total);
	ck_buf_text(&in->out, "\n");
}

/* Prints a line for each row that is a prefix, and for each one further down
 * that stands for several layers of one form. */
static void print_layers(struct inspection *in, struct ck_total *single)
{
	const struct ck_layers *l = &in->layers;

	for (size_t i = 0; i < l->n; i++) {
		const struct ck_layers_row *row = &l->rows[i];
		bool is_top = ck_layers_row_is_top(l, row);

		if (row->first != row->last ||
		    (is_top && row->total.tensors > 1))
			print_layers_row(in, row);
		else if (is_top)
			ck_total_add(single, &row->total);
	}
}

/* Prints all prefixes of one tensor in one line: the table shows these tensors itself. */
static void print_prefixes(struct inspection *in, const struct ck_totals *t)
{
	struct ck_total single = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		if (ck_layers_have(&in->layers, t->rows[i].name))
			continue;
		if (t->rows[i].tensors == 1)
			ck_total_add(&single, &t->rows[i]);
		else
			print_named_total(in, "prefix", &t->rows[i]);
	}
	print_layers(in, &single);
	if (single.tensors == 0)
		return;
	ck_buf_text(&in->out, "prefixes of one tensor each: ");
	print_total(in, &single);
	ck_buf_text(&in->out, "\n");
}

static void print_totals(struct inspection *in)
{
	ck_buf_text(&in->out, "\n");
	for (size_t i = 0; i < in->by_dtype.n; i++)
		print_named_total(in, "dtype", &in->by_dtype.rows[i]);
	if (in->by_prefix.n > 1 && in->by_prefix.n < in->picked.ntensors)
		print_prefixes(in, &in->by_prefix);
}

static void print_end(struct inspection *in)
{
	ck_buf_printf(&in->out, "%s; ", in->c->kind);
	print_total(in, &in->summary.all);
	ck_buf_printf(&in->out, "; files %u; other entries %zu\n",
		      in->c->files.n, in->picked.nobjects);
	ck_summary_print(&in->summary, &in->out);
}

/* A line for each group. */
static void print_alike(struct inspection *in)
{
	for (size_t i = 0; i < in->alike.n; i++) {
		ck_buf_text(&in->out, in->alike.rows[i].first
					      ? "one name where case is folded "
						"or Unicode normalised: "
					      : ", ");
		ck_buf_escaped(&in->out, alike_stem(in, i));
		if (i + 1 == in->alike.n || in->alike.rows[i + 1].first)
			ck_buf_text(&in->out, "\n");
	}
}

static void print_prefixed(struct inspection *in)
{
	if (in->c->listing->nprefixed == 0)
		return;
	ck_buf_text(&in->out, "with the prefixes of wrappers, since names "
			      "would be equal without them: ");
	ck_report_prefixed(in->c, &in->out);
	ck_buf_text(&in->out, "\n");
}

static void print_tensor(struct inspection *in, const struct ck_tensor *t,
			 struct ck_buf cells[static COLUMNS],
			 const size_t width[static COLUMNS])
{
	const char *text[COLUMNS];
	struct ck_fault fault;

	tensor_cells(t, cells);
	for (int i = 0; i < COLUMNS; i++)
		text[i] = cells[i].data ? cells[i].data : "";
	print_row(&in->out, text, width);
	ck_buf_escaped(&in->out, ck_tensor_names(in->c, t->entry.number).name);
	if (ck_catalog_tensor_has_fault(in->c, t, &fault)) {
		ck_buf_text(&in->out, "  ! ");
		ck_fault_print(&fault, false, &in->out);
	}
	ck_buf_text(&in->out, "\n");
	if (in->chunks)
		print_boxes(in, t);
}

/* Prints an entry that is not a tensor: its name, without counts. */
static void print_object(struct inspection *in, const struct ck_object *o,
			 const size_t width[static COLUMNS])
{
	static const char *const text[COLUMNS] = { "object", "-", "-", "-" };
	struct ck_fault fault;

	print_row(&in->out, text, width);
	ck_buf_escaped(&in->out, ck_object_names(in->c, o->entry.number).name);
	if (ck_catalog_object_has_fault(in->c, o, &fault)) {
		ck_buf_text(&in->out, "  ! ");
		ck_fault_print(&fault, false, &in->out);
	}
	ck_buf_text(&in->out, "\n");
}

static void print_table(struct inspection *in)
{
	static const char *const head[COLUMNS] = { "dtype", "shape", "bytes",
						   "chunks" };
	struct ck_buf cells[COLUMNS] = { 0 };
	size_t width[COLUMNS];

	for (int i = 0; i < COLUMNS; i++)
		width[i] = strlen(head[i]);
	if (in->picked.nobjects)
		width[DTYPE] = strlen("object");
	for (uint32_t i = 0; i < in->picked.ntensors; i++) {
		tensor_cells(ck_catalog_tensor(in->c, in->picked.tensors[i]),
			     cells);
		for (int k = 0; k < COLUMNS; k++)
			width[k] = ck_max(width[k],
					  ck_min(cells[k].len, WIDTH_MOST));
	}
	print_row(&in->out, head, width);
	ck_buf_text(&in->out, "name\n");
	for (uint32_t i = 0; i < in->picked.ntensors; i++)
		print_tensor(in,
			     ck_catalog_tensor(in->c, in->picked.tensors[i]),
			     cells, width);
	for (uint32_t i = 0; i < in->picked.nobjects; i++)
		print_object(in,
			     ck_catalog_object(in->c, in->picked.objects[i]),
			     width);
	print_totals(in);
	if (!in->glob) {
		print_prefixed(in);
		print_alike(in);
	}
	print_end(in);
	for (int i = 0; i < COLUMNS; i++)
		ck_buf_fini(&cells[i]);
}

/* --- for programs --------------------------------------------------------- */

static void print_objects_json(struct inspection *in)
{
	const struct ck_catalog *c = in->c;

	for (uint32_t i = 0; i < in->picked.nobjects; i++) {
		struct ck_names n = ck_object_names(c, in->picked.objects[i]);

		ck_buf_text(&in->out, i ? ",\n" : "\n");
		ck_buf_text(&in->out, "{\"fqn\":");
		ck_buf_json_str(&in->out, n.name);
		ck_buf_text(&in->out, ",\"stem\":");
		ck_buf_json_str(&in->out, n.stem);
		ck_buf_text(&in->out, "}");
	}
}

static void print_layers_json(struct inspection *in)
{
	ck_buf_text(&in->out, "\"layers\":[");
	for (size_t i = 0; i < in->layers.n; i++) {
		const struct ck_layers_row *row = &in->layers.rows[i];

		ck_buf_text(&in->out, i ? ",\n" : "\n");
		ck_buf_text(&in->out, "{\"stem\":");
		ck_buf_json_str(&in->out, row->stem);
		ck_buf_printf(&in->out, ",\"first\":%ju,\"last\":%ju,",
			      (uintmax_t)row->first, (uintmax_t)row->last);
		ck_total_print_json(&row->total, &in->out);
		ck_buf_text(&in->out, "}");
	}
	ck_buf_text(&in->out, "]");
}

/* Prints one JSON list for each group. */
static void print_alike_json(struct inspection *in)
{
	for (size_t i = 0; i < in->alike.n; i++) {
		bool first = in->alike.rows[i].first;

		if (first)
			ck_buf_text(&in->out, i ? "],\n" : "\n");
		ck_buf_text(&in->out, first ? "[" : ",");
		ck_buf_json_str(&in->out, alike_stem(in, i));
	}
	ck_buf_text(&in->out, in->alike.n ? "]" : "");
}

/* Prints the hosts that have a file, first the host on which it is read. */
static void print_hosts_json(void *arg, const struct ck_item *item,
			     struct ck_buf *out)
{
	const struct inspection *in = arg;
	const struct ck_remote_source *e = in->cp->elsewhere;
	const char *name;

	ck_buf_text(out, ",\"hosts\":[");
	for (uint32_t i = 0; item->file != CK_NO_FILE &&
			     (name = e->host(e, item->file, i)) != NULL;
	     i++)
		ck_buf_printf(out, "%s\"%s\"", i ? "," : "", name);
	ck_buf_text(out, "]");
}

static void print_json(struct inspection *in)
{
	const struct ck_report_boxes boxes = {
		.more = in->cp->elsewhere ? print_hosts_json : NULL, .arg = in
	};

	ck_buf_printf(&in->out,
		      "{\"version\":1,\"kind\":\"%s\",\"why\":\"%s\","
		      "\"tensors\":[",
		      in->c->kind, in->cp->why);
	for (uint32_t i = 0; i < in->picked.ntensors; i++) {
		ck_buf_text(&in->out, i ? ",\n" : "\n");
		ck_report_tensor_json(in->c, in->picked.tensors[i],
				      in->chunks ? &boxes : NULL, &in->out);
	}
	ck_buf_text(&in->out, "],\n\"objects\":[");
	print_objects_json(in);
	ck_buf_text(&in->out, "],\n\"totals\":{");
	ck_totals_print_json(&in->by_dtype, "dtypes", "dtype", &in->out);
	ck_buf_text(&in->out, ",\n");
	ck_totals_print_json(&in->by_prefix, "prefixes", "prefix", &in->out);
	ck_buf_text(&in->out, ",\n");
	print_layers_json(in);
	ck_buf_text(&in->out, "},\n\"summary\":{");
	ck_summary_print_json(&in->summary, &in->out);
	ck_buf_text(&in->out, "},\n\"alike\":[");
	print_alike_json(in);
	ck_buf_text(&in->out, "],\n\"prefixed\":[");
	print_prefixed_json(in);
	ck_buf_text(&in->out, "]}\n");
}

static void print_csv(struct inspection *in)
{
	ck_buf_text(&in->out, CK_REPORT_CSV_HEADER);
	for (uint32_t i = 0; i < in->picked.ntensors; i++)
		ck_report_tensor_csv(in->c, in->picked.tensors[i], &in->out);
}

/* --- arguments ------------------------------------------------------------ */

static void print_summary(struct inspection *in)
{
	if (in->style == TABLE) {
		ck_summary_print(&in->summary, &in->out);
		return;
	}
	ck_buf_printf(&in->out, "{\"version\":1,\"kind\":\"%s\",", in->c->kind);
	ck_summary_print_json(&in->summary, &in->out);
	ck_buf_text(&in->out, "}\n");
}

static void print(struct inspection *in)
{
	if (in->summary_only)
		print_summary(in);
	else if (in->style == TABLE)
		print_table(in);
	else if (in->style == JSON)
		print_json(in);
	else
		print_csv(in);
}

static int count(struct inspection *in, struct ck_checkpoint *cp)
{
	const struct ck_catalog *c = in->c;
	const uint32_t *list = in->picked.tensors;
	size_t n = in->picked.ntensors;
	int rc = ck_totals_by_dtype(c, list, n, &in->by_dtype);

	if (rc == 0)
		rc = ck_totals_by_prefix(c, list, n, &in->by_prefix);
	if (rc == 0)
		rc = ck_layers_find(c, list, n, &in->layers);
	if (rc == 0)
		rc = ck_summary_make(cp, &in->by_dtype, in->picked.nobjects,
				     &in->summary);
	return rc ? rc : ck_alike_find(c, &in->alike);
}

static int inspect(struct inspection *in, struct ck_checkpoint *cp)
{
	int rc = ck_pick(in->c, &in->glob, in->glob != NULL, &in->picked);

	if (rc == 0)
		rc = count(in, cp);
	if (rc == 0)
		print(in);
	else
		in->out.err = rc;
	if (rc == 0 && in->glob &&
	    in->picked.ntensors + in->picked.nobjects == 0)
		ck_pick_warn(in->c, in->glob);
	ck_picked_fini(&in->picked);
	ck_totals_fini(&in->by_dtype);
	ck_totals_fini(&in->by_prefix);
	ck_layers_fini(&in->layers);
	ck_alike_fini(&in->alike);
	return ck_print(&in->out);
}

static int parse(struct inspection *in, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "chunks", no_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "csv", no_argument, NULL, 'v' },
		{ "summary", no_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 &&
	       (letter = ck_getopt_hosts(argc, argv, "o:", long_options,
					 &in->hosts)) != -1) {
		switch (letter) {
		case 'c': in->chunks = true; break;
		case 'j': in->style = JSON; break;
		case 'v': in->style = CSV; break;
		case 's': in->summary_only = true; break;
		case 'o':
			rc = ck_parse_reading(&in->options, &in->hosts, NULL,
					      optarg);
			break;
		default: rc = CK_EXIT_TROUBLE;
		}
	}
	if (rc)
		return rc;
	if (argc - optind < 1 || argc - optind > 2)
		return ck_usage();
	if ((in->chunks || in->summary_only) && in->style == CSV)
		return ck_trouble("inspect: --csv has one line for each "
				  "tensor; --%s goes with --json",
				  in->chunks ? "chunks" : "summary");
	in->glob = argv[optind + 1]; /* NULL after the last */
	return ck_check_hosts(&in->hosts);
}

/* Prints the steps of a run directory. A pattern chooses tensors of one step. */
static int inspect_steps(struct inspection *in, const char *src,
			 const struct ck_checkpoint *cp)
{
	static const enum ck_run_style styles[] = {
		[TABLE] = CK_RUN_TABLE, [JSON] = CK_RUN_JSON, [CSV] = CK_RUN_CSV
	};

	if (in->glob || in->chunks || in->summary_only)
		return ck_source_is_one(src, cp);
	if (ck_inspect_run(ck_checkpoint_run(cp), styles[in->style], &in->out))
		return ck_trouble("%s: its steps cannot be listed",
				  ck_show(ck_str_from(src)));
	return ck_print(&in->out);
}

static int inspect_one(struct inspection *in, const char *src,
		       struct ck_checkpoint *cp)
{
	int rc;

	if (ck_checkpoint_run(cp))
		return inspect_steps(in, src, cp);
	in->cp = cp;
	in->c = ck_checkpoint_catalog(cp);
	rc = inspect(in, cp);
	ck_catalog_put(in->c);
	ck_source_notes(src, cp);
	return rc;
}

int ck_cmd_inspect(int argc, char **argv)
{
	struct inspection in = { .style = TABLE,
				 .options.shardlinks = CK_BENEATH_NO_SYMLINKS };
	struct ck_checkpoint *cp = NULL;
	struct ck_cluster *cluster = NULL;
	int rc = parse(&in, argc, argv);

	if (rc == 0)
		rc = ck_source_open(argv[optind], &in.options, &in.hosts,
				    &cluster, &cp);
	if (rc == 0)
		rc = inspect_one(&in, argv[optind], cp);
	ck_source_close(cluster, cp);
	ck_hosts_options_fini(&in.hosts);
	ck_format_options_fini(&in.options);
	return rc;
}
