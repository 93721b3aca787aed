/* SPDX-License-Identifier: MIT */
/*
 * hosts_files: which host every data file is read on. All hosts are asked for all files
 * at once; what is here is read here, and of several others that have a file the one
 * with the least to serve is taken: every host that asks and has no copy itself comes to
 * the same.
 */
#include "hosts_internal.h"

#include <errno.h>

/* What all hosts said of all files. */
struct gathered {
	struct ck_ids shown;
	struct ck_str *names; /* that can be asked for, n */
	uint32_t *numbers;    /* of them, in the ck_files */
	size_t n;
	struct ck_looked *
		*said;	 /* by host, n each; NULL: it has said nothing */
	uint64_t *loads; /* by host: bytes of files that are its */
};

/* --- asking ----------------------------------------------------------------------------- */

/* A name that is longer than may be asked for is nowhere else. */
static int names_take(struct gathered *g, const struct ck_files *files)
{
	uint32_t n = ck_files_count(files);

	g->names = calloc(n + 1UL, sizeof(*g->names));
	g->numbers = calloc(n + 1UL, sizeof(*g->numbers));
	if (!g->names || !g->numbers)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct ck_str path = ck_files_info(files, i)->path;

		if (path.len > CK_WIRE_NAME_MAX)
			continue;
		g->names[g->n] = path;
		g->numbers[g->n++] = i;
	}
	return 0;
}

/* -ENODATA: it does not have the directory. */
static int ask(struct ck_hosts_task *t)
{
	struct gathered *g = t->arg;
	struct ck_looked *said = calloc(g->n + 1, sizeof(*said));
	int rc = said ? 0 : -ENOMEM;

	if (rc == 0)
		rc = ck_calls_look(t->hosts->calls, t->host->rank, g->shown,
				   g->names, g->n, said);
	if (rc == 0)
		g->said[t->index] = said;
	else
		free(said);
	return rc == -ENODATA ? 0 : rc;
}

static int gather(struct ck_hosts *h, const struct ck_files *files,
		  struct gathered *g, struct ck_diag *d)
{
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));
	int rc;

	g->said = calloc(h->n, sizeof(*g->said));
	g->loads = calloc(h->n, sizeof(*g->loads));
	rc = tasks && g->said && g->loads ? names_take(g, files) : -ENOMEM;
	if (rc == 0)
		rc = ck_hosts_each(h, 1, ask, g, tasks);
	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	for (uint32_t i = 1; i < h->n; i++)
		if (h->hosts[i].there && tasks[i].rc)
			return ck_fail(d, -tasks[i].rc, "%s: %s",
				       h->hosts[i].name,
				       strerror(-tasks[i].rc));
	return 0;
}

static void gathered_fini(struct gathered *g, uint32_t nhosts)
{
	for (uint32_t i = 0; g->said && i < nhosts; i++)
		free(g->said[i]);
	free(g->said);
	free(g->loads);
	free(g->names);
	free(g->numbers);
}

/* --- choosing ----------------------------------------------------------------------------- */

static bool is_usable(const struct ck_looked *l)
{
	return l->seen && !l->info.err;
}

static bool is_here(const struct ck_files *files, uint32_t number)
{
	return ck_files_is_seen(files, number) &&
	       !ck_files_info(files, number)->err;
}

/* 0: none of the others. */
static uint32_t host_of(const struct ck_hosts *h, const struct gathered *g,
			size_t i)
{
	uint32_t best = 0;

	for (uint32_t host = 1; host < h->n; host++)
		if (g->said[host] && is_usable(&g->said[host][i]) &&
		    (!best || g->loads[host] < g->loads[best]))
			best = host;
	return best;
}

/* What is to be said of a file that nobody can use: what is wrong with the copy of some
 * host, or that a host may have it which is away. False: what is known here stands. */
static bool is_at_fault(const struct ck_hosts *h, const struct gathered *g,
			size_t i, struct ck_file_info *out)
{
	for (uint32_t host = 1; host < h->n; host++) {
		const struct ck_looked *l = g->said[host] ? &g->said[host][i]
							  : NULL;

		if (l && l->trouble) {
			*out = (struct ck_file_info){ .err = l->trouble };
			return true;
		}
		if (!h->hosts[host].there) {
			*out = (struct ck_file_info){
				.err = EIO, .why = ck_file_why_away()
			};
			return true;
		}
	}
	return false;
}

static void settle(struct ck_hosts *h, struct gathered *g, size_t i,
		   struct ck_files *files)
{
	uint32_t number = g->numbers[i], host = host_of(h, g, i);
	const struct ck_looked *l = host ? &g->said[host][i] : NULL;
	struct ck_file_info fault;

	if (l) {
		h->files[number] = (struct ck_whereabouts){
			.peer = h->hosts[host].rank, .number = l->number
		};
		g->loads[host] += l->info.size;
		ck_files_set_remote(files, number, &l->info);
	} else if (is_at_fault(h, g, i, &fault)) {
		ck_files_set_remote(files, number, &fault);
	}
}

int ck_hosts_files(struct ck_elsewhere *e, struct ck_files *files,
		   struct ck_ids shown, struct ck_diag *d)
{
	struct ck_hosts *h = (struct ck_hosts *)e;
	struct gathered g = { .shown = shown };
	int rc = gather(h, files, &g, d);

	h->nfiles = ck_files_count(files);
	h->files = calloc(h->nfiles + 1UL, sizeof(*h->files));
	if (rc == 0 && !h->files)
		rc = ck_fail(d, ENOMEM, "out of memory");
	for (size_t i = 0; rc == 0 && i < g.n; i++)
		if (!is_here(files, g.numbers[i]))
			settle(h, &g, i, files);
	if (rc == 0) {
		h->set = files;
		h->shown = shown;
		h->requester.files = h->files;
		h->requester.n = h->nfiles;
		ck_hosts_note_states(h);
		if (h->let_wait)
			ck_files_set_reader(files, &h->reader);
		rc = ck_hosts_hearing_make(h);
	}
	gathered_fini(&g, h->n);
	return rc;
}
