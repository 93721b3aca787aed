/* SPDX-License-Identifier: MIT */
/*
 * html_page: the page of `ckptfs report`, and the file that it is written to. The main thread.
 */
#ifndef CKPTFS_HTML_PAGE_H
#define CKPTFS_HTML_PAGE_H

#include "ckptfs/base.h"

struct ck_picked_source;

/* The page without data, with style and script: made by embed.py from the files in page/. */
struct ck_html_page {
	struct ck_str before, behind; /* the data */
};

extern const struct ck_html_page ck_html_page;

/* A file that is written at once, or not at all. Set up by ck_html_file_find(). */
struct ck_html_file {
	const char *path; /* as given; the caller's */
	/* Private: */
	char *target;	  /* path without links, of a file that exists; owned */
	const char *name; /* in the directory */
	int dirfd;	  /* or -1 */
	mode_t mode;	  /* of the file that is replaced, or 0 */
	bool is_stream;	  /* stdout, or no regular file: written directly */
};

/* Finds the directory of a path, and whether it can be written to; "-" is stdout. Writes nothing.
 * Returns the exit status, after a message if it is not 0. Caller calls ck_html_file_fini() in any
 * case. */
CK_MUST_USE int ck_html_file_find(struct ck_html_file *f, const char *path);
/* Refuses a file that the checkpoint reads, and any file in its directory, or beneath it, that is
 * not a page: writing would destroy a part of the source. Returns the exit status, after a message
 * if it is not 0. */
CK_MUST_USE int ck_html_file_spare(const struct ck_html_file *f,
				   const struct ck_picked_source *source);
/* Writes the text to a new file in the directory, which then replaces the file; or to the stream.
 * After an error the old file is as it was. Frees the text. Returns the exit status. */
CK_MUST_USE int ck_html_file_write(const struct ck_html_file *f,
				   struct ck_buf *text);
void ck_html_file_fini(struct ck_html_file *f);

#endif
