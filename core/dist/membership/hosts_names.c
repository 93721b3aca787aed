/* SPDX-License-Identifier: MIT */
/*
 * hosts_names: lists the directories of all hosts, for checkpoints without
 * metadata, tests the first bytes of files, and reads ranges that the parser
 * has requested. Hosts are queried in parallel, one process of each host, in a
 * thread of its own. The opening thread blocks until all have ended.
 */
#include "hosts_internal.h"

#include <dirent.h>
#include <errno.h>

/* Of one host; a directory with more is not a checkpoint. */
enum { NAMES_MOST = 4 << 20 };

/* --- passes --------------------------------------------------------------- */

/* Returns true for the first process of its host that is up; the others have
 * the same files. */
static bool is_speaker(const struct ck_hosts_task *t)
{
	const struct ck_hosts_host *hosts = t->hosts->hosts;

	for (uint32_t i = t->index; hosts[i].again && i > 0; i--)
		if (hosts[i - 1].there)
			return false;
	return true;
}

/* Runs a pass, and again if a process went down: another one of its host may be
 * up. */
static int ask_all(struct ck_hosts *h, int (*run)(struct ck_hosts_task *t),
		   void *arg, struct ck_hosts_task *tasks)
{
	uint32_t there;
	int rc;

	do {
		there = ck_hosts_count_up(h);
		rc = ck_hosts_each(h, run, arg, tasks);
	} while (rc == 0 && h->hosts[0].there && ck_hosts_count_up(h) < there);
	return rc;
}

static int fail(const struct ck_hosts_host *host, int rc, struct ck_diag *d)
{
	const char *what =
		rc == -E2BIG ? "there are more names than can be asked for"
			     : strerror(-rc);

	if (!d)
		ck_log("%s: %s", host->name, what);
	return ck_fail(d, -rc, "%s: %s", host->name, what);
}

/* --- names ---------------------------------------------------------------- */

/* The names of one host. */
struct names {
	struct ck_remote_source_name *list;
	size_t n, cap;
	struct ck_arena text;
	/* Of the last page: */
	uint64_t next;
	bool more;
};

static void names_fini(struct names *names)
{
	free(names->list);
	ck_arena_fini(&names->text);
	*names = (struct names){ 0 };
}

static const unsigned char types[] = {
	[CK_WIRE_FILE] = DT_REG,
	[CK_WIRE_DIRECTORY] = DT_DIR,
	[CK_WIRE_LINK] = DT_LNK,
	[CK_WIRE_OTHER] = DT_UNKNOWN,
};

static int name_add(struct names *to, struct ck_str name, unsigned char type)
{
	struct ck_remote_source_name *list = ck_grow(to->list, &to->cap, to->n,
						     1, sizeof(*list));
	const char *text = ck_arena_copy(&to->text, name).p;

	if (list)
		to->list = list;
	if (!list || !text)
		return -ENOMEM;
	list[to->n++] = (struct ck_remote_source_name){ text, type };
	return to->n > NAMES_MOST ? -E2BIG : 0;
}

static int page_take(const struct ck_query *a, const struct ck_message *m,
		     void *arg)
{
	struct names *to = arg;
	struct ck_page_row row;
	struct ck_page page;
	int rc = ck_reply_list(a, m, &page);

	if (rc)
		return rc;
	while (rc == 0 && ck_page_next(&page, &row))
		rc = name_add(to, row.name, types[row.kind]);
	to->next = page.next;
	to->more = page.more;
	return rc;
}

/* A host without the directory has no names. */
static int names_ask(struct ck_hosts_task *t)
{
	struct names *to = (struct names *)t->arg + t->index;
	int rc = 0;

	names_fini(to);
	if (!is_speaker(t))
		return 0;
	do {
		struct ck_query query = { 0 };

		rc = ck_query_list(&query, CK_STR(""), to->next);
		if (rc)
			break;
		rc = ck_calls_wait(t->hosts->calls, t->index, &query, page_take,
				   to);
		ck_query_fini(&query);
	} while (rc == 0 && to->more);
	return rc == -ENODATA || rc == -ENOENT ? 0 : rc;
}

/* Natural order is equal for some names that differ; these are ordered by
 * bytes. */
static int name_cmp(const void *a, const void *b)
{
	const struct ck_remote_source_name *x = a, *y = b;
	int order = ck_str_natural_cmp(ck_str_from(x->name),
				       ck_str_from(y->name));

	return order ? order : strcmp(x->name, y->name);
}

/* Merges the names of all hosts, each once. A regular file wins over other
 * types of the name. */
static int names_join(struct ck_hosts *h, const struct names *of)
{
	struct names all = { 0 };
	size_t kept = 0;
	int rc = 0;

	for (uint32_t i = 0; i < h->n; i++)
		for (size_t k = 0; k < of[i].n && h->hosts[i].there && !rc; k++)
			rc = name_add(&all, ck_str_from(of[i].list[k].name),
				      of[i].list[k].type);
	if (all.n)
		qsort(all.list, all.n, sizeof(*all.list), name_cmp);
	for (size_t i = 0; i < all.n; i++) {
		if (kept == 0 ||
		    strcmp(all.list[kept - 1].name, all.list[i].name) != 0)
			all.list[kept++] = all.list[i];
		else if (all.list[i].type == DT_REG)
			all.list[kept - 1].type = DT_REG;
	}
	h->names.list = all.list;
	h->names.n = kept;
	h->names.text = all.text;
	h->names.known = rc == 0;
	return rc;
}

static int rc_of(const struct ck_hosts *h, const struct ck_hosts_task *tasks,
		 struct ck_diag *d)
{
	if (!h->hosts[0].there)
		return ck_fail(d, EIO, "%s: its process has ended",
			       h->hosts[0].name);
	for (uint32_t i = 0; i < h->n; i++)
		if (h->hosts[i].there && tasks[i].rc)
			return fail(&h->hosts[i], tasks[i].rc, d);
	return 0;
}

static int names_find(struct ck_hosts *h, struct names *of,
		      struct ck_hosts_task *tasks, struct ck_diag *d)
{
	int rc = ask_all(h, names_ask, of, tasks);

	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	rc = rc_of(h, tasks, d);
	if (rc)
		return rc;
	rc = names_join(h, of);
	return rc ? ck_fail(d, -rc, "hosts: %s", strerror(-rc)) : 0;
}

int ck_hosts_list(struct ck_remote_source *e,
		  const struct ck_remote_source_name **list, size_t *n,
		  struct ck_diag *d)
{
	struct ck_hosts *h = (struct ck_hosts *)e;
	int rc = 0;

	if (!h->names.known) {
		struct names *of = calloc(h->n, sizeof(*of));
		ck_auto_free struct ck_hosts_task *tasks =
			calloc(h->n, sizeof(*tasks));

		ck_hosts_names_fini(h);
		rc = of && tasks ? names_find(h, of, tasks, d)
				 : ck_fail(d, ENOMEM, "out of memory");
		for (uint32_t i = 0; of && i < h->n; i++)
			names_fini(&of[i]);
		free(of);
	}
	*list = h->names.list;
	*n = h->names.n;
	return rc;
}

void ck_hosts_names_fini(struct ck_hosts *h)
{
	free(h->names.list);
	ck_arena_fini(&h->names.text);
	h->names = (struct ck_hosts_names){ 0 };
}

/* --- first bytes ---------------------------------------------------------- */

struct beginning {
	const struct ck_str *names;
	size_t n;
	bool (*is)(const uint8_t *head, size_t len);
	bool *out; /* atomic, each; set to true for a match */
};

/* The first bytes of the files of one host. */
struct heads {
	struct ck_name_stat *stat;
	struct ck_location *files;
	struct ck_copy_desc *descs;
	uint8_t (*bytes)[CK_REMOTE_SOURCE_HEAD];
};

static void heads_fini(struct heads *h)
{
	free(h->stat);
	free(h->files);
	free(h->descs);
	free(h->bytes);
}

/* Makes descriptors for the first bytes; `file` is the index of the name. */
static size_t moves_make(struct heads *h, uint32_t peer, size_t n)
{
	size_t descs = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ck_name_stat *l = &h->stat[i];

		h->files[i] = (struct ck_location){ peer, l->number };
		if (l->seen && !l->info.err && l->info.size)
			h->descs[descs++] = (struct ck_copy_desc){
				.file = (uint32_t)i,
				.run = ck_min(l->info.size,
					      (uint64_t)CK_REMOTE_SOURCE_HEAD),
				.to = h->bytes[i],
			};
	}
	return descs;
}

/* Reads and tests the first bytes. A file that cannot be read may match: it is
 * reported as damaged and not as missing. */
static void heads_bring(struct ck_hosts_task *t, struct heads *h)
{
	const struct beginning *b = t->arg;
	size_t n = moves_make(h, t->index, b->n);
	struct ck_remote_client requester;
	bool is_up;

	ck_remote_client_init(&requester,
			      &(struct ck_routes){ .calls = t->hosts->calls,
						   .files = h->files,
						   .n = (uint32_t)b->n });
	ck_hosts_read_batch(&requester, h->descs, n);
	ck_remote_client_fini(&requester);
	is_up = ck_calls_is_up(t->hosts->calls, t->index);
	for (size_t i = 0; i < n; i++) {
		const struct ck_copy_desc *m = &h->descs[i];

		if (m->rc ? is_up : b->is(m->to, (size_t)m->run))
			__atomic_store_n(&b->out[m->file], true,
					 __ATOMIC_RELAXED);
	}
}

/* A link that is not followed may match, so that its error is reported. */
static void links_take(const struct beginning *b,
		       const struct ck_name_stat *stat)
{
	for (size_t i = 0; i < b->n; i++)
		if (stat[i].seen && ck_file_is_link(&stat[i].info))
			__atomic_store_n(&b->out[i], true, __ATOMIC_RELAXED);
}

static int begins_ask(struct ck_hosts_task *t)
{
	const struct beginning *b = t->arg;
	struct heads h = { calloc(b->n + 1, sizeof(*h.stat)),
			   calloc(b->n + 1, sizeof(*h.files)),
			   calloc(b->n + 1, sizeof(*h.descs)),
			   calloc(b->n + 1, sizeof(*h.bytes)) };
	int rc = h.stat && h.files && h.descs && h.bytes ? 0 : -ENOMEM;

	if (rc == 0 && is_speaker(t)) {
		rc = ck_calls_stat(t->hosts->calls, t->index,
				   (struct ck_ids){ 0, 0 }, b->names, b->n,
				   h.stat);
		if (rc == 0) {
			links_take(b, h.stat);
			heads_bring(t, &h);
		}
	}
	heads_fini(&h);
	return rc == -ENODATA ? 0 : rc;
}

int ck_hosts_begins(struct ck_remote_source *e, const struct ck_str *names,
		    size_t n, bool (*is)(const uint8_t *head, size_t len),
		    bool *out, struct ck_diag *d)
{
	struct ck_hosts *h = (struct ck_hosts *)e;
	struct beginning b = { names, n, is, out };
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));
	int rc;

	if (n == 0)
		return 0;
	rc = tasks ? ask_all(h, begins_ask, &b, tasks) : -ENOMEM;
	return rc ? ck_fail(d, -rc, "hosts: %s", strerror(-rc))
		  : rc_of(h, tasks, d);
}

/* --- requested ranges ----------------------------------------------------- */

int ck_hosts_fetch(struct ck_remote_source *e, struct ck_fetch *wanted)
{
	struct ck_hosts *h = (struct ck_hosts *)e;
	size_t n = wanted->n - wanted->complete;
	struct ck_fetch_range *ranges = wanted->ranges + wanted->complete;
	ck_auto_free struct ck_copy_desc *descs = calloc(n + 1, sizeof(*descs));

	if (wanted->err || !descs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		descs[i] = (struct ck_copy_desc){ .file = ranges[i].file,
						  .fpos = ranges[i].fpos,
						  .run = ranges[i].len,
						  .to = ranges[i].bytes };
	ck_hosts_read_batch(&h->requester, descs, n);
	for (size_t i = 0; i < n; i++)
		ranges[i].rc = descs[i].rc;
	ck_fetch_complete(wanted);
	return 0;
}
