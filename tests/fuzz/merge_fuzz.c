/* SPDX-License-Identifier: MIT */
/*
 * merge: any bytes as the metadata of several ranks, each behind its length. Those that can be
 * read are merged. The result has every key once, and a non-tensor entry at the location of its
 * first rank. If the ranks agree about a tensor, no box of it is lost or doubled.
 */
#include "format/dcp/dcp.h"
#include "model/catalog/catalog_edit.h"
#include "must.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS = 8 };

struct numbering {
	struct ck_catalog *c;
	uint32_t n;
};

static int file_add(void *ctx, struct ck_str path, uint32_t *number)
{
	struct numbering *t = ctx;

	(void)path;
	*number = t->n++;
	return 0;
}

/* Reads one part, which has files of its own. False if it is refused. */
static bool part_read(struct ck_dcp_part *part, struct ck_str bytes,
		      struct numbering *all)
{
	struct numbering own = { 0 };
	const struct ck_dcp_numbers numbers = { file_add, &own, "part" };
	struct ck_diag d = { 0 };
	int rc;

	part->c = ck_catalog_make("");
	must(part->c != NULL);
	rc = ck_dcp_parse_places(part->c, bytes, &numbers, NULL, &d);
	must(rc == 0 || (rc == -EBADMSG && *d.text));
	part->files = calloc(own.n + 1UL, sizeof(*part->files));
	must(part->files != NULL);
	for (uint32_t i = 0; i < own.n && rc == 0; i++) {
		struct ck_data_file file = {
			.path = CK_STR("file"),
			.size = UINT64_C(1) << 62,
			.attr = { .mode = 0100444 },
		};

		part->files[i] = all->n++;
		must(ck_catalog_file_add(all->c, &file) == 0);
	}
	return rc == 0;
}

static void part_fini(struct ck_dcp_part *part)
{
	ck_catalog_put(part->c);
	free(part->files);
}

/* The index of the entry with that key, or -1. */
static int64_t find(const struct ck_catalog *c, struct ck_str key)
{
	for (size_t i = 0; i < c->listing->n; i++)
		if (ck_str_eq(ck_entry_names(c, i).key, key))
			return (int64_t)i;
	return -1;
}

static void keys_check(const struct ck_catalog *c,
		       const struct ck_dcp_part *part)
{
	/* The search is quadratic: only the first entries are checked. */
	for (size_t i = 0; i < part->c->listing->n && i < 64; i++)
		must(find(c, ck_entry_names(part->c, i).key) >= 0);
}

/* Compares the number of boxes with that of all parts. */
static void boxes_check(const struct ck_catalog *c,
			const struct ck_dcp_part *parts, size_t n)
{
	/* Replicas have rows of their own for local/. */
	uint64_t has = c->chunks.n - c->own_chunks + (uint64_t)c->replicas.n;
	uint64_t had = 0;
	bool agree = true;

	for (uint32_t i = 0; i < c->tensors.n; i++)
		agree &= !ck_catalog_tensor(c, i)->err;
	for (uint32_t i = 0; i < c->objects.n; i++)
		agree &= !ck_catalog_object(c, i)->item.err;
	for (size_t i = 0; i < n; i++)
		had += parts[i].c->chunks.n;
	must(has <= had);
	must(!agree || has == had);
}

static void merge(struct ck_catalog *c, const struct ck_dcp_part *parts,
		  size_t n)
{
	struct ck_buf text = { 0 };
	struct ck_diag d = { 0 };

	int rc = ck_dcp_merge(c, parts, n);

	must(rc == 0 || rc == -EOVERFLOW);
	if (rc)
		return;
	boxes_check(c, parts, n);
	must(ck_catalog_finish(c, &d) == 0);
	for (size_t i = 0; i < n; i++)
		keys_check(c, &parts[i]);
	for (uint32_t i = 0; i < c->listing->n; i++)
		must(ck_catalog_find(c, ck_entry_names(c, i).stem) == i);
	ck_catalog_dump(c, &text);
	ck_buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct numbering all = { .c = ck_catalog_make("dcp") };
	struct ck_dcp_part parts[PARTS] = { 0 };
	size_t n = 0, at = 0;
	uint16_t len;

	must(all.c != NULL);
	for (uint64_t rank = 0; n < PARTS && size - at >= sizeof(len); rank++) {
		memcpy(&len, data + at, sizeof(len));
		at += sizeof(len);
		len = (uint16_t)ck_min((size_t)len, size - at);
		parts[n].rank = rank;
		if (part_read(&parts[n],
			      (struct ck_str){ (const char *)data + at, len },
			      &all))
			n++;
		else
			part_fini(&parts[n]);
		at += len;
	}
	if (n)
		merge(all.c, parts, n);
	for (size_t i = 0; i < n; i++)
		part_fini(&parts[i]);
	ck_catalog_put(all.c);
	return 0;
}
