/* SPDX-License-Identifier: MIT */
/*
 * ckptfs: main() and the table of commands. The help texts are generated from the table.
 * `ckptfs SRC MNT` is short for `ckptfs mount SRC MNT`. Under the name mount.ckptfs the
 * program takes the arguments of mount(8). No state; one thread, until a command starts
 * others.
 */
#include "ckptfs/fs.h"
#include "commands.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { WORD_LEN = 64 }; /* bytes of a word that are compared */

static int ck_cmd_help(int argc, char **argv);

#define LINKS                                                                  \
	"  -o shardlinks=beneath      follow links to data files that stay "   \
	"beneath SRC\n"                                                        \
	"  -o linkroot=DIR            follow links to files beneath DIR\n"     \
	"  -o sidecar=FILE            the parameters in FSDP1's flat ones\n"   \
	"  -o rename=FILE             show names as the lines OLD<tab>NEW "    \
	"of FILE have them\n"                                                  \
	"  -o only=GLOB[+GLOB...]     show only these names; exclude=: not "   \
	"these\n"                                                              \
	"  -o kind=KIND               require a kind: dcp, "                   \
	"torch_checkpointing, safetensors, torch,\n"                           \
	"                             ranks or run\n"
#define VIEWS                                                                  \
	"  -o views=NAME[+NAME...]    only these of full, raw, local, "        \
	"objects, hf, torch, sharded, dcp, optim, f32\n"                       \
	"  -o root=NAME               prefix of the model that hf/ shows; "    \
	"empty: all\n"                                                         \
	"  -o hf_shard_size=SIZE      maximum size of a file in hf/; "         \
	"with cp -r: 5G\n"                                                     \
	"  -o hf_template=DIR         config.json, tokenizer and file "        \
	"names of hf/\n"                                                       \
	"  -o placements=FILE         rules for tensor-parallel "              \
	"dimensions in sharded/ and dcp/\n"                                    \
	"  -o ranks=N[-N][+...]       only these ranks in local/ and "         \
	"sharded/\n"                                                           \
	"  -o manifest=FILE           .ckptfs/strict.json has differences "    \
	"to FILE\n"
#define HOSTS                                                                  \
	"  --hosts A[:N],...          SRC is spread over these hosts\n"        \
	"  --hostfile FILE            a file that lists hosts\n"               \
	"  --map HOST=PATH            where SRC is on one of them\n"           \
	"  --prefer A,...             use the copies of A if copies differ\n"  \
	"  --replicas HOW             compare copies: sample, full, first\n"
#define READING_USAGE "[-o opt,...] [--hosts A,...]"
#define READING	      LINKS HOSTS
#define SHOWING	      LINKS VIEWS HOSTS

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
	const char *what;
	const char *options; /* one line for each option, or "" */
} commands[] = {
	{ "mount", ck_cmd_mount,
	  "mount SRC MNT [-o opt,...] [-f] [--hosts A,...]",
	  "mount a checkpoint as a directory",
	  "  -o OPT,...                 see below\n"
	  "  -f                         stay in the foreground; messages to "
	  "stderr\n"
	  "  -d                         the same as -o debug\n" HOSTS },
	{ "umount", ck_cmd_umount, "umount [-l] MNT...",
	  "unmount; -l detaches a mount that is busy or hangs",
	  "  -l                         detach a mount that is busy or "
	  "hangs\n" },
	{ "mounts", ck_cmd_mounts, "mounts [--json]",
	  "list mounted checkpoints",
	  "  --json                     one JSON object\n" },
	{ "status", ck_cmd_status, "status MNT [--json]",
	  "print the state of a mount: counts, options, faults",
	  "  --json                     one JSON object\n" },
	{ "stats", ck_cmd_stats, "stats MNT [--json|--reset]",
	  "print the counters of a mount, such as the bytes that were read",
	  "  --json                     one JSON object\n"
	  "  --reset                    set the counters to 0\n" },
	{ "log", ck_cmd_log, "log MNT [-f]",
	  "print the log of a mount; -f follows it",
	  "  -f                         follow it until the mount ends\n" },
	{ "commit", ck_cmd_commit, "commit MNT",
	  "commit all staged tensors in one transaction", "" },
	{ "abort", ck_cmd_abort, "abort MNT", "drop all staged tensors", "" },
	{ "ls", ck_cmd_ls, "ls [-l] [-R] [--json] SRC [PATH...] " READING_USAGE,
	  "list what a mount would show, without mounting",
	  "  -l                         with modes, owners, sizes and "
	  "times\n"
	  "  -R                         list subdirectories recursively\n"
	  "  --json                     one JSON object a line, with "
	  "attributes\n" SHOWING },
	{ "cat", ck_cmd_cat, "cat SRC PATH... " READING_USAGE,
	  "print files that a mount would show, without mounting", SHOWING },
	{ "cp", ck_cmd_cp,
	  "cp [-r] [-j N] [--sync] [--resume] SRC [PATH...] DEST " READING_USAGE,
	  "copy files that a mount would show, without mounting",
	  "  -r                         copy directories recursively\n"
	  "  -j N                       number of threads; default: one for "
	  "each processor\n"
	  "  --sync                     return when all is on stable "
	  "storage\n"
	  "  --resume                   with -r: complete an interrupted copy\n" SHOWING },
	{ "getfattr", ck_cmd_getfattr, "getfattr SRC PATH " READING_USAGE,
	  "print the extended attributes of a file as JSON, without mounting",
	  SHOWING },
	{ "inspect", ck_cmd_inspect,
	  "inspect SRC [GLOB] [--summary] [--chunks] [--json|--csv] " READING_USAGE,
	  "list tensors, without mounting",
	  "  --summary                  only the summary line\n"
	  "  --chunks                   where the boxes of each tensor are stored\n"
	  "  --json                     one JSON object\n"
	  "  --csv                      one line for each tensor\n" READING },
	{ "check", ck_cmd_check,
	  "check SRC [--full] [--digests FILE] [--json] " READING_USAGE,
	  "find damage; --full reads all bytes and compares checksums",
	  "  --full                     read all bytes, compare "
	  "checksums\n"
	  "  --digests FILE             compare tensors with FILE, of ckptfs "
	  "digest\n"
	  "  --json                     one JSON object\n" READING },
	{ "digest", ck_cmd_digest,
	  "digest SRC [PATTERN...] [-o FILE] " READING_USAGE,
	  "print the XXH3-128 of the bytes of each tensor, as xxhsum does",
	  "  -o FILE, --output FILE     write to FILE, not to stdout\n" READING },
	{ "diff", ck_cmd_diff,
	  "diff [--stats] [--json] [--atol X] [--rtol X] A B [PATTERN...] "
	  "[-o opt,...]",
	  "compare the tensors of two checkpoints by name: shapes, dtypes, "
	  "bytes",
	  "  --stats                    largest and mean difference, share of "
	  "changed elements\n"
	  "  --json                     one JSON object\n"
	  "  --atol X, --rtol X         equal within X, or X times the value in "
	  "B\n" LINKS },
	{ "report", ck_cmd_report,
	  "report [--values] [-o FILE] SRC|RUN " READING_USAGE,
	  "write a page of HTML about the tensors: sizes, shards, damage, "
	  "values",
	  "  --values                   read all tensors, and add statistics of "
	  "values\n"
	  "  -o FILE, --output FILE     write to FILE; default: report.html; - "
	  "is stdout\n" READING },
	{ "bisect", ck_cmd_bisect,
	  "bisect --nan [--all-steps] [--json] RUN [-o opt,...]",
	  "find the first step of a run directory with a NaN or Inf",
	  "  --nan                      look for NaN and infinities\n"
	  "  --all-steps                read every step, not a binary search\n"
	  "  --json                     one JSON object\n" LINKS },
	{ "dump", ck_cmd_dump, "dump SRC " READING_USAGE,
	  "print all that was parsed, as text, to look for a fault", READING },
	{ "serve", ck_cmd_serve,
	  "serve [--mount MNT] [--survive] SRC [-o opt,...]",
	  "under mpirun or srun: this host's part of SRC, and a mount of all",
	  "  --mount MNT                mount the checkpoint of all hosts here\n"
	  "  --survive                  go on when another process dies\n"
	  "  --prefer A,...             use the copies of A if copies differ\n"
	  "  --replicas HOW             compare copies: sample, full, first\n"
	  "  -o OPT,...                 options of the mount, as of ckptfs "
	  "mount\n" },
	{ "help", ck_cmd_help, "help [CMD]", "print the usage of a command",
	  "" },
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(commands); i++)
		if (strcmp(name, commands[i].name) == 0)
			return &commands[i];
	return NULL;
}

static const char *nearest_command(const char *name)
{
	const char *best = "";
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < CK_ARRAY_SIZE(commands); i++) {
		size_t n = ck_str_distance(ck_str_from(name),
					   ck_str_from(commands[i].name),
					   WORD_LEN);

		if (n < least) {
			least = n;
			best = commands[i].name;
		}
	}
	return best;
}

static void print_options(const struct command *c, struct ck_buf *out)
{
	if (*c->options)
		ck_buf_printf(out, "\n%s", c->options);
	if (c->run != ck_cmd_mount)
		return;
	ck_buf_text(out, "\nOptions after -o, with commas between:\n\n");
	ck_options_help(out);
	ck_buf_text(out, "\nOther options of mount(8) and fstab(5) are "
			 "accepted and ignored.\n");
}

static int print_help_of(const struct command *c)
{
	struct ck_buf out = { 0 };

	ck_buf_printf(&out, "usage: ckptfs %s\n\n  %s\n", c->usage, c->what);
	print_options(c, &out);
	return ck_print(&out);
}

static int print_help(void)
{
	struct ck_buf out = { 0 };

	ck_buf_text(&out, "ckptfs shows a sharded PyTorch checkpoint as a "
			  "directory in which every tensor is a file.\n\n"
			  "  ckptfs SRC MNT [-o opt,...] [-f]\n");
	for (size_t i = 0; i < CK_ARRAY_SIZE(commands); i++)
		ck_buf_printf(&out, "  ckptfs %s\n\t%s\n", commands[i].usage,
			      commands[i].what);
	ck_buf_text(&out,
		    "  ckptfs --help, --version\n\n"
		    "Options of mount, after -o, with commas between:\n\n");
	ck_options_help(&out);
	return ck_print(&out);
}

static int unknown_command(const char *name)
{
	return ck_trouble("%s: neither a command nor a directory; the nearest "
			  "command is %s; ckptfs --help lists all",
			  ck_show(ck_str_from(name)), nearest_command(name));
}

static int ck_cmd_help(int argc, char **argv)
{
	const struct command *c = argc > 1 ? find_command(argv[1]) : NULL;

	if (argc > 2)
		return ck_usage();
	if (argc == 1)
		return print_help();
	return c ? print_help_of(c) : unknown_command(argv[1]);
}

static int print_version(void)
{
	struct ck_buf out = { 0 };
	int rc;

	ck_buf_text(&out,
		    "ckptfs " CK_VERSION "\nbuilt with: " CK_BUILT_WITH "\n");
	rc = ck_print(&out);
	if (rc == 0 && ck_fs_version_print())
		rc = ck_trouble("standard output: %s", strerror(errno));
	return rc;
}

/* True if --help is among the arguments, other than as the value of -o or behind --. */
static bool asks_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0)
			return true;
		if (strcmp(argv[i], "-o") == 0)
			i++;
	}
	return false;
}

static int unknown_option(const char *given)
{
	static const struct option longs[] = {
		{ "help", no_argument, NULL, 0 },
		{ "version", no_argument, NULL, 0 },
		{ NULL, 0, NULL, 0 },
	};

	return ck_trouble("option %s: unknown; the nearest is --%s",
			  ck_show(ck_str_from(given)),
			  ck_nearest_option(given + 2, longs));
}

static int run(const struct command *c, int argc, char **argv)
{
	ck_usage_set(c->name, c->usage);
	return c->run(argc, argv);
}

static int run_command(int argc, char **argv)
{
	static char mount[] = "mount";
	const char *first = argc > 1 ? argv[1] : "";
	const struct command *c = find_command(first);

	if (c && asks_help(argc - 1, argv + 1))
		return print_help_of(c);
	if (c)
		return run(c, argc - 1, argv + 1);
	if (asks_help(argc, argv))
		return print_help_of(find_command(mount));
	if (strncmp(first, "--", 2) == 0 && first[2])
		return unknown_option(first);
	if (*first && *first != '-' && !strchr(first, '/') &&
	    access(first, F_OK))
		return unknown_command(first);
	if (argc < 3)
		return ck_trouble("usage: ckptfs SRC MNT [-o opt,...] [-f]; "
				  "ckptfs --help lists the commands");
	argv[0] = mount;
	return run(find_command(mount), argc, argv);
}

static int run_mount_helper(int argc, char **argv)
{
	static char mount[] = "mount";
	const struct command *c = find_command(mount);

	if (asks_help(argc, argv))
		return print_help_of(c);
	argv[0] = mount;
	ck_usage_set(c->name, c->usage);
	return ck_cmd_mount_helper(argc, argv);
}

/* Opens /dev/null in place of each closed descriptor among 0 to 2. Otherwise the first opened
 * files would get these numbers. The descriptors are read-only, so that writing to a closed
 * stdout still fails. */
static void take_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *self = slash ? slash + 1 : argc > 0 ? argv[0] : "";

	take_standard_fds();
	/* With POSIXLY_CORRECT getopt() would not accept options after SRC
	 * MNT, where mount(8) puts them. */
	unsetenv("POSIXLY_CORRECT");
	ck_raise_nofile();
	if (strncmp(self, "mount.", 6) == 0)
		return run_mount_helper(argc, argv);
	if (argc == 2 &&
	    (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return print_help();
	if (argc == 2 &&
	    (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0))
		return print_version();
	return run_command(argc, argv);
}
