/* SPDX-License-Identifier: MIT */
/*
 * Generations of a catalog are compared with plain arrays. Random edits are made to the current
 * generation, while old ones are held, released and read. Each generation must stay as it was
 * when it was made.
 */
#include "catalogs.h"
#include "tap.h"

#include <errno.h>

enum {
	TENSORS = 40,
	BOXES = 37, /* per tensor; does not divide the rows of a block */
	CHUNKS = TENSORS * BOXES,
	FILES = 200, /* at most */
	HELD = 5,
	STEPS = TAP_SLOW ? 1000 : 10000,
};

struct model {
	struct ck_item items[CHUNKS];
	bool replica[CHUNKS]; /* the box has a good replica */
	uint64_t versions[TENSORS];
	struct ck_attr files[FILES];
	uint32_t nfiles;
	mode_t meta;
};

struct pair {
	const struct ck_catalog *c; /* held, or NULL */
	struct model m;
};

/* --- comparison ----------------------------------------------------------------- */

static bool is_item(const struct ck_item *a, const struct ck_item *b)
{
	return a->fpos == b->fpos && a->length == b->length &&
	       a->file == b->file;
}

/* Mode: the r bits that all files of the tensor have. mtime: that of the newest file. */
static struct ck_attr attr_of(const struct model *m, uint32_t tensor)
{
	struct ck_attr attr = { .mode = m->meta & 0444 };

	for (uint32_t i = 0; i < BOXES; i++) {
		uint32_t file = m->items[tensor * BOXES + i].file;

		attr.mode &= m->files[file].mode;
		if (m->files[file].mtime.tv_sec > attr.mtime.tv_sec)
			attr.mtime = m->files[file].mtime;
	}
	return attr;
}

static bool has_replica(const struct ck_catalog *c, uint32_t chunk)
{
	uint32_t n, first = ck_catalog_replicas(c, chunk, 1, &n);
	bool has = false;

	for (uint32_t i = first; i < first + n; i++)
		has |= ck_catalog_replica(c, i)->item.file != CK_NO_FILE;
	return has;
}

static size_t wrong_in_tensor(const struct pair *p, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(p->c, tensor);
	struct ck_attr attr = attr_of(&p->m, tensor);
	size_t wrong = 0;

	for (uint32_t i = t->chunk; i < t->chunk + t->nchunks; i++)
		wrong += !is_item(ck_catalog_item(p->c, i), &p->m.items[i]) ||
			 has_replica(p->c, i) != p->m.replica[i];
	return wrong + (t->facts->version != p->m.versions[tensor]) +
	       (t->facts->mode != attr.mode) +
	       (t->facts->mtime.tv_sec != attr.mtime.tv_sec);
}

static size_t wrong_in(const struct pair *p)
{
	size_t wrong = p->c->files.n != p->m.nfiles;
	char name[32];

	for (uint32_t i = 0; i < TENSORS; i++)
		wrong += wrong_in_tensor(p, i);
	for (uint32_t i = 0; i < p->m.nfiles; i++) {
		const struct ck_data_file *file = ck_catalog_file(p->c, i);

		snprintf(name, sizeof(name), "__%u_0.distcp", i);
		wrong += file->attr.mode != p->m.files[i].mode ||
			 !ck_str_is(file->path, name);
	}
	return wrong;
}

/* --- edits --------------------------------------------------------------------- */

/* Moves some boxes to other locations. */
static int place_some(struct ck_catalog *next, struct model *m,
		      uint64_t *random)
{
	uint32_t tensor = (uint32_t)(tap_random(random) % TENSORS);
	uint32_t first = (uint32_t)(tap_random(random) % BOXES);
	uint32_t n = 1 + (uint32_t)(tap_random(random) % (BOXES - first));
	struct ck_edit edits[BOXES];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t chunk = tensor * BOXES + first + i;

		edits[i] = (struct ck_edit){
			.number = chunk,
			.item = { .fpos = tap_random(random),
				  .length = 10,
				  .file = (uint32_t)(tap_random(random) %
						     m->nfiles) },
		};
		m->items[chunk] = edits[i].item;
		m->replica[chunk] = false;
	}
	m->versions[tensor] = next->generation + 1;
	return ck_catalog_edit(next, edits, n, NULL);
}

static int add_file(struct ck_catalog *next, struct model *m)
{
	char name[32];
	struct ck_data_file file = {
		.size = 1000,
		.attr = { .mode = 0100644, .uid = 1, .gid = 2 },
	};

	if (m->nfiles == FILES)
		return 0;
	snprintf(name, sizeof(name), "__%u_0.distcp", m->nfiles);
	file.path = ck_str_from(name);
	file.attr.mtime.tv_sec = 1000 + m->nfiles;
	m->files[m->nfiles++] = file.attr;
	return ck_catalog_file_add(next, &file);
}

/* Changes the permissions of a file. */
static int change_file(struct ck_catalog *next, struct model *m,
		       uint64_t *random)
{
	uint32_t i = (uint32_t)(tap_random(random) % m->nfiles);
	struct ck_data_file file = *ck_catalog_file(next, i);
	int rc;

	file.attr.mode ^= 0044;
	m->files[i].mode = file.attr.mode;
	rc = ck_catalog_file_set(next, i, &file);
	return rc ? rc : ck_catalog_access_renew(next);
}

/* Makes the next generation of *present, by one edit. */
static void step(struct pair *present, uint64_t *random)
{
	struct ck_catalog *next = ck_catalog_next(present->c);
	uint64_t what = tap_random(random) % 10;

	if (!next)
		abort();
	if (what == 0)
		must(add_file(next, &present->m));
	else if (what == 1)
		must(change_file(next, &present->m, random));
	else
		must(place_some(next, &present->m, random));
	ck_catalog_put(present->c);
	present->c = next;
}

static void begin(struct pair *p)
{
	struct ck_catalog *c = catalog_new();
	char key[32];

	memset(p, 0, sizeof(*p));
	file_add(c, "__0_0.distcp", UINT64_MAX, 0);
	p->m.files[0] = ck_catalog_file(c, 0)->attr;
	p->m.nfiles = 1;
	p->m.meta = 0644;
	for (uint32_t t = 0; t < TENSORS; t++) {
		snprintf(key, sizeof(key), "t%u", t);
		tensor_add(c, key, "uint8", 1, DIMS(BOXES));
		for (int64_t i = 0; i < BOXES; i++) {
			uint32_t chunk = c->chunks.n;

			box_add(c, DIMS(i), DIMS(1));
			p->m.items[chunk] = *ck_catalog_item(c, chunk);
			p->m.replica[chunk] = chunk % 3 == 0;
			if (chunk % 3 == 0)
				must(ck_catalog_replica_add(
					c, ck_catalog_item(c, chunk)));
		}
	}
	finish(c);
	p->c = c;
}

/* Holds the current generation in place of an older one. */
static void hold(struct pair *held, const struct pair *present)
{
	ck_catalog_put(held->c);
	*held = *present;
	ck_catalog_hold(held->c);
}

static void test_model(void)
{
	static struct pair present, held[HELD];
	uint64_t random = tap_seed(11);
	size_t wrong;

	begin(&present);
	wrong = wrong_in(&present);
	for (unsigned i = 0; i < STEPS; i++) {
		step(&present, &random);
		if (i % 50 == 0)
			hold(&held[tap_random(&random) % HELD], &present);
		if (i % 20 == 0)
			wrong += wrong_in(&present);
		for (size_t k = 0; k < HELD && i % 100 == 0; k++)
			wrong += held[k].c ? wrong_in(&held[k]) : 0;
	}
	eq_u64(wrong, 0);
	/* The comparison detects a different generation. */
	ok(held[0].c && held[0].c != present.c);
	present.m = held[0].m;
	ok(wrong_in(&present) > 0);
	ck_catalog_put(present.c);
	for (size_t k = 0; k < HELD; k++) {
		if (held[k].c)
			wrong += wrong_in(&held[k]);
		ck_catalog_put(held[k].c);
	}
	eq_u64(wrong, 0);
}

/* --- unchanged rows ---------------------------------------------------------------- */

/* A generation that is dropped changes no other one, and files that could not be opened are
 * counted. */
static void test_given_up(void)
{
	static struct pair p;
	struct ck_data_file unseen = { .path = CK_STR("u"), .unseen = true };
	struct ck_catalog *next;
	uint64_t random = 3;
	static struct model m;

	begin(&p);
	m = p.m;
	next = ck_catalog_next(p.c);
	must(place_some(next, &p.m, &random));
	must(ck_catalog_file_add(next, &unseen));
	eq_u64(next->unseen, 1);
	unseen.unseen = false;
	must(ck_catalog_file_set(next, next->files.n - 1, &unseen));
	eq_u64(next->unseen, 0);
	ok(ck_str_is(ck_catalog_file(next, next->files.n - 1)->path, "u"));
	ck_catalog_put(next);
	p.m = m;
	eq_u64(wrong_in(&p), 0);
	ck_catalog_put(p.c);
}

/* A change of permissions replaces only the rows that show it. */
static void test_rows_stay(void)
{
	static struct pair p;
	struct ck_data_file file;
	struct ck_catalog *next;
	uint64_t random = 5;
	size_t moved = 0;

	begin(&p);
	next = ck_catalog_next(p.c);
	must(add_file(next, &p.m));
	p.m.nfiles = 2;
	must(place_some(next, &p.m, &random));
	ck_catalog_put(p.c);
	p.c = next;
	next = ck_catalog_next(p.c);
	file = *ck_catalog_file(next, 1);
	file.attr.mode ^= 0044;
	must(ck_catalog_file_set(next, 1, &file));
	must(ck_catalog_access_renew(next));
	for (uint32_t i = 0; i < TENSORS; i++)
		moved += ck_catalog_tensor(next, i) !=
			 ck_catalog_tensor(p.c, i);
	ok(moved > 0 && moved <= 8); /* rows are copied by blocks */
	ck_catalog_put(next);
	ck_catalog_put(p.c);
}

int main(void)
{
	test_model();
	test_given_up();
	test_rows_stay();
	return tap_done();
}
