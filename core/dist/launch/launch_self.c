/* SPDX-License-Identifier: MIT */
/*
 * launch_self: the preflight of this host. It prints lines that
 * launch_preflight.c of another host parses: which host this is, and the first
 * reason why it cannot take part. It runs once in a process of its own.
 */
#include "ckptfs/launch.h"

#include "launch_internal.h"
#include "source/hostlist.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	OPEN_LEAST = 64, /* open files that a process of the job needs */
	/* Bytes that MPI writes to its temporary files. */
	FILES_LEAST = 8 << 20,
};

/* --- networks ------------------------------------------------------------- */

/* network: "10.0.0.0/8", as the option has it. */
static bool is_within(struct in_addr address, struct ck_str network)
{
	struct ck_str bits = network, first;
	char text[INET_ADDRSTRLEN];
	struct in_addr base;
	unsigned long n;

	if (!ck_host_piece(&bits, '/', &first) || !bits.p ||
	    first.len >= sizeof(text))
		return false;
	memcpy(text, first.p, first.len);
	text[first.len] = '\0';
	n = strtoul(bits.p, NULL, 10);
	return inet_pton(AF_INET, text, &base) == 1 && n <= 32 &&
	       (n == 0 ||
		(ntohl(address.s_addr) ^ ntohl(base.s_addr)) >> (32 - n) == 0);
}

static bool is_within_any(struct in_addr address, const char *net)
{
	struct ck_str rest = ck_str_from(net), network;

	while (ck_host_piece(&rest, '+', &network))
		if (is_within(address, network))
			return true;
	return false;
}

/* Loopback reaches no other host. */
bool ck_launch_is_in_network(const struct ifaddrs *i, const char *net)
{
	struct sockaddr_in four;

	if (!(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK) ||
	    !i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
		return false;
	memcpy(&four, i->ifa_addr, sizeof(four));
	return is_within_any(four.sin_addr, net);
}

/* Checks that the networks exist here. MPI would use any network if
 * all are absent. */
static int check_net(const char *net, struct ck_diag *d)
{
	struct ifaddrs *all = NULL;
	bool found = false;

	if (getifaddrs(&all))
		return ck_fail(d, errno, "cannot list network interfaces: %s",
			       strerror(errno));
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
		found = ck_launch_is_in_network(i, net);
	freeifaddrs(all);
	return found ? 0
		     : ck_fail(d, ENONET, "option net: no address in %s",
			       ck_show(ck_str_from(net)));
}

/* --- resources of MPI ----------------------------------------------------- */

/* MPI exits if there is no room for its temporary files, and does not name the
 * host. */
static int check_room(struct ck_diag *d)
{
	const char *given = getenv("TMPDIR");
	const char *where = given && *given ? given : "/tmp";
	ck_auto_fd int fd = open(where, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	int err = fd < 0 ? errno : posix_fallocate(fd, 0, FILES_LEAST);

	/* Some file systems do not support O_TMPFILE. */
	if (err == 0 || (fd < 0 && err == EOPNOTSUPP))
		return 0;
	return ck_fail(d, err, "%s: %s", ck_show(ck_str_from(where)),
		       strerror(err));
}

static int check_limit(struct ck_diag *d)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= OPEN_LEAST)
		return 0;
	return ck_fail(d, EMFILE,
		       "a process may have %" PRIu64
		       " open files, and needs %d (ulimit -n)",
		       (uint64_t)limit.rlim_cur, OPEN_LEAST);
}

/* --- identity ------------------------------------------------------------- */

/* Adds a line that is the same for all names of a host, and differs between
 * hosts: the boot ID, and the network and host name namespaces. */
static void add_identity(struct ck_buf *out)
{
	static const char *const parts[] = { "/proc/self/ns/net",
					     "/proc/self/ns/uts" };
	char boot[64] = "";
	ck_auto_fd int fd = open("/proc/sys/kernel/random/boot_id",
				 O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);
	struct stat st[CK_ARRAY_SIZE(parts)];

	for (size_t i = 0; i < CK_ARRAY_SIZE(parts); i++)
		if (n <= 0 || stat(parts[i], &st[i]))
			return;
	boot[strcspn(boot, "\n")] = '\0';
	ck_buf_printf(out, CK_LAUNCH_IS "%s %ju %ju\n", boot,
		      (uintmax_t)st[0].st_ino, (uintmax_t)st[1].st_ino);
}

/* -------------------------------------------------------------------------- */

void ck_launch_self(const char *net, struct ck_buf *out)
{
	struct ck_diag d = { 0 };
	int rc = *net ? check_net(net, &d) : 0;

	if (rc == 0)
		rc = check_limit(&d);
	if (rc == 0)
		rc = check_room(&d);
	add_identity(out);
	if (rc)
		ck_buf_printf(out, CK_LAUNCH_LACKS "%s\n", d.text);
}
