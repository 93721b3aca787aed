/* SPDX-License-Identifier: MIT */
/*
 * small_dir: a directory with three files of known bytes and some names without a file, and a file
 * server of it. The server knows these names and no others, independent of earlier inputs.
 */
#ifndef CK_SMALL_DIR_H
#define CK_SMALL_DIR_H

#include "dist/server/file_server_internal.h"
#include "must.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NFILES = 3,
	FILE_BYTES = 5000,
	NAMES = 9,
	COST_DONE = 16 << 10, /* largest cost of an executed READ */
	PARTS_DONE = 16,      /* most moves, runs or names of a request */
};

static const char *const names[NAMES] = { "f0",	     "f1",   "f2",
					  "missing", "fifo", "link",
					  "sub",     "../f", "sub/g" };
static const size_t sizes[NFILES] = { FILE_BYTES, 1000, 0 };

static struct {
	char path[64];
	int fd;
	struct ck_file_server *owner;
} dir;

static inline uint8_t byte_of(uint32_t file, uint64_t fpos)
{
	return (uint8_t)((fpos * 31 + fpos / 251 + file * 7 + 1) & 0xff);
}

static inline void put_file(uint32_t i)
{
	static uint8_t bytes[FILE_BYTES];
	int fd = openat(dir.fd, names[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	for (size_t k = 0; k < sizes[i]; k++)
		bytes[k] = byte_of(i, k);
	must(fd >= 0 && ck_write_full(fd, bytes, sizes[i]) == 0);
	close(fd);
}

static inline void dir_close(void)
{
	char command[128];

	ck_file_server_free(dir.owner);
	close(dir.fd);
	snprintf(command, sizeof(command), "rm -rf %s", dir.path);
	must(system(command) == 0);
}

static inline void dir_make(void)
{
	snprintf(dir.path, sizeof(dir.path), "%s/ckptfs-owner-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	must(mkdtemp(dir.path) && ck_sigbus_install() == 0);
	dir.fd = open(dir.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(dir.fd >= 0);
	for (uint32_t i = 0; i < NFILES; i++)
		put_file(i);
	must(mkfifoat(dir.fd, "fifo", 0600) == 0);
	must(symlinkat("f0", dir.fd, "link") == 0);
	must(mkdirat(dir.fd, "sub", 0700) == 0);
	atexit(dir_close);
}

/* Makes a new file server if the present one knows other names. */
static inline void owner_renew(void)
{
	uint32_t number;

	if (!dir.path[0])
		dir_make();
	if (dir.owner && ck_files_count(dir.owner->files) == NAMES)
		return;
	ck_file_server_free(dir.owner);
	dir.owner = ck_file_server_make(dir.fd, CK_BENEATH_NO_SYMLINKS, 16);
	must(dir.owner);
	for (uint32_t i = 0; i < NAMES; i++)
		must(ck_files_add(dir.owner->files, ck_str_from(names[i]),
				  &number) == 0 &&
		     number == i);
}

/* True for a long request, which is parsed but not executed: each name, move and run costs some
 * system calls. `cost` is the result of ck_file_server_cost(). */
static inline bool is_long(const struct ck_message *m, uint64_t cost)
{
	struct ck_cur c = ck_wire_body(m);
	uint32_t n = 0;

	if (m->head.type == CK_WIRE_STAT && !ck_cur_skip(&c, 8))
		return false;
	if (m->head.type != CK_WIRE_STAT && m->head.type != CK_WIRE_READ &&
	    m->head.type != CK_WIRE_DIGEST)
		return false;
	return !ck_cur_u32(&c, &n) || n > PARTS_DONE ||
	       (m->head.type == CK_WIRE_READ && cost > COST_DONE);
}

#endif
