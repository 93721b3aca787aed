/* SPDX-License-Identifier: MIT */
/*
 * pt_file: the archive torch/checkpoint.pt as sections: data.pkl, byteorder, one record for
 * each storage, version, an id, and the directory. Only the position of each storage is
 * stored; headers are generated when they are read. All CRCs are 0, because those of the
 * tensors are not known.
 */
#include "pt.h"
#include "syntax/zipper.h"

#include <errno.h>
#include <stdio.h>

/* Sections, and the columns of those that have several. */
enum { HEAD, PICKLE, MIDDLE, DATA, END, DIRECTORY, ENDS, SECTIONS };

enum { BLOCK = 64 }; /* entries of the directory in one part */

/* Padding of `version`. PyTorch reads the last 4 KiB of a file to find the directory: they must not
 * have bytes of a tensor, which may be lost. */
enum { GAP = 4096 };

/* Records beside the storages, in their order; the storages are behind BYTEORDER. */
enum { DATA_PKL, BYTEORDER, VERSION, ID, OTHERS };

static const struct {
	const char *name;
	struct ck_str data;
} others[OTHERS] = {
	[DATA_PKL] = { "data.pkl", { NULL, 0 } },
	[BYTEORDER] = { "byteorder", { "little", 6 } },
	[VERSION] = { "version", { "3\n", 2 } },
	[ID] = { ".data/serialization_id",
		 { "0000000000000000000000000000000000000000", 40 } },
};

/* --- records -------------------------------------------------------------------------- */

static struct ck_zipper_record record(const char *name, uint64_t header,
				      uint64_t len)
{
	struct ck_zipper_record r = { .header = header, .len = len };

	(void)snprintf(r.name, sizeof(r.name), "checkpoint/%s", name);
	return r;
}

/* The position behind a record. */
static uint64_t behind(const struct ck_zipper_record *r)
{
	return r->header + ck_zipper_header_len(r, 0) + r->len +
	       ck_zipper_descriptor_len(r);
}

static struct ck_zipper_record other(const struct ck_pt_file *f, unsigned which)
{
	uint64_t at = which < VERSION ? 0 : f->end;
	struct ck_zipper_record r = record(others[DATA_PKL].name, 0,
					   f->pickle.len);

	if (which == DATA_PKL)
		return r;
	if (which == BYTEORDER)
		at = behind(&r);
	if (which == ID) {
		r = other(f, VERSION);
		at = behind(&r);
	}
	r = record(others[which].name, at, others[which].data.len);
	r.gap = which == VERSION ? GAP : 0;
	return r;
}

static uint64_t storage_len(const struct ck_pt_file *f, uint32_t i)
{
	return ck_catalog_tensor(f->tree.c, f->storages[i])->nbytes;
}

static struct ck_zipper_record storage(const struct ck_pt_file *f, uint32_t i)
{
	char name[24];

	(void)snprintf(name, sizeof(name), "data/%u", i);
	return record(name, f->headers[i], storage_len(f, i));
}

/* Record i of the directory. */
static struct ck_zipper_record record_at(const struct ck_pt_file *f, uint32_t i)
{
	if (i < VERSION)
		return other(f, i);
	i -= VERSION;
	return i < f->nstorages ? storage(f, i)
				: other(f, VERSION + i - f->nstorages);
}

static void other_write(const struct ck_pt_file *f, unsigned which,
			struct ck_buf *out)
{
	const struct ck_zipper_record r = other(f, which);

	ck_zipper_header(out, &r, 0);
	ck_buf_str(out, others[which].data);
	ck_zipper_descriptor(out, &r);
}

static uint64_t other_len(const struct ck_pt_file *f, unsigned which)
{
	const struct ck_zipper_record r = other(f, which);

	return behind(&r) - r.header;
}

/* --- the directory ------------------------------------------------------------------ */

static uint32_t nrecords(const struct ck_pt_file *f)
{
	return f->nstorages + OTHERS;
}

static uint32_t nblocks(const struct ck_pt_file *f)
{
	return nrecords(f) / BLOCK + (nrecords(f) % BLOCK != 0);
}

static void directory_write(const struct ck_pt_file *f, uint32_t block,
			    struct ck_buf *out)
{
	uint32_t end = (uint32_t)ck_min(nrecords(f), (block + 1UL) * BLOCK);

	for (uint32_t i = block * BLOCK; i < end; i++) {
		const struct ck_zipper_record r = record_at(f, i);

		(void)ck_zipper_entry(out, &r);
	}
}

static uint64_t directory_len(const struct ck_pt_file *f, uint32_t block)
{
	uint32_t end = (uint32_t)ck_min(nrecords(f), (block + 1UL) * BLOCK);
	uint64_t len = 0;

	for (uint32_t i = block * BLOCK; i < end; i++) {
		const struct ck_zipper_record r = record_at(f, i);

		len += ck_zipper_entry_len(&r);
	}
	return len;
}

/* --- sections ------------------------------------------------------------------------- */

static int file_make(const struct ck_sections_maker *ops,
		     struct ck_section_at at, struct ck_buf *out)
{
	const struct ck_pt_file *f = (const struct ck_pt_file *)ops;
	struct ck_zipper_record r = other(f, DATA_PKL);

	if (at.section == DATA)
		r = storage(f, at.row);
	switch (at.section) {
	case HEAD: ck_zipper_header(out, &r, 0); break;
	case PICKLE: ck_pt_block(&f->pickle, at.row, out); break;
	case MIDDLE:
		ck_zipper_descriptor(out, &r);
		other_write(f, BYTEORDER, out);
		break;
	case DATA:
		if (at.column == 0)
			ck_zipper_header(out, &r, 0);
		else
			ck_zipper_descriptor(out, &r);
		break;
	case END:
		other_write(f, VERSION, out);
		other_write(f, ID, out);
		break;
	case DIRECTORY: directory_write(f, at.row, out); break;
	default: ck_zipper_ends(out, nrecords(f), f->dir, f->dir_end);
	}
	return out->err;
}

static uint64_t data_len(const struct ck_pt_file *f, struct ck_section_at at)
{
	const struct ck_zipper_record r = storage(f, at.row);

	switch (at.column) {
	case 0: return ck_zipper_header_len(&r, 0);
	case 1: return r.len;
	default: return ck_zipper_descriptor_len(&r);
	}
}

static uint64_t file_len(const struct ck_sections_maker *ops,
			 struct ck_section_at at)
{
	const struct ck_pt_file *f = (const struct ck_pt_file *)ops;
	const struct ck_zipper_record pkl = other(f, DATA_PKL);

	switch (at.section) {
	case HEAD: return ck_zipper_header_len(&pkl, 0);
	case PICKLE:
		return at.column ? ck_pt_block_object(&f->pickle, at.row).len
				 : f->pickle.lens[at.row];
	case MIDDLE:
		return ck_zipper_descriptor_len(&pkl) + other_len(f, BYTEORDER);
	case DATA: return data_len(f, at);
	case END: return other_len(f, VERSION) + other_len(f, ID);
	case DIRECTORY: return directory_len(f, at.row);
	default: return CK_ZIPPER_ENDS;
	}
}

static struct ck_part file_part(const struct ck_sections_maker *ops,
				struct ck_section_at at)
{
	const struct ck_pt_file *f = (const struct ck_pt_file *)ops;

	if (at.section == DATA && at.column == 1)
		return (struct ck_part){ .kind = CK_PART_BOX,
					 .number = f->storages[at.row] };
	if (at.section == PICKLE && at.column == 1)
		return (struct ck_part){
			.kind = CK_PART_BYTES,
			.at.bytes = ck_pt_block_object(&f->pickle, at.row).p
		};
	return (struct ck_part){ .kind = CK_PART_MADE };
}

static void file_free(struct ck_sections_maker *ops)
{
	struct ck_pt_file *f = (struct ck_pt_file *)ops;

	ck_pt_pickle_fini(&f->pickle);
	ck_pt_objects_fini(&f->objects);
	ck_pt_tree_fini(&f->tree);
	free(f->tensors);
	free(f->shown);
	free(f->storages);
	free(f->headers);
	free(f);
}

/* --- the file --------------------------------------------------------------------------- */

/* The tensor that an alias shares its storage with. */
static uint32_t first_of(const struct ck_catalog *c, uint32_t tensor)
{
	uint32_t first = ck_tensor_alias_of(ck_catalog_tensor(c, tensor));

	return first == CK_NO_TENSOR ? tensor : first;
}

/* Numbers the storages in the order of their first use. */
static int storages_number(struct ck_pt_file *f)
{
	const struct ck_catalog *c = f->tree.c;
	ck_auto_free uint32_t *number = calloc(c->tensors.n + 1UL,
					       sizeof(*number));

	f->tensors = malloc((f->tree.n + 1UL) * sizeof(*f->tensors));
	f->shown = malloc((f->tree.n + 1UL) * sizeof(*f->shown));
	f->storages = malloc((f->tree.n + 1UL) * sizeof(*f->storages));
	if (!number || !f->tensors || !f->shown || !f->storages)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->tree.n; i++) {
		struct ck_pt_entry *e = &f->tree.entries[i];
		uint32_t *n;

		if (e->empty)
			continue;
		if (e->id.is_object) {
			f->shown[f->nshown++] = e->id.i;
			continue;
		}
		f->tensors[f->ntensors++] = e->id.i;
		n = &number[first_of(c, e->id.i)];
		if (*n == 0) {
			f->storages[f->nstorages++] = e->id.i;
			*n = f->nstorages;
		}
		e->n = *n - 1;
	}
	f->tensors = ck_trim(f->tensors, f->ntensors + 1UL, sizeof(uint32_t));
	f->shown = ck_trim(f->shown, f->nshown + 1UL, sizeof(uint32_t));
	f->storages = ck_trim(f->storages, f->nstorages + 1UL,
			      sizeof(uint32_t));
	return 0;
}

/* Sets the positions of all records. */
static int layout(struct ck_pt_file *f)
{
	struct ck_zipper_record r = other(f, BYTEORDER);
	uint64_t room = INT64_MAX - behind(&r) - (1 << 20);

	f->headers = malloc((f->nstorages + 1UL) * sizeof(*f->headers));
	if (!f->headers)
		return -ENOMEM;
	f->end = behind(&r);
	for (uint32_t i = 0; i < f->nstorages; i++) {
		if (storage_len(f, i) > room || f->end > room)
			return -EOVERFLOW;
		f->headers[i] = f->end;
		r = storage(f, i);
		f->end = behind(&r);
	}
	r = other(f, ID);
	f->dir = f->dir_end = behind(&r);
	for (uint32_t i = 0; i < nblocks(f); i++)
		f->dir_end += directory_len(f, i);
	return 0;
}

static int file_fill(struct ck_pt_file *f, const struct ck_catalog *c,
		     const struct ck_view_source *from)
{
	int rc = ck_pt_tree_make(&f->tree, c, from->options);

	if (rc == 0)
		rc = ck_pt_objects_make(&f->objects, &f->tree, &from->objects);
	if (rc == 0)
		rc = storages_number(f);
	if (rc == 0)
		rc = ck_pt_pickle_make(&f->pickle, &f->tree, &f->objects);
	return rc ? rc : layout(f);
}

int ck_pt_file_make(const struct ck_catalog *c,
		    const struct ck_view_source *from, struct ck_pt_file **out,
		    struct ck_sections **sections)
{
	struct ck_pt_file *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return -ENOMEM;
	f->ops = (struct ck_sections_maker){ file_len, file_part, file_make,
					     file_free };
	rc = file_fill(f, c, from);
	if (rc) {
		file_free(&f->ops);
		return rc;
	}
	*out = f;
	return ck_sections_make(
		(const struct ck_section[]){
			[HEAD] = { 1, 1 },
			[PICKLE] = { f->pickle.nblocks, 2 },
			[MIDDLE] = { 1, 1 },
			[DATA] = { f->nstorages, 3 },
			[END] = { 1, 1 },
			[DIRECTORY] = { nblocks(f), 1 },
			[ENDS] = { 1, 1 },
		},
		SECTIONS, &f->ops, sections);
}
