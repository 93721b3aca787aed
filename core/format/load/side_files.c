/* SPDX-License-Identifier: MIT */
/* side_files: lists the small files beside the tensors of a checkpoint, or in a
 * directory that the user names. Over several hosts the list is made by
 * ck_side_files_fetch() when the checkpoint is opened. On one host the first
 * ck_checkpoint_side_files() makes it, in any thread; if two threads do so, the
 * first one wins (cp->lock). */
#include "side_files.h"
#include "ckptfs/memory.h"
#include "load_gather.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

/* --- names --------------------------------------------------------------------- */

static bool is_wanted(const char *name)
{
	static const char *const ends[] = { ".json",  ".txt",	   ".model",
					    ".jinja", ".tiktoken", ".py" };

	if (name[0] == '.' || ck_name_ends(name, ".index.json"))
		return false;
	for (size_t i = 0; i < CK_ARRAY_SIZE(ends); i++)
		if (ck_name_ends(name, ends[i]))
			return true;
	return false;
}

static int names_read(struct ck_directory dir, struct ck_dir_names *out)
{
	const struct ck_dir_want want = { is_wanted, SIZE_MAX, SIZE_MAX };

	return ck_dir_names_read(dir, &want, out);
}

/* --- local files ------------------------------------------------------------------ */

static int open_at(const struct ck_reach *reach, bool anywhere,
		   const char *name)
{
	return anywhere ? ck_template_file(reach->dirfd, name)
			: ck_open_reached(reach, ck_str_from(name), OPEN_FLAGS);
}

static struct ck_side_file *other_add(struct ck_side_files *o, const char *name)
{
	struct ck_side_file *all = ck_grow(o->all, &o->cap, o->n, 1,
					   sizeof(*all));
	char *text = strdup(name);

	if (all)
		o->all = all;
	if (!all || !text) {
		free(text);
		return NULL;
	}
	all[o->n] = (struct ck_side_file){ .name = text };
	return &all[o->n++];
}

static bool is_good(const struct stat *st)
{
	return S_ISREG(st->st_mode) &&
	       (uint64_t)st->st_size <= CK_SIDE_FILE_MOST;
}

/* Returns the r bits that the path denies. The path to the target of a link is not
 * checked, so only the owner may read it. */
static mode_t closed_at(const struct ck_side_files *o, const char *name)
{
	struct stat st;

	if (fstatat(o->reach.dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0444;
	return S_ISLNK(st.st_mode) ? 0044 : 0;
}

/* Adds a local file; skips one that cannot be opened. Returns 0, or: -ENOMEM. */
static int local_add(struct ck_side_files *o, const char *name)
{
	ck_auto_fd int fd = open_at(&o->reach, o->anywhere, name);
	struct ck_side_file *other;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !is_good(&st))
		return 0;
	other = other_add(o, name);
	if (!other)
		return -ENOMEM;
	other->size = (uint64_t)st.st_size;
	other->mtime = st.st_mtim;
	other->id = ck_file_id_of(&st);
	ck_file_access_note(&other->access, &st, fd, "", AT_EMPTY_PATH);
	other->access.closed = o->files ? ck_files_closed_to(o->files,
							     ck_str_from(name),
							     fd, o->shown)
					: closed_at(o, name);
	return 0;
}

int ck_side_files_read(struct ck_side_files *o)
{
	struct ck_dir_names names = { 0 };
	int rc = names_read((struct ck_directory){ .fd = o->reach.dirfd },
			    &names);

	for (size_t i = 0; i < names.n && rc == 0; i++)
		rc = local_add(o, names.all[i]);
	ck_dir_names_fini(&names);
	return rc;
}

void ck_side_files_fini(struct ck_side_files *o)
{
	for (uint32_t i = 0; i < o->n; i++) {
		if (o->all[i].pages)
			ck_pages_free(o->all[i].pages, (size_t)o->all[i].size);
		free(o->all[i].name);
	}
	free(o->all);
	*o = (struct ck_side_files){ 0 };
}

int ck_side_file_check(const struct ck_side_file *o, int fd)
{
	struct ck_file_access now = o->access;
	struct stat st;

	if (fstat(fd, &st))
		return -EIO;
	ck_file_access_note(&now, &st, fd, "", AT_EMPTY_PATH);
	return now.mode == o->access.mode && now.uid == o->access.uid &&
			       now.gid == o->access.gid &&
			       (uint64_t)st.st_size == o->size &&
			       st.st_dev == o->id.dev &&
			       st.st_ino == o->id.ino &&
			       st.st_mtim.tv_sec == o->mtime.tv_sec &&
			       st.st_mtim.tv_nsec == o->mtime.tv_nsec
		       ? 0
		       : -ESTALE;
}

int ck_side_file_open(const struct ck_side_files *o, uint32_t i)
{
	int fd = open_at(&o->reach, o->anywhere, o->all[i].name);
	int rc;

	/* The name was removed, or is a link now. */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV)
		return -ESTALE;
	if (fd < 0)
		return fd;
	rc = ck_side_file_check(&o->all[i], fd);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* --- files of other hosts --------------------------------------------------------- */

static int remote_add(struct ck_side_files *o, const char *name,
		      const struct ck_file_info *reported, void *pages)
{
	struct ck_side_file *other = other_add(o, name);

	if (!other) {
		ck_pages_free(pages, (size_t)reported->size);
		return -ENOMEM;
	}
	other->size = reported->size;
	other->mtime = reported->mtime;
	other->access = (struct ck_file_access){ .mode = reported->mode,
						 .uid = reported->uid,
						 .gid = reported->gid,
						 .closed = reported->closed };
	other->pages = pages;
	return 0;
}

/* Adds a file, from the host that has it. Skips one that is too large or not a regular
 * file. If hosts have different ones, a note names the file. */
static int bring(struct ck_checkpoint *cp, struct ck_catalog *c,
		 const char *name, struct ck_side_files *out, uint64_t *bytes)
{
	struct ck_file_info reported = { 0 };
	struct ck_diag why = { 0 };
	void *pages = NULL;
	int rc = cp->elsewhere->text(cp->elsewhere, ck_str_from(name),
				     CK_SIDE_FILE_MOST, &reported, &pages,
				     &why);

	if (ck_is_shortage(rc))
		return rc;
	if (rc == -ESTALE || rc == -EIO)
		return ck_catalog_note_add(
			c, ck_shown("hf: not shown: %s", why.text));
	if (rc)
		return 0;
	if (!pages)
		return local_add(out, name);
	*bytes += reported.size;
	if (*bytes <= CK_SIDE_FILE_MOST)
		return remote_add(out, name, &reported, pages);
	ck_pages_free(pages, (size_t)reported.size);
	return ck_catalog_note_add(
		c, ck_shown("hf: not shown: %s: other hosts have too much of "
			    "this kind",
			    ck_show(ck_str_from(name))));
}

static struct ck_side_files others_of(const struct ck_checkpoint *cp,
				      const struct ck_catalog *c)
{
	return (struct ck_side_files){ .reach = cp->reach,
				       .files = cp->files,
				       .shown = { c->meta.uid, c->meta.gid } };
}

int ck_side_files_fetch(struct ck_checkpoint *cp, struct ck_catalog *c)
{
	struct ck_side_files *all = calloc(1, sizeof(*all));
	struct ck_dir_names names = { 0 };
	uint64_t bytes = 0;
	int rc = all ? 0 : -ENOMEM;

	cp->side_files = all;
	if (all)
		*all = others_of(cp, c);
	if (rc == 0 && !cp->file)
		rc = names_read(ck_checkpoint_dir(cp), &names);
	if (rc && !ck_is_shortage(rc))
		rc = ck_catalog_note_add(c, "hf: small files are not shown: "
					    "hosts could not be asked");
	for (size_t i = 0; i < names.n && rc == 0; i++)
		rc = bring(cp, c, names.all[i], all, &bytes);
	ck_dir_names_fini(&names);
	return rc;
}

/* --- the list of a checkpoint ----------------------------------------------------- */

static struct ck_side_files *present(struct ck_checkpoint *cp)
{
	struct ck_side_files *others;

	pthread_mutex_lock(&cp->lock);
	others = cp->side_files;
	pthread_mutex_unlock(&cp->lock);
	return others;
}

/* Publishes a list. If another thread was first, its list stays. */
static void publish(struct ck_checkpoint *cp, struct ck_side_files *found)
{
	struct ck_side_files *others = found;

	pthread_mutex_lock(&cp->lock);
	if (!cp->side_files)
		cp->side_files = ck_steal(&others);
	pthread_mutex_unlock(&cp->lock);
	ck_side_files_free(others);
}

int ck_checkpoint_side_files(struct ck_checkpoint *cp,
			     const struct ck_side_files **out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_side_files *found;
	int rc;

	*out = present(cp);
	if (*out)
		return 0;
	found = malloc(sizeof(*found));
	if (!found)
		return -ENOMEM;
	*found = others_of(cp, c);
	rc = cp->file ? 0 : ck_side_files_read(found);
	if (rc) {
		ck_side_files_free(found);
		return rc;
	}
	publish(cp, found);
	*out = present(cp);
	return 0;
}

void ck_side_files_free(struct ck_side_files *o)
{
	if (o)
		ck_side_files_fini(o);
	free(o);
}
