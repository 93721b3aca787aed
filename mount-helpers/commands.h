/* SPDX-License-Identifier: MIT */
/*
 * commands: one function for each subcommand, as a program's main; argv[0] is
 * the command's name. They return the exit status: CK_EXIT_FINE, or
 * CK_EXIT_TROUBLE after one line on stderr; CK_EXIT_DAMAGE is check's.
 */
#ifndef CKPTFS_COMMANDS_H
#define CKPTFS_COMMANDS_H

#include "ckptfs/format.h"
#include "ckptfs/hosts_options.h"
#include "ckptfs/view.h"
#include "cli.h"
#include "mounts.h"
#include <getopt.h>

int ck_cmd_mount(int argc, char **argv);
int ck_cmd_mount_helper(int argc, char **argv); /* as mount(8) calls it */
int ck_cmd_umount(int argc, char **argv);
int ck_cmd_mounts(int argc, char **argv);
int ck_cmd_log(int argc, char **argv);
int ck_cmd_status(int argc, char **argv);
int ck_cmd_commit(int argc, char **argv);
int ck_cmd_abort(int argc, char **argv);
int ck_cmd_inspect(int argc, char **argv);
int ck_cmd_check(int argc, char **argv);
int ck_cmd_dump(int argc, char **argv);
int ck_cmd_ls(int argc, char **argv);
int ck_cmd_cat(int argc, char **argv);
int ck_cmd_cp(int argc, char **argv);
int ck_cmd_serve(int argc, char **argv);
int ck_cmd_getfattr(int argc, char **argv);

/* getopt_long(3), of argv of a command; longs may be empty, not NULL. '?': an
 * option is wrong, which was said. */
int ck_getopt(int argc, char **argv, const char *letters,
	      const struct option *longs);
/* The one of longs, or "help", that a word without its dashes is most like. */
const char *ck_nearest_option(const char *word, const struct option *longs);
/* The same with the long options for hosts, which it sets itself and does not return.
 * longs: at most 8. */
int ck_getopt_hosts(int argc, char **argv, const char *letters,
		    const struct option *longs, struct ck_hosts_options *hosts);
/* The value of an -o of a command that mounts nothing. The exit status. */
int ck_parse_reading(struct ck_format_options *o,
		     struct ck_hosts_options *hosts,
		     struct ck_view_options *view, const char *text);
/* Of a command whose only options are -o and those for hosts, and which has between
 * least and most operands. The exit status. */
int ck_parse_operands(struct ck_format_options *o,
		      struct ck_hosts_options *hosts,
		      struct ck_view_options *view, int argc, char **argv,
		      int least, int most);
/* Whether what was said of hosts fits together, once all was read. The exit status. */
int ck_check_hosts(const struct ck_hosts_options *hosts);
struct ck_cluster;

/* Opens a checkpoint for a command, perhaps of several hosts, *cluster; both are to be
 * closed, in any case. The exit status. */
CK_MUST_USE int ck_source_open(const char *src,
			       struct ck_format_options *options,
			       struct ck_hosts_options *hosts,
			       struct ck_cluster **cluster,
			       struct ck_checkpoint **out);
/* Prints notes of the catalog that its user has to know, on stderr. */
void ck_source_notes(const char *src, const struct ck_checkpoint *cp);
/* CK_EXIT_DAMAGE, and a line on stderr: names of the checkpoint cannot be read, so no
 * directory shows them. */
CK_MUST_USE int ck_source_losses(const struct ck_checkpoint *cp);
/* For commands that are of one checkpoint: of a run directory its steps are named. The exit
 * status. */
CK_MUST_USE int ck_source_is_one(const char *src,
				 const struct ck_checkpoint *cp);
void ck_source_close(struct ck_cluster *cluster, struct ck_checkpoint *cp);
/* Appends a status, which may be any bytes, as one JSON object, with a newline. */
void ck_status_json(const struct ck_buf *status, struct ck_buf *out);

/* The mount that is a command's only operand. */
struct ck_subject {
	char *name; /* as it was given, escaped */
	struct ck_mount mount;
};

/* From argv[optind] on. The exit status; *out is to be freed in any case. */
CK_MUST_USE int ck_subject_find(int argc, char **argv, struct ck_subject *out);
void ck_subject_fini(struct ck_subject *p);
/* ck_report_read(), and why not. The exit status. */
CK_MUST_USE int ck_subject_report(const struct ck_subject *p,
				  const char *report, struct ck_buf *out);
/* A file of a mount's .ckptfs. -ETIMEDOUT: it does not answer; -ESTALE: it does
 * not show at its point any more. */
CK_MUST_USE int ck_report_read(const struct ck_mount *m, const char *report,
			       struct ck_buf *out);
/* Appends what a line of a status says. False: there is none that can be
 * shown. */
bool ck_status_field(const struct ck_buf *status, const char *field,
		     struct ck_buf *value);
/* In words, why a mount gave no answer. */
const char *ck_why_silent(int rc);
#endif
