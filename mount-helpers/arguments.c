/* SPDX-License-Identifier: MIT */
/*
 * arguments: wraps getopt_long(3). Its messages name the wrong option and the nearest right
 * one. The state is that of getopt_long(3); the main thread calls it before others start.
 */
#include "arguments.h"
#include "ckptfs/fs.h"
#include "cli.h"
#include <stdio.h>

enum { WORD_LEN = 64 }; /* bytes of a word that are compared */

const char *ck_nearest_option(const char *word, const struct option *longs)
{
	struct ck_str given = { word, strcspn(word, "=") };
	const char *best = "help";
	size_t least = ck_str_distance(given, CK_STR("help"), WORD_LEN);

	for (; longs->name; longs++) {
		size_t n = ck_str_distance(given, ck_str_from(longs->name),
					   WORD_LEN);

		if (n < least) {
			least = n;
			best = longs->name;
		}
	}
	return best;
}

static bool has_letter(int letter, const struct option *longs)
{
	while (longs->name && longs->val != letter)
		longs++;
	return longs->name != NULL;
}

/* Reports the option that getopt_long() has just refused. */
static void refuse(const char *command, const char *word,
		   const struct option *longs)
{
	bool is_long = strncmp(word, "--", 2) == 0;
	const char *shown = ck_show(ck_str_from(word));

	if (is_long && optopt && has_letter(optopt, longs))
		ck_trouble("%s: option %s: its value is missing, or it takes "
			   "no value; ckptfs help %s lists the options",
			   command, shown, command);
	else if (is_long && !optopt)
		ck_trouble("%s: option %s: unknown; the nearest is --%s",
			   command, shown, ck_nearest_option(word + 2, longs));
	else if (optopt == 'o')
		ck_trouble("%s: option -o: expected a value", command);
	else
		ck_trouble(
			"%s: option -%s: unknown; ckptfs help %s lists them",
			command,
			ck_show((struct ck_str){ (char[]){ (char)optopt }, 1 }),
			command);
}

int ck_getopt(int argc, char **argv, const char *letters,
	      const struct option *longs)
{
	int letter;

	opterr = 0;
	letter = getopt_long(argc, argv, letters, longs, NULL);
	if (letter == '?')
		refuse(argv[0], argv[optind - 1], longs);
	return letter;
}

/* --- several hosts ------------------------------------------------------------------ */

enum {
	/* getopt_long(3) returns this for hosts_longs[0]; it is no letter. */
	HOSTS_FIRST = 256,
	LONGS_MOST = 8, /* long options of a command */
};

/* Each of them is also an option of -o. */
static const char *const hosts_longs[] = { "hosts", "hostfile", "map", "prefer",
					   "replicas" };

/* Appends the long options for hosts to those of the command. */
static void add_hosts_longs(const struct option *longs, struct option *all)
{
	size_t n = 0;

	for (; longs[n].name && n < LONGS_MOST; n++)
		all[n] = longs[n];
	for (size_t i = 0; i < CK_ARRAY_SIZE(hosts_longs); i++)
		all[n++] = (struct option){ hosts_longs[i], required_argument,
					    NULL, HOSTS_FIRST + (int)i };
	all[n] = (struct option){ NULL, 0, NULL, 0 };
}

static int set_hosts_long(struct ck_hosts_options *hosts, const char *name)
{
	struct ck_diag d = { 0 };

	if (ck_hosts_options_set(hosts, name, optarg, ',', &d))
		return ck_trouble("%s", d.text);
	return CK_EXIT_FINE;
}

int ck_getopt_hosts(int argc, char **argv, const char *letters,
		    const struct option *longs, struct ck_hosts_options *hosts)
{
	struct option all[LONGS_MOST + CK_ARRAY_SIZE(hosts_longs) + 1];
	int letter;

	add_hosts_longs(longs, all);
	while ((letter = ck_getopt(argc, argv, letters, all)) >= HOSTS_FIRST)
		if (set_hosts_long(hosts, hosts_longs[letter - HOSTS_FIRST]))
			return '?';
	return letter;
}

int ck_check_hosts(const struct ck_hosts_options *hosts)
{
	struct ck_diag d = { 0 };

	if (ck_hosts_options_check(hosts, &d))
		return ck_trouble("%s", d.text);
	return CK_EXIT_FINE;
}

/* --- commands without a mount ------------------------------------------------------- */

int ck_parse_operands(struct ck_format_options *o,
		      struct ck_hosts_options *hosts,
		      struct ck_view_options *view, int argc, char **argv,
		      int least, int most)
{
	static const struct option none[] = { { NULL, 0, NULL, 0 } };
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 &&
	       (letter = ck_getopt_hosts(argc, argv, "o:", none, hosts)) != -1)
		rc = letter == 'o' ? ck_parse_reading(o, hosts, view, optarg)
				   : CK_EXIT_TROUBLE;
	if (rc == 0 && (argc - optind < least || argc - optind > most))
		rc = ck_usage();
	return rc ? rc : ck_check_hosts(hosts);
}

static int parse_taken(struct ck_format_options *o,
		       struct ck_hosts_options *hosts,
		       struct ck_view_options *view,
		       enum ck_options_taken taken, const char *text)
{
	struct ck_diag d = { 0 };

	if (ck_options_parse_reading(o, hosts, view, taken, text, &d))
		return ck_trouble("%s", d.text);
	return CK_EXIT_FINE;
}

int ck_parse_reading(struct ck_format_options *o,
		     struct ck_hosts_options *hosts,
		     struct ck_view_options *view, const char *text)
{
	return parse_taken(o, hosts, view,
			   view ? CK_TAKES_VIEWS : CK_TAKES_SOURCE, text);
}

int ck_parse_checking(struct ck_format_options *o,
		      struct ck_hosts_options *hosts,
		      struct ck_view_options *view, const char *text)
{
	return parse_taken(o, hosts, view, CK_TAKES_MANIFEST, text);
}

int ck_parse_reading_or_output(struct ck_format_options *o,
			       struct ck_hosts_options *hosts, const char *text,
			       const char **path)
{
	struct ck_diag d = { 0 };
	bool known = ck_options_know(text);

	if (!known && !strchr(text, '=')) {
		*path = text;
		return CK_EXIT_FINE;
	}
	if (ck_options_parse_reading(o, hosts, NULL, CK_TAKES_SOURCE, text, &d))
		return ck_trouble("%s%s", d.text,
				  known ? ""
					: "; a file of this name needs "
					  "--output");
	return CK_EXIT_FINE;
}
