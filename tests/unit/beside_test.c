/* SPDX-License-Identifier: MIT */
/*
 * Readers concurrent with changes of the current catalog. A reader that holds a catalog gets
 * layouts of that catalog's version, never of the version before or after, and its catalog
 * stays unchanged. Modes of files change at the same time.
 *
 *	beside_test DIRECTORY	a checkpoint of some shards
 */
#include "commit_again.h"
#include "format/current/current.h"
#include "format/current/layout_internal.h"
#include "shell.h"
#include "tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READERS = 3, ROUNDS = TAP_SLOW ? 4000 : 40000 };

static char dir[] = "/tmp/ckptfs-beside-XXXXXX";
static struct ck_checkpoint *cp;
static atomic_bool ended;
static atomic_uint begun; /* readers that have checked a tensor once */

static uint32_t tensors(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	return c->tensors.n;
}

/* --- changes ------------------------------------------------------------------- */

/* A permission of the directory is removed, or restored. */
static void change_mode(unsigned round)
{
	int err;

	if (chmod(dir, round % 2 ? 0755 : 0711))
		abort();
	if (ck_checkpoint_fate(cp, &err) != CK_FATE_NONE ||
	    ck_checkpoint_renew_access(cp, (struct ck_items){ .n = 0 }))
		abort();
}

/* --- readers --------------------------------------------------------------------- */

struct reader {
	uint64_t random;
	size_t wrong, looked;
};

static bool is_same(const struct ck_tensor *a, const struct ck_tensor *b)
{
	return a->facts->version == b->facts->version &&
	       a->facts->mode == b->facts->mode && a->nbytes == b->nbytes;
}

static void look(struct reader *r)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	uint32_t tensor = (uint32_t)(tap_random(&r->random) % c->tensors.n);
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	struct ck_tensor was = *t;
	uint64_t window[2 * CK_MAX_DIMS] = { 0 };
	const struct ck_layout *layout;
	bool whole = tap_random(&r->random) % 2 || t->err || t->ndim == 0;

	if (!whole)
		memcpy(window + t->ndim, t->shape, t->ndim * sizeof(*window));
	if (ck_layout_get(cp, c, tensor, whole ? NULL : window, &layout))
		abort();
	r->wrong += layout->version != was.facts->version || layout->faulty;
	ck_layout_put(cp, layout);
	layout = ck_layout_known(cp, c, tensor);
	r->wrong += layout && layout->version != was.facts->version;
	ck_layout_put(cp, layout);
	r->wrong += !is_same(t, &was);
	r->looked++;
}

static void *read_all(void *arg)
{
	look(arg);
	atomic_fetch_add(&begun, 1);
	while (!atomic_load(&ended))
		look(arg);
	return NULL;
}

static void test_beside(void)
{
	struct reader readers[READERS];
	pthread_t threads[READERS];
	size_t wrong = 0, commits = 0;
	uint32_t n = tensors();

	for (size_t i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ .random = i + 1 };
		pthread_create(&threads[i], NULL, read_all, &readers[i]);
	}
	while (atomic_load(&begun) < READERS)
		usleep(1000);
	for (unsigned round = 0; round < ROUNDS; round++) {
		commits += commit_again(cp, round % 3 ? 0 : round % n);
		if (round % 16 == 0)
			change_mode(round / 16);
	}
	atomic_store(&ended, true);
	for (size_t i = 0; i < READERS; i++) {
		pthread_join(threads[i], NULL);
		wrong += readers[i].wrong;
		ok(readers[i].looked > 0);
	}
	eq_u64(wrong, 0);
	ok(commits > ROUNDS / 2);
}

/* --- single cases -------------------------------------------------------------- */

/* A reader with a catalog from before a commit gets the layout of that version. The layout
 * of the current version stays cached for other readers. */
static void test_old_version(void)
{
	ck_auto_catalog *old = ck_checkpoint_catalog(cp);
	const struct ck_layout *before, *present, *again;

	eq_err(ck_layout_get(cp, old, 0, NULL, &before), 0);
	ok(commit_again(cp, 0));
	{
		ck_auto_catalog *now = ck_checkpoint_catalog(cp);

		ok(now != old);
		ok(!ck_layout_known(cp, now, 0));
		eq_err(ck_layout_get(cp, now, 0, NULL, &present), 0);
		eq_u64(present->version, now->generation);
		ok(present->version > before->version);
		eq_err(ck_layout_get(cp, old, 0, NULL, &again), 0);
		eq_u64(again->version, before->version);
		ok(again != present);
		ok(!ck_layout_known(cp, old, 0));
		ck_layout_put(cp, again);
		eq_err(ck_layout_get(cp, now, 0, NULL, &again), 0);
		ok(again == present);
	}
	ck_layout_put(cp, again);
	ck_layout_put(cp, present);
	ck_layout_put(cp, before);
}

/* A commit publishes its catalog before it invalidates the old layouts. A reader between
 * these two steps must not get an old layout. */
static void test_moment(void)
{
	ck_auto_catalog *old = ck_checkpoint_catalog(cp);
	struct ck_change_of_place change;
	const struct ck_layout *before, *layout, *again;
	struct ck_catalog *next;

	eq_err(ck_layout_get(cp, old, 0, NULL, &before), 0);
	ok(place_of(old, 0, &change));
	eq_err(ck_checkpoint_prepare(cp, &change, 1, &next), 0);
	pthread_mutex_lock(&cp->changing);
	ck_checkpoint_publish(cp, next, NULL);
	pthread_mutex_unlock(&cp->changing);
	eq_err(ck_layout_get(cp, next, 0, NULL, &layout), 0);
	eq_u64(layout->version, old->generation + 1);
	ck_layouts_forget(cp, 0);
	again = ck_layout_known(cp, next, 0);
	ok(again == layout);
	ck_layout_put(cp, again);
	ck_layout_put(cp, layout);
	ck_layout_put(cp, before);
}

/* A file named by an aborted commit has no owner (ENODATA) until another commit names it. */
static void test_file_in_vain(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_change_of_place change = { .path = CK_STR("__7_0.distcp") };
	struct ck_catalog *next;
	uint32_t number = c->files.n;

	shell("cp %s/.metadata %s/__7_0.distcp", dir, dir);
	eq_err(ck_checkpoint_prepare(cp, &change, 1, &next), 0);
	eq_u64(ck_catalog_item(next, 0)->file, number);
	eq_i64(ck_catalog_file(next, number)->err, 0);
	ck_catalog_put(next);
	ok(commit_again(cp, 1));
	{
		ck_auto_catalog *now = ck_checkpoint_catalog(cp);

		eq_u64(now->files.n, number + 1);
		eq_i64(ck_catalog_file(now, number)->err, ENODATA);
	}
	change.path = CK_STR("__8_0.distcp");
	shell("cp %s/.metadata %s/__8_0.distcp", dir, dir);
	eq_err(ck_checkpoint_prepare(cp, &change, 1, &next), 0);
	ck_catalog_put(next);
	eq_err(ck_checkpoint_prepare(cp, &change, 1, &next), 0);
	eq_i64(ck_catalog_file(next, number + 1)->err, 0);
	ck_catalog_put(next);
}

/* A prepared catalog that is dropped leaves no trace. A commit keeps changes of modes that
 * were detected after its preparation. */
static void test_prepared(void)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct stat metadata = ck_checkpoint_metadata(cp);
	struct ck_change_of_place change;
	struct ck_catalog *next;
	mode_t mode;

	ok(place_of(c, 0, &change));
	eq_err(ck_checkpoint_prepare(cp, &change, 1, &next), 0);
	ck_catalog_put(next);
	{
		ck_auto_catalog *now = ck_checkpoint_catalog(cp);

		ok(now == c);
	}
	eq_err(ck_checkpoint_prepare(cp, &change, 1, &next), 0);
	mode = ck_catalog_tensor(c, 0)->facts->mode;
	change_mode(c->dir_mode & 044 ? 0 : 1);
	ck_catalog_hold(next);
	ck_checkpoint_switch(cp, next, &metadata, &change, 1);
	{
		ck_auto_catalog *now = ck_checkpoint_catalog(cp);

		ok(ck_catalog_tensor(now, 0)->facts->mode != mode);
		/* No reader has seen the old mode after the new one. */
		ok(now == next);
		/* A change of modes does not advance the generation. */
		eq_u64(now->generation, c->generation + 1);
		eq_u64(ck_catalog_tensor(now, 0)->facts->version,
		       now->generation);
		eq_u64(ck_catalog_tensor(c, 0)->facts->mode, mode);
	}
	ck_catalog_put(next);
}

/* A commit could not open its new file. The checkpoint must not wait for that file. */
static void test_unseen_in_vain(void)
{
	struct ck_change_of_place change = { .path = CK_STR("__9_0.distcp") };
	struct ck_catalog *next;
	struct rlimit limit, none;

	shell("cp %s/.metadata %s/__9_0.distcp", dir, dir);
	getrlimit(RLIMIT_NOFILE, &limit);
	none = (struct rlimit){ .rlim_cur = 3, .rlim_max = limit.rlim_max };
	setrlimit(RLIMIT_NOFILE, &none);
	ok(ck_checkpoint_prepare(cp, &change, 1, &next) != 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	ok(commit_again(cp, 1));
	ok(ck_checkpoint_is_seen(cp));
}

int main(int argc, char **argv)
{
	static const struct ck_format_options options = { .write = true };

	if (argc != 2)
		return 2;
	if (!mkdtemp(dir))
		return 1;
	shell("cp -r %s/. %s", argv[1], dir);
	if (ck_checkpoint_open(dir, &options, &cp, NULL))
		return 1;
	test_old_version();
	test_moment();
	test_prepared();
	test_file_in_vain();
	test_unseen_in_vain();
	test_beside();
	ck_checkpoint_close(cp);
	shell("rm -r %s", dir);
	return tap_done();
}
