/* SPDX-License-Identifier: MIT */
/*
 * area_path: resolves a path as the kernel does, one name after the other. The names before
 * the present one are directories and no links, so that `..` removes the last of them. A
 * link is replaced by its target.
 */
#include "area_path.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <unistd.h>

enum { LINKS_MOST = 40 };

struct path {
	int dirfd;
	struct ck_buf text; /* the path; changed on the way */
	size_t at;	    /* of the present name */
	unsigned links;
};

static struct ck_str name_at(const struct path *p)
{
	const char *name = p->text.data + p->at;

	return (struct ck_str){ name, strcspn(name, "/") };
}

/* Removes the bytes up to the end of the present name. */
static void remove_from(struct path *p, size_t begin)
{
	struct ck_buf *text = &p->text;
	size_t end = p->at + name_at(p).len;

	end += text->data[end] == '/';
	memmove(text->data + begin, text->data + end, text->len + 1 - end);
	text->len -= end - begin;
	p->at = begin;
}

/* Removes `..` and the directory before it. -EXDEV if there is no such directory. */
static int go_up(struct path *p)
{
	size_t begin = p->at;

	if (begin == 0)
		return -EXDEV;
	for (begin--; begin && p->text.data[begin - 1] != '/'; begin--)
		;
	remove_from(p, begin);
	return 0;
}

/* Replaces the present name, a link, by its target. -EXDEV if that is not beneath, or not
 * known. */
static int link_follow(struct path *p, int fd)
{
	ck_auto_free char *target = malloc(PATH_MAX);
	struct ck_buf text = { 0 };
	ssize_t n = target ? readlinkat(fd, "", target, PATH_MAX) : -1;

	if (!target)
		return -ENOMEM;
	if (n <= 0 || n == PATH_MAX || *target == '/' ||
	    ++p->links > LINKS_MOST)
		return -EXDEV;
	ck_buf_add(&text, p->text.data, p->at);
	ck_buf_add(&text, target, (size_t)n);
	ck_buf_text(&text, p->text.data + p->at + name_at(p).len);
	ck_buf_fini(&p->text);
	p->text = text;
	return text.err;
}

/* Opens the path up to the present name. */
static int here_open(const struct path *p)
{
	struct ck_str path = { p->text.data, p->at + name_at(p).len };

	return ck_open_beneath(p->dirfd, path, O_PATH | O_NOFOLLOW,
			       CK_BENEATH_NO_SYMLINKS);
}

/* -EXDEV if the path does not lead further. */
static int go_on(struct path *p, int (*each)(void *arg, const struct stat *st),
		 void *arg)
{
	ck_auto_fd int fd = here_open(p);
	struct stat st;
	int rc;

	if (fd < 0)
		return fd == -ELOOP || fd == -ENOMEM ? fd : -EXDEV;
	if (fstat(fd, &st))
		return -EXDEV;
	rc = each(arg, &st);
	if (rc)
		return rc;
	if (S_ISLNK(st.st_mode))
		return link_follow(p, fd);
	p->at += name_at(p).len;
	p->at += p->text.data[p->at] == '/';
	return 0;
}

static int walk(struct path *p, int (*each)(void *arg, const struct stat *st),
		void *arg)
{
	int rc = 0;

	while (rc == 0 && p->at < p->text.len) {
		struct ck_str name = name_at(p);

		if (name.len == 0 || ck_str_is(name, "."))
			remove_from(p, p->at);
		else if (ck_str_is(name, ".."))
			rc = go_up(p);
		else
			rc = go_on(p, each, arg);
	}
	return rc;
}

int ck_area_path_each(int dirfd, struct ck_str path, size_t known,
		      int (*each)(void *arg, const struct stat *st), void *arg)
{
	struct path p = { .dirfd = dirfd, .at = known };
	int rc;

	if (path.len == 0 || path.p[0] == '/' || memchr(path.p, 0, path.len))
		return 0; /* ck_open_beneath() refuses it */
	ck_buf_str(&p.text, path);
	rc = p.text.err ? p.text.err : walk(&p, each, arg);
	if (rc == -ELOOP && p.at == known && known) {
		p.at = 0; /* a link leads to the known directory */
		rc = walk(&p, each, arg);
	}
	ck_buf_fini(&p.text);
	return rc == -EXDEV || rc == -ELOOP ? 0 : rc;
}
