/* SPDX-License-Identifier: MIT */
/*
 * Hosts that join a mount with files that no host had when it was opened, or with
 * replicas of files that other hosts have: which of them are read. All hosts are file
 * servers in this process.
 */
#include "ckptfs/hosts.h"
#include "dist/membership/hosts_internal.h"
#include "line_thread.h"
#include "tap.h"

static struct owners owners;

/* A mount on h0, where there is no file; jobs take over one after the other. */
static struct {
	struct line_thread *line;
	struct ck_hosts *hosts;
	struct ck_files *files;
} m;

/* --- a mount --------------------------------------------------------------------------- */

/* Writes file f0 of a host: OWNED_BYTES of `kind`; kind 0: removes it. The running job
 * is not affected. */
static void have(unsigned host, unsigned kind)
{
	uint8_t bytes[OWNED_BYTES];

	memset(bytes, (int)kind, sizeof(bytes));
	owned_write(&owners, host, 0, bytes, sizeof(bytes));
	if (kind == 0)
		unlinkat(owners.dirs[host], "f0", 0);
	owner_look(&owners, host);
}

static struct line_thread *job_begin(void)
{
	struct line_thread *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	for (unsigned i = 0; i < OWNERS; i++)
		t->owner[i] = owners.owner[i];
	t->npeers = OWNERS;
	t->calm = true;
	line_thread_begin(t, 1 << 20, 5);
	return t;
}

static void job_end(struct line_thread *t)
{
	line_thread_end(t);
	free(t);
}

/* Opens file f0. */
static void begin(const bool *missing, const size_t *order, size_t norder)
{
	static const char *const names[OWNERS] = { "h0", "h1", "h2", "h3" };
	const struct ck_ids shown = { getuid(), getgid() };
	struct ck_host_rank list[OWNERS];
	struct ck_remote_source *e;
	struct ck_diag d = { 0 };
	uint32_t number;
	bool partly;

	for (uint32_t i = 0; i < OWNERS; i++)
		list[i] = (struct ck_host_rank){ names[i], "/", i, missing[i] };
	m.line = job_begin();
	m.hosts =
		ck_hosts_make(&(struct ck_hosts_setup){ .calls = m.line->calls,
							.list = list,
							.n = OWNERS,
							.order = order,
							.norder = norder });
	m.files = ck_files_make(owners.dirs[0], CK_BENEATH_NO_SYMLINKS, 16);
	if (!m.hosts || ck_files_add(m.files, CK_STR("f0"), &number))
		abort();
	e = ck_hosts_elsewhere(m.hosts);
	eq_err(e->files(e, m.files, &shown, &d), 0);
	eq_err(e->opened(e, m.files, &partly), 0);
}

static void end(void)
{
	ck_hosts_revalidate_end(m.hosts);
	job_end(m.line);
	ck_hosts_free(m.hosts);
	ck_files_free(m.files);
}

/* Another job, of these hosts. */
static void come(const bool *there)
{
	struct line_thread *before = m.line;

	m.line = job_begin();
	eq_err(ck_hosts_renew(m.hosts, m.line->calls, there), 0);
	job_end(before);
}

/* The file is read on `first`, with another place on `second`; "-": no host. */
static bool is_on(const char *first, const char *second)
{
	const struct ck_remote_source *e = ck_hosts_elsewhere(m.hosts);
	const char *a = e->host(e, 0, 0), *b = a ? e->host(e, 0, 1) : NULL;

	return strcmp(a ? a : "-", first) == 0 &&
	       strcmp(b ? b : "-", second) == 0;
}

/* The file can be read now. */
static bool is_readable(void)
{
	const struct ck_remote_source *e = ck_hosts_elsewhere(m.hosts);

	return e->down_host(e, 0) == NULL;
}

/* --- tests --------------------------------------------------------------------------- */

static const bool all[OWNERS] = { true, true, true, true };
static const bool none[OWNERS] = { false, true, true, true };

/* No host had the file: the first one that has it is read, or the first preferred one,
 * and other replicas are not compared. */
static void test_first(const size_t *order, size_t norder, const char *first)
{
	have(1, 7);
	have(2, 8);
	begin(none, order, norder);
	have(1, 7);
	have(2, 8);
	ok(is_on("-", "-") && !is_readable());
	come(all);
	ok(is_on(first, "-") && is_readable());
	end();
}

/* The host that was read is down, and another one has a replica. */
static void test_stays(void)
{
	have(1, 7);
	have(2, 7);
	begin(none, NULL, 0);
	come(all);
	ok(is_on("h1", "-"));
	come((bool[OWNERS]){ true, false, true, true });
	ok(is_on("h1", "-"));
	come(all);
	ok(is_on("h1", "-") && is_readable());
	end();
}

/* One host was missing, and joins with a replica of a file that is read. */
static void test_ignored(unsigned kind)
{
	have(1, 7);
	have(2, kind);
	begin((bool[OWNERS]){ false, false, true, true }, NULL, 0);
	come(all);
	ok(is_on("h1", "-"));
	come((bool[OWNERS]){ true, false, true, true });
	ok(is_on("h1", "-"));
	end();
}

/* Two replicas were compared at the open; both are used again after their hosts return. */
static void test_known(void)
{
	have(1, 7);
	have(2, 7);
	begin((bool[OWNERS]){ false, false, false, true }, NULL, 0);
	ok(is_on("h1", "h2"));
	come((bool[OWNERS]){ true, false, true, true });
	ok(is_on("h2", "h1") && is_readable());
	come(all);
	ok(is_on("h1", "h2") && is_readable());
	end();
}

int main(void)
{
	owners_begin(&owners);
	for (unsigned i = 0; i < OWNERS; i++)
		have(i, 0);
	test_first(NULL, 0, "h1");
	test_first((size_t[]){ 3, 2 }, 2, "h2");
	test_stays();
	test_ignored(7);
	test_ignored(8);
	test_known();
	return owners_end(&owners) | tap_done();
}
