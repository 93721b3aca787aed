/* SPDX-License-Identifier: MIT */
/*
 * shard_map: the boxes are listed first, with their owners, colours and rectangles, and then
 * printed: rectangles, labels above all of them, legend. No state; any thread.
 */
#include "shard_map.h"
#include "ckptfs/json.h"
#include "xml_text.h"

#include <inttypes.h>

enum {
	LEFT = 28, /* margins of the map, in units of the picture */
	TOP = 24,
	RIGHT = 4,
	BOTTOM = 4,
	LEGEND_LINE = 18,
	LEGEND_RANK = 100, /* columns */
	LEGEND_FILE = 300,
	LEGEND_MOST = 32, /* entries */
};

/* Readable with a black text, and distinct on white and on dark grey. */
static const char *const palette[] = {
	"#76b6f7", "#e79f62", "#79c68a", "#f19293", "#bca0ef", "#b5b75c",
	"#3cc7ce", "#e294c8", "#d3ab54", "#95adfb", "#59c9a6", "#ef9778",
	"#688ad5", "#b68028", "#2ea37a", "#ca6f59", "#a775be", "#7b9941",
	"#079db6", "#c46b90", "#9d8d26", "#8581d2", "#06a295", "#c3773e",
};

static const char no_colour[] = "#8884";

static const char style[] =
	"<style>svg{background:#fff;font:12px system-ui,sans-serif}"
	"text{fill:#333}"
	".axis,.rank,.omitted{text-anchor:middle}"
	".rank{fill:#111;pointer-events:none}"
	"rect{stroke:#fff}"
	"@media (prefers-color-scheme:dark){"
	"svg{background:#16181d}text{fill:#ccc}.rank{fill:#111}"
	"rect{stroke:#16181d}}"
	"</style>\n";

/* Who has a box: a rank, or a file without one. */
struct owner {
	uint64_t rank; /* CK_NO_RANK: unknown */
	uint32_t file; /* CK_NO_FILE: no file has the box */
};

/* A box, with its rectangle in units of the picture. */
struct box {
	const int64_t *at; /* ndim offsets, then ndim sizes */
	uint32_t chunk;
	struct owner owner;
	size_t colour; /* rank; of a file: its number among those of the map */
	double x, y, width, height;
};

struct legend {
	const struct box *all[CK_SHARD_MAP_BOXES]; /* one of each owner */
	size_t n;
	size_t entries;	   /* that are drawn; one more if n is larger */
	unsigned column;   /* units */
	unsigned ncolumns; /* at least 1 */
};

struct map {
	const struct ck_catalog *c;
	const struct ck_tensor *t;
	struct ck_names names;
	double width, height; /* without margins */
	struct box boxes[CK_SHARD_MAP_BOXES];
	size_t n; /* boxes; 0 if there are more */
	uint32_t files[CK_SHARD_MAP_BOXES];
	size_t nfiles;	      /* files that are owners */
	struct owner *owners; /* of the box at work */
	size_t nowners, cap;
	struct legend legend;
};

/* --- numbers -------------------------------------------------------------------------- */

static size_t digits_of(uint64_t value)
{
	size_t n = 1;

	while (value /= 10)
		n++;
	return n;
}

/* Appends a number that is not negative, with at most two decimals, rounded half up. Each `ls -l`
 * prints all maps, and printf(3) takes three times as long. */
static void add_number(struct ck_buf *out, double v)
{
	uint64_t hundredths = (uint64_t)(100 * v + 0.5);
	uint64_t rest = hundredths % 100;

	ck_buf_decimal(out, hundredths / 100);
	if (rest == 0)
		return;
	ck_buf_text(out, rest < 10 ? ".0" : ".");
	ck_buf_decimal(out, rest % 10 ? rest : rest / 10);
}

/* Appends ` name="v"`. */
static void add_attribute(struct ck_buf *out, const char *name, double v)
{
	ck_buf_text(out, " ");
	ck_buf_text(out, name);
	ck_buf_text(out, "=\"");
	add_number(out, v);
	ck_buf_text(out, "\"");
}

static void add_fill(struct ck_buf *out, const char *colour)
{
	ck_buf_text(out, " fill=\"");
	ck_buf_text(out, colour);
	ck_buf_text(out, "\"");
}

static void add_dims(struct ck_buf *out, const int64_t *dims, uint32_t ndim,
		     const char *between)
{
	for (uint32_t d = 0; d < ndim; d++) {
		ck_buf_text(out, d ? between : "");
		ck_buf_i64(out, dims[d]);
	}
}

/* --- owners --------------------------------------------------------------------------- */

static int owner_cmp(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->rank != CK_NO_RANK)
		return 0;
	return (x->file > y->file) - (x->file < y->file);
}

static int owner_add(struct map *m, const struct ck_item *item)
{
	struct owner *owners;

	if (item->file >= m->c->files.n)
		return 0;
	owners = ck_grow(m->owners, &m->cap, m->nowners, 1, sizeof(*owners));
	if (!owners)
		return -ENOMEM;
	m->owners = owners;
	owners[m->nowners++] = (struct owner){
		.rank = ck_catalog_file(m->c, item->file)->rank,
		.file = item->file,
	};
	return 0;
}

/* Lists who has a chunk: ranks in ascending order, then files. */
static int owners_list(struct map *m, uint32_t chunk)
{
	uint32_t n, first = ck_catalog_replicas(m->c, chunk, 1, &n);
	size_t kept = 0;
	int rc;

	m->nowners = 0;
	rc = owner_add(m, ck_catalog_item(m->c, chunk));
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = owner_add(m, &ck_catalog_replica(m->c, first + i)->item);
	if (rc || m->nowners == 0)
		return rc;
	qsort(m->owners, m->nowners, sizeof(*m->owners), owner_cmp);
	for (size_t i = 0; i < m->nowners; i++)
		if (i == 0 ||
		    owner_cmp(&m->owners[kept - 1], &m->owners[i]) != 0)
			m->owners[kept++] = m->owners[i];
	m->nowners = kept;
	return 0;
}

static void add_owner(struct ck_buf *out, const struct map *m,
		      const struct owner *o)
{
	if (o->rank != CK_NO_RANK)
		ck_buf_decimal(out, o->rank);
	else if (o->file != CK_NO_FILE)
		ck_buf_xml(out, ck_catalog_file(m->c, o->file)->path);
}

static const char *colour_of(const struct box *b)
{
	return b->owner.rank == CK_NO_RANK && b->owner.file == CK_NO_FILE
		       ? no_colour
		       : palette[b->colour % CK_ARRAY_SIZE(palette)];
}

static void colour_set(struct map *m, struct box *b)
{
	size_t i = 0;

	b->colour = (size_t)b->owner.rank;
	if (b->owner.rank != CK_NO_RANK || b->owner.file == CK_NO_FILE)
		return;
	while (i < m->nfiles && m->files[i] != b->owner.file)
		i++;
	m->files[i] = b->owner.file;
	m->nfiles = ck_max(m->nfiles, i + 1);
	b->colour = i;
}

/* --- geometry ------------------------------------------------------------------------- */

static double limited(double v, double low, double high)
{
	return v < low ? low : v > high ? high : v;
}

static double rounded(double v)
{
	return (double)(uint64_t)(v + 0.5);
}

static void map_size(struct map *m)
{
	const int64_t *shape = m->t->shape;
	double ratio = 1;

	m->width = m->t->ndim ? 320 : 160;
	m->height = m->t->ndim ? 240 : 80;
	if (m->t->ndim < 2)
		return;
	if (shape[0] > 0 && shape[1] > 0)
		ratio = (double)shape[1] / (double)shape[0];
	ratio = limited(ratio, 0.5, 3);
	m->width = ratio >= 1.5 ? 600 : rounded(400 * ratio);
	m->height = ratio >= 1.5 ? rounded(600 / ratio) : 400;
}

/* The part of dimension d that a box spans: *low to *high, between 0 and 1. */
static void share(const struct ck_tensor *t, const int64_t *box, uint32_t d,
		  double *low, double *high)
{
	double n = (double)t->shape[d], at = (double)box[d];

	*low = 0;
	*high = 1;
	if (!(n > 0))
		return;
	*low = limited(at / n, 0, 1);
	*high = limited((at + (double)box[t->ndim + d]) / n, *low, 1);
}

static void rectangle_set(const struct map *m, struct box *b)
{
	double low, high;

	b->x = LEFT;
	b->y = TOP;
	b->width = m->width;
	b->height = m->height;
	for (uint32_t d = 0; d < m->t->ndim; d++) {
		share(m->t, b->at, d, &low, &high);
		if (d == 0) {
			b->y += b->height * low;
			b->height *= high - low;
		} else {
			b->x += b->width * low;
			b->width *= high - low;
		}
	}
}

static int boxes_list(struct map *m)
{
	int rc = 0;

	if (m->t->nchunks > CK_SHARD_MAP_BOXES)
		return 0;
	for (uint32_t i = 0; i < m->t->nchunks && rc == 0; i++) {
		uint32_t at = m->t->facts->order[i];
		struct box *b = &m->boxes[m->n++];

		*b = (struct box){ .at = ck_tensor_box(m->t, at),
				   .chunk = m->t->chunk + at,
				   .owner = { CK_NO_RANK, CK_NO_FILE } };
		rc = owners_list(m, b->chunk);
		if (rc == 0 && m->nowners)
			b->owner = m->owners[0];
		colour_set(m, b);
		rectangle_set(m, b);
	}
	return rc;
}

/* --- rectangles ----------------------------------------------------------------------- */

static void add_copies(struct ck_buf *out, const struct map *m)
{
	if (m->nowners < 2)
		return;
	ck_buf_text(out, "\" data-copies=\"");
	for (size_t i = 1; i < m->nowners; i++) {
		ck_buf_text(out, i > 1 ? "," : "");
		add_owner(out, m, &m->owners[i]);
	}
}

/* What a viewer shows beside the pointer. */
static void add_tooltip(struct ck_buf *out, const struct map *m,
			const struct box *b)
{
	bool is_rank = false;

	if (m->nowners == 0)
		ck_buf_text(out, "no file");
	else
		ck_buf_text(out,
			    b->owner.rank == CK_NO_RANK ? "file " : "rank ");
	add_owner(out, m, &b->owner);
	for (size_t i = 1; i < m->nowners; i++) {
		bool was_rank = is_rank;

		is_rank = m->owners[i].rank != CK_NO_RANK;
		if (i > 1 && was_rank == is_rank)
			ck_buf_text(out, ", ");
		else if (is_rank)
			ck_buf_text(out, ", copies on ranks ");
		else
			ck_buf_text(out, i > 1 ? " and in files "
					       : ", copies in files ");
		add_owner(out, m, &m->owners[i]);
	}
	ck_buf_text(out, "\noffset [");
	add_dims(out, b->at, m->t->ndim, ", ");
	ck_buf_text(out, "]\nsize [");
	add_dims(out, b->at + m->t->ndim, m->t->ndim, ", ");
	ck_buf_text(out, "]");
}

static int add_rect(struct ck_buf *out, struct map *m, const struct box *b)
{
	int rc = owners_list(m, b->chunk);

	ck_buf_text(out, "<rect data-rank=\"");
	add_owner(out, m, &b->owner);
	add_copies(out, m);
	ck_buf_text(out, "\" data-offset=\"");
	add_dims(out, b->at, m->t->ndim, ",");
	ck_buf_text(out, "\" data-size=\"");
	add_dims(out, b->at + m->t->ndim, m->t->ndim, ",");
	ck_buf_text(out, "\"");
	add_attribute(out, "x", b->x);
	add_attribute(out, "y", b->y);
	add_attribute(out, "width", b->width);
	add_attribute(out, "height", b->height);
	add_fill(out, colour_of(b));
	ck_buf_text(out, "><title>");
	add_tooltip(out, m, b);
	ck_buf_text(out, "</title></rect>\n");
	return rc;
}

/* The rank, where there is room; of a file its number in the legend. */
static void add_label(struct ck_buf *out, const struct box *b)
{
	bool is_rank = b->owner.rank != CK_NO_RANK;
	uint64_t number = is_rank ? b->owner.rank : b->colour + 1;
	size_t len = digits_of(number) + !is_rank;

	if ((!is_rank && b->owner.file == CK_NO_FILE) || b->height < 14 ||
	    b->width < 7 * (double)len + 6)
		return;
	ck_buf_text(out, "<text class=\"rank\"");
	add_attribute(out, "x", b->x + b->width / 2);
	add_attribute(out, "y", b->y + b->height / 2 + 4);
	ck_buf_text(out, is_rank ? ">" : ">#");
	ck_buf_decimal(out, number);
	ck_buf_text(out, "</text>\n");
}

static void add_omitted(struct ck_buf *out, const struct map *m)
{
	ck_buf_text(out, "<rect class=\"omitted\"");
	add_attribute(out, "x", LEFT);
	add_attribute(out, "y", TOP);
	add_attribute(out, "width", m->width);
	add_attribute(out, "height", m->height);
	add_fill(out, no_colour);
	ck_buf_text(out, "/>\n<text class=\"omitted\"");
	add_attribute(out, "x", LEFT + m->width / 2);
	add_attribute(out, "y", TOP + m->height / 2 + 4);
	ck_buf_printf(out, ">%" PRIu32 " boxes</text>\n", m->t->nchunks);
}

/* --- legend --------------------------------------------------------------------------- */

static int legend_cmp(const void *a, const void *b)
{
	const struct box *const *x = a, *const *y = b;
	const struct owner *p = &(*x)->owner, *q = &(*y)->owner;

	if (p->rank != q->rank)
		return p->rank < q->rank ? -1 : 1;
	return ((*x)->colour > (*y)->colour) - ((*x)->colour < (*y)->colour);
}

static void legend_make(const struct map *m, struct legend *l)
{
	size_t kept = 0;

	l->n = 0;
	for (size_t i = 0; i < m->n; i++)
		if (m->boxes[i].owner.file != CK_NO_FILE)
			l->all[l->n++] = &m->boxes[i];
	if (l->n)
		qsort(l->all, l->n, sizeof(l->all[0]), legend_cmp);
	for (size_t i = 0; i < l->n; i++)
		if (i == 0 || legend_cmp(&l->all[kept - 1], &l->all[i]) != 0)
			l->all[kept++] = l->all[i];
	l->n = kept;
	l->entries = ck_min(l->n, LEGEND_MOST);
	l->column = m->nfiles ? LEGEND_FILE : LEGEND_RANK;
	l->ncolumns =
		(unsigned)ck_max(1, ((unsigned)m->width + RIGHT) / l->column);
}

static unsigned legend_lines(const struct legend *l)
{
	size_t entries = l->entries + (l->n > l->entries);

	return (unsigned)((entries + l->ncolumns - 1) / l->ncolumns);
}

static void add_legend(struct ck_buf *out, const struct map *m,
		       const struct legend *l)
{
	for (size_t i = 0; i < l->entries || (i < l->n && i == l->entries);
	     i++) {
		double x = LEFT + (double)(i % l->ncolumns * l->column);
		double y = TOP + m->height + BOTTOM + LEGEND_LINE / 2.0 +
			   (double)(i / l->ncolumns * LEGEND_LINE);

		if (i < l->entries) {
			ck_buf_text(out, "<circle r=\"5\"");
			add_attribute(out, "cx", x + 5);
			add_attribute(out, "cy", y);
			add_fill(out, colour_of(l->all[i]));
			ck_buf_text(out, "/>");
		}
		ck_buf_text(out, "<text");
		add_attribute(out, "x", x + 15);
		add_attribute(out, "y", y + 4);
		if (i == l->entries)
			ck_buf_printf(out, ">and %zu more", l->n - i);
		else if (l->all[i]->owner.rank != CK_NO_RANK)
			ck_buf_text(out, ">rank ");
		else
			ck_buf_printf(out, ">#%zu ", l->all[i]->colour + 1);
		if (i < l->entries)
			add_owner(out, m, &l->all[i]->owner);
		ck_buf_text(out, "</text>\n");
	}
}

/* --- the picture ---------------------------------------------------------------------- */

static void add_head(struct ck_buf *out, const struct map *m, unsigned lines)
{
	double width = m->width + LEFT + RIGHT;
	double height = m->height + TOP + BOTTOM + LEGEND_LINE * lines;

	ck_buf_text(out,
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" data-fqn=\"");
	ck_buf_xml(out, m->names.name);
	ck_buf_text(out, "\" data-dtype=\"");
	ck_buf_xml(out, m->t->facts->dtype_name);
	ck_buf_text(out, "\" data-shape=\"");
	add_dims(out, m->t->shape, m->t->ndim, ",");
	if (m->t->nchunks > CK_SHARD_MAP_BOXES)
		ck_buf_printf(out, "\" data-boxes=\"%" PRIu32, m->t->nchunks);
	ck_buf_text(out, "\" viewBox=\"0 0 ");
	add_number(out, width);
	ck_buf_text(out, " ");
	add_number(out, height);
	ck_buf_text(out, "\"");
	add_attribute(out, "width", width);
	add_attribute(out, "height", height);
	/* A window that is narrower than the map shows all of it. */
	ck_buf_text(out, " style=\"max-width:100%;height:auto\" role=\"img\" "
			 "aria-label=\"Shards of ");
	ck_buf_xml(out, m->names.name);
	ck_buf_text(out, "\">\n<title>");
	ck_buf_xml(out, m->names.name);
	ck_buf_text(out, "</title>\n");
	ck_buf_text(out, style);
}

/* True if some box does not span all of the dimensions from the third one on. */
static bool is_divided(const struct map *m)
{
	const struct ck_tensor *t = m->t;

	for (size_t i = 0; i < m->n; i++)
		for (uint32_t d = 2; d < t->ndim; d++)
			if (m->boxes[i].at[t->ndim + d] != t->shape[d])
				return true;
	return false;
}

static void add_axes(struct ck_buf *out, const struct map *m)
{
	const struct ck_tensor *t = m->t;
	double y = TOP + m->height / 2;

	if (t->ndim == 0)
		return;
	ck_buf_text(out, "<text class=\"axis\" x=\"12\"");
	add_attribute(out, "y", y);
	ck_buf_text(out, " transform=\"rotate(-90 12 ");
	add_number(out, y);
	ck_buf_text(out, ")\">dimension 0: ");
	add_dims(out, t->shape, 1, "");
	ck_buf_text(out, "</text>\n");
	if (t->ndim == 1)
		return;
	ck_buf_text(out, "<text class=\"axis\"");
	add_attribute(out, "x", LEFT + m->width / 2);
	ck_buf_text(out, " y=\"16\">dimension 1: ");
	add_dims(out, t->shape + 1, 1, "");
	if (is_divided(m) && t->ndim == 3)
		ck_buf_text(out, ", each divided by dimension 2");
	else if (is_divided(m))
		ck_buf_printf(out, ", each divided by dimensions 2 to %" PRIu32,
			      t->ndim - 1);
	ck_buf_text(out, "</text>\n");
}

static int map_print(struct map *m, struct ck_buf *out)
{
	int rc;

	map_size(m);
	rc = boxes_list(m);
	legend_make(m, &m->legend);
	add_head(out, m, legend_lines(&m->legend));
	add_axes(out, m);
	for (size_t i = 0; i < m->n && rc == 0; i++)
		rc = add_rect(out, m, &m->boxes[i]);
	for (size_t i = 0; i < m->n; i++)
		add_label(out, &m->boxes[i]);
	if (m->t->nchunks > CK_SHARD_MAP_BOXES)
		add_omitted(out, m);
	add_legend(out, m, &m->legend);
	ck_buf_text(out, "</svg>\n");
	return rc;
}

void ck_shard_map_print(const struct ck_catalog *c, uint32_t tensor,
			struct ck_buf *out)
{
	struct map *m = malloc(sizeof(*m)); /* its arrays are not cleared */
	int rc = -ENOMEM;

	if (m) {
		m->c = c;
		m->t = ck_catalog_tensor(c, tensor);
		m->names = ck_tensor_names(c, tensor);
		m->n = m->nfiles = m->nowners = m->cap = 0;
		m->owners = NULL;
		rc = map_print(m, out);
		free(m->owners);
	}
	if (rc)
		out->err = rc;
	free(m);
}
