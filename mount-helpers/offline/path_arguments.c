/* SPDX-License-Identifier: MIT */
/*
 * path_arguments: resolves the PATH arguments of a command to nodes of the tree. A component
 * that exists as a name is not read as a pattern, so each name that `ls` shows is a valid
 * PATH. No state; the main thread.
 */
#include "cli.h"
#include "format/run/run.h"
#include "offline_tree.h"
#include <errno.h>
#include <fnmatch.h>
#include <locale.h>
#include <stdio.h>

struct finding {
	struct ck_offline *u;
	struct ck_paths *out;
	locale_t utf8; /* of names; 0: patterns match bytes */
};

/* One component of a PATH: the directory that was reached, and the name to find in it. */
struct step {
	struct finding *f;
	struct ck_node in;
	const char *path; /* of `in` */
	char *pattern;	  /* the component; owned */
	const char *rest; /* of the PATH, behind the component */
};

static int find_in(struct finding *f, const struct ck_node *in,
		   const char *path, const char *rest);

static bool is_pattern(const char *path)
{
	return strpbrk(path, "*?[\\") != NULL;
}

int ck_paths_add(struct ck_paths *to, const struct ck_node *n, char *path)
{
	struct ck_named *all = path ? ck_grow(to->all, &to->cap, to->n, 1,
					      sizeof(*all))
				    : NULL;

	if (!all) {
		free(path);
		return -ENOMEM;
	}
	to->all = all;
	to->all[to->n++] = (struct ck_named){ .node = *n, .path = path };
	return 0;
}

char *ck_path_join(const char *path, const char *name)
{
	char *out;

	return asprintf(&out, "%s%s%s", path, *path ? "/" : "", name) < 0 ? NULL
									  : out;
}

/* Continues with the rest of the PATH in a node that was found. The node stays in use until
 * the tree is closed. Returns 0 or a negative errno. */
static int found(const struct step *s, struct ck_node *n, const char *name)
{
	ck_auto_free char *path = ck_path_join(s->path, name);
	/* A link at the end of a PATH is not followed. */
	int rc = ck_session_use(&s->f->u->s, s->in.number, *s->rest, n);

	if (rc == 0 && !path)
		rc = -ENOMEM;
	return rc ? rc : find_in(s->f, n, path, s->rest);
}

/* A `?` of the pattern matches one UTF-8 character. */
static bool matches(const struct step *s, const char *name)
{
	locale_t before = s->f->utf8 ? uselocale(s->f->utf8) : NULL;
	bool found = fnmatch(s->pattern, name, 0) == 0;

	if (before)
		uselocale(before);
	return found;
}

static int found_each(void *arg, struct ck_node *n, const char *name)
{
	const struct step *s = arg;
	int rc = matches(s, name) ? found(s, n, name) : 0;

	/* Not every match of a pattern needs to have the rest of the PATH. */
	return rc == -ENOTDIR || rc == -ENOENT ? 0 : rc;
}

/* Finds the component in its directory. Returns 0, or: -ENOENT if nothing matches; other
 * errors of the tree. */
static int find_name(struct step *s)
{
	struct ck_offline *u = s->f->u;
	size_t before = s->f->out->n;
	struct ck_node n;
	int rc = ck_tree_name(u->s.tree, s->in.number, ck_str_from(s->pattern),
			      &n);

	if (rc == 0)
		return found(s, &n, s->pattern);
	if (rc != -ENOENT || !is_pattern(s->pattern))
		return rc;
	s->f->out->by_pattern = true;
	rc = ck_session_each(&u->s, s->in.number, found_each, s);
	return rc == 0 && s->f->out->n == before ? -ENOENT : rc;
}

/* Finds `rest`, the remainder of a PATH, beneath `in`. Returns 0, or: -ENOTDIR if `in` is not
 * a directory; -ENOENT; -ENOMEM; other errors of the tree. */
static int find_in(struct finding *f, const struct ck_node *in,
		   const char *path, const char *rest)
{
	struct step s = { .f = f, .in = *in, .path = path };
	size_t len;
	int rc;

	do {
		rest += strspn(rest, "/");
		len = strcspn(rest, "/");
		s.rest = rest + len;
	} while (len == 1 && *rest == '.' && (rest = s.rest));
	if (len == 0)
		return ck_paths_add(f->out, in, strdup(path));
	if (in->about.type != CK_TYPE_DIR)
		return -ENOTDIR;
	s.pattern = strndup(rest, len);
	rc = s.pattern ? find_name(&s) : -ENOMEM;
	free(s.pattern);
	return rc;
}

static bool leaves_root(const char *path)
{
	for (const char *at = path; (at = strstr(at, "..")); at += 2)
		if ((at == path || at[-1] == '/') &&
		    (at[2] == '\0' || at[2] == '/'))
			return true;
	return false;
}

/* True for a name in full/ or local/ without one of the extensions there. */
static bool lacks_npy(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && name[1] && !strstr(name, ".npy") &&
	       !strstr(name, ".json") &&
	       (strncmp(path, "full/", 5) == 0 ||
		strncmp(path, "local/rank-", 11) == 0);
}

/* True for the directory that only the filesystem shows, and for paths in it. */
static bool is_files(const char *path)
{
	size_t len = strlen("files");

	path += strspn(path, "/");
	return strncmp(path, "files", len) == 0 &&
	       (path[len] == '\0' || path[len] == '/');
}

static int find(struct ck_offline *u, const char *path, struct ck_paths *out)
{
	struct finding f = { .u = u, .out = out };
	const char *shown = ck_path_shown(path);
	struct ck_node root;
	int rc;

	if (leaves_root(path))
		return ck_trouble("%s: .. is not allowed; a PATH begins at the "
				  "root of the tree",
				  shown);
	f.utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
	rc = ck_tree_find(u->s.tree, CK_TREE_ROOT, &root);
	rc = rc ? rc : find_in(&f, &root, "", path);
	if (f.utf8)
		freelocale(f.utf8);
	if (rc == -ENOENT && is_files(path))
		return ck_trouble("%s: %s; files/ is in mounts only, and has "
				  "the files of SRC itself",
				  shown, strerror(ENOENT));
	if (rc == -ENOENT && lacks_npy(path))
		return ck_trouble("%s: %s; names in full/ and local/ end in "
				  ".npy or .json",
				  shown, strerror(ENOENT));
	if (rc == -ENOENT && ck_checkpoint_run(u->s.cp))
		return ck_trouble("%s: %s; in a run directory, a PATH begins "
				  "with the name of a step: ckptfs ls SRC",
				  shown, strerror(ENOENT));
	return rc ? ck_trouble("%s: %s", shown, strerror(-rc)) : CK_EXIT_FINE;
}

int ck_paths_find(struct ck_offline *u, const char *path, struct ck_paths *out)
{
	int rc = find(u, path, out);

	if (rc)
		out->by_pattern |= is_pattern(path);
	return rc;
}

void ck_paths_fini(struct ck_paths *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->all[i].path);
	free(names->all);
	*names = (struct ck_paths){ 0 };
}
