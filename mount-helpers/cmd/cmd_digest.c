/* SPDX-License-Identifier: MIT */
/*
 * digest: prints the XXH3-128 of the bytes of each tensor, in the form of xxhsum, without a
 * mount. The main thread prints; ck_digests_compute() reads in several threads.
 */
#include "commands.h"
#include "picked_source.h"
#include "values/digest.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct digesting {
	struct ck_format_options options;
	struct ck_hosts_options hosts;
	const char *path; /* of --output; NULL: stdout */
	int fd;		  /* of that file; -1: not open */
	struct ck_picked_source source;
	struct ck_digest *all;
	size_t n;
};

/* --- output ------------------------------------------------------------------------- */

static int output_failed(const struct digesting *g)
{
	return ck_trouble("%s: %s", ck_show(ck_str_from(g->path)),
			  strerror(errno));
}

/* Opens the file before anything is read. What it has is kept until the digests are known. */
static int output_open(struct digesting *g)
{
	struct stat st;

	if (!g->path)
		return CK_EXIT_FINE;
	g->fd = open(g->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (g->fd < 0 || fstat(g->fd, &st))
		return output_failed(g);
	if (ck_picked_source_reads(&g->source, &st))
		return ck_trouble("%s: a file of the source, which is not "
				  "replaced",
				  ck_show(ck_str_from(g->path)));
	return CK_EXIT_FINE;
}

static int output_write(struct digesting *g, struct ck_buf *out)
{
	struct stat st;
	int rc = 0;

	if (!g->path)
		return ck_print(out);
	if (out->err) {
		ck_buf_fini(out);
		return ck_trouble("out of memory");
	}
	if (fstat(g->fd, &st) == 0 && S_ISREG(st.st_mode))
		rc = ftruncate(g->fd, 0);
	if (rc == 0)
		rc = ck_write_full(g->fd, out->data, out->len);
	if (rc == 0) {
		rc = close(g->fd);
		g->fd = -1;
	}
	ck_buf_fini(out);
	return rc ? output_failed(g) : CK_EXIT_FINE;
}

/* --- the command ---------------------------------------------------------------------- */

/* Names the tensors that cannot be read. Returns the exit status. */
static int report_unread(const struct digesting *g)
{
	int status = g->source.losses;

	for (size_t i = 0; i < g->n; i++) {
		struct ck_buf line = { 0 };

		if (g->all[i].err == 0)
			continue;
		ck_picked_source_fault(&g->source, g->all[i].tensor,
				       g->all[i].err, &line);
		(void)ck_trouble("%s", line.err ? "out of memory" : line.data);
		ck_buf_fini(&line);
		status = CK_EXIT_DAMAGE;
	}
	return status;
}

static int compute(struct digesting *g)
{
	const struct ck_picked *picked = &g->source.picked;
	struct ck_progress progress = { 0 };
	struct ck_digest_options o = { .progress = ck_pass_progress_add,
				       .arg = &progress };
	int rc;

	g->n = picked->ntensors;
	g->all = calloc(g->n + 1, sizeof(*g->all));
	if (!g->all)
		return ck_trouble("out of memory");
	for (size_t i = 0; i < g->n; i++)
		g->all[i].tensor = picked->tensors[i];
	ck_pass_progress_begin(
		&progress, ck_digests_bytes(g->source.from.c, g->all, g->n));
	rc = ck_digests_compute(&g->source.from, g->all, g->n, &o);
	ck_pass_progress_end(&progress);
	return rc ? ck_trouble("%s", strerror(-rc)) : CK_EXIT_FINE;
}

static int digest(struct digesting *g, char **patterns, size_t n)
{
	struct ck_buf out = { 0 };
	int rc = compute(g), status;

	for (size_t i = 0; i < n && rc == 0; i++)
		if (!g->source.picked.is_used[i])
			ck_pick_warn(g->source.from.c, patterns[i]);
	if (rc)
		return rc;
	status = report_unread(g);
	for (size_t i = 0; i < g->n; i++)
		if (g->all[i].err == 0)
			ck_digest_print(g->source.from.c, &g->all[i], &out);
	rc = output_write(g, &out);
	return rc ? rc : status;
}

static int parse(struct digesting *g, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "output", required_argument, NULL, 'w' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 && (letter = ck_getopt_hosts(argc, argv, "o:", longs,
						    &g->hosts)) != -1)
		switch (letter) {
		case 'w': g->path = optarg; break;
		case 'o':
			rc = ck_parse_reading_or_output(&g->options, &g->hosts,
							optarg, &g->path);
			break;
		default: rc = CK_EXIT_TROUBLE;
		}
	if (rc == 0 && optind == argc)
		rc = ck_usage();
	return rc ? rc : ck_check_hosts(&g->hosts);
}

int ck_cmd_digest(int argc, char **argv)
{
	struct digesting g = { .fd = -1,
			       .options.shardlinks = CK_BENEATH_NO_SYMLINKS };
	int rc = parse(&g, argc, argv);
	size_t n = (size_t)(argc - optind) - 1;

	if (rc == 0)
		rc = ck_picked_source_open(&g.source, argv[optind], &g.options,
					   &g.hosts, argv + optind + 1, n);
	if (rc == 0)
		rc = output_open(&g);
	if (rc == 0)
		rc = digest(&g, argv + optind + 1, n);
	ck_picked_source_close(&g.source);
	free(g.all);
	if (g.fd >= 0)
		close(g.fd);
	ck_hosts_options_fini(&g.hosts);
	ck_format_options_fini(&g.options);
	return rc;
}
