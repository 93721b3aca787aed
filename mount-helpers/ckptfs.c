/* SPDX-License-Identifier: MIT */
/*
 * ckptfs: the program. Its commands are a table; `ckptfs SRC MNT` is short for
 * `ckptfs mount SRC MNT`, and under the name mount.ckptfs it takes what
 * mount(8) passes.
 */
#include "commands.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
	const char *what;
} commands[] = {
	{ "mount", ck_cmd_mount, "mount SRC MNT [-o opt,...] [-f]",
	  "show a checkpoint as a directory; -f stays in front" },
	{ "umount", ck_cmd_umount, "umount [-l] MNT...",
	  "end mounts; -l detaches what is busy or does not answer" },
	{ "mounts", ck_cmd_mounts, "mounts [--json]",
	  "list mounted checkpoints" },
	{ "status", ck_cmd_status, "status MNT [--json]",
	  "what a mount has and does" },
	{ "log", ck_cmd_log, "log MNT [-f]",
	  "what a mount has to say; -f goes on until it ends" },
	{ "commit", ck_cmd_commit, "commit MNT",
	  "make all that is staged the checkpoint's content, at once" },
	{ "abort", ck_cmd_abort, "abort MNT", "give up all that is staged" },
	{ "inspect", ck_cmd_inspect,
	  "inspect SRC [GLOB] [--summary] [--chunks] [--json|--csv] "
	  "[-o shardlinks=beneath]",
	  "list tensors, without mounting" },
	{ "check", ck_cmd_check,
	  "check SRC [--full] [--json] [-o shardlinks=beneath]",
	  "find damage; --full reads all bytes and compares checksums" },
	{ "dump", ck_cmd_dump, "dump SRC [-o shardlinks=beneath]",
	  "print the catalog as text" },
};

int ck_trouble(const char *fmt, ...)
{
	char text[1200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "ckptfs: %s\n", text);
	return CK_EXIT_TROUBLE;
}

int ck_usage(const char *command)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(commands); i++)
		if (strcmp(command, commands[i].name) == 0)
			return ck_trouble("usage: ckptfs %s",
					  commands[i].usage);
	return ck_trouble("usage: %s SRC MNT [-o opt,...]", command);
}

int ck_print(struct ck_buf *out)
{
	int rc = out->err;

	if (rc == 0)
		rc = ck_write_full(STDOUT_FILENO, out->data, out->len);
	ck_buf_fini(out);
	if (rc)
		return ck_trouble("standard output: %s", strerror(-rc));
	return CK_EXIT_FINE;
}

void ck_raise_nofile(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
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
	ck_buf_text(&out, "  ckptfs --help, --version\n");
	return ck_print(&out);
}

static int print_version(void)
{
	struct ck_buf out = { 0 };

	ck_buf_text(&out, "ckptfs " CK_VERSION "\n");
	return ck_print(&out);
}

static int run_command(int argc, char **argv)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(commands); i++)
		if (argc > 1 && strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	if (argc < 3)
		return ck_trouble("usage: ckptfs SRC MNT [-o opt,...] [-f]; "
				  "ckptfs --help lists the commands");
	return ck_cmd_mount(argc, argv);
}

/* Of descriptors 0 to 2, those that the caller has closed are taken, or the
 * first files opened would get their numbers. Writing to one still fails. */
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
	/* Or getopt() would take no options after SRC MNT, where mount(8) puts
	 * them. */
	unsetenv("POSIXLY_CORRECT");
	ck_raise_nofile();
	if (strncmp(self, "mount.", 6) == 0)
		return ck_cmd_mount_helper(argc, argv);
	if (argc == 2 &&
	    (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return print_help();
	if (argc == 2 &&
	    (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0))
		return print_version();
	return run_command(argc, argv);
}
