/* SPDX-License-Identifier: MIT */
/*
 * hostlist_settle: finds this host in a list of hosts, and sets the path of the
 * checkpoint on each host. A name is of this host if gethostname(2) returns it, or if
 * it resolves to an address of a local interface. Two names of one host are an error:
 * they would be two file servers of the same files. Used by one thread, before any
 * other host is contacted.
 */
#include "hostlist_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

/* --- this host ---------------------------------------------------------------------- */

struct here {
	char name[HOST_NAME_MAX + 1];
	struct ifaddrs *addresses;
};

static int here_init(struct here *here, struct ck_diag *d)
{
	*here = (struct here){ .name = "" };
	if (gethostname(here->name, sizeof(here->name) - 1))
		return ck_fail(d, errno, "this host has no name: %s",
			       strerror(errno));
	if (getifaddrs(&here->addresses))
		return ck_fail(d, errno,
			       "the addresses of this host are not to be had: "
			       "%s",
			       strerror(errno));
	return 0;
}

static void here_fini(struct here *here)
{
	if (here->addresses)
		freeifaddrs(here->addresses);
}

/* True for localhost, the name of this host, or its part before the first '.'. */
static bool is_own_name(const struct here *here, const char *name)
{
	size_t first = strcspn(here->name, ".");

	if (strcasecmp(name, "localhost") == 0)
		return true;
	return *name && (strcasecmp(name, here->name) == 0 ||
			 (strlen(name) == first &&
			  strncasecmp(name, here->name, first) == 0));
}

/* Sets *bytes to an address without port and scope, and returns its length; 0 for
 * another family. */
static size_t bytes_of(const struct sockaddr *a, const void **bytes)
{
	if (a && a->sa_family == AF_INET) {
		*bytes = &((const struct sockaddr_in *)(const void *)a)
				  ->sin_addr;
		return sizeof(struct in_addr);
	}
	if (a && a->sa_family == AF_INET6) {
		*bytes = &((const struct sockaddr_in6 *)(const void *)a)
				  ->sin6_addr;
		return sizeof(struct in6_addr);
	}
	return 0;
}

/* True for an address of a local interface, or of 127.0.0.0/8, of which interfaces list
 * only one. */
static bool is_own_address(const struct here *here, const struct sockaddr *a)
{
	const void *bytes = NULL, *own = NULL;
	size_t len = bytes_of(a, &bytes);

	if (len == sizeof(struct in_addr) && *(const uint8_t *)bytes == 127)
		return true;
	for (const struct ifaddrs *i = here->addresses; len && i;
	     i = i->ifa_next)
		if (bytes_of(i->ifa_addr, &own) == len &&
		    memcmp(own, bytes, len) == 0)
			return true;
	return false;
}

/* True if a name resolves to this host. A name that does not resolve may be known to
 * the launch agent only. */
static bool leads_here(const struct here *here, const char *name)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	bool own = false;

	if (getaddrinfo(name, NULL, &hints, &found))
		return false;
	for (const struct addrinfo *a = found; a && !own; a = a->ai_next)
		own = is_own_address(here, a->ai_addr);
	freeaddrinfo(found);
	return own;
}

static bool is_here(const struct here *here, const char *name)
{
	return is_own_name(here, name) || leads_here(here, name);
}

/* --- this host becomes the first -------------------------------------------------- */

static void move_to_front(struct ck_host_list *list, size_t at)
{
	struct ck_host own = list->hosts[at];

	memmove(list->hosts + 1, list->hosts, at * sizeof(*list->hosts));
	list->hosts[0] = own;
}

static int find_own(struct ck_host_list *list, const struct here *here,
		    size_t *at, struct ck_diag *d)
{
	*at = list->n;
	for (size_t i = 0; i < list->n; i++) {
		if (!is_here(here, list->hosts[i].name))
			continue;
		if (*at < list->n)
			return ck_fail(
				d, EINVAL,
				"option hosts: this host is named twice: %s, %s",
				ck_show(ck_str_from(list->hosts[*at].name)),
				ck_show(ck_str_from(list->hosts[i].name)));
		*at = i;
	}
	return 0;
}

/* Adds this host to a list without it. Its own name may not be a valid name of a
 * host. */
static int add_own(struct ck_host_list *list, const struct here *here,
		   struct ck_diag *d)
{
	bool good = !ck_host_name_check(ck_str_from(here->name), "", NULL);

	return ck_host_list_add(list, good ? here->name : "localhost", ',', d);
}

static int settle_own(struct ck_host_list *list, const struct here *here,
		      struct ck_diag *d)
{
	size_t at;
	int rc = find_own(list, here, &at, d);

	if (rc == 0 && at == list->n)
		rc = add_own(list, here, d);
	if (rc == 0)
		move_to_front(list, at);
	return rc;
}

/* --- paths -------------------------------------------------------------------------- */

char *ck_host_absolute(const char *source)
{
	char *real = realpath(source, NULL);
	ck_auto_free char *cwd = NULL;
	char *joined;

	if (real || source[0] == '/')
		return real ? real : strdup(source);
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return NULL;
	if (asprintf(&joined, "%s/%s", cwd, source) < 0) {
		errno = ENOMEM;
		return NULL;
	}
	return joined;
}

/* Returns the index of a host, or list->n if it is not listed. This host, index 0, is
 * also found by its other names. */
static size_t find(const struct ck_host_list *list, const struct here *here,
		   struct ck_str name)
{
	ck_auto_free char *text = strndup(name.p, name.len);
	size_t i = 0;

	while (i < list->n && !ck_host_is_named(&list->hosts[i], name))
		i++;
	return i == list->n && text && is_here(here, text) ? 0 : i;
}

static int settle_map(struct ck_host_list *list, const struct here *here,
		      struct ck_host *map, struct ck_diag *d)
{
	size_t at = find(list, here, ck_str_from(map->name));

	if (at == list->n)
		return ck_fail(d, EINVAL, "option map: %s is none of the hosts",
			       ck_show(ck_str_from(map->name)));
	if (list->hosts[at].path)
		return ck_fail(d, EINVAL, "option map: %s is named twice",
			       ck_show(ck_str_from(map->name)));
	list->hosts[at].path = ck_steal(&map->path);
	return 0;
}

static int settle_paths(struct ck_host_list *list, const struct here *here,
			const char *source, struct ck_diag *d)
{
	ck_auto_free char *path = ck_host_absolute(source);
	int rc = path ? 0
		      : ck_fail(d, errno, "%s: %s",
				ck_show(ck_str_from(source)), strerror(errno));

	for (size_t i = 0; rc == 0 && i < list->nmaps; i++)
		rc = settle_map(list, here, &list->maps[i], d);
	for (size_t i = 0; rc == 0 && i < list->n; i++) {
		struct ck_host *host = &list->hosts[i];

		if (!host->path)
			host->path = strdup(path);
		if (!host->path)
			rc = ck_fail(d, ENOMEM, "out of memory");
	}
	return rc;
}

int ck_host_list_settle(struct ck_host_list *list, const char *source,
			struct ck_diag *d)
{
	struct here here;
	int rc = here_init(&here, d);

	if (rc == 0)
		rc = settle_own(list, &here, d);
	if (rc == 0)
		rc = settle_paths(list, &here, source, d);
	here_fini(&here);
	return rc;
}

/* --- preference --------------------------------------------------------------------- */

static int prefer(const struct ck_host_list *list, const struct here *here,
		  struct ck_str name, size_t *order, size_t *n,
		  struct ck_diag *d)
{
	size_t at;
	int rc = ck_host_name_check(name, "option prefer", d);

	if (rc)
		return rc;
	at = find(list, here, name);
	if (at == list->n)
		return ck_fail(d, EINVAL,
			       "option prefer: %s is none of the hosts",
			       ck_show(name));
	for (size_t i = 0; i < *n; i++)
		if (order[i] == at)
			return ck_fail(d, EINVAL,
				       "option prefer: %s is named twice",
				       ck_show(name));
	order[(*n)++] = at;
	return 0;
}

int ck_host_list_prefer(const struct ck_host_list *list, const char *text,
			char separator, size_t **out, size_t *n,
			struct ck_diag *d)
{
	ck_auto_free size_t *order = calloc(list->n + 1, sizeof(*order));
	struct ck_str rest = ck_str_from(text), name;
	struct here here;
	int rc;

	if (!order)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = here_init(&here, d);
	*n = 0;
	while (rc == 0 && ck_host_piece(&rest, separator, &name))
		rc = prefer(list, &here, name, order, n, d);
	here_fini(&here);
	if (rc == 0)
		*out = ck_steal(&order);
	return rc;
}
