/* SPDX-License-Identifier: MIT */
/*
 * launch_self: what a host says of itself when it is asked, for who asks; see launch.h.
 */
#include "ckptfs/launch.h"

#include "hostlist_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>

/* --- networks ----------------------------------------------------------------------- */

/* "10.0.0.0/8", as the option has it. */
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

/* No other host is reached by loopback. */
static bool is_in_network(const struct ifaddrs *i, const char *net)
{
	struct sockaddr_in four;

	if (!(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK) ||
	    !i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
		return false;
	memcpy(&four, i->ifa_addr, sizeof(four));
	return is_within_any(four.sin_addr, net);
}

/* MPI would take any network where it finds none of those. */
static int check_net(const char *net, struct ck_diag *d)
{
	struct ifaddrs *all = NULL;
	bool found = false;

	if (getifaddrs(&all))
		return ck_fail(d, errno, "its addresses are not to be had: %s",
			       strerror(errno));
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
		found = is_in_network(i, net);
	freeifaddrs(all);
	return found ? 0
		     : ck_fail(d, ENONET, "option net: no address in %s",
			       ck_show(ck_str_from(net)));
}

/* ------------------------------------------------------------------------------------- */

void ck_launch_self(const char *net, struct ck_buf *out)
{
	struct ck_diag d = { 0 };

	if (*net && check_net(net, &d))
		ck_buf_printf(out, CK_LAUNCH_LACKS "%s\n", d.text);
}
