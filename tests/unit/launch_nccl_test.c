/* SPDX-License-Identifier: MIT */
/* Arguments and environment that a job with NCCL rounds passes to mpirun and to NCCL. */
#include "ckptfs/launch.h"
#include "dist/launch/launch_internal.h"
#include "tap.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

static const char bound[] = "NCCL_SOCKET_IFNAME", hca[] = "NCCL_IB_HCA",
		  disabled[] = "NCCL_IB_DISABLE";
static char devices[] = "/tmp/launch_nccl_test.XXXXXX", address[IF_NAMESIZE];

/* --- arguments ---------------------------------------------------------------------- */

/* Compares the arguments from the first host on, with `|` after each. */
static void same_words(const struct ck_launch_options *options,
		       const char *want)
{
	const bool there[] = { true, true };
	char **got = ck_launch_argv(options, there);
	struct ck_buf all = { 0 };
	bool begun = false;

	for (size_t i = 0; got && got[i]; i++) {
		begun |= strcmp(got[i], "-H") == 0;
		if (begun)
			ck_buf_printf(&all, "%s|", got[i]);
	}
	eq_text(all.data ? all.data : "", want);
	ck_buf_fini(&all);
	ck_launch_words_free(got);
}

/* Variables of NCCL are passed to all ranks, except NCCL_HOSTID, which names one host. */
static void words(void)
{
	static const char want[] =
		"-H|localhost:1|-n|1|--wdir|/|-x|NCCL_DEBUG|-x|"
		"CKPTFS_NCCL_LIB|/p|serve|--mpi|--nccl|0+1|--door|D|-o|"
		"shardlinks=beneath,net=10.0.0.0/8+192.168.0.0/16,timeout=7|/a|:|"
		"-H|b:1|-n|1|--wdir|/|-x|NCCL_DEBUG|-x|CKPTFS_NCCL_LIB|"
		"/p|serve|--mpi|--nccl|0+1|-o|"
		"shardlinks=beneath,net=10.0.0.0/8+192.168.0.0/16,timeout=7|/b|";
	static const char without[] =
		"-H|localhost:1|-n|1|--wdir|/|/p|serve|--mpi|--door|D|-o|"
		"shardlinks=beneath|/a|:|-H|b:1|-n|1|--wdir|/|/p|serve|"
		"--mpi|-o|shardlinks=beneath|/b|";
	struct ck_host hosts[] = { { .name = (char[]){ "a" },
				     .ranks = 1,
				     .path = (char[]){ "/a" } },
				   { .name = (char[]){ "b" },
				     .ranks = 1,
				     .path = (char[]){ "/b" } } };
	const struct ck_host_list list = { .hosts = hosts, .n = 2 };
	struct ck_launch_options options = { .hosts = &list,
					     .program = "/p",
					     .net = "10.0.0.0/8+192.168.0.0/16",
					     .door = "D",
					     .shardlinks = true,
					     .nccl = "0+1",
					     .timeout = 7 };

	if (clearenv() || setenv("NCCL_DEBUG", "INFO", 1) ||
	    setenv("NCCL_HOSTID", "1", 1) || setenv("MY_NCCL_X", "1", 1) ||
	    setenv("CKPTFS_NCCL_LIB", "/l", 1) || setenv("NCCLX", "1", 1))
		abort();
	same_words(&options, want);
	options.nccl = NULL;
	same_words(&options, without);
	clearenv();
}

/* --- networks ----------------------------------------------------------------------- */

/* True if NCCL may use the interface, listed by its whole name. */
static bool is_told(const char *name)
{
	const char *list = getenv(bound);
	struct ck_buf all = { 0 }, one = { 0 };
	bool is;

	ck_buf_printf(&all, ",%s,", list && *list == '=' ? list + 1 : "");
	ck_buf_printf(&one, ",%s,", name);
	is = strstr(all.data, one.data);
	ck_buf_fini(&all);
	ck_buf_fini(&one);
	return is;
}

static int bind_nccl(const char *net)
{
	return ck_launch_bind_nccl(net, devices);
}

/* 0.0.0.0/0 contains every address, but loopback is left out. */
static void all_interfaces(void)
{
	struct ifaddrs *all;
	bool any = false;

	if (getifaddrs(&all))
		abort();
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		any |= i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		       i->ifa_flags & IFF_UP && !(i->ifa_flags & IFF_LOOPBACK);
	eq_err(bind_nccl("203.0.113.0/24+0.0.0.0/0"), any ? 0 : -ENONET);
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET)
			ok(is_told(i->ifa_name) ==
			   ((i->ifa_flags & IFF_UP) &&
			    !(i->ifa_flags & IFF_LOOPBACK)));
	freeifaddrs(all);
	unsetenv(bound);
}

static void networks(void)
{
	eq_err(bind_nccl(NULL), 0);
	ok(!getenv(bound));
	eq_err(bind_nccl("203.0.113.0/24"), -ENONET);
	eq_err(bind_nccl("127.0.0.0/8"), -ENONET);
	ok(!getenv(bound));
	all_interfaces();
	setenv(bound, "ib0", 1);
	eq_err(bind_nccl("0.0.0.0/0"), address[0] ? 0 : -ENONET);
	eq_text(getenv(bound), "ib0");
	unsetenv(bound);
}

/* --- RDMA --------------------------------------------------------------------------- */

/* Makes a directory below `devices`, with its parents. */
static void make(const char *path)
{
	ck_auto_free char *all = NULL;

	if (asprintf(&all, "%s/%s", devices, path) < 0)
		abort();
	for (char *p = all + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		(void)mkdir(all, 0700);
	}
	if (mkdir(all, 0700))
		abort();
}

/* Binds NCCL, and compares the RDMA variables; "" if a variable is not set. */
static void has_rdma(const char *which, const char *none)
{
	eq_err(bind_nccl("0.0.0.0/0"), 0);
	eq_text(getenv(hca) ? getenv(hca) : "", which);
	eq_text(getenv(disabled) ? getenv(disabled) : "", none);
	unsetenv(bound);
	unsetenv(hca);
	unsetenv(disabled);
}

/* A device has its ports as interfaces. The address may belong to an upper interface. */
static void rdma(void)
{
	if (!address[0])
		return;
	has_rdma("", "");
	make("mlx5_0/device/net/other0");
	has_rdma("", "1");
	make("mlx5_0/device/net/other1/upper_bond7");
	has_rdma("", "1");
	make(ck_shown("mlx5_1/device/net/%s", address));
	has_rdma("=mlx5_1", "");
	setenv(hca, "mine", 1);
	has_rdma("mine", "");
	setenv(disabled, "0", 1);
	has_rdma("", "0");
	make(ck_shown("mlx5_0/device/net/other1/upper_bond7/upper_%s",
		      address));
	eq_err(bind_nccl("0.0.0.0/0"), 0);
	ok(strcmp(getenv(hca), "=mlx5_0,mlx5_1") == 0 ||
	   strcmp(getenv(hca), "=mlx5_1,mlx5_0") == 0);
	unsetenv(bound);
	unsetenv(hca);
}

/* Finds an interface with an address in a network, if there is one. */
static void find_address(void)
{
	struct ifaddrs *all;

	if (getifaddrs(&all))
		abort();
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (ck_launch_is_in_network(i, "0.0.0.0/0"))
			snprintf(address, sizeof(address), "%s", i->ifa_name);
	freeifaddrs(all);
}

int main(void)
{
	ck_auto_free char *command = NULL;

	if (!mkdtemp(devices) || asprintf(&command, "rm -r %s", devices) < 0)
		return 1;
	words();
	find_address();
	networks();
	rdma();
	if (setenv("PATH", "/usr/bin:/bin", 1) || system(command))
		return 1;
	return tap_done();
}
