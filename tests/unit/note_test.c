/* SPDX-License-Identifier: MIT */
/* control_msg: control messages between the processes of a mount arrive unchanged, or the
 * send or receive call fails. */
#include "dist/launch/control_msg.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char room[CK_CONTROL_MSG_MOST], text[CK_CONTROL_MSG_MOST + 1];

/* A message of `len` bytes and n descriptors; -1 ends the list of descriptors. */
static struct ck_control_msg note_of(size_t len, const int *files, int n)
{
	struct ck_control_msg note = { .kind = CK_CONTROL_MSG_UP,
				       .err = 7,
				       .size = 1ULL << 40,
				       .bytes = { text, len },
				       .files = CK_CONTROL_MSG_NO_FILES };

	for (int i = 0; i < n; i++)
		note.files[i] = files[i];
	if (n < CK_CONTROL_MSG_FILES)
		note.files[n] = -1;
	return note;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* The number of open descriptors of this process. */
static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static bool arrives(const int ends[2], size_t len, int nfiles)
{
	int pipes[CK_CONTROL_MSG_FILES], before;
	struct ck_control_msg sent, got;
	bool good;

	for (int i = 0; i < CK_CONTROL_MSG_FILES; i += 2)
		if (pipe(pipes + i))
			return false;
	sent = note_of(len, pipes, nfiles);
	before = open_files();
	good = ck_control_msg_send(ends[0], &sent, false) == 0 &&
	       ck_control_msg_take(ends[1], &got, room) == 0;
	good = good && got.kind == sent.kind && got.err == sent.err &&
	       got.size == sent.size && got.bytes.len == len &&
	       memcmp(got.bytes.p, text, len) == 0;
	for (int i = 0; good && i < CK_CONTROL_MSG_FILES; i++)
		good = i < nfiles ? is_same_file(got.files[i], pipes[i]) &&
					    fcntl(got.files[i], F_GETFD) ==
						    FD_CLOEXEC
				  : got.files[i] == -1;
	for (int i = 0; good && i < nfiles; i++)
		close(got.files[i]);
	good = good && open_files() == before;
	for (int i = 0; i < CK_CONTROL_MSG_FILES; i++)
		close(pipes[i]);
	return good;
}

static void test_arrive(void)
{
	static const size_t lens[] = { 0, 1, 100, 4096, CK_CONTROL_MSG_MOST };
	int ends[2];

	ok(ck_control_msg_sockets(ends) == 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(lens); i++)
		for (int files = 0; files <= CK_CONTROL_MSG_FILES; files++)
			ok(arrives(ends, lens[i], files));
	close(ends[0]);
	close(ends[1]);
}

/* An invalid message is refused and its descriptors are closed. The next message is taken. */
static void test_refused(void)
{
	struct ck_control_msg got,
		sent = note_of(CK_CONTROL_MSG_MOST + 1, (int[]){ 0, 1 }, 2);
	int ends[2], before;

	if (ck_control_msg_sockets(ends))
		return;
	before = open_files();
	eq_err(ck_control_msg_send(ends[0], &sent, false), 0);
	eq_err(ck_control_msg_take(ends[1], &got, room), -EPROTO);
	eq_i64(open_files(), before);
	eq_i64(send(ends[0], text, 15, 0), 15);
	eq_err(ck_control_msg_take(ends[1], &got, room), -EPROTO);
	ok(arrives(ends, 10, 2));
	close(ends[0]);
	eq_err(ck_control_msg_take(ends[1], &got, room), -EPIPE);
	close(ends[1]);
}

/* A sender that must not block gets EAGAIN if the receiver does not read. */
static void test_full(void)
{
	struct ck_control_msg sent = note_of(32 << 10, NULL, 0), got;
	int ends[2], n = 0, rc = 0;

	if (ck_control_msg_sockets(ends))
		return;
	while (rc == 0 && n < 1000 &&
	       (rc = ck_control_msg_send(ends[0], &sent, false)) == 0)
		n++;
	ok(rc == -EAGAIN && n > 0);
	for (; n > 0; n--)
		if (ck_control_msg_take(ends[1], &got, room))
			break;
	eq_i64(n, 0);
	close(ends[1]);
	eq_err(ck_control_msg_send(ends[0], &sent, true), -EPIPE);
	close(ends[0]);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7 % 251);
	test_arrive();
	test_refused();
	test_full();
	return tap_done();
}
