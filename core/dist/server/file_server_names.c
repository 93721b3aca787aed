/* SPDX-License-Identifier: MIT */
/*
 * file_server_names: LIST, the names in a directory, and STAT, the attributes
 * of files by name. State: the names looked up so far, in ck_files. One thread
 * at a time for STAT.
 */
#include "file_server_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- LIST ------------------------------------------------------------------------------ */

static bool list_get(struct ck_cur *c, uint64_t *cursor, struct ck_str *name)
{
	return ck_cur_u64(c, cursor) && ck_wire_text_get(c, name) &&
	       ck_cur_left(c) == 0;
}

bool ck_file_server_list_cost(struct ck_cur body, uint64_t *bytes)
{
	struct ck_str name;
	uint64_t cursor;

	/* The rows, the page, and what readdir(3) reads at once. */
	*bytes += ck_file_server_room(CK_WIRE_LIST_MAX) +
		  ck_file_server_room(CK_LIST_HEAD + CK_WIRE_LIST_MAX) +
		  CK_WIRE_LIST_MAX;
	return list_get(&body, &cursor, &name);
}

/* Opens a directory at the position of an earlier page; 0 is the beginning. */
static int open_at(const struct ck_file_server *o, struct ck_str name,
		   uint64_t cursor, DIR **out)
{
	int fd = name.len ? ck_open_beneath(o->dirfd, name,
					    O_RDONLY | O_DIRECTORY, o->how)
			  : ck_open_again(o->dirfd);
	int rc;

	if (fd < 0)
		return fd;
	if (cursor && lseek(fd, (off_t)cursor, SEEK_SET) < 0)
		rc = -errno;
	else
		rc = (*out = fdopendir(fd)) ? 0 : -errno;
	if (rc)
		ck_fd_cleanup(&fd);
	return rc;
}

static enum ck_wire_kind kind_of_mode(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG: return CK_WIRE_FILE;
	case S_IFDIR: return CK_WIRE_DIRECTORY;
	case S_IFLNK: return CK_WIRE_LINK;
	default: return CK_WIRE_OTHER;
	}
}

static enum ck_wire_kind kind_of(DIR *dir, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return kind_of_mode((mode_t)DTTOIF(entry->d_type));
	if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
		return CK_WIRE_OTHER;
	return kind_of_mode(st.st_mode);
}

struct page {
	struct ck_buf rows;
	uint32_t n, more;
	uint64_t next;
};

/* False if the page is full. */
static bool page_add(struct page *page, DIR *dir, const struct dirent *entry)
{
	struct ck_str name = ck_str_from(entry->d_name);

	if (ck_str_is(name, ".") || ck_str_is(name, ".."))
		return true;
	if (page->rows.len + CK_LIST_ROW + name.len > CK_WIRE_LIST_MAX)
		return false;
	ck_buf_u8(&page->rows, (uint8_t)kind_of(dir, entry));
	ck_wire_text_put(&page->rows, name);
	page->n++;
	return true;
}

static int page_fill(struct page *page, DIR *dir)
{
	const struct dirent *entry;

	for (;;) {
		errno = 0;
		entry = readdir(dir);
		if (!entry)
			return errno ? -errno : page->rows.err;
		page->more = !page_add(page, dir, entry);
		if (page->more)
			return page->rows.err;
		page->next = (uint64_t)entry->d_off;
	}
}

int ck_file_server_list(struct ck_file_server *o, struct ck_cur body,
			struct ck_answer *out)
{
	struct page page = { .n = 0 };
	struct ck_str name;
	DIR *dir = NULL;
	int rc;

	if (!list_get(&body, &page.next, &name))
		return -EPROTO;
	rc = open_at(o, name, page.next, &dir);
	if (rc)
		return rc;
	rc = page_fill(&page, dir);
	closedir(dir);
	ck_buf_u64(&out->body, page.next);
	ck_buf_u32(&out->body, page.n);
	ck_buf_u32(&out->body, page.more);
	ck_buf_add(&out->body, page.rows.data, page.rows.len);
	ck_buf_fini(&page.rows);
	return rc;
}

/* --- STAT ----------------------------------------------------------------- */

enum { NAME_COST = 512 }; /* memory for each file, in addition to its name */

static bool look_get(struct ck_cur *c, struct ck_ids *ids, uint32_t *n)
{
	return ck_cur_u32(c, &ids->uid) && ck_cur_u32(c, &ids->gid) &&
	       ck_cur_u32(c, n) && *n > 0 && *n <= CK_WIRE_STAT_MAX;
}

bool ck_file_server_stat_cost(struct ck_cur body, uint64_t *bytes)
{
	struct ck_str name;
	struct ck_ids ids;
	uint32_t n;

	if (!look_get(&body, &ids, &n))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (!ck_wire_text_get(&body, &name))
			return false;
		*bytes += NAME_COST + name.len;
	}
	*bytes += ck_file_server_room(4 + (uint64_t)n * CK_WIRE_STAT_ROW);
	return ck_cur_left(&body) == 0;
}

/* The errno with which a read of a file that is known already fails now; 0 if
 * it does not, or if the file never was readable, which its info has. */
static int trouble_now(const struct ck_file_server *o, uint32_t number)
{
	struct ck_file file;
	int rc = ck_files_get(o->files, number, &file);

	if (rc == 0)
		ck_files_put(o->files, &file);
	else if (rc == -ESTALE && file.transient)
		rc = -EIO;
	else if (rc != -ESTALE && !file.transient)
		rc = 0; /* reported as err of its info */
	return -rc;
}

static void name_stat_put(struct ck_buf *b, const struct ck_name_stat *reply)
{
	const struct ck_file_info *info = &reply->info;

	ck_buf_u32(b, reply->number);
	ck_buf_u8(b, reply->seen);
	ck_buf_u8(b, ck_file_why_number(info->why));
	ck_buf_u16(b, 0);
	ck_buf_u32(b, (uint32_t)info->err);
	ck_buf_u32(b, (uint32_t)reply->trouble);
	ck_buf_u32(b, info->mode);
	ck_buf_u32(b, info->uid);
	ck_buf_u32(b, info->gid);
	ck_buf_u32(b, info->closed);
	ck_buf_u32(b, (uint32_t)info->mtime.tv_nsec);
	ck_buf_u64(b, info->size);
	ck_buf_u64(b, (uint64_t)info->mtime.tv_sec);
}

/* Attributes of a known file are those of its first STAT, except its access
 * rights, which may change. */
static void take_access(const struct ck_file_server *o, uint32_t number,
			struct ck_ids ids, struct ck_file_info *out)
{
	struct ck_file_access now =
		ck_file_access_noted(ck_files_access(o->files, number));

	out->mode = now.mode;
	out->uid = now.uid;
	out->gid = now.gid;
	out->closed = ck_files_closed(o->files, number, ids);
}

static int look(struct ck_file_server *o, struct ck_str name, struct ck_ids ids,
		struct ck_name_stat *out)
{
	uint32_t before = ck_files_count(o->files);
	bool is_new;
	int rc;

	if (o->names >= CK_OWNER_NAMES_MAX)
		return -E2BIG;
	rc = ck_files_add(o->files, name, &out->number);
	if (rc)
		return rc;
	is_new = ck_files_count(o->files) > before;
	o->names += is_new ? NAME_COST + name.len : 0;
	out->trouble = is_new ? ck_files_trouble(o->files, out->number)
			      : trouble_now(o, out->number);
	out->seen = ck_files_is_seen(o->files, out->number);
	if (!out->seen)
		return 0;
	out->info = *ck_files_info(o->files, out->number);
	if (!is_new && !out->info.err)
		take_access(o, out->number, ids, &out->info);
	return 0;
}

int ck_file_server_stat(struct ck_file_server *o, struct ck_cur body,
			struct ck_answer *out)
{
	struct ck_str name;
	struct ck_ids ids;
	uint32_t n;

	if (!look_get(&body, &ids, &n))
		return -EPROTO;
	ck_files_show_as(o->files, ids);
	ck_buf_u32(&out->body, n);
	for (uint32_t i = 0; i < n; i++) {
		struct ck_name_stat reply = { 0 };
		int rc;

		if (!ck_wire_text_get(&body, &name))
			return -EPROTO;
		rc = look(o, name, ids, &reply);
		if (rc)
			return rc;
		name_stat_put(&out->body, &reply);
	}
	return 0;
}
