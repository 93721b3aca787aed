/* SPDX-License-Identifier: MIT */
/*
 * cp_mark: the record of a copy, from which a later run learns which files are complete. Lines:
 *
 *	ckptfs-cp 1 FORM ID		form: + DEST is the copy, - the copy is in DEST
 *	D TAB path TAB			a directory that this copy makes
 *	F TAB path TAB facts		a file that is complete
 *	facts = size inode mtime ctime content durable
 *
 * Paths are relative to DEST, which is "." itself. A later line of a path replaces the earlier
 * one. `content` is an id of bytes, mode and time, see cp_content.c. `durable` is "-" before
 * the file gets its name. Then it is "sync" if the file was synced, else an id of the boot: a
 * crash of the host may lose bytes of the file, but keep its size and times. Lines are only
 * appended. A write begins and ends with a line feed: a torn line spoils no other one.
 * A lost line costs one more copy, nothing else.
 *
 * The mark is locked while a copy runs. If the file system has no locks, temporary files of
 * earlier runs stay. All threads append, with one write(2) for each line.
 */
#include "ckptfs/table.h"
#include "cli.h"
#include "cp_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#define HEAD "ckptfs-cp 1 "

enum {
	HEAD_LEN = sizeof(HEAD) - 1,
	ID_LEN = 8,
	LINE_LEN = HEAD_LEN + 2 + ID_LEN + 1, /* of the first line */
	MOST = 1 << 30,			      /* bytes of a mark that is read */
};

static const char form_is = '+', form_in = '-', synced[] = "sync",
		  named[] = "-", dest_key[] = "D\t.";

/* A line of an earlier run. */
struct row {
	struct ck_str key, facts;
	bool met; /* this copy has the file; set by the thread that opens it */
};

struct ck_cp_mark {
	/* Constant: */
	int dir, fd;
	char name[CK_CP_MARK_NAME], id[ID_LEN + 1], boot[CK_CONTENT_HEX];
	bool is_dest, resume;
	bool made;   /* DEST: by this run */
	size_t base; /* bytes of DEST in the paths of directories */
	bool cleans; /* temporary files of earlier runs are removed */
	struct ck_buf text;
	struct row *rows; /* texts in `text` */
	size_t nrows, cap;
	struct ck_table by_key;
	/* Locks itself: */
	struct ck_contents contents;
	/* Atomic: */
	atomic_ullong files, skipped;
};

/* --- names ---------------------------------------------------------------------------- */

void ck_cp_mark_name(const struct ck_paths *names, bool several,
		     char out[static CK_CP_MARK_NAME])
{
	struct ck_buf text = { 0 };

	ck_buf_u8(&text, several);
	for (size_t i = 0; i < names->n; i++)
		ck_buf_add(&text, names->all[i].path,
			   strlen(names->all[i].path) + 1);
	snprintf(out, CK_CP_MARK_NAME, ".ckptfs-copy-%016jx",
		 (uintmax_t)ck_hash64((struct ck_str){ text.data, text.len }));
	ck_buf_fini(&text);
}

/* The temporary name of DEST. It is always the same, so that a later run takes over what an
 * interrupted one left. */
static void dest_name(const char *mark, const char *last,
		      char out[static CK_CP_NAME])
{
	struct ck_buf text = { 0 };

	ck_buf_printf(&text, "%s/%s", mark, last);
	snprintf(out, CK_CP_NAME, ".ckptfs-cp-%016jx",
		 (uintmax_t)ck_hash64((struct ck_str){ text.data, text.len }));
	ck_buf_fini(&text);
}

const char *ck_cp_mark_id(const struct ck_cp_mark *m)
{
	return m ? m->id : "";
}

/* --- lines of earlier runs -------------------------------------------------------------- */

static bool head_is_good(struct ck_str line)
{
	return line.len == LINE_LEN - 1 &&
	       memcmp(line.p, HEAD, HEAD_LEN) == 0 &&
	       (line.p[HEAD_LEN] == form_is || line.p[HEAD_LEN] == form_in);
}

static struct ck_str row_key(const void *arg, uint32_t i)
{
	return ((const struct ck_cp_mark *)arg)->rows[i].key;
}

static int row_add(struct ck_cp_mark *m, struct ck_str line)
{
	const char *tab = line.len > 2 ? memchr(line.p + 2, '\t', line.len - 2)
				       : NULL;
	struct row *rows = ck_grow(m->rows, &m->cap, m->nrows, 1,
				   sizeof(*rows));
	uint32_t i;

	if (!rows)
		return -ENOMEM;
	m->rows = rows;
	if (!tab)
		return 0;
	rows[m->nrows] =
		(struct row){ .key = { line.p, (size_t)(tab - line.p) } };
	if (ck_table_add(&m->by_key, rows[m->nrows].key, (uint32_t)m->nrows,
			 &i))
		return -ENOMEM;
	m->nrows += i == m->nrows;
	rows[i].facts = (struct ck_str){ tab + 1, line.len - (size_t)(tab + 1 -
								      line.p) };
	return 0;
}

static struct row *row_find(const struct ck_cp_mark *m,
			    const struct ck_buf *key)
{
	int64_t i = key->err ? -1
			     : ck_table_find(
				       &m->by_key,
				       (struct ck_str){ key->data, key->len });

	return i < 0 ? NULL : &m->rows[i];
}

/* Returns 1 if it is the mark of an earlier run, 0 if it is new or malformed; or: -ENOMEM. */
static int lines_read(struct ck_cp_mark *m, uint64_t size)
{
	char *text = malloc(size + 1);
	struct ck_str line;
	struct ck_cur at;
	int rc = 0;

	if (!text)
		return -ENOMEM;
	m->text = (struct ck_buf){ .data = text, .len = size };
	if (ck_pread_full(m->fd, text, size, 0))
		return 0;
	at = ck_cur_make(text, size);
	if (!ck_cur_line(&at, &line) || !head_is_good(line))
		return 0;
	memcpy(m->id, line.p + HEAD_LEN + 2, ID_LEN);
	while (rc == 0 && ck_cur_line(&at, &line))
		rc = row_add(m, line);
	return rc ? rc : 1;
}

/* --- lines of this run -------------------------------------------------------------------- */

/* Frees the text. If it cannot be written, a later run copies that file again. */
static void line_put(const struct ck_cp_mark *m, struct ck_buf *line)
{
	ck_buf_text(line, "\n");
	if (!line->err)
		(void)!write(m->fd, line->data, line->len);
	ck_buf_fini(line);
}

static void key_print(struct ck_buf *out, const struct ck_cp_mark *m, char type,
		      const struct ck_cp_dir *into, const char *name)
{
	const char *dir = into->path + ck_min(strlen(into->path), m->base);

	dir += *dir == '/';
	ck_buf_printf(out, "%c\t%s%s%s", type, dir, *dir ? "/" : "", name);
	if (strpbrk(dir, "\t\n") || strpbrk(name, "\t\n"))
		out->err = -EINVAL; /* such a file is copied again */
}

/* The facts that renaming does not change. */
static void lasting_print(struct ck_buf *out, const struct stat *st)
{
	ck_buf_printf(out, "%ju %ju %jd.%09ld ", (uintmax_t)st->st_size,
		      (uintmax_t)st->st_ino, (intmax_t)st->st_mtim.tv_sec,
		      st->st_mtim.tv_nsec);
}

/* All but `durable`. */
static void facts_print(struct ck_buf *out, const struct stat *st,
			const char *content)
{
	lasting_print(out, st);
	ck_buf_printf(out, "%jd.%09ld %s ", (intmax_t)st->st_ctim.tv_sec,
		      st->st_ctim.tv_nsec, content);
}

static void file_put(const struct ck_cp_mark *m, const struct ck_cp_file *f,
		     const struct stat *st, const char *durable)
{
	struct ck_buf line = { 0 };

	ck_buf_text(&line, "\n");
	key_print(&line, m, 'F', f->into, f->name);
	ck_buf_text(&line, "\t");
	facts_print(&line, st, f->content);
	ck_buf_text(&line, durable);
	line_put(m, &line);
}

static void dir_put(const struct ck_cp_mark *m, const struct ck_buf *key)
{
	struct ck_buf line = { .err = key->err };

	ck_buf_text(&line, "\n");
	ck_buf_add(&line, key->data, key->len);
	ck_buf_text(&line, "\t");
	line_put(m, &line);
}

void ck_cp_mark_name_file(const struct ck_cp *c, const struct ck_cp_file *f,
			  const struct stat *done)
{
	if (f->content[0] && c->how.mark)
		file_put(c->how.mark, f, done, named);
}

void ck_cp_mark_add(const struct ck_cp *c, const struct ck_cp_file *f,
		    const struct stat *done)
{
	struct stat now;

	/* Renaming changes the ctime. */
	if (f->content[0] && c->how.mark &&
	    fstatat(f->into->fd, f->name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	    now.st_ino == done->st_ino && now.st_size == done->st_size &&
	    now.st_mtim.tv_sec == done->st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == done->st_mtim.tv_nsec)
		file_put(c->how.mark, f, &now,
			 c->how.sync ? synced : c->how.mark->boot);
}

/* --- files of earlier runs ------------------------------------------------------------------ */

static bool sync_name(const struct ck_cp_dir *into, const char *name)
{
	ck_auto_fd int fd = openat(into->fd, name,
				   O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && fsync(fd) == 0;
}

static bool is_complete(struct ck_cp *c, const struct ck_cp_file *f,
			const struct row *row)
{
	const struct ck_cp_mark *m = c->how.mark;
	struct ck_buf facts = { 0 };
	struct ck_str durable = { 0 };
	struct stat st;

	if (!m->resume || !row || !f->content[0] ||
	    fstatat(f->into->fd, f->name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return false;
	facts_print(&facts, &st, f->content);
	if (!facts.err &&
	    ck_str_starts(row->facts, (struct ck_str){ facts.data, facts.len }))
		durable = (struct ck_str){ row->facts.p + facts.len,
					   row->facts.len - facts.len };
	ck_buf_fini(&facts);
	if (ck_str_is(durable, synced))
		return true;
	if (!m->boot[0] || !ck_str_is(durable, m->boot))
		return false;
	if (c->how.sync && !sync_name(f->into, f->name))
		return false;
	if (c->how.sync)
		file_put(m, f, &st, synced);
	return true;
}

bool ck_cp_mark_has(struct ck_cp *c, struct ck_cp_file *f)
{
	struct ck_cp_mark *m = c->how.mark;
	struct ck_buf key = { 0 };
	struct row *row;

	if (!m)
		return false;
	key_print(&key, m, 'F', f->into, f->name);
	row = row_find(m, &key);
	ck_buf_fini(&key);
	if (row)
		row->met = true;
	atomic_fetch_add(&m->files, 1);
	ck_content_of(&m->contents, f, f->content);
	if (!is_complete(c, f, row))
		return false;
	atomic_fetch_add(&m->skipped, 1);
	ck_progress_add(c->how.progress, f->size);
	return true;
}

bool ck_cp_mark_makes(const struct ck_cp_mark *m, const struct ck_cp_dir *up,
		      const char *name)
{
	struct ck_buf key = { 0 };
	struct stat st;
	bool makes;

	if (!m)
		return false;
	if (m->is_dest && !up->up)
		ck_buf_text(&key, dest_key);
	else
		key_print(&key, m, 'D', up, name);
	makes = (m->made && !up->up) || row_find(m, &key);
	if (!makes && fstatat(up->fd, name, &st, AT_SYMLINK_NOFOLLOW))
		dir_put(m, &key);
	ck_buf_fini(&key);
	return makes;
}

void ck_cp_mark_clean(const struct ck_cp_mark *m, int dir)
{
	char prefix[CK_CP_NAME];
	const struct dirent *e;
	DIR *d = NULL;
	int fd;

	if (!m->cleans)
		return;
	fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		d = fdopendir(fd);
	if (!d) {
		ck_fd_cleanup(&fd);
		return;
	}
	snprintf(prefix, sizeof(prefix), ".ckptfs-cp-%s-", m->id);
	while ((e = readdir(d)))
		if (ck_str_starts(ck_str_from(e->d_name), ck_str_from(prefix)))
			(void)unlinkat(dir, e->d_name, 0);
	closedir(d);
}

/* --- making, taking over, removing ------------------------------------------------------------ */

enum ck_cp_mark_form ck_cp_mark_read(const char *dest, const char *name)
{
	ck_auto_fd int dir = open(dest, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_auto_fd int fd = dir < 0 ? -1
				    : openat(dir, name,
					     O_RDONLY | O_NOFOLLOW |
						     O_NONBLOCK | O_CLOEXEC);
	char line[LINE_LEN];

	if (fd < 0 || ck_pread_full(fd, line, sizeof(line), 0) ||
	    !head_is_good((struct ck_str){ line, sizeof(line) - 1 }))
		return CK_CP_MARK_NONE;
	return line[HEAD_LEN] == form_is ? CK_CP_MARK_IS : CK_CP_MARK_IN;
}

/* The file is the caller's own and no other process has locked it. */
static int lock(struct ck_cp_mark *m, struct stat *st)
{
	struct stat now;

	if (fstat(m->fd, st))
		return -errno;
	if (!S_ISREG(st->st_mode) || st->st_uid != geteuid())
		return -EPERM;
	m->cleans = flock(m->fd, LOCK_EX | LOCK_NB) == 0;
	if (!m->cleans && errno == EWOULDBLOCK)
		return -EBUSY;
	if (fstatat(m->dir, m->name, &now, AT_SYMLINK_NOFOLLOW) ||
	    now.st_ino != st->st_ino)
		return -EBUSY; /* a copy that has just ended removed it */
	return 0;
}

static int head_put(struct ck_cp_mark *m)
{
	char line[LINE_LEN + 1], hex[17];
	int rc = ck_random_hex(hex);

	if (rc)
		return rc;
	memcpy(m->id, hex, ID_LEN);
	if (ftruncate(m->fd, 0))
		return -errno;
	snprintf(line, sizeof(line), HEAD "%c %s\n",
		 m->is_dest ? form_is : form_in, m->id);
	return ck_write_full(m->fd, line, LINE_LEN);
}

static int file_open(struct ck_cp_mark *m)
{
	struct stat st;
	int rc;

	m->fd = openat(m->dir, m->name,
		       O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
			       O_CLOEXEC,
		       0600);
	if (m->fd < 0)
		return -errno;
	rc = lock(m, &st);
	if (rc == 0)
		rc = st.st_size > MOST ? 0
				       : lines_read(m, (uint64_t)st.st_size);
	if (rc < 0)
		return rc;
	m->cleans &= rc == 1;
	return rc == 1 ? 0 : head_put(m);
}

/* The temporary name can be predicted: a directory that another user has made there would
 * become DEST, with all that is in it. */
static int dest_open(struct ck_cp_mark *m, int parent, const char *name)
{
	struct stat st;

	m->dir = openat(parent, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (m->dir < 0 || fstat(m->dir, &st))
		return -errno;
	if (st.st_uid == geteuid())
		return 0;
	ck_fd_cleanup(&m->dir);
	return -EPERM;
}

static int dest_fill(struct ck_cp_mark *m, int parent, const char *name)
{
	struct ck_buf key = { 0 };
	int rc = dest_open(m, parent, name);

	if (rc == 0)
		rc = file_open(m);
	if (rc)
		return rc;
	m->made = true;
	ck_buf_text(&key, dest_key);
	dir_put(m, &key);
	ck_buf_fini(&key);
	return 0;
}

/* DEST gets its name when the mark is in it, so that no kill leaves a DEST without mark. */
static int dest_make(struct ck_cp_mark *m, const struct ck_cp_mark_place *at)
{
	char name[CK_CP_NAME];
	int rc;

	dest_name(m->name, at->last, name);
	if (mkdirat(at->dir, name, 0700) && errno != EEXIST)
		return -errno;
	rc = dest_fill(m, at->dir, name);
	if (rc == 0 && renameat(at->dir, name, at->dir, at->last))
		rc = -errno;
	if (rc && rc != -EBUSY && m->dir >= 0) {
		(void)unlinkat(m->dir, m->name, 0);
		(void)unlinkat(at->dir, name, AT_REMOVEDIR);
	}
	return rc;
}

static int place_open(struct ck_cp_mark *m, const struct ck_cp_mark_place *at)
{
	m->dir = at->last ? openat(at->dir, at->last,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					   O_CLOEXEC)
			  : fcntl(at->dir, F_DUPFD_CLOEXEC, 0);
	if (m->dir >= 0)
		return file_open(m);
	return at->last && errno == ENOENT ? dest_make(m, at) : -errno;
}

/* Reads an id of this boot of the system; `out` is not changed if there is no such id. */
static void boot_read(char out[static CK_CONTENT_HEX])
{
	ck_auto_fd int fd = open("/proc/sys/kernel/random/boot_id",
				 O_RDONLY | O_CLOEXEC);
	char text[36];

	if (fd >= 0 && ck_pread_full(fd, text, sizeof(text), 0) == 0)
		ck_hash128_hex((struct ck_str){ text, sizeof(text) }, out);
}

int ck_cp_mark_open(const struct ck_cp_mark_place *at, struct ck_cp_mark **out)
{
	struct ck_cp_mark *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	m->fd = -1;
	m->is_dest = at->last;
	m->resume = at->resume;
	m->base = at->base;
	m->by_key = (struct ck_table){ .key = row_key, .arg = m };
	snprintf(m->name, sizeof(m->name), "%s", at->name);
	pthread_mutex_init(&m->contents.lock, NULL);
	boot_read(m->boot);
	rc = place_open(m, at);
	if (rc) {
		ck_cp_mark_close(m);
		return rc;
	}
	if (!at->last)
		ck_cp_mark_clean(m, m->dir);
	*out = m;
	return 0;
}

void ck_cp_mark_close(struct ck_cp_mark *m)
{
	if (!m)
		return;
	ck_fd_cleanup(&m->fd);
	ck_fd_cleanup(&m->dir);
	ck_contents_fini(&m->contents);
	ck_table_fini(&m->by_key);
	ck_buf_fini(&m->text);
	free(m->rows);
	free(m);
}

bool ck_cp_mark_is_in(const struct ck_cp_mark *m, int dir)
{
	struct stat a, b;

	return m->is_dest && fstat(m->dir, &a) == 0 && fstat(dir, &b) == 0 &&
	       a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* The directory may have its mode and time already. */
static void remove_in(int dir, const char *name)
{
	struct stat st;

	if (fstat(dir, &st))
		return;
	(void)fchmod(dir, (st.st_mode & 07777) | 0200);
	(void)unlinkat(dir, name, 0);
	(void)futimens(dir, (struct timespec[]){ st.st_mtim, st.st_mtim });
	(void)fchmod(dir, st.st_mode & 07777);
}

/* Removes a file that this copy does not have, if it still is what an earlier run made. */
static void row_remove(const struct ck_cp_mark *m, const struct row *row)
{
	struct ck_str path = { row->key.p + 2, row->key.len - 2 };
	const char *slash = memrchr(path.p, '/', path.len);
	struct ck_str dir = { path.p, slash ? (size_t)(slash - path.p) : 0 };
	ck_auto_free char *name = strndup(path.p + (slash ? dir.len + 1 : 0),
					  path.len - (slash ? dir.len + 1 : 0));
	ck_auto_fd int fd = ck_open_beneath(m->dir, slash ? dir : CK_STR("."),
					    O_RDONLY | O_DIRECTORY,
					    CK_BENEATH_NO_SYMLINKS);
	struct ck_buf facts = { 0 };
	struct stat st;

	if (!name || fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return;
	lasting_print(&facts, &st);
	if (!facts.err &&
	    ck_str_starts(row->facts, (struct ck_str){ facts.data, facts.len }))
		remove_in(fd, name);
	ck_buf_fini(&facts);
}

void ck_cp_mark_remove(struct ck_cp_mark *m)
{
	for (size_t i = 0; i < m->nrows && m->resume; i++)
		if (!m->rows[i].met && m->rows[i].key.p[0] == 'F')
			row_remove(m, &m->rows[i]);
	(void)unlinkat(m->dir, m->name, 0);
}

void ck_cp_mark_print_skipped(struct ck_cp_mark *m)
{
	(void)ck_trouble("skipped %llu files of %llu that an earlier run "
			 "completed",
			 (unsigned long long)atomic_load(&m->skipped),
			 (unsigned long long)atomic_load(&m->files));
}
