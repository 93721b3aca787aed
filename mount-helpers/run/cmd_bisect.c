/* SPDX-License-Identifier: MIT */
/*
 * bisect: finds the first step of a run directory, and its first tensor, with a NaN or an infinity,
 * without a mount. The main thread searches and prints; ck_nonfinite_find() reads in several
 * threads.
 */
#include "ckptfs/json.h"
#include "commands.h"
#include "offline_tree.h"
#include "scan_step.h"

#define ASSUMPTION "NaN and Inf stay once they appear"

struct bisecting {
	struct ck_format_options options;
	struct ck_hosts_options hosts; /* no hosts */
	bool nan, json;
	struct ck_run_list list;
	struct ck_bisection search;
	struct ck_scanned *scanned; /* by step */
	struct ck_unreads unread;
};

/* As the mount shows it. */
static const char *name_of(const struct bisecting *b, size_t step)
{
	return b->list.all[step]->stem;
}

static bool is_found(const struct bisecting *b)
{
	return b->search.found < b->list.n;
}

/* The name of a step that is left out, directly before the one found; or NULL. */
static const char *gap_of(const struct bisecting *b)
{
	return is_found(b) ? ck_run_list_gap(&b->list, b->search.found) : NULL;
}

/* True if no step or tensor that was not read can be the first. */
static bool is_certain(const struct bisecting *b)
{
	return !b->search.unsure && !b->search.contradicted && !gap_of(b) &&
	       !(is_found(b) && b->scanned[b->search.found].unsure);
}

/* --- text ------------------------------------------------------------------------------- */

static void print_counts(const struct ck_scanned *s, struct ck_buf *out)
{
	if (s->counted)
		ck_buf_printf(out, ": %ju NaN, %ju Inf", (uintmax_t)s->nan,
			      (uintmax_t)s->inf);
}

static const char *verdict_text(uint8_t verdict)
{
	if (verdict == CK_STEP_HAS)
		return "has NaN or Inf";
	return verdict == CK_STEP_CLEAN ? "has no NaN or Inf"
					: "cannot be read in full";
}

static void print_neighbours(const struct bisecting *b, struct ck_buf *out)
{
	size_t at = b->search.found;

	if (at > 0) {
		ck_buf_text(out, "the step before, ");
		ck_buf_text(out, name_of(b, at - 1));
		ck_buf_printf(out, ", %s\n",
			      verdict_text(b->search.verdicts[at - 1]));
	}
	if (at + 1 < b->list.n) {
		ck_buf_text(out, "the step after, ");
		ck_buf_text(out, name_of(b, at + 1));
		ck_buf_printf(out, ", %s\n",
			      verdict_text(b->search.verdicts[at + 1]));
	}
}

static void print_answer(const struct bisecting *b, struct ck_buf *out)
{
	const struct ck_scanned *s;

	if (!is_found(b)) {
		ck_buf_printf(out, "no step%s has a NaN or Inf\n",
			      is_certain(b) ? "" : " that can be read");
		return;
	}
	s = &b->scanned[b->search.found];
	ck_buf_text(out, name_of(b, b->search.found));
	ck_buf_text(out, ": ");
	ck_buf_escaped(out, ck_str_from(s->name));
	ck_buf_printf(out, " has %s NaN or Inf",
		      is_certain(b) ? "the first" : "a");
	print_counts(s, out);
	ck_buf_text(out, "\n");
	print_neighbours(b, out);
}

/* Names the steps with NaN or Inf, of which successive ones are "A to B". */
static void print_steps_with(const struct bisecting *b, struct ck_buf *out)
{
	size_t n = b->list.n, end;
	bool first = true;

	for (size_t i = 0; i < n; i = end + 1) {
		end = i;
		if (b->search.verdicts[i] != CK_STEP_HAS)
			continue;
		while (end + 1 < n &&
		       b->search.verdicts[end + 1] == CK_STEP_HAS)
			end++;
		ck_buf_text(out, first ? "steps with NaN or Inf: " : ", ");
		ck_buf_text(out, name_of(b, i));
		ck_buf_text(out, end > i ? " to " : "");
		if (end > i)
			ck_buf_text(out, name_of(b, end));
		first = false;
	}
	ck_buf_text(out, first ? "" : "\n");
}

static void print_text(const struct bisecting *b, struct ck_buf *out)
{
	print_answer(b, out);
	if (b->search.every) {
		print_steps_with(b, out);
		ck_buf_printf(out, "steps read: all %zu\n", b->list.n);
		return;
	}
	ck_buf_printf(out,
		      "steps read: %zu of %zu, assuming that " ASSUMPTION
		      "; --all-steps reads every step\n",
		      b->search.ntested, b->list.n);
}

/* Says on stderr why the answer is not certain. */
static void explain(const struct bisecting *b)
{
	const struct ck_bisection *s = &b->search;

	if (s->contradicted)
		(void)ck_trouble(
			"%s has no NaN or Inf: they do not stay in this "
			"run, and a step before %s may have one; "
			"--all-steps reads every step",
			name_of(b, s->found + 1), name_of(b, s->found));
	if (s->unsure)
		(void)ck_trouble("a step that cannot be read in full may "
				 "have the first NaN or Inf");
	if (gap_of(b))
		(void)ck_trouble("%s, which is left out, may have the first "
				 "NaN or Inf",
				 ck_show(ck_str_from(gap_of(b))));
	if (is_found(b) && b->scanned[s->found].unsure)
		(void)ck_trouble("a tensor of %s that cannot be read may have "
				 "the first NaN or Inf",
				 name_of(b, s->found));
}

/* --- JSON ------------------------------------------------------------------------------- */

static void json_name(const struct bisecting *b, size_t step,
		      struct ck_buf *out)
{
	ck_buf_json_str(out, ck_str_from(name_of(b, step)));
}

static void json_found(const struct bisecting *b, struct ck_buf *out)
{
	const struct ck_scanned *s;

	if (!is_found(b)) {
		ck_buf_text(out, "\"step\":null,\"fqn\":null,\"nan\":null,"
				 "\"inf\":null");
		return;
	}
	s = &b->scanned[b->search.found];
	ck_buf_text(out, "\"step\":");
	json_name(b, b->search.found, out);
	ck_buf_text(out, ",\"fqn\":");
	ck_buf_json_str(out, ck_str_from(s->name));
	if (s->counted)
		ck_buf_printf(out, ",\"nan\":%ju,\"inf\":%ju",
			      (uintmax_t)s->nan, (uintmax_t)s->inf);
	else
		ck_buf_text(out, ",\"nan\":null,\"inf\":null");
}

/* step: null is printed if it is not below the number of steps. */
static void json_neighbour(const struct bisecting *b, const char *before,
			   size_t step, struct ck_buf *out)
{
	ck_buf_printf(out, ",\n\"%s\":", before);
	if (!is_found(b) || step >= b->list.n) {
		ck_buf_text(out, "null");
		return;
	}
	ck_buf_text(out, "{\"step\":");
	json_name(b, step, out);
	ck_buf_printf(out, ",\"has\":%s}",
		      b->search.verdicts[step] == CK_STEP_HAS	  ? "true"
		      : b->search.verdicts[step] == CK_STEP_CLEAN ? "false"
								  : "null");
}

static void json_steps(const struct bisecting *b, struct ck_buf *out)
{
	bool first = true;

	ck_buf_text(out, ",\n\"steps_read\":[");
	for (size_t i = 0; i < b->search.ntested; i++) {
		ck_buf_text(out, i ? "," : "");
		json_name(b, b->search.order[i], out);
	}
	ck_buf_text(out, "],\n\"steps_with\":[");
	for (size_t i = 0; i < b->list.n; i++) {
		if (b->search.verdicts[i] != CK_STEP_HAS)
			continue;
		ck_buf_text(out, first ? "" : ",");
		json_name(b, i, out);
		first = false;
	}
	ck_buf_text(out, "]");
}

static void json_unread(const struct bisecting *b, struct ck_buf *out)
{
	ck_buf_text(out, ",\n\"unreadable\":[");
	for (size_t i = 0; i < b->unread.n; i++) {
		const struct ck_unread *u = &b->unread.all[i];

		ck_buf_text(out, i ? ",\n{\"step\":" : "\n{\"step\":");
		json_name(b, u->step, out);
		ck_buf_text(out, ",\"fqn\":");
		if (u->name)
			ck_buf_json_str(out, ck_str_from(u->name));
		else
			ck_buf_text(out, "null");
		ck_buf_printf(out, ",\"errno\":\"%s\",\"what\":",
			      strerrorname_np(u->err));
		ck_buf_json_str(out, ck_str_from(u->what));
		ck_buf_text(out, "}");
	}
	ck_buf_text(out, "]");
}

static void print_json(const struct bisecting *b, struct ck_buf *out)
{
	ck_buf_text(out, "{\"version\":1,");
	json_found(b, out);
	ck_buf_printf(out,
		      ",\n\"certain\":%s,\"assumption\":%s,"
		      "\"contradicted\":%s",
		      is_certain(b) ? "true" : "false",
		      b->search.every ? "null" : "\"" ASSUMPTION "\"",
		      b->search.contradicted ? "true" : "false");
	json_neighbour(b, "before", b->search.found - 1, out);
	json_neighbour(b, "after", b->search.found + 1, out);
	ck_buf_printf(out, ",\n\"steps\":%zu", b->list.n);
	json_steps(b, out);
	json_unread(b, out);
	ck_buf_text(out, "}\n");
}

/* --- the command ------------------------------------------------------------------------ */

static int test(void *arg, size_t step, enum ck_verdict *out)
{
	struct bisecting *b = arg;
	int rc = ck_step_scan(&b->list, step, &b->unread, &b->scanned[step]);

	*out = b->scanned[step].verdict;
	return rc;
}

static int search(struct bisecting *b)
{
	size_t n = b->list.n;
	int rc;

	b->search.n = n;
	b->search.verdicts = calloc(n, 1);
	b->search.order = calloc(n, sizeof(*b->search.order));
	b->scanned = calloc(n, sizeof(*b->scanned));
	if (!b->search.verdicts || !b->search.order || !b->scanned)
		return ck_trouble("out of memory");
	b->search.test = test;
	b->search.arg = b;
	rc = ck_bisect(&b->search);
	return rc ? ck_trouble("%s", strerror(-rc)) : CK_EXIT_FINE;
}

static int answer(struct bisecting *b)
{
	struct ck_buf out = { 0 };
	int rc;

	explain(b);
	if (b->json)
		print_json(b, &out);
	else
		print_text(b, &out);
	rc = b->json ? ck_print_json(&out) : ck_print(&out);
	if (rc)
		return rc;
	if (!is_certain(b))
		return CK_EXIT_TROUBLE;
	return is_found(b) ? CK_EXIT_FINE : CK_EXIT_DAMAGE;
}

static int bisect(struct bisecting *b, const char *src,
		  const struct ck_checkpoint *cp)
{
	struct ck_rundir *run = ck_checkpoint_run(cp);
	int rc;

	if (!run)
		return ck_trouble("%s: a checkpoint of kind %s; expected a run "
				  "directory, whose subdirectories are steps",
				  ck_show(ck_str_from(src)),
				  ck_checkpoint_kind(cp));
	ck_log_detach(); /* the command reports what cannot be read */
	rc = ck_run_list_make(run, src, &b->list);
	if (rc == 0)
		rc = search(b);
	return rc ? rc : answer(b);
}

static int parse(struct bisecting *b, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "nan", no_argument, NULL, 'n' },
		{ "all-steps", no_argument, NULL, 'a' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 && (letter = ck_getopt(argc, argv, "o:", longs)) != -1)
		switch (letter) {
		case 'n': b->nan = true; break;
		case 'a': b->search.every = true; break;
		case 'j': b->json = true; break;
		case 'o':
			rc = ck_parse_reading(&b->options, &b->hosts, NULL,
					      optarg);
			break;
		default: rc = CK_EXIT_TROUBLE;
		}
	if (rc == 0 && (!b->nan || argc - optind != 1))
		rc = ck_usage();
	if (rc == 0 && (b->hosts.list.n || b->hosts.hostfile))
		rc = ck_trouble("bisect: option hosts: a run directory must be "
				"on this host");
	return rc;
}

static void bisecting_fini(struct bisecting *b)
{
	for (size_t i = 0; b->scanned && i < b->list.n; i++)
		free(b->scanned[i].name);
	free(b->scanned);
	free(b->search.verdicts);
	free(b->search.order);
	ck_unreads_fini(&b->unread);
	ck_run_list_fini(&b->list);
	ck_hosts_options_fini(&b->hosts);
	ck_format_options_fini(&b->options);
}

int ck_cmd_bisect(int argc, char **argv)
{
	struct bisecting b = { .options.shardlinks = CK_BENEATH_NO_SYMLINKS };
	struct ck_checkpoint *cp = NULL;
	struct ck_cluster *cluster = NULL;
	int rc = parse(&b, argc, argv);

	if (rc == 0)
		rc = ck_source_open(argv[optind], &b.options, &b.hosts,
				    &cluster, &cp);
	if (rc == 0)
		rc = bisect(&b, argv[optind], cp);
	bisecting_fini(&b);
	ck_source_close(cluster, cp);
	return rc;
}
