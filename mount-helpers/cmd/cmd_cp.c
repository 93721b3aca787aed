/* SPDX-License-Identifier: MIT */
/*
 * cp: copies files and directories of the tree to a file system, without a mount, with the
 * rules of cp(1). All names and destinations are checked before the first write. The main thread
 * parses, checks and walks; cp_threads.c copies. --resume completes a copy (cp_mark.c).
 */
#include "base/system/process.h"
#include "commands.h"
#include "cp.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct cp {
	bool deep; /* -r */
	struct ck_offline u;
	struct ck_cp_how how;
	struct ck_progress progress;
	bool resume;
	char mark[CK_CP_MARK_NAME]; /* file name of the mark */
	struct ck_paths names;	    /* nodes to copy */
	bool several;		    /* DEST must be a directory */
	bool whole;		    /* the root is among `names` */
	bool into;		    /* DEST is a directory to copy into */
	char *dest;		    /* the directory in messages; owned */
	char *parent,
		*last; /* without `into`: DEST, split at its last name; owned */
	int top;       /* descriptor of DEST or `parent`; -1: not open */
	uint64_t total; /* bytes to copy, for the progress line */
	int status;	/* exit status of the faults reported so far */
};

/* --- nodes to copy -------------------------------------------------------------------- */

static const char *name_of(const struct ck_named *n)
{
	const char *slash = strrchr(n->path, '/');

	return slash ? slash + 1 : n->path;
}

static bool is_dir(const struct ck_named *n)
{
	return n->node.about.type == CK_TYPE_DIR;
}

static void keep_only(struct ck_paths *names,
		      bool (*is_kept)(const struct ck_named *n))
{
	size_t kept = 0;

	for (size_t i = 0; i < names->n; i++)
		if (is_kept(&names->all[i]))
			names->all[kept++] = names->all[i];
		else
			free(names->all[i].path);
	names->n = kept;
}

static bool is_no_dir(const struct ck_named *n)
{
	return !is_dir(n);
}

/* Removes directories from the list, with a message for each. */
static void drop_dirs(struct cp *k)
{
	for (size_t i = 0; i < k->names.n; i++)
		if (is_dir(&k->names.all[i]))
			k->status =
				ck_trouble("%s: is a directory; -r copies it",
					   ck_path_shown(k->names.all[i].path));
	keep_only(&k->names, is_no_dir);
}

static int add_each(void *arg, struct ck_node *n, const char *name)
{
	struct cp *k = arg;
	int rc = ck_tree_use(k->u.s.tree, n);

	return rc ? rc : ck_paths_add(&k->names, n, strdup(name));
}

static bool is_not_root(const struct ck_named *n)
{
	return *n->path != '\0';
}

/* Replaces the root by its entries. Returns the exit status. */
static int open_root(struct cp *k)
{
	size_t given = k->names.n;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < given; i++)
		if (!is_not_root(&k->names.all[i])) {
			k->whole = true;
			rc = ck_offline_copied(&k->u, CK_TREE_ROOT, add_each,
					       k);
		}
	keep_only(&k->names, is_not_root);
	return rc ? ck_trouble("%s", strerror(-rc)) : CK_EXIT_FINE;
}

/* Orders by name in DEST, then by path. */
static int compare(const void *a, const void *b)
{
	const struct ck_named *x = *(const struct ck_named *const *)a;
	const struct ck_named *y = *(const struct ck_named *const *)b;
	int order = strcmp(name_of(x), name_of(y));

	return order ? order : strcmp(x->path, y->path);
}

/* Compares neighbours of the sorted list: marks `a` if it is the same node, refuses another
 * node of the same name. Returns the exit status. */
static int compare_to(struct ck_named *a, struct ck_named *b)
{
	if (strcmp(name_of(a), name_of(b)) != 0)
		return CK_EXIT_FINE;
	if (strcmp(a->path, b->path) != 0)
		return ck_trouble("%s and %s: would have the same name in DEST",
				  ck_path_shown(a->path),
				  ck_path_shown(b->path));
	a->node.number = 0; /* the mark; a node in use has another number */
	return CK_EXIT_FINE;
}

static bool is_unmarked(const struct ck_named *n)
{
	return n->node.number != 0;
}

/* Removes duplicates of nodes that several PATHs name. Returns the exit status. */
static int check_names(struct cp *k)
{
	size_t n = k->names.n;
	struct ck_named **sorted = calloc(n ? n : 1, sizeof(struct ck_named *));
	int rc = CK_EXIT_FINE;

	if (!sorted)
		return ck_trouble("out of memory");
	for (size_t i = 0; i < n; i++)
		sorted[i] = &k->names.all[i];
	qsort(sorted, n, sizeof(struct ck_named *), compare);
	for (size_t i = 1; rc == 0 && i < n; i++)
		rc = compare_to(sorted[i - 1], sorted[i]);
	free(sorted);
	keep_only(&k->names, is_unmarked);
	return rc;
}

/* --- destination ------------------------------------------------------------------------- */

/* Sets k->parent and k->last. Returns the exit status. */
static int split_dest(struct cp *k, const char *dest)
{
	size_t len = strlen(dest), last;

	while (len > 1 && dest[len - 1] == '/')
		len--;
	for (last = len; last > 0 && dest[last - 1] != '/';)
		last--;
	k->last = strndup(dest + last, len - last);
	k->parent = last ? strndup(dest, last) : strdup(".");
	k->dest = strndup(dest, last > 1 ? last - 1 : last);
	return k->last && k->parent && k->dest ? CK_EXIT_FINE
					       : ck_trouble("out of memory");
}

/* The search for a name that DEST and the copied directory have in common. */
struct present {
	const char *dest;
	bool found;
};

static int present_look(void *arg, struct ck_node *n, const char *name)
{
	struct present *p = arg;
	ck_auto_free char *path = ck_path_join(p->dest, name);
	struct stat st;

	(void)n;
	p->found = path && lstat(path, &st) == 0;
	return p->found;
}

/* Refuses --resume if DEST looks like a complete copy: the command would copy into it. Returns
 * the exit status. */
static int check_unmarked(struct cp *k, const char *dest)
{
	const struct ck_named *dir = &k->names.all[0];
	struct present p = { .dest = dest };

	if (!k->resume || k->several || !is_dir(dir))
		return CK_EXIT_FINE;
	(void)!ck_session_each(&k->u.s, dir->node.number, present_look, &p);
	if (!p.found)
		return CK_EXIT_FINE;
	return ck_trouble(
		"%s: has files of such a copy, and no mark of an interrupted "
		"one; it may be complete. Without --resume cp creates a new "
		"directory in it",
		ck_show(ck_str_from(dest)));
}

static int say_incomplete(const char *dest)
{
	return ck_trouble("%s: an incomplete copy; --resume completes it",
			  ck_show(ck_str_from(dest)));
}

/* Looks for the mark of an interrupted run in the directory DEST. Returns the exit status. */
static int look_at_mark(struct cp *k, const char *dest)
{
	if (!k->deep || k->names.n == 0)
		return CK_EXIT_FINE;
	switch (ck_cp_mark_read(dest, k->mark)) {
	case CK_CP_MARK_NONE: return check_unmarked(k, dest);
	case CK_CP_MARK_IN: return CK_EXIT_FINE;
	case CK_CP_MARK_IS:
	default: break;
	}
	if (!k->resume)
		return say_incomplete(dest);
	k->into = false;
	return CK_EXIT_FINE;
}

/* Sets k->into if DEST is a directory. Another object at DEST is examined later, when it would
 * be replaced. Returns the exit status. */
static int look_at_dest(struct cp *k, const char *dest)
{
	const char *shown = ck_show(ck_str_from(dest));
	size_t len = strlen(dest);
	struct stat st;
	int err = stat(dest, &st) ? errno : 0, rc = CK_EXIT_FINE;

	k->into = err == 0 && S_ISDIR(st.st_mode);
	ck_cp_mark_name(&k->names, k->several, k->mark);
	if (k->into)
		rc = look_at_mark(k, dest);
	if (rc)
		return rc;
	if (k->into) {
		while (len > 1 && dest[len - 1] == '/')
			len--;
		k->dest = strndup(dest, len);
		return k->dest ? CK_EXIT_FINE : ck_trouble("out of memory");
	}
	if (*dest == '\0' || (err && err != ENOENT))
		return ck_trouble("%s: %s", *dest ? shown : "DEST",
				  strerror(err));
	if (k->several)
		return ck_trouble("%s: is not a directory; several files need "
				  "one",
				  shown);
	return split_dest(k, dest);
}

/* Opens the directory to write into. Refuses the checkpoint's own directory: a copy there
 * could replace a data file or be read as one. Returns the exit status. */
static int open_top(struct cp *k, const char *dest)
{
	k->top = open(k->into ? dest : k->parent,
		      O_DIRECTORY | O_CLOEXEC | (k->how.sync ? 0 : O_PATH));
	if (k->top < 0)
		return ck_trouble(
			"%s: %s",
			ck_show(ck_str_from(k->into ? dest : k->parent)),
			strerror(errno));
	if (ck_checkpoint_holds(k->u.s.cp, fcntl(k->top, F_DUPFD_CLOEXEC, 0)))
		return ck_trouble("%s: lies in the checkpoint, beside its data "
				  "files; choose another DEST",
				  ck_show(ck_str_from(dest)));
	return CK_EXIT_FINE;
}

/* Refuses a file as DEST/ with a trailing slash, as cp(1) does. Returns the exit status. */
static int check_slash(const struct cp *k, const char *dest)
{
	size_t len = strlen(dest);

	if (k->into || k->names.n == 0 || dest[len - 1] != '/' ||
	    is_dir(&k->names.all[0]))
		return CK_EXIT_FINE;
	return ck_trouble("%s: is not a directory", ck_show(ck_str_from(dest)));
}

/* --- progress ------------------------------------------------------------------------------ */

static int count_node(struct cp *k, const struct ck_node *n);

static int count_each(void *arg, struct ck_node *n, const char *name)
{
	(void)name;
	return count_node(arg, n);
}

/* Adds the bytes of a node. Errors are ignored here and reported by the copy. Returns 1 after
 * a signal, else 0. */
static int count_node(struct cp *k, const struct ck_node *n)
{
	struct ck_node dir = *n;
	struct ck_node_stat st;

	if (ck_cp_signalled())
		return 1;
	if (n->about.type != CK_TYPE_DIR) {
		k->total += ck_tree_stat(n, &st) ? 0 : st.size;
		return 0;
	}
	if (ck_tree_use(k->u.s.tree, &dir))
		return 0;
	(void)!ck_offline_copied(&k->u, dir.number, count_each, k);
	ck_tree_forget(k->u.s.tree, dir.number, 1);
	return 0;
}

static void show_progress(struct cp *k)
{
	if (!isatty(STDERR_FILENO))
		return;
	for (size_t i = 0; i < k->names.n; i++)
		if (count_node(k, &k->names.all[i].node))
			return;
	ck_progress_begin(&k->progress, k->total);
}

/* --- the command ------------------------------------------------------------------------------ */

static void copy_each(struct cp *k, struct ck_cp *c, struct ck_cp_dir *top)
{
	bool fine = true;

	for (size_t i = 0; fine && i < k->names.n; i++) {
		struct ck_named *n = &k->names.all[i];

		fine = ck_cp_run(c, n, top, k->into ? name_of(n) : k->last);
	}
}

static int copy_all(struct cp *k)
{
	struct ck_cp *c = ck_cp_begin(&k->how);
	struct ck_cp_dir *top;
	int rc = CK_EXIT_FINE, status;

	if (!c)
		return ck_trouble("cp: cannot start threads, or out of memory");
	top = ck_cp_into(k->top, k->dest);
	k->top = -1;
	if (top) {
		copy_each(k, c, top);
		ck_cp_into_end(c, top);
	} else
		rc = ck_trouble("out of memory");
	status = ck_cp_end(c);
	return rc ? rc : status;
}

/* Opens the mark of a copy with -r. An error ends the command only if the mark is required: a
 * copy without a mark is complete, but cannot be resumed. Returns the exit status. */
static int open_mark(struct cp *k, const char *dest)
{
	const struct ck_cp_mark_place at = {
		.dir = k->top,
		.last = k->into ? NULL : k->last,
		.base = strlen(k->dest) + (k->into ? 0 : 1 + strlen(k->last)),
		.name = k->mark,
		.resume = k->resume,
	};
	int rc;

	if (!k->deep || (!k->into && !is_dir(&k->names.all[0])))
		return CK_EXIT_FINE;
	rc = ck_cp_mark_open(&at, &k->how.mark);
	if (rc == -EBUSY && (k->resume || !k->into))
		return ck_trouble("%s: another process is making this copy",
				  ck_show(ck_str_from(dest)));
	if (rc && k->resume)
		return ck_trouble("%s: cannot record which files are complete: "
				  "%s",
				  ck_show(ck_str_from(dest)), strerror(-rc));
	return CK_EXIT_FINE;
}

/* Reports an incomplete copy whose mark remains. After a signal stderr may be a full pipe;
 * then there is no message, so that the process can end. */
static void say_resume(const struct cp *k, const char *dest, int rc)
{
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (!k->how.mark || (rc != CK_EXIT_TROUBLE && !ck_cp_signalled()))
		return;
	if (!ck_cp_signalled() || poll(&ready, 1, 0) == 1)
		(void)say_incomplete(dest);
}

static int copy(struct cp *k, const char *dest)
{
	int rc = open_top(k, dest);

	if (rc == 0)
		rc = open_mark(k, dest);
	if (rc)
		return rc;
	ck_cp_signals();
	show_progress(k);
	rc = copy_all(k);
	ck_progress_end(&k->progress);
	say_resume(k, dest, rc);
	if (k->resume && k->how.mark && rc != CK_EXIT_TROUBLE &&
	    !ck_cp_signalled())
		ck_cp_mark_print_skipped(k->how.mark);
	return rc;
}

static int prepare(struct cp *k, char **paths, int n, const char *dest)
{
	int rc;

	for (int i = 0; i < n; i++)
		k->status |= ck_paths_find(&k->u, paths[i], &k->names);
	k->several = n > 1 || k->names.by_pattern;
	if (!k->deep)
		drop_dirs(k);
	rc = look_at_dest(k, dest);
	if (rc == 0 && k->into)
		rc = open_root(k);
	if (rc == 0)
		rc = check_names(k);
	return rc ? rc : check_slash(k, dest);
}

/* Reports names that cannot be read, once for each checkpoint: no directory shows them. A
 * run directory itself has no losses. */
static void say_losses(struct cp *k)
{
	const struct ck_root *last = NULL;

	for (size_t i = 0; i < k->names.n; i++) {
		const struct ck_node *n = &k->names.all[i].node;
		const struct ck_root *root = n->dir.root;

		if (!root || root == last ||
		    (!is_dir(&k->names.all[i]) &&
		     n->about.topic != CK_FILE_KIND_MANY))
			continue;
		last = root;
		k->status |= ck_source_losses(ck_root_checkpoint(root));
	}
}

/* Warns about hf/ without config.json, which cannot be loaded. With hf_template= the view
 * reports it. */
static void say_config(struct cp *k)
{
	static const struct ck_str config = { "config.json", 11 };

	for (size_t i = 0; i < k->names.n; i++) {
		const struct ck_node *n = &k->names.all[i].node;
		struct ck_node found;

		if (k->whole || k->u.s.view.hf_template ||
		    !is_dir(&k->names.all[i]) ||
		    strcmp(name_of(&k->names.all[i]), "hf") != 0 ||
		    ck_tree_name(k->u.s.tree, n->number, config, &found) !=
			    -ENOENT)
			continue;
		(void)ck_trouble("%s: " CK_NO_CONFIG "; " CK_USE_TEMPLATE,
				 ck_path_shown(k->names.all[i].path));
	}
}

static int run(struct cp *k, char **argv, int n)
{
	static char top[] = ".";
	char *whole[] = { top }, **paths = n > 2 ? argv + 1 : whole;
	int npaths = n > 2 ? n - 2 : 1, rc = CK_EXIT_FINE;
	const char *dest = argv[n - 1];

	if (n == 2)
		rc = ck_cp_choose_views(&k->u);
	if (k->deep)
		ck_cp_choose_hf_files(&k->u, paths, npaths);
	if (rc == 0)
		rc = ck_offline_open(&k->u, argv[0]);
	if (rc == 0)
		rc = prepare(k, paths, npaths, dest);
	if (rc == 0 && k->names.n) {
		say_config(k);
		say_losses(k);
		rc = copy(k, dest);
	}
	return rc > k->status ? rc : k->status;
}

static int parse_threads(struct cp *k, const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n < 1 || n > CK_COPY_THREADS)
		return ck_trouble("cp: option -j: expected 1 to %d, found %s",
				  CK_COPY_THREADS, ck_show(ck_str_from(text)));
	k->how.threads = (unsigned)n;
	return CK_EXIT_FINE;
}

static int parse(struct cp *k, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "sync", no_argument, NULL, 's' },
		{ "resume", no_argument, NULL, 'e' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 && (letter = ck_getopt_hosts(argc, argv, "rj:o:", longs,
						    &k->u.hosts)) != -1)
		switch (letter) {
		case 'r': k->deep = true; break;
		case 's': k->how.sync = true; break;
		case 'e': k->resume = true; break;
		case 'j': rc = parse_threads(k, optarg); break;
		case 'o':
			rc = ck_parse_reading(&k->u.s.options, &k->u.hosts,
					      &k->u.s.view, optarg);
			break;
		default: rc = CK_EXIT_TROUBLE;
		}
	if (rc == 0 && argc - optind < (k->deep ? 2 : 3))
		rc = ck_usage();
	if (rc == 0 && k->resume && !k->deep)
		rc = ck_trouble("cp: option --resume needs -r");
	return rc ? rc : ck_check_hosts(&k->u.hosts);
}

static void cp_fini(struct cp *k)
{
	ck_progress_fini(&k->progress);
	ck_paths_fini(&k->names);
	ck_cp_mark_close(k->how.mark);
	ck_offline_close(&k->u);
	ck_fd_cleanup(&k->top);
	free(k->dest);
	free(k->parent);
	free(k->last);
}

/* Ends the process by the signal, so that its parent sees the signal in the wait status. */
static void end_by(int number)
{
	signal(number, SIG_DFL);
	raise(number);
}

int ck_cmd_cp(int argc, char **argv)
{
	struct cp k = { .top = -1 };
	int rc;

	k.how.threads = (unsigned)ck_min(ck_processors(), CK_COPY_THREADS);
	k.how.from = &k.u;
	k.how.progress = &k.progress;
	ck_progress_init(&k.progress, ck_cp_signalled);
	rc = parse(&k, argc, argv);
	if (rc == 0)
		rc = run(&k, argv + optind, argc - optind);
	cp_fini(&k);
	if (ck_cp_signalled())
		end_by(ck_cp_signalled());
	return rc;
}
