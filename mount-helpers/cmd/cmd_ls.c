/* SPDX-License-Identifier: MIT */
/*
 * ls: lists names of the tree without a mount, as ls(1) does or as JSON. With -R a directory
 * is listed completely before its subdirectories. A name that cannot be listed is reported,
 * and the listing continues. One thread.
 */
#include "attributes.h"
#include "ckptfs/json.h"
#include "commands.h"
#include "offline_tree.h"
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FLUSH = 1 << 16 }; /* bytes */

/* Caches the name of the last user or group: nearly all files have the same. */
struct owner {
	bool known;
	unsigned id;
	char name[64];
};

struct listing {
	bool is_long, deep, json;
	struct ck_offline u;
	struct ck_buf out; /* written when it has FLUSH bytes */
	bool terminal;	   /* stdout is one: control characters are escaped */
	bool headed;	   /* directories have a line with their path */
	bool begun;	   /* a line was printed */
	int status;	   /* exit status of the names that were reported */
	struct owner user, group;
};

/* A directory that is being listed, and its subdirectories for -R. */
struct dir {
	struct listing *l;
	const char *path;
	struct ck_paths below;
};

/* --- printing ------------------------------------------------------------------------ */

/* Returns the exit status. */
static int flush(struct listing *l)
{
	return l->json ? ck_print_json(&l->out) : ck_print(&l->out);
}

static int flush_if_long(struct listing *l)
{
	return l->out.len < FLUSH ? CK_EXIT_FINE : flush(l);
}

static void add_name(struct listing *l, const char *name)
{
	if (l->terminal && !ck_str_plain(ck_str_from(name)))
		ck_buf_escaped(&l->out, ck_str_from(name));
	else
		ck_buf_text(&l->out, name);
}

static const char *owner_name(struct owner *o, unsigned id,
			      const char *(*name_of)(unsigned id))
{
	if (!o->known || o->id != id) {
		const char *name = name_of(id);

		if (name)
			snprintf(o->name, sizeof(o->name), "%s", name);
		else
			snprintf(o->name, sizeof(o->name), "%u", id);
		o->known = true;
		o->id = id;
	}
	return o->name;
}

static const char *user_name(unsigned id)
{
	const struct passwd *p = getpwuid(id);

	return p ? p->pw_name : NULL;
}

static const char *group_name(unsigned id)
{
	const struct group *g = getgrgid(id);

	return g ? g->gr_name : NULL;
}

static char type_letter(uint8_t type)
{
	return type == CK_TYPE_DIR ? 'd' : type == CK_TYPE_LINK ? 'l' : '-';
}

static void add_mode(struct ck_buf *out, const struct ck_node_stat *st)
{
	char text[] = "rwxrwxrwx";

	for (unsigned i = 0; i < 9; i++)
		if (!(st->mode & 0400U >> i))
			text[i] = '-';
	ck_buf_printf(out, "%c%s", type_letter(st->type), text);
}

/* A directory has no size. */
static void add_size(struct ck_buf *out, const struct ck_node_stat *st)
{
	if (st->type == CK_TYPE_DIR)
		ck_buf_printf(out, " %12s", "-");
	else
		ck_buf_printf(out, " %12ju", (uintmax_t)st->size);
}

static void add_long(struct listing *l, const struct ck_node_stat *st,
		     const char *name)
{
	char date[32] = "?";
	struct tm tm;

	if (localtime_r(&st->mtime.tv_sec, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &tm);
	add_mode(&l->out, st);
	ck_buf_printf(&l->out, " %s", owner_name(&l->user, st->uid, user_name));
	ck_buf_printf(&l->out, " %s",
		      owner_name(&l->group, st->gid, group_name));
	add_size(&l->out, st);
	ck_buf_printf(&l->out, " %s ", date);
	add_name(l, name);
	ck_buf_text(&l->out, "\n");
}

static int add_json(struct listing *l, const struct ck_node *n,
		    const struct ck_node_stat *st, const char *path)
{
	static const char *const types[] = { [CK_TYPE_FILE] = "file",
					     [CK_TYPE_DIR] = "dir",
					     [CK_TYPE_LINK] = "link" };
	struct ck_buf *out = &l->out;
	int rc;

	ck_buf_text(out, "{\"path\":");
	ck_buf_json_str(out, ck_str_from(path));
	ck_buf_printf(out, ",\"type\":\"%s\",\"size\":", types[st->type]);
	if (st->type == CK_TYPE_DIR)
		ck_buf_text(out, "null");
	else
		ck_buf_printf(out, "%ju", (uintmax_t)st->size);
	ck_buf_printf(out, ",\"mode\":\"%04o\",\"uid\":%u,\"gid\":%u",
		      (unsigned)st->mode & 07777, st->uid, st->gid);
	ck_buf_printf(out, ",\"mtime\":\"%jd.%09ld\",\"xattrs\":",
		      (intmax_t)st->mtime.tv_sec, st->mtime.tv_nsec);
	rc = ck_attributes_json(n, false, out);
	ck_buf_text(out, "}\n");
	return rc;
}

/* path: from the root; name: as printed in the line. Returns the exit status of writing. */
static int add_entry(struct listing *l, const struct ck_node *n,
		     const char *path, const char *name)
{
	size_t before = l->out.len;
	struct ck_node_stat st;
	int rc = l->json || l->is_long ? ck_tree_stat(n, &st) : 0;

	l->begun = true;
	if (rc == 0 && l->json)
		rc = add_json(l, n, &st, path);
	else if (rc == 0 && l->is_long)
		add_long(l, &st, name);
	else if (rc == 0) {
		add_name(l, name);
		ck_buf_text(&l->out, "\n");
	}
	if (rc) {
		l->out.len = before;
		l->status = ck_trouble("%s: %s", ck_path_shown(path),
				       strerror(-rc));
	}
	return flush_if_long(l);
}

/* --- directories ----------------------------------------------------------------------- */

static int each_entry(void *arg, struct ck_node *n, const char *name)
{
	struct dir *d = arg;
	char *path = ck_path_join(d->path, name);
	int rc;

	if (!path)
		return ck_trouble("out of memory");
	rc = add_entry(d->l, n, path, name);
	if (rc || !d->l->deep || n->about.type != CK_TYPE_DIR) {
		free(path);
		return rc;
	}
	return ck_paths_add(&d->below, n, path) ? ck_trouble("out of memory")
						: CK_EXIT_FINE;
}

static void add_heading(struct listing *l, const char *path)
{
	if (l->json || !l->headed)
		return;
	if (l->begun)
		ck_buf_text(&l->out, "\n");
	add_name(l, *path ? path : ".");
	ck_buf_text(&l->out, ":\n");
	l->begun = true;
}

static int list_dir(struct listing *l, struct ck_node *n, const char *path);

/* Lists the subdirectories; holds a use of one at a time. Returns the exit status. */
static int list_below(struct listing *l, const struct ck_paths *below)
{
	int rc = CK_EXIT_FINE;

	for (size_t i = 0; rc == 0 && i < below->n; i++) {
		struct ck_named *named = &below->all[i];
		int used = ck_tree_use(l->u.s.tree, &named->node);

		if (used)
			return ck_trouble("%s: %s", ck_path_shown(named->path),
					  strerror(-used));
		rc = list_dir(l, &named->node, named->path);
		ck_tree_forget(l->u.s.tree, named->node.number, 1);
	}
	return rc;
}

static int list_dir(struct listing *l, struct ck_node *n, const char *path)
{
	struct dir d = { .l = l, .path = path };
	int rc;

	add_heading(l, path);
	rc = ck_session_each(&l->u.s, n->number, each_entry, &d);
	if (rc < 0)
		rc = ck_trouble("%s: %s", ck_path_shown(path), strerror(-rc));
	if (rc == 0)
		rc = list_below(l, &d.below);
	ck_paths_fini(&d.below);
	return rc;
}

/* --- the command ------------------------------------------------------------------------- */

/* Lists files first, then the contents of directories. */
static int list_all(struct listing *l, const struct ck_paths *names)
{
	int rc = CK_EXIT_FINE;

	for (int dirs = 0; dirs < 2; dirs++)
		for (size_t i = 0; rc == 0 && i < names->n; i++) {
			struct ck_named *n = &names->all[i];

			if ((n->node.about.type == CK_TYPE_DIR) != dirs)
				continue;
			rc = dirs ? list_dir(l, &n->node, n->path)
				  : add_entry(l, &n->node, n->path, n->path);
		}
	return rc ? rc : flush(l);
}

static int run(struct listing *l, char **argv, int n)
{
	struct ck_paths names = { 0 };
	int rc = ck_offline_open(&l->u, argv[0]);

	if (rc)
		return rc;
	for (int i = 1; i < n || i == 1; i++)
		l->status |= ck_paths_find(&l->u, i < n ? argv[i] : "", &names);
	l->headed = l->deep || names.n > 1;
	l->terminal = isatty(STDOUT_FILENO);
	rc = list_all(l, &names);
	ck_paths_fini(&names);
	return rc | l->status;
}

static int parse(struct listing *l, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 && (letter = ck_getopt_hosts(argc, argv, "lRo:", longs,
						    &l->u.hosts)) != -1)
		switch (letter) {
		case 'l': l->is_long = true; break;
		case 'R': l->deep = true; break;
		case 'j': l->json = true; break;
		case 'o':
			rc = ck_parse_reading(&l->u.s.options, &l->u.hosts,
					      &l->u.s.view, optarg);
			break;
		default: rc = CK_EXIT_TROUBLE;
		}
	if (rc == 0 && argc - optind < 1)
		rc = ck_usage();
	return rc ? rc : ck_check_hosts(&l->u.hosts);
}

int ck_cmd_ls(int argc, char **argv)
{
	struct listing l = { .json = false };
	int rc = parse(&l, argc, argv);

	if (rc == 0)
		rc = run(&l, argv + optind, argc - optind);
	ck_buf_fini(&l.out);
	ck_offline_close(&l.u);
	return rc;
}
