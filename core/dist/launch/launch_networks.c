/* SPDX-License-Identifier: MIT */
/*
 * launch_networks: lines for the log about the networks of a job: the
 * interfaces that MPI may choose from, and an RDMA device that it does not use.
 * No state.
 */
#include "ckptfs/launch.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>

/* Formats an address. Returns false if it is neither IPv4 nor IPv6. */
static bool show_address(const struct sockaddr *a,
			 char text[static INET6_ADDRSTRLEN])
{
	struct sockaddr_in four;
	struct sockaddr_in6 six;

	if (a && a->sa_family == AF_INET) {
		memcpy(&four, a, sizeof(four));
		return inet_ntop(AF_INET, &four.sin_addr, text,
				 INET6_ADDRSTRLEN);
	}
	if (!a || a->sa_family != AF_INET6)
		return false;
	memcpy(&six, a, sizeof(six));
	return inet_ntop(AF_INET6, &six.sin6_addr, text, INET6_ADDRSTRLEN);
}

/* Open MPI uses all interfaces that are up, except loopback. */
static void add_interfaces(struct ck_buf *out)
{
	struct ifaddrs *all = NULL;
	const char *before = "MPI chooses its networks, of: ";
	char text[INET6_ADDRSTRLEN];

	if (getifaddrs(&all))
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (!(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK) ||
		    !show_address(i->ifa_addr, text))
			continue;
		ck_buf_printf(out, "%s%s %s", before, i->ifa_name, text);
		before = ", ";
	}
	freeifaddrs(all);
	if (*before == ',')
		ck_buf_text(out, "; net= names those that it may use\n");
}

static void add_rdma(const char *devices, struct ck_buf *out)
{
	DIR *dir = opendir(devices);
	struct dirent *e;

	if (!dir)
		return;
	do
		e = readdir(dir);
	while (e && e->d_name[0] == '.');
	if (e)
		ck_buf_printf(out,
			      "%s can do RDMA, and MPI uses TCP unless the "
			      "environment has OMPI_MCA_pml=ucx\n",
			      ck_show(ck_str_from(e->d_name)));
	closedir(dir);
}

void ck_launch_networks(const struct ck_launch_options *options,
			const char *devices, struct ck_buf *lines)
{
	if (!options->net)
		add_interfaces(lines);
	if (!getenv("OMPI_MCA_pml"))
		add_rdma(devices, lines);
}
