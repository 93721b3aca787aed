/* SPDX-License-Identifier: MIT */
/*
 * commands: one function for each command, with the arguments of a main(): argv[0] is the
 * command's name. Each is called once, by the main thread. Returns the exit status:
 * CK_EXIT_FINE, or: CK_EXIT_TROUBLE after a message on stderr; CK_EXIT_DAMAGE if check, cp
 * or digest has found damage, diff a difference, or bisect no step.
 */
#ifndef CKPTFS_COMMANDS_H
#define CKPTFS_COMMANDS_H

#include "arguments.h"
#include "cli.h"

int ck_cmd_mount(int argc, char **argv);
int ck_cmd_mount_helper(int argc, char **argv); /* as mount(8) calls it */
int ck_cmd_umount(int argc, char **argv);
int ck_cmd_mounts(int argc, char **argv);
int ck_cmd_log(int argc, char **argv);
int ck_cmd_stats(int argc, char **argv);
int ck_cmd_status(int argc, char **argv);
int ck_cmd_commit(int argc, char **argv);
int ck_cmd_abort(int argc, char **argv);
int ck_cmd_inspect(int argc, char **argv);
int ck_cmd_check(int argc, char **argv);
int ck_cmd_diff(int argc, char **argv);
int ck_cmd_digest(int argc, char **argv);
int ck_cmd_bisect(int argc, char **argv);
int ck_cmd_dump(int argc, char **argv);
int ck_cmd_report(int argc, char **argv);
int ck_cmd_ls(int argc, char **argv);
int ck_cmd_cat(int argc, char **argv);
int ck_cmd_cp(int argc, char **argv);
int ck_cmd_serve(int argc, char **argv);
int ck_cmd_getfattr(int argc, char **argv);

#endif
