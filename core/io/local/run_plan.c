/* SPDX-License-Identifier: MIT */
/*
 * run_plan: runs a plan in two steps. The first finds the source of each plan op: an
 * address, or a file. The second copies from addresses under the SIGBUS guard, then reads
 * or records the rest. State is in the ck_read_op and the workspace of the thread.
 */
#include "run_plan.h"
#include "gather.h"
#include "load.h"
#include "range.h"
#include "residency.h"

#include <errno.h>

enum {
	ANNOUNCED_MAX = 64, /* ops of larger plans are not announced as cold */
	/* Runs of a pass that are read by read(2), which costs less than page faults. */
	PASS_RUN = 64 << 10,
};

/* --- sources ------------------------------------------------------------- */

/* Acquires a file, which is opened and validated once in this read. */
static int use_file(struct ck_read_op *rd, uint32_t number,
		    const struct ck_file **out)
{
	struct ck_workspace *s = rd->space;
	struct ck_file *used;
	uint32_t *where;
	int rc;

	if (number >= ck_files_count(rd->files))
		return -ENODATA; /* CK_NO_FILE */
	where = &s->where[number];
	if (*where < s->nused && s->used[*where].number == number) {
		*out = &s->used[*where];
		return 0;
	}
	used = ck_grow(s->used, &s->used_cap, s->nused, 1, sizeof(*used));
	if (!used)
		return -ENOMEM;
	s->used = used;
	rc = ck_files_get(rd->files, number, &used[s->nused]);
	if (rc)
		return rc;
	*where = (uint32_t)s->nused++;
	*out = &s->used[*where];
	return 0;
}

void ck_run_plan_end(struct ck_read_op *rd)
{
	struct ck_workspace *s = rd->space;

	for (size_t i = 0; i < s->nused; i++)
		ck_files_put(rd->files, &s->used[i]);
	s->nused = 0;
}

static int find_copy(struct ck_read_op *rd, const struct ck_extent *e,
		     const struct ck_plan_op *c, const uint8_t **from)
{
	const struct ck_file *file;
	uint64_t end;
	int rc;

	/* A stat of its file may show that the layout is outdated. */
	if (e->err)
		(void)!use_file(rd, e->file, &file);
	if (e->err)
		return -e->err;
	if (!ck_range_end(&rd->space->plan, c, e->pos, &end))
		return -EIO;
	if (e->memory) {
		*from = e->memory + e->pos + c->src;
		return 0;
	}
	rc = use_file(rd, e->file, &file);
	if (rc)
		return rc;
	if (file->remote && !rd->remote)
		return -EREMOTE;
	if (end > file->size)
		return -EIO;
	*from = NULL;
	if (!file->map || (rd->is_pass && c->run >= PASS_RUN)) {
		rd->loads = true;
		return 0;
	}
	if (rd->space->plan.ncopies <= ANNOUNCED_MAX)
		ck_residency_prefetch(file, e->pos + c->src,
				      end - e->pos - c->src);
	*from = file->map + e->pos + c->src;
	return 0;
}

int ck_run_plan_find(struct ck_read_op *rd, const struct ck_layout *layout)
{
	struct ck_workspace *s = rd->space;
	int rc = ck_workspace_reserve(s, s->plan.ncopies,
				      ck_files_count(rd->files));

	rd->loads = false;
	for (size_t i = 0; i < s->plan.ncopies && !rc; i++) {
		const struct ck_plan_op *c = &s->plan.copies[i];

		rc = find_copy(rd, &layout->extents[c->chunk], c, &s->from[i]);
	}
	return rc;
}

/* --- bytes --------------------------------------------------------------- */

/* Reads a plan op from a file without a mapping, or records it if it is remote. */
static int load_copy(struct ck_read_op *rd, const struct ck_extent *e, size_t i,
		     uint8_t *to, uint64_t *read)
{
	struct ck_workspace *s = rd->space;
	const struct ck_file *file;
	uint8_t *block;
	int rc = use_file(rd, e->file, &file);

	if (rc)
		return rc;
	if (file->remote)
		return ck_remote_add(rd->remote, &s->plan, i, e, to);
	block = ck_workspace_block(s);
	if (!block)
		return -ENOMEM;
	return ck_load_copy(file->fd, &s->plan, i,
			    e->pos + s->plan.copies[i].src, to, block, read);
}

static int load(struct ck_read_op *rd, const struct ck_layout *layout,
		uint8_t *to, uint64_t *read)
{
	const struct ck_workspace *s = rd->space;
	int rc = 0;

	for (size_t i = 0; i < s->plan.ncopies && !rc; i++)
		if (!s->from[i])
			rc = load_copy(
				rd, &layout->extents[s->plan.copies[i].chunk],
				i, to, read);
	return rc;
}

/* Number of bytes of mapped files. Extents in memory were counted when they were
 * read. */
static uint64_t mapped_bytes(const struct ck_workspace *s,
			     const struct ck_layout *layout)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->plan.ncopies; i++) {
		const struct ck_plan_op *c = &s->plan.copies[i];

		if (s->from[i] && !layout->extents[c->chunk].memory)
			sum += ck_copy_bytes(&s->plan, c);
	}
	return sum;
}

int ck_run_plan(struct ck_read_op *rd, const struct ck_layout *layout,
		uint8_t *to)
{
	struct ck_workspace *s = rd->space;
	struct ck_gather g = { &s->plan, s->from, to };
	struct ck_stats *stats = ck_files_stats(rd->files);
	uint64_t read = stats ? mapped_bytes(s, layout) : 0;
	int rc = ck_sigbus_guard(ck_gather_run, &g);

	if (rc == 0 && rd->loads)
		rc = load(rd, layout, to, &read);
	if (stats)
		ck_count(&stats->hosts[0].file_bytes, read);
	rd->failed |= rc != 0;
	return rc;
}
