/* SPDX-License-Identifier: MIT */
/*
 * launch_nccl: restricts NCCL to networks. The user names networks, but NCCL
 * takes names of interfaces and RDMA devices; this file translates. It sets
 * environment variables of this process, so no other thread may use the
 * environment.
 */
#include "ckptfs/launch.h"
#include "launch_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

enum {
	/* A VLAN of a bond of ports has three interfaces above each other. */
	ABOVE_MOST = 3
};

/* Appends to a list "=a,b". NCCL uses exactly the interfaces in it. */
static void add_name(struct ck_buf *list, struct ck_str name)
{
	ck_buf_text(list, list->len ? "," : "=");
	ck_buf_str(list, name);
}

static bool has_name(struct ck_str list, struct ck_str name)
{
	struct ck_str rest = { list.p + 1, list.len - 1 };

	while (rest.len) {
		size_t len = 0;

		while (len < rest.len && rest.p[len] != ',')
			len++;
		if (ck_str_eq((struct ck_str){ rest.p, len }, name))
			return true;
		len += len < rest.len;
		rest = (struct ck_str){ rest.p + len, rest.len - len };
	}
	return false;
}

static void add_interfaces(const struct ifaddrs *all, const char *net,
			   struct ck_buf *out)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		struct ck_str name = ck_str_from(i->ifa_name);

		if (ck_launch_is_in_network(i, net) &&
		    !(out->len &&
		      has_name((struct ck_str){ out->data, out->len }, name)))
			add_name(out, name);
	}
}

/* --- RDMA ----------------------------------------------------------------- */

/* Returns true if the interface `name` is in the list, or an interface above it
 * is. directory: its entry in sysfs. above: levels to search. */
static bool leads_to(const char *directory, const char *name,
		     struct ck_str interfaces, int above)
{
	static const char upper[] = "upper_";
	size_t len = sizeof(upper) - 1;
	bool does = has_name(interfaces, ck_str_from(name));
	DIR *dir = does || above == 0 ? NULL : opendir(directory);
	struct dirent *e;

	while (dir && !does && (e = readdir(dir))) {
		ck_auto_free char *path = NULL;

		if (strncmp(e->d_name, upper, len) != 0)
			continue;
		if (asprintf(&path, "%s/%s", directory, e->d_name) < 0)
			path = NULL;
		else
			does = leads_to(path, e->d_name + len, interfaces,
					above - 1);
	}
	if (dir)
		closedir(dir);
	return does;
}

/* Returns true if a device belongs to one of the interfaces. */
static bool is_among(const char *devices, const char *device,
		     struct ck_str interfaces)
{
	ck_auto_free char *directory = NULL;
	bool is = false;
	struct dirent *e;
	DIR *dir;

	if (asprintf(&directory, "%s/%s/device/net", devices, device) < 0) {
		directory = NULL;
		return false;
	}
	dir = opendir(directory);
	while (dir && !is && (e = readdir(dir))) {
		ck_auto_free char *path = NULL;

		if (e->d_name[0] == '.')
			continue;
		if (asprintf(&path, "%s/%s", directory, e->d_name) < 0)
			path = NULL;
		else
			is = leads_to(path, e->d_name, interfaces, ABOVE_MOST);
	}
	if (dir)
		closedir(dir);
	return is;
}

/* Restricts NCCL to the devices of the interfaces; disables RDMA if no
 * interface has a device. */
static int bind_rdma(const char *devices, struct ck_str interfaces)
{
	static const char which[] = "NCCL_IB_HCA", none[] = "NCCL_IB_DISABLE";
	DIR *dir = getenv(which) || getenv(none) ? NULL : opendir(devices);
	struct ck_buf list = { 0 };
	bool any = false;
	struct dirent *e;
	int rc;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		any = true;
		if (is_among(devices, e->d_name, interfaces))
			add_name(&list, ck_str_from(e->d_name));
	}
	if (dir)
		closedir(dir);
	rc = list.err;
	if (rc == 0 && any &&
	    setenv(list.len ? which : none, list.len ? list.data : "1", 1))
		rc = -errno;
	ck_buf_fini(&list);
	return rc;
}

/* -------------------------------------------------------------------------- */

static int bind_sockets(const struct ck_buf *interfaces)
{
	static const char name[] = "NCCL_SOCKET_IFNAME";

	return !getenv(name) && setenv(name, interfaces->data, 1) ? -errno : 0;
}

int ck_launch_bind_nccl(const char *net, const char *devices)
{
	struct ifaddrs *all = NULL;
	struct ck_buf list = { 0 };
	int rc;

	if (!net)
		return 0;
	if (getifaddrs(&all))
		return -errno;
	add_interfaces(all, net, &list);
	freeifaddrs(all);
	rc = list.err ? list.err : list.len ? 0 : -ENONET;
	if (rc == 0)
		rc = bind_sockets(&list);
	if (rc == 0)
		rc = bind_rdma(devices, (struct ck_str){ list.data, list.len });
	ck_buf_fini(&list);
	return rc;
}
