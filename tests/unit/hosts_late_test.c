/* SPDX-License-Identifier: MIT */
/*
 * Hosts that come to a mount that there is, with copies of what others have, and fail
 * while these are compared: nothing is taken for different that was not compared, and it
 * is compared soon. All hosts are owners in this process.
 */
#include "ckptfs/hosts.h"
#include "hosts_internal.h"
#include "line_thread.h"
#include "tap.h"

#include <errno.h>
#include <malloc.h>

enum { ROUNDS = TAP_SLOW ? 60 : 200, MORE = 16 << 10 };

static struct owners owners;

/* A mount on h0, where there is no file; jobs take over one after the other. */
static struct {
	struct line_thread *line;
	struct ck_hosts *hosts;
	struct ck_files *files;
} m;

/* --- what fails ------------------------------------------------------------------------ */

static unsigned failing[OWNERS]; /* times; atomic */
static unsigned asked;		 /* the same: how often for digests */

int __real_ck_hosts_digest(struct ck_calls *calls, uint32_t peer,
			   enum ck_replicas how, struct ck_hosts_digest *list,
			   size_t n);
int __wrap_ck_hosts_digest(struct ck_calls *calls, uint32_t peer,
			   enum ck_replicas how, struct ck_hosts_digest *list,
			   size_t n);

int __wrap_ck_hosts_digest(struct ck_calls *calls, uint32_t peer,
			   enum ck_replicas how, struct ck_hosts_digest *list,
			   size_t n)
{
	unsigned left = __atomic_load_n(&failing[peer], __ATOMIC_RELAXED);

	__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
	if (left == 0)
		return __real_ck_hosts_digest(calls, peer, how, list, n);
	__atomic_store_n(&failing[peer], left - 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < n; i++)
		list[i].rc = -EIO;
	return 0;
}

/* The hosts whose files cannot be opened at the moment. */
static bool troubled[OWNERS];

int __real_ck_calls_look(struct ck_calls *calls, uint32_t peer,
			 struct ck_ids shown, const struct ck_str *names,
			 size_t n, struct ck_looked *out);
int __wrap_ck_calls_look(struct ck_calls *calls, uint32_t peer,
			 struct ck_ids shown, const struct ck_str *names,
			 size_t n, struct ck_looked *out);

int __wrap_ck_calls_look(struct ck_calls *calls, uint32_t peer,
			 struct ck_ids shown, const struct ck_str *names,
			 size_t n, struct ck_looked *out)
{
	int rc = __real_ck_calls_look(calls, peer, shown, names, n, out);

	for (size_t i = 0; troubled[peer] && rc == 0 && i < n; i++)
		if (out[i].seen && !out[i].info.err)
			out[i].trouble = EMFILE;
	return rc;
}

/* --- a mount --------------------------------------------------------------------------- */

/* File f0 of a host: of one kind or another; kind 0: there is none. Its owner is another one
 * then: in the job that there is nobody is asked for more than whether he is there. */
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

/* Hosts that are missing from then on; files f0 to f2, n of them. */
static void begin_of(unsigned n, const bool *missing)
{
	static const struct ck_str files[OWNED] = { { "f0", 2 },
						    { "f1", 2 },
						    { "f2", 2 } };
	static const char *const names[OWNERS] = { "h0", "h1", "h2", "h3" };
	const struct ck_ids shown = { getuid(), getgid() };
	struct ck_host_rank list[OWNERS];
	struct ck_elsewhere *e;
	struct ck_diag d = { 0 };
	uint32_t number;
	bool partly;

	for (uint32_t i = 0; i < OWNERS; i++)
		list[i] = (struct ck_host_rank){ names[i], "/", i, missing[i] };
	m.line = job_begin();
	m.hosts = ck_hosts_make(&(struct ck_hosts_setup){
		.calls = m.line->calls, .list = list, .n = OWNERS });
	m.files = ck_files_make(owners.dirs[0], CK_BENEATH_NO_SYMLINKS, 16);
	for (unsigned i = 0; i < n; i++)
		if (!m.hosts || ck_files_add(m.files, files[i], &number))
			abort();
	e = ck_hosts_elsewhere(m.hosts);
	eq_err(e->files(e, m.files, &shown, &d), 0);
	eq_err(e->opened(e, m.files, &partly), 0);
}

static void begin(const bool *missing)
{
	begin_of(1, missing);
}

static void end(void)
{
	ck_hosts_hear_end(m.hosts);
	job_end(m.line);
	ck_hosts_free(m.hosts);
	ck_files_free(m.files);
}

/* Another job, of all hosts. */
static void all_come(void)
{
	static const bool there[OWNERS] = { true, true, true, true };
	struct line_thread *before = m.line;

	m.line = job_begin();
	eq_err(ck_hosts_renew(m.hosts, m.line->calls, there), 0);
	job_end(before);
}

static void compare(void)
{
	while (ck_hosts_compare(m.hosts))
		;
}

/* As if the pause was over. */
static void compare_again(void)
{
	ok(m.hosts->late_due > (tap_is_long() ? ck_msec_now() : 0));
	m.hosts->late_due = 1;
	compare();
}

/* The hosts that have it are these, "-": there is none. */
static bool is_on(const char *first, const char *second)
{
	const struct ck_elsewhere *e = ck_hosts_elsewhere(m.hosts);
	const char *a = e->host(e, 0, 0), *b = a ? e->host(e, 0, 1) : NULL;

	return strcmp(a ? a : "-", first) == 0 &&
	       strcmp(b ? b : "-", second) == 0;
}

static size_t refused(void)
{
	const struct ck_elsewhere *e = ck_hosts_elsewhere(m.hosts);
	struct ck_unused_copy copy;
	size_t n = 0;

	while (e->unused(e, n, &copy))
		n++;
	return n;
}

/* --- two come at once ------------------------------------------------------------------- */

/* Nobody was there that has it. One of them fails while they are compared: the other one's
 * is read, and they are compared then. */
static void test_together(unsigned fails, const char *first, const char *second)
{
	begin((bool[OWNERS]){ false, true, true, true });
	have(1, 7);
	have(2, 7);
	failing[fails] = 1;
	all_come();
	ok(is_on(first, "-"));
	compare();
	ok(is_on(first, second));
	eq_u64(refused(), 0);
	end();
}

/* The same where the one that fails was there before, and has got its copy since. */
static void test_together_there(void)
{
	have(1, 0);
	begin((bool[OWNERS]){ false, false, true, true });
	have(1, 7);
	have(2, 7);
	failing[1] = 1;
	all_come();
	ok(is_on("h2", "-"));
	compare();
	ok(is_on("h2", "h1"));
	end();
}

static void test_together_differs(void)
{
	begin((bool[OWNERS]){ false, true, true, true });
	have(1, 7);
	have(2, 8);
	all_come();
	ok(is_on("-", "-"));
	compare();
	ok(is_on("-", "-"));
	end();
}

/* Several files: each host is asked once for the digests of all. */
static void test_together_many(void)
{
	unsigned before;

	begin_of(OWNED, (bool[OWNERS]){ false, true, true, true });
	before = asked;
	have(1, 7);
	have(2, 7);
	have(3, 7);
	all_come();
	ok(is_on("h1", "-"));
	eq_u64(asked - before, OWNERS - 1);
	end();
	have(3, 0);
}

/* They differ, and later they do not, when both have been there for a while: both are
 * used. */
static void test_together_mended(void)
{
	begin((bool[OWNERS]){ false, true, true, true });
	have(1, 7);
	have(2, 8);
	all_come();
	compare();
	have(2, 7);
	all_come();
	ok(is_on("h1", "-"));
	compare();
	ok(is_on("h1", "h2"));
	eq_u64(refused(), 0);
	end();
}

/* They differ, and one of them cannot be opened when another job takes over: neither is
 * chosen. */
static void test_together_troubled(unsigned host)
{
	begin((bool[OWNERS]){ false, true, true, true });
	have(1, 7);
	have(2, 8);
	all_come();
	troubled[host] = true;
	all_come();
	ok(is_on("-", "-"));
	compare();
	ok(is_on("-", "-"));
	troubled[host] = false;
	all_come();
	ok(is_on("-", "-"));
	end();
}

/* --- one comes late ---------------------------------------------------------------------- */

/* It fails, or the one that it is compared with does: it is compared again, and not at
 * once. */
static void test_again(unsigned fails)
{
	unsigned before;

	have(1, 7);
	have(2, 7);
	begin((bool[OWNERS]){ false, false, true, true });
	all_come();
	failing[fails] = 1;
	compare();
	ok(is_on("h1", "-"));
	before = asked;
	for (unsigned i = 0; i < 100; i++)
		ok(!ck_hosts_compare(m.hosts));
	eq_u64(asked, before);
	compare_again();
	ok(is_on("h1", "h2"));
	eq_u64(m.hosts->late_due, 0);
	end();
}

/* As long as it fails it is tried, less and less often. */
static void test_pauses(void)
{
	uint64_t pause = 0;

	have(1, 7);
	have(2, 7);
	begin((bool[OWNERS]){ false, false, true, true });
	all_come();
	failing[2] = 12;
	compare();
	for (unsigned i = 1; i < 12; i++) {
		ok(m.hosts->late_pause > pause ||
		   m.hosts->late_pause == 5 * 60 * 1000);
		pause = m.hosts->late_pause;
		compare_again();
	}
	ok(is_on("h1", "-"));
	compare_again();
	ok(is_on("h1", "h2"));
	end();
}

/* A host comes and goes, with another copy each time: what is kept of it does not grow. */
static void test_flapping(void)
{
	size_t before = 0;

	have(1, 7);
	have(2, 8);
	begin((bool[OWNERS]){ false, false, true, true });
	for (unsigned i = 0; i < ROUNDS; i++) {
		all_come();
		compare();
		m.hosts->hosts[2].there = false;
		have(2, 8 + i % 2);
		if (i == ROUNDS / 4)
			before = mallinfo2().uordblks;
	}
	ok(mallinfo2().uordblks < before + MORE);
	printf("# %zu bytes after %zu\n", mallinfo2().uordblks, before);
	ok(is_on("h1", "-"));
	eq_u64(refused(), 1);
	end();
}

int main(void)
{
	owners_begin(&owners);
	for (unsigned i = 0; i < OWNERS; i++)
		have(i, 0);
	test_together(2, "h1", "h2");
	test_together(1, "h2", "h1");
	test_together_there();
	test_together_differs();
	test_together_many();
	test_together_mended();
	test_together_troubled(1);
	test_together_troubled(2);
	test_again(1);
	test_again(2);
	test_pauses();
	test_flapping();
	return owners_end(&owners) | tap_done();
}
