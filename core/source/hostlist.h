/* SPDX-License-Identifier: MIT */
/*
 * hostlist: the hosts over which a checkpoint is spread, as a person names them: how
 * many processes each is to have, and where the checkpoint lies there. A list is made
 * of any number of texts and then settled, which finds out who of them is this host.
 * Nothing here speaks to a host; only names are looked up. One thread at a time.
 */
#ifndef CKPTFS_HOSTLIST_H
#define CKPTFS_HOSTLIST_H

#include "ckptfs/base.h"

enum {
	CK_HOST_NAME_MOST = 253,  /* bytes, as the DNS has it */
	CK_HOST_RANKS_MOST = 16,  /* processes on one host */
	CK_HOST_LIST_MOST = 4096, /* hosts */
};

struct ck_host {
	char *name;	/* as it was given */
	char *path;	/* the checkpoint there, absolute; NULL until settled */
	uint32_t ranks; /* processes there that share its files, at least 1 */
};

/* Zero-initialise. */
struct ck_host_list {
	struct ck_host *hosts; /* in the order of the texts; when it is settled,
				* this host is the first */
	size_t n, cap;
	struct ck_host *maps; /* private: names and paths, no ranks */
	size_t nmaps, maps_cap;
};

/* All of these: -EINVAL, and a message with the option's word, if a text is not as it
 * should be; -ENOMEM. After an error the list is only good for ck_host_list_fini(). */

/* NAME[:N]..., with that character between them. */
CK_MUST_USE int ck_host_list_add(struct ck_host_list *list, const char *text,
				 char separator, struct ck_diag *d);
/* A file that has one on each line; blank lines and what is behind a `#` do not count.
 * Errors of open(2) and read(2). */
CK_MUST_USE int ck_host_list_read(struct ck_host_list *list, const char *file,
				  struct ck_diag *d);
/* HOST=PATH: where the checkpoint lies there. The path is any text after the `=`. */
CK_MUST_USE int ck_host_list_map(struct ck_host_list *list, const char *text,
				 struct ck_diag *d);
/* HOST=PATH+HOST=PATH..., in which `\+` is a `+` of a path and `\\` a `\`. */
CK_MUST_USE int ck_host_list_map_all(struct ck_host_list *list,
				     const char *text, struct ck_diag *d);
/* Once, after all of these. source: the checkpoint on hosts that have no path of their
 * own, a path of this host, which need not exist. This host becomes the first, and is
 * added if nobody has named it. It asks the resolver for each name. */
CK_MUST_USE int ck_host_list_settle(struct ck_host_list *list,
				    const char *source, struct ck_diag *d);
/* NAME..., of a settled list: their indices in that order, *out of *n, owned. */
CK_MUST_USE int ck_host_list_prefer(const struct ck_host_list *list,
				    const char *text, char separator,
				    size_t **out, size_t *n, struct ck_diag *d);
void ck_host_list_fini(struct ck_host_list *list);

/* --- names and paths, for modules that read lists of their own --------------------- */

/* Takes the next piece of *rest and the separator behind it. Returns false if no piece is
 * left; an empty text has one piece, which is empty. */
bool ck_host_piece(struct ck_str *rest, char separator, struct ck_str *piece);
/* Checks that a name can be the name of a host. Returns 0, or -EINVAL with a message that
 * begins with `where`. */
CK_MUST_USE int ck_host_name_check(struct ck_str name, const char *where,
				   struct ck_diag *d);
/* The absolute path of `source` on this host; it need not exist. Caller owns it. NULL with
 * errno set on failure. */
char *ck_host_absolute(const char *source);

#endif
