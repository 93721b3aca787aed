/* SPDX-License-Identifier: MIT */
/*
 * serve_rank: `ckptfs serve` under an external launcher. Each rank sends a
 * record to all others (rank_table.h), all validate the same table, and ranks
 * with a mount start it. No threads of its own.
 */
#include "serve_rank.h"
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>

/* --- options -------------------------------------------------------------- */

/* Returns an option that selects hosts or starts ranks, which the launcher has
 * done; or NULL. */
static const char *misplaced(const struct ck_hosts_options *o)
{
	const struct {
		const char *name;
		bool given;
	} list[] = {
		{ "hosts", o->list.n },	     { "hostfile", o->hostfile },
		{ "map", o->list.nmaps },    { "agent", o->agent },
		{ "program", o->program },   { "net", o->net },
		{ "allhosts", o->allhosts }, { "rejoin", o->rejoin },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(list); i++)
		if (list[i].given)
			return list[i].name;
	return NULL;
}

/* The options of several hosts apply, also if the launcher has started a single
 * rank. */
static int check(struct ck_mount_options *o, struct ck_diag *d)
{
	const char *name = misplaced(&o->hosts);
	int rc;

	if (name)
		return ck_fail(d, EINVAL,
			       "serve: option %s: not here; the launcher says "
			       "where ranks run, and how",
			       name);
	rc = ck_host_list_add(&o->hosts.list, "localhost", ',', d);
	return rc ? rc : ck_options_check(o, d);
}

int ck_serve_rank_parse(struct ck_serve_rank *l)
{
	struct ck_diag d = { 0 };
	int rc = 0;

	for (size_t i = 0; i < l->ntexts && rc == 0; i++)
		rc = ck_options_parse(&l->options, l->texts[i], &d);
	if (rc == 0)
		rc = check(&l->options, &d);
	if (rc == 0 && ck_gpu_choice_has_rounds(&l->options.gpu)) {
		ck_gpu_choice_text(&l->options.gpu, l->devices);
		l->options.hosts.nccl = l->devices;
	}
	return rc ? ck_trouble("%s", d.text) : CK_EXIT_FINE;
}

/* --- the mount ------------------------------------------------------------ */

/* Long options as text for -o. A launcher that kills all ranks also ends the
 * mount. */
static char *long_text(const struct ck_hosts_options *o)
{
	static const char *const replicas[] = {
		[CK_REPLICAS_SAMPLE] = "sample",
		[CK_REPLICAS_FULL] = "full",
		[CK_REPLICAS_FIRST] = "first",
	};
	char *text;
	int n = asprintf(&text, "auto_unmount,replicas=%s%s%s",
			 replicas[o->replicas], o->prefer ? ",prefer=" : "",
			 o->prefer ? o->prefer : "");

	return n < 0 ? NULL : text;
}

static int start_mount(struct ck_serve_rank *l,
		       const struct ck_rank_table *roster, uint32_t rank)
{
	static char option[] = "-o";
	ck_auto_free char *text = long_text(&l->options.hosts);
	ck_auto_free char **words = calloc(2 * l->ntexts + 3, sizeof(*words));
	struct ck_diag d = { 0 };
	size_t n = 0;

	if (!text || !words)
		return ck_trouble("serve: out of memory");
	for (size_t i = 0; i < l->ntexts; i++) {
		words[n++] = option;
		words[n++] = l->texts[i];
	}
	words[n++] = option;
	words[n] = text;
	if (ck_rank_mount_start(roster, rank, words, l->place,
				l->options.hosts.nccl != NULL, &l->mount, &d))
		return ck_trouble("serve: %s", d.text);
	return CK_EXIT_FINE;
}

/* --- all ranks ------------------------------------------------------------ */

static int gather(struct ck_serve_rank *l, struct ck_transport *x,
		  const char *source, uint8_t *all, struct ck_diag *d)
{
	ck_auto_free uint8_t *own = malloc(CK_RANK_TABLE_RECORD);
	int rc = own ? ck_rank_table_encode_own(source, l->place, own, d)
		     : ck_fail(d, ENOMEM, "out of memory");

	if (rc)
		return rc;
	rc = x->gather ? x->gather(x, own, CK_RANK_TABLE_RECORD, all) : -ENOSYS;
	return rc ? ck_fail(d, -rc, "the ranks cannot speak to each other: %s",
			    strerror(-rc))
		  : 0;
}

static int begin(struct ck_serve_rank *l, const struct ck_rank_table *roster,
		 struct ck_serve_options *serve)
{
	uint32_t rank = serve->xport->rank;
	int rc = CK_EXIT_FINE;

	l->mounts = calloc(roster->n, sizeof(*l->mounts));
	if (!l->mounts)
		return ck_trouble("serve: out of memory");
	for (uint32_t i = 0; i < roster->n; i++)
		l->mounts[i] = roster->ranks[i].mounts;
	if (l->mounts[rank])
		rc = start_mount(l, roster, rank);
	serve->link = l->mount.link_fds.sock;
	serve->memory = l->mount.link_fds.memory;
	serve->size = l->mount.link_fds.size;
	serve->mounts = l->mounts;
	serve->until = l->survive ? CK_UNTIL_TOLD : CK_UNTIL_LOST;
	return rc;
}

/* All ranks find the same errors in the table; only the first one prints
 * them. */
int ck_serve_rank_meet(struct ck_serve_rank *l, const char *source,
		       struct ck_serve_options *serve)
{
	struct ck_transport *x = serve->xport;
	ck_auto_free uint8_t *all = calloc(x->size, CK_RANK_TABLE_RECORD);
	struct ck_rank_table roster = { 0 };
	struct ck_diag d = { 0 };
	int rc;

	if (!all)
		return ck_trouble("serve: out of memory");
	if (gather(l, x, source, all, &d))
		return ck_trouble("serve: %s", d.text);
	rc = ck_rank_table_read(all, x->size, &roster, &d);
	if (rc == 0)
		rc = begin(l, &roster, serve);
	else
		rc = x->rank ? CK_EXIT_TROUBLE
			     : ck_trouble("serve: %s", d.text);
	ck_rank_table_fini(&roster);
	return rc;
}

/* --- end ------------------------------------------------------------------ */

int ck_serve_rank_end(struct ck_serve_rank *l)
{
	int rc = ck_rank_mount_end(&l->mount);

	if (rc == -ECHILD)
		return ck_trouble("serve: %s: the mount has died of signal %d",
				  ck_show(ck_str_from(l->place)),
				  WTERMSIG(l->mount.job.status));
	return rc ? CK_EXIT_TROUBLE : CK_EXIT_FINE;
}

void ck_serve_rank_fini(struct ck_serve_rank *l)
{
	ck_options_fini(&l->options);
	free(l->mounts);
	free(l->texts);
}
