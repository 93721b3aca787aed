/* SPDX-License-Identifier: MIT */
/*
 * Files with replicas on several hosts. Each host is a process with a directory. The test
 * checks which replicas are used, whether they differ, which attributes are shown, and the
 * failover when a host is killed.
 */
#include "ckptfs/hosts.h"
#include "ckptfs/memory.h"
#include "link_case.h"
#include "xport_local.h"

#include <signal.h>
#include <sys/stat.h>

enum { HOSTS = 4, RANKS = 5, SMALL = 5000, LARGE = 200000, LONG = 70000 };

enum { MOST = 6000 }; /* bytes of metadata */

static char top[] = "/tmp/ckptfs-hosts-XXXXXX";
static char mesh[sizeof(top) + 5];
static const char *const names[HOSTS] = { "h0", "h1", "h2", "h3" };

/* --- the deal of replicas --------------------------------------------------------------------- */

/* A replica on one host: `size` bytes, equal on all hosts except for the byte at `other`.
 * Size -1: no file; -2: a directory. */
struct have {
	int size, other;
	mode_t mode;
	time_t time;
};

#define NO                                                                     \
	{                                                                      \
		-1, 0, 0, 0                                                    \
	}

enum file {
	ONLY,
	EQUAL,
	DIFFERS,
	HIDDEN, /* outside the samples */
	LAST,	/* differs in the last byte */
	SIZES,
	SHORT,
	HERE,
	HERE_SHORT,
	HERE_DIFFERS,
	EMPTY,
	NOWHERE,
	MANY, /* two equal, one different */
	NFILES
};

static const struct have deal[NFILES][HOSTS] = {
	[ONLY] = { NO, NO, NO, { SMALL, -1, 0644, 100 } },
	[EQUAL] = { NO,
		    { LARGE, -1, 0640, 100 },
		    { LARGE, -1, 0604, 300 },
		    { LARGE, -1, 0644, 200 } },
	[DIFFERS] = { NO,
		      { SMALL, -1, 0644, 100 },
		      { SMALL, 7, 0644, 100 },
		      NO },
	[HIDDEN] = { NO,
		     { LARGE, -1, 0644, 100 },
		     { LARGE, 5000, 0644, 100 },
		     NO },
	[LAST] = { NO,
		   { LONG, -1, 0644, 100 },
		   { LONG, LONG - 1, 0644, 100 },
		   NO },
	[SIZES] = { NO,
		    { SMALL, -1, 0644, 100 },
		    { SMALL + 1, -1, 0644, 900 },
		    NO },
	[SHORT] = { NO,
		    { SMALL - 1, -1, 0644, 100 },
		    { SMALL, -1, 0644, 100 },
		    NO },
	[HERE] = { { SMALL, -1, 0644, 100 }, { SMALL, -1, 0600, 500 }, NO, NO },
	[HERE_SHORT] = { { SMALL - 9, -1, 0644, 100 },
			 NO,
			 NO,
			 { SMALL, -1, 0644, 100 } },
	[HERE_DIFFERS] = { { SMALL, -1, 0644, 100 },
			   NO,
			   { SMALL, 0, 0644, 100 },
			   { SMALL, 0, 0644, 100 } },
	[EMPTY] = { NO, { 0, -1, 0644, 100 }, { 0, -1, 0644, 100 }, NO },
	[NOWHERE] = { NO, NO, NO, NO },
	[MANY] = { NO,
		   { SMALL, 9, 0644, 100 },
		   { SMALL, -1, 0644, 100 },
		   { SMALL, 9, 0644, 100 } },
};

static const char *name_of(enum file f)
{
	static char list[NFILES][8];

	/* One file is in a directory, whose permissions also count. */
	snprintf(list[f], sizeof(list[f]), f == HERE ? "d/f%d" : "f%d", (int)f);
	return list[f];
}

static void fill(enum file f, const struct have *have, uint8_t *bytes)
{
	uint64_t random = 1000 + (uint64_t)f;

	for (int i = 0; i < have->size; i++)
		bytes[i] = (uint8_t)(tap_random(&random) >> 20);
	if (have->other >= 0 && have->size > 0)
		bytes[have->other] ^= 1;
}

static void put(int dirfd, const char *name, const void *bytes, size_t len,
		const struct have *have)
{
	const struct timespec times[2] = { { have->time, 0 },
					   { have->time, 0 } };
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0600);

	if (fd < 0 || ck_write_full(fd, bytes, len) || fchmod(fd, have->mode) ||
	    futimens(fd, times))
		abort();
	close(fd);
}

static int host_dir(unsigned host)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", top, names[host]);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%s/d", top, names[host]);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%s", top, names[host]);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void deal_all(void)
{
	static uint8_t bytes[LARGE];

	if (!mkdtemp(top) || ck_sigbus_install())
		abort();
	threads_prepare();
	snprintf(mesh, sizeof(mesh), "%s/mesh", top);
	if (mkdir(mesh, 0700))
		abort();
	for (unsigned host = 0; host < HOSTS; host++) {
		int fd = host_dir(host);

		for (enum file f = 0; f < NFILES; f++) {
			const struct have *have = &deal[f][host];

			if (have->size < 0)
				continue;
			fill(f, have, bytes);
			put(fd, name_of(f), bytes, (size_t)have->size, have);
		}
		close(fd);
	}
}

/* --- ranks ------------------------------------------------------------------------------- */

struct job {
	struct joined *j; /* the link to rank 0 */
	pid_t pids[RANKS];
	int stop;
	struct ck_hosts *hosts;
	struct ck_files *files;
	struct ck_diag d;
	int rc;
};

/* Host h2 has two ranks. */
static const unsigned host_of_rank[RANKS] = { 0, 1, 2, 2, 3 };
/* The ranks in the order of the list of hosts. */
static const uint32_t ranks[RANKS] = { 0, 4, 3, 2, 1 };

static void rank_run(struct job *b, uint32_t rank, const int stop[2])
{
	int fd = host_dir(host_of_rank[rank]);

	close(stop[1]);
	close(b->j->options.sock);
	if (rank) {
		close(b->j->serve.link);
		b->j->serve.link = -1;
	}
	b->j->serve.stop = stop[0];
	if (ck_transport_local(mesh, rank, RANKS, 60000, &b->j->serve.xport))
		_exit(2);
	b->j->serve.owner = ck_file_server_make(fd, CK_BENEATH_NO_SYMLINKS, 16);
	_exit(ck_serve_run(&b->j->serve) != 0);
}

static void ranks_begin(struct job *b)
{
	int stop[2];

	b->j = joined_make();
	b->j->options.calls.npeers = RANKS;
	b->j->options.ranks = ranks;
	joined_prepare(b->j);
	if (pipe(stop))
		abort();
	for (uint32_t i = 0; i < RANKS; i++) {
		fflush(stdout);
		b->pids[i] = fork();
		if (b->pids[i] < 0)
			abort();
		if (b->pids[i] == 0)
			rank_run(b, i, stop);
	}
	close(stop[0]);
	close(b->j->serve.link);
	close(b->j->serve.memory);
	b->stop = stop[1];
	if (ck_link_make(&b->j->options, &b->j->link))
		abort();
}

static void hosts_begin(struct job *b, enum ck_replicas replicas,
			const char *preferred)
{
	struct ck_host_rank list[RANKS];
	size_t order[] = { HOSTS, 0 };

	while (preferred && strcmp(names[order[1]], preferred) != 0)
		order[1]++;
	order[1] = (HOSTS - order[1]) % HOSTS; /* position in the list */
	for (uint32_t i = 0; i < RANKS; i++)
		list[i] = (struct ck_host_rank){ names[host_of_rank[ranks[i]]],
						 "/", ranks[i], false };
	b->hosts = ck_hosts_make(&(struct ck_hosts_setup){
		.calls = ck_link_calls(b->j->link),
		.list = list,
		.n = RANKS,
		.replicas = replicas,
		.order = order,
		.norder = preferred ? 2 : 0,
	});
	if (!b->hosts)
		abort();
}

static void begin(struct job *b, enum ck_replicas replicas,
		  const char *preferred)
{
	const struct ck_ids shown = { getuid(), getgid() };
	struct ck_remote_source *e;
	uint32_t number;
	int fd = host_dir(0);
	bool partly;

	*b = (struct job){ 0 };
	ranks_begin(b);
	hosts_begin(b, replicas, preferred);
	b->files = ck_files_make(fd, CK_BENEATH_NO_SYMLINKS, 16);
	close(fd);
	for (enum file f = 0; f < NFILES; f++) {
		if (ck_files_add(b->files, ck_str_from(name_of(f)), &number) ||
		    number != (uint32_t)f)
			abort();
		ck_files_need(b->files, number,
			      f == SHORT || f == HERE_SHORT ? SMALL : 0);
	}
	e = ck_hosts_elsewhere(b->hosts);
	b->rc = e->files(e, b->files, &shown, &b->d);
	eq_err(b->rc, 0);
	eq_err(e->opened(e, b->files, &partly), 0);
}

static void end(struct job *b)
{
	int status;

	ck_hosts_revalidate_end(b->hosts);
	ck_link_free(b->j->link);
	ck_hosts_free(b->hosts);
	ck_files_free(b->files);
	close(b->stop);
	for (uint32_t i = 0; i < RANKS; i++)
		if (waitpid(b->pids[i], &status, 0) != b->pids[i])
			abort();
	free(b->j);
}

/* --- results -------------------------------------------------------------------------------- */

static sem_t moved;

static void move_done(struct ck_copy_batch *m)
{
	(void)m;
	sem_post(&moved);
}

/* Reads all bytes of a remote file. */
static int bring(struct job *b, enum file f, uint8_t *to, uint64_t len)
{
	struct ck_copy_desc move = { .file = f, .run = len, .to = to };
	struct ck_copy_batch batch = { .list = &move,
				       .n = 1,
				       .done = move_done };
	struct ck_backend *backend = ck_hosts_backend(b->hosts);

	if (backend->start(backend, &batch) == -EINPROGRESS)
		while (sem_wait(&moved))
			;
	return move.rc;
}

/* True if the file is remote and has the bytes of that host. */
static bool is_that_of(struct job *b, enum file f, unsigned host)
{
	static uint8_t got[LARGE], want[LARGE];
	const struct have *have = &deal[f][host];
	const struct ck_file_info *info = ck_files_info(b->files, f);

	fill(f, have, want);
	return ck_files_is_remote(b->files, f) && info->err == 0 &&
	       info->size == (uint64_t)have->size &&
	       (have->size == 0 ||
		bring(b, f, got, (uint64_t)have->size) == 0) &&
	       memcmp(got, want, (size_t)have->size) == 0;
}

static bool is_here(const struct job *b, enum file f)
{
	return !ck_files_is_remote(b->files, f) &&
	       ck_files_info(b->files, f)->err == 0;
}

/* True if the file is refused, with both texts in the reason. */
static bool differs(const struct job *b, enum file f, const char *one,
		    const char *other)
{
	const struct ck_file_info *info = ck_files_info(b->files, f);

	return info->err == EIO && info->why &&
	       strstr(info->why, "differs between hosts: ") == info->why &&
	       strstr(info->why, one) && strstr(info->why, other);
}

static mode_t closed_of(const struct job *b, enum file f)
{
	return ck_file_access_noted(ck_files_access(b->files, f)).closed;
}

static void test_sample(void)
{
	struct job b;

	begin(&b, CK_REPLICAS_SAMPLE, NULL);
	ok(is_that_of(&b, ONLY, 3));
	ok(is_that_of(&b, EQUAL, 1));
	eq_i64(ck_files_mtime(b.files, EQUAL).tv_sec, 300);
	/* Modes 0640 and 0604 leave the owner only. */
	eq_u64((ck_files_info(b.files, EQUAL)->mode & ~closed_of(&b, EQUAL)) &
		       0444,
	       0400);
	ok(differs(&b, DIFFERS, "h1 has 5000 bytes, XXH3-128 of a sample ",
		   "h2 has 5000 bytes, XXH3-128 of a sample "));
	ok(is_that_of(&b, HIDDEN, 1) || is_that_of(&b, HIDDEN, 2));
	ok(differs(&b, LAST, "h1 has 70000", "h2 has 70000"));
	ok(differs(&b, SIZES, "h1 has 5000 ", "h2 has 5001 "));
	ok(is_that_of(&b, SHORT, 2));
	ok(is_here(&b, HERE));
	eq_u64(closed_of(&b, HERE), 0044);
	eq_i64(ck_files_mtime(b.files, HERE).tv_sec, 500);
	eq_i64(ck_files_info(b.files, HERE)->mtime.tv_sec, 100);
	eq_err(ck_files_check(b.files, HERE, NULL), 0);
	eq_u64(closed_of(&b, HERE), 0044);
	ok(is_that_of(&b, HERE_SHORT, 3));
	ok(differs(&b, HERE_DIFFERS, "h0 has 5000", "h2 has 5000"));
	eq_err(ck_files_check(b.files, HERE_DIFFERS, NULL), -EIO);
	ok(is_that_of(&b, EMPTY, 1));
	eq_i64(ck_files_info(b.files, NOWHERE)->err, ENODATA);
	ok(differs(&b, MANY, "h1 has", "h2 has"));
	end(&b);
}

static void test_full(void)
{
	struct job b;

	begin(&b, CK_REPLICAS_FULL, NULL);
	ok(is_that_of(&b, EQUAL, 1));
	ok(differs(&b, HIDDEN, "h1 has 200000 bytes, XXH3-128 ",
		   "h2 has 200000 bytes, XXH3-128 "));
	ok(is_that_of(&b, EMPTY, 1));
	end(&b);
}

static void test_first(void)
{
	struct job b;

	begin(&b, CK_REPLICAS_FIRST, NULL);
	ok(is_that_of(&b, DIFFERS, 1) || is_that_of(&b, DIFFERS, 2));
	ok(is_that_of(&b, SIZES, 1) || is_that_of(&b, SIZES, 2));
	ok(is_that_of(&b, SHORT, 2));
	ok(is_here(&b, HERE_DIFFERS));
	ok(is_that_of(&b, HERE_SHORT, 3));
	end(&b);
}

static void test_prefer(void)
{
	struct job b;

	begin(&b, CK_REPLICAS_SAMPLE, "h2");
	ok(is_that_of(&b, DIFFERS, 2));
	ok(is_that_of(&b, SIZES, 2));
	ok(is_that_of(&b, HERE_DIFFERS, 2));
	ok(is_that_of(&b, MANY, 2));
	ok(is_that_of(&b, EQUAL, 1)); /* all replicas are equal */
	end(&b);

	begin(&b, CK_REPLICAS_SAMPLE, "h3");
	ok(is_that_of(&b, MANY, 3));
	ok(is_that_of(&b, HERE_DIFFERS, 3));
	ok(differs(&b, DIFFERS, "h1", "h2"));
	end(&b);

	begin(&b, CK_REPLICAS_SAMPLE, "h0");
	ok(is_here(&b, HERE_DIFFERS));
	ok(is_that_of(&b, HERE_SHORT, 3));
	end(&b);
}

/* Hosts with replicas of EQUAL are killed one after the other. */
static void test_killed(void)
{
	static uint8_t got[LARGE];
	struct job b;

	begin(&b, CK_REPLICAS_SAMPLE, NULL);
	ok(is_that_of(&b, EQUAL, 1));
	for (uint32_t rank = 1; rank < RANKS; rank++) {
		ok(is_that_of(&b, EQUAL, 1));
		kill(b.pids[rank], SIGKILL);
		eq_err(bring(&b, EQUAL, got, LARGE),
		       rank + 1 < RANKS ? 0 : -EIO);
	}
	end(&b);
}

/* A replica that changes is not used any more; the other replicas are. */
static void test_changed(void)
{
	const struct have other = { SMALL, 3, 0644, 999 };
	static uint8_t bytes[LARGE];
	struct job b;
	int fd;

	begin(&b, CK_REPLICAS_SAMPLE, NULL);
	for (unsigned host = 1; host < HOSTS; host++) {
		ok(is_that_of(&b, EQUAL, 1));
		fd = host_dir(host);
		fill(EQUAL, &other, bytes);
		put(fd, name_of(EQUAL), bytes, SMALL, &other);
		close(fd);
		for (unsigned i = 0, most = host + 1 < HOSTS ? 20 : 6000;
		     i < most && ck_files_check(b.files, EQUAL, NULL) == 0;
		     i++) {
			ck_hosts_revalidate(b.hosts);
			msec_sleep(10);
		}
		eq_err(ck_files_check(b.files, EQUAL, NULL),
		       host + 1 < HOSTS ? 0 : -ESTALE);
	}
	eq_err(bring(&b, EQUAL, bytes, LARGE), -ESTALE);
	end(&b);
}

/* --- metadata ------------------------------------------------------------------------------- */

static void test_metadata(const char *preferred, const struct have *list,
			  int want, mode_t mode)
{
	struct ck_file_info said = { 0 };
	struct ck_remote_source *e;
	void *pages = NULL;
	struct job b = { 0 };
	int rc;

	for (unsigned host = 0; host < HOSTS; host++) {
		static uint8_t bytes[LONG];
		int fd = host_dir(host);

		unlinkat(fd, "meta", 0);
		unlinkat(fd, "meta", AT_REMOVEDIR);
		if (list[host].size == -2)
			mkdirat(fd, "meta", 0755);
		fill(0, &list[host], bytes);
		if (list[host].size >= 0)
			put(fd, "meta", bytes, (size_t)list[host].size,
			    &list[host]);
		close(fd);
	}
	ranks_begin(&b);
	hosts_begin(&b, CK_REPLICAS_SAMPLE, preferred);
	e = ck_hosts_elsewhere(b.hosts);
	rc = e->metadata(e, CK_STR("meta"), MOST, &said, &pages, &b.d);
	eq_err(rc, want < 0 ? want : 0);
	if (rc == 0) {
		static uint8_t bytes[SMALL];

		eq_u64(said.mode & 0777, mode);
		fill(0, &list[want], bytes);
		ok((want == 0) == (pages == NULL));
		ok(!pages || memcmp(pages, bytes, said.size) == 0);
		eq_i64(said.mtime.tv_sec, 700);
	}
	ck_pages_free(pages, said.size);
	end(&b);
}

static void test_all_metadata(void)
{
	const struct have same[HOSTS] = {
		NO, { SMALL, -1, 0644, 700 }, NO, { SMALL, -1, 0640, 600 }
	};
	const struct have here[HOSTS] = {
		{ SMALL, -1, 0640, 600 }, { SMALL, -1, 0604, 700 }, NO, NO
	};
	const struct have two[HOSTS] = {
		{ SMALL, -1, 0644, 700 }, NO, { SMALL, 4999, 0600, 700 }, NO
	};
	const struct have none[HOSTS] = { NO, NO, NO, NO };
	const struct have odd[HOSTS] = {
		NO, { -2, -1, 0755, 0 }, { SMALL, -1, 0600, 700 }, NO
	};
	const struct have odd_here[HOSTS] = {
		{ -2, -1, 0755, 0 }, NO, NO, { SMALL, -1, 0600, 700 }
	};
	const struct have long_one[HOSTS] = {
		NO, { SMALL, -1, 0644, 700 }, NO, { LONG, -1, 0644, 700 }
	};

	test_metadata(NULL, same, 1, 0640);
	test_metadata("h3", same, 1, 0640);
	test_metadata(NULL, here, 0, 0600);
	test_metadata(NULL, two, -ESTALE, 0);
	test_metadata("h1", two, -ESTALE, 0);
	test_metadata("h2", two, 2, 0600);
	test_metadata("h0", two, 0, 0644);
	test_metadata(NULL, none, -ENOENT, 0);
	test_metadata(NULL, odd, -EBADMSG, 0);
	test_metadata("h1", odd, -EBADMSG, 0);
	test_metadata("h2", odd, 2, 0600);
	test_metadata(NULL, odd_here, -EBADMSG, 0);
	test_metadata(NULL, long_one, -EBADMSG, 0);
	test_metadata("h3", long_one, -EBADMSG, 0);
	test_metadata("h1", long_one, 1, 0644);
}

int main(void)
{
	char command[80];

	sem_init(&moved, 0, 0);
	deal_all();
	test_sample();
	test_full();
	test_first();
	test_prefer();
	test_killed();
	test_changed();
	test_all_metadata();
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return (system(command) ? 2 : 0) | tap_done();
}
