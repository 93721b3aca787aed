/* SPDX-License-Identifier: MIT */
/*
 * mounts: lists mounted checkpoints, from the kernel's mount table and the records of the
 * daemons. Mounts receive no request, so a mount that hangs is listed like the others. Root
 * sees all mounts, other users their own. One thread.
 */
#include "ckptfs/json.h"
#include "commands.h"
#include "mounts.h"
#include <stdio.h>
#include <unistd.h>

struct row {
	const struct ck_mount *mount;
	struct ck_mount_record daemon;
	enum ck_life life;
};

struct listing {
	struct ck_mounts all;
	struct row *rows;
	size_t n;
};

static bool collect(struct listing *l)
{
	l->rows = calloc(l->all.n + 1, sizeof(*l->rows));
	for (size_t i = 0; l->rows && i < l->all.n; i++) {
		const struct ck_mount *m = &l->all.rows[i];
		struct row *r = &l->rows[l->n];

		if (!m->ours || (geteuid() != 0 && m->user != geteuid()))
			continue;
		r->mount = m;
		ck_mount_record_read(m, &r->daemon);
		r->life = ck_mount_record_life(&r->daemon);
		l->n++;
	}
	return l->rows != NULL;
}

static const char *mode_of(const struct row *r)
{
	return r->mount->write ? "write" : "ro";
}

/* --- as JSON -------------------------------------------------------------- */

static void print_row_json(const struct row *r, struct ck_buf *out)
{
	ck_buf_text(out, "{\"mountpoint\":");
	ck_buf_json_str(out, ck_str_from(r->mount->point));
	ck_buf_text(out, ",\"source\":");
	ck_buf_json_str(out, ck_str_from(r->mount->source));
	ck_buf_text(out, ",\"kind\":");
	if (r->daemon.pid)
		ck_buf_json_str(out, ck_str_from(r->daemon.kind));
	else
		ck_buf_text(out, "null");
	ck_buf_printf(out, ",\"mode\":\"%s\",\"pid\":", mode_of(r));
	if (r->daemon.pid)
		ck_buf_printf(out, "%d", (int)r->daemon.pid);
	else
		ck_buf_text(out, "null");
	ck_buf_printf(out, ",\"dead\":%s}",
		      r->life == CK_LIFE_UNKNOWN ? "null"
		      : r->life == CK_LIFE_DEAD	 ? "true"
						 : "false");
}

static void print_json(const struct listing *l, struct ck_buf *out)
{
	ck_buf_text(out, "{\"version\":1,\"mounts\":[");
	for (size_t i = 0; i < l->n; i++) {
		ck_buf_text(out, i ? ",\n" : "\n");
		print_row_json(&l->rows[i], out);
	}
	ck_buf_text(out, "]}\n");
}

/* --- as text -------------------------------------------------------------- */

enum { KIND_WIDTH = 19 }; /* torch_checkpointing */

static void print_padded(struct ck_buf *out, const char *text, size_t width)
{
	struct ck_buf shown = { 0 };

	ck_buf_escaped(&shown, ck_str_from(text));
	ck_buf_printf(out, "%-*s  ", (int)width, shown.len ? shown.data : "");
	ck_buf_fini(&shown);
}

static size_t shown_width(const char *text)
{
	struct ck_buf shown = { 0 };
	size_t width;

	ck_buf_escaped(&shown, ck_str_from(text));
	width = shown.len;
	ck_buf_fini(&shown);
	return width;
}

static void print_row(const struct row *r, size_t points, size_t sources,
		      struct ck_buf *out)
{
	const struct ck_mount_record *d = &r->daemon;

	print_padded(out, r->mount->point, points);
	print_padded(out, r->mount->source, sources);
	print_padded(out, d->pid ? d->kind : "-", KIND_WIDTH);
	ck_buf_printf(out, "%-5s  ", mode_of(r));
	ck_buf_text(out, d->pid ? ck_shown("%d", (int)d->pid) : "-");
	ck_buf_text(out, r->life == CK_LIFE_DEAD ? "  dead\n" : "\n");
}

static void print_text(const struct listing *l, struct ck_buf *out)
{
	size_t points = strlen("mount point"), sources = strlen("source");

	for (size_t i = 0; i < l->n; i++) {
		points = ck_max(points, shown_width(l->rows[i].mount->point));
		sources = ck_max(sources,
				 shown_width(l->rows[i].mount->source));
	}
	if (l->n)
		ck_buf_printf(out, "%-*s  %-*s  %-*s  mode   pid\n",
			      (int)points, "mount point", (int)sources,
			      "source", KIND_WIDTH, "kind");
	for (size_t i = 0; i < l->n; i++)
		print_row(&l->rows[i], points, sources, out);
}

/* --- the command ---------------------------------------------------------- */

int ck_cmd_mounts(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	struct listing l = { 0 };
	struct ck_buf out = { 0 };
	bool json = false;
	int letter, rc;

	while ((letter = ck_getopt(argc, argv, "", longs)) != -1) {
		if (letter != 'j')
			return CK_EXIT_TROUBLE;
		json = true;
	}
	if (optind != argc)
		return ck_usage();
	rc = ck_mounts_read(&l.all);
	if (rc)
		return ck_trouble("mounts: %s", strerror(-rc));
	ck_mount_records_clean(&l.all);
	if (!collect(&l))
		out.err = -ENOMEM;
	else if (json)
		print_json(&l, &out);
	else
		print_text(&l, &out);
	free(l.rows);
	ck_mounts_fini(&l.all);
	return json ? ck_print_json(&out) : ck_print(&out);
}
