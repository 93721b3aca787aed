/* SPDX-License-Identifier: MIT */
/*
 * arguments: parses the command line of the commands. A wrong option is reported with its
 * name and, for a long option, the nearest name. The state is that of getopt_long(3): call
 * from one thread, before other threads start. "Exit status" means CK_EXIT_FINE, or
 * CK_EXIT_TROUBLE after a message.
 */
#ifndef CKPTFS_ARGUMENTS_H
#define CKPTFS_ARGUMENTS_H

#include "ckptfs/format.h"
#include "ckptfs/view.h"
#include "source/hosts_options.h"
#include <getopt.h>

/* getopt_long(3) of the argv of a command; longs may be empty, not NULL. Returns '?' after
 * a message if an option is wrong. */
int ck_getopt(int argc, char **argv, const char *letters,
	      const struct option *longs);
/* Returns the name in longs, or "help", that is nearest to `word`, which has no dashes. */
const char *ck_nearest_option(const char *word, const struct option *longs);
/* ck_getopt() with the long options for hosts in addition. It stores these in *hosts and
 * continues. longs: at most 8. Caller calls ck_hosts_options_fini(). */
CK_EXPORT int ck_getopt_hosts(int argc, char **argv, const char *letters,
			      const struct option *longs,
			      struct ck_hosts_options *hosts);
/* Parses the value of -o of a command that does not mount; view: NULL if the command shows
 * no tree. Returns the exit status. */
CK_EXPORT int ck_parse_reading(struct ck_format_options *o,
			       struct ck_hosts_options *hosts,
			       struct ck_view_options *view, const char *text);
/* The same for a command that takes manifest=, and no other option of views. */
CK_EXPORT int ck_parse_checking(struct ck_format_options *o,
				struct ck_hosts_options *hosts,
				struct ck_view_options *view, const char *text);
/* The same for a command whose -o also takes a file: a value without `=` that does not begin with
 * an option. *path: borrows it, and stays if the value has options. */
CK_EXPORT int ck_parse_reading_or_output(struct ck_format_options *o,
					 struct ck_hosts_options *hosts,
					 const char *text, const char **path);
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
