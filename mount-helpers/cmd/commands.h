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

/* --- arguments.c ------------------------------------------------------------------- */

/* getopt_long(3) of the argv of a command; longs may be empty, not NULL. Returns '?' after
 * a message if an option is wrong. */
int ck_getopt(int argc, char **argv, const char *letters,
	      const struct option *longs);
/* The name in longs, or "help", that is nearest to a word without its dashes. */
const char *ck_nearest_option(const char *word, const struct option *longs);
/* ck_getopt() with the long options for hosts, which are stored in *hosts and not
 * returned. longs: at most 8. */
int ck_getopt_hosts(int argc, char **argv, const char *letters,
		    const struct option *longs, struct ck_hosts_options *hosts);
/* Parses the value of -o of a command that does not mount. Returns the exit status. */
int ck_parse_reading(struct ck_format_options *o,
		     struct ck_hosts_options *hosts,
		     struct ck_view_options *view, const char *text);
/* Parses the arguments of a command whose only options are -o and those for hosts, with
 * `least` to `most` operands. Returns the exit status. */
int ck_parse_operands(struct ck_format_options *o,
		      struct ck_hosts_options *hosts,
		      struct ck_view_options *view, int argc, char **argv,
		      int least, int most);
/* Checks that the options for hosts agree, after all were parsed. Returns the exit
 * status. */
int ck_check_hosts(const struct ck_hosts_options *hosts);

#endif
