/* SPDX-License-Identifier: MIT */
/* What a read of files here and elsewhere adds to the counters. */
#include "answerer.h"
#include "rows.h"

enum { ODD = 0xa, HERE = ROWS_BYTES / 2 };

static struct answerer answerer;

static struct ck_stats *stats;

static uint64_t waits(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CK_STATS_WAITS; i++)
		sum += stats->waits[i];
	return sum;
}

static int read_all(struct world *w, struct ck_open_slice *o,
		    struct ck_route *route)
{
	uint8_t to[ROWS_BYTES];
	struct ck_read r = { .from = o, .len = ROWS_BYTES, .to = to };
	int rc = ck_host_read(w->files, &r);

	return rc == -EREMOTE ? ck_io_read(route, &r) : rc;
}

/* Rows of odd numbers are elsewhere; of the others half are to be left. */
static void test_rows(bool mapped, bool copied)
{
	struct world *w = rows_make(ODD, false);
	struct headers headers;
	struct ck_route route;
	struct ck_open_slice *o;

	stats = ck_stats_make(1);
	if (!stats)
		abort();
	ck_files_set_stats(w->files, stats);
	ck_files_map_most(w->files, mapped ? BIG_BYTES : 0);
	if (copied)
		ck_files_set_copied(w->files, 2);
	o = headers_open(&headers, w, w->files, 0);
	ck_route_init(&route, w->files, &answerer.backend);
	eq_err(read_all(w, o, &route), 0);
	eq_u64(stats->hosts[0].file_bytes, HERE);
	eq_u64(stats->copies, 0);
	eq_u64(waits(), 1);
	ok(!ck_files_has_failed_over(w->files, 2));

	write_file(2, 10);
	eq_err(read_all(w, o, &route), copied ? 0 : -ESTALE);
	eq_u64(stats->copies, copied ? 2 : 0);
	ok(ck_files_has_failed_over(w->files, 2) == copied);
	ok(!ck_files_has_failed_over(w->files, 0) &&
	   !ck_files_has_failed_over(w->files, 1));
	ok(!ck_files_has_failed_over(w->files, CK_NO_FILE));
	eq_u64(stats->hosts[0].file_bytes, copied ? HERE + HERE / 2 : HERE);

	ck_route_fini(&route);
	ck_open_slice_free(o);
	rows_free(w);
	free(stats);
	write_file(2, FILE_BYTES);
}

int main(void)
{
	if (!world_begin())
		return 2;
	answerer_begin(&answerer);
	for (unsigned how = 0; how < 4; how++)
		test_rows(how & 1, how & 2);
	answerer_end(&answerer);
	return world_end();
}
