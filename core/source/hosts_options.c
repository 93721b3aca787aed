/* SPDX-License-Identifier: MIT */
/* hosts_options: parses and completes the options for several hosts. A struct
 * ck_hosts_options belongs to one thread until it is complete, and is constant then. */
#include "hosts_options.h"

#include "hostlist_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
	TIMEOUT = 30, /* seconds */
	TIMEOUT_MOST = 600,
	REJOIN = 30,
	REJOIN_MOST = 3600,
};

static const uint64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;

/* Arguments of ck_hosts_options_set(). */
struct setting {
	const char *name, *value; /* the name without `=` */
	char separator;
};

/* --- values ------------------------------------------------------------------------- */

static int refuse(const struct setting *s, const char *expected,
		  struct ck_diag *d)
{
	return ck_fail(d, EINVAL, "option %s=%s: expected %s", s->name,
		       ck_show(ck_str_from(s->value)), expected);
}

static int set_text(char **out, const struct setting *s, struct ck_diag *d)
{
	if (!*s->value)
		return refuse(s, "a value", d);
	free(*out);
	*out = strdup(s->value);
	return *out ? 0 : ck_fail(d, ENOMEM, "out of memory");
}

static int parse_seconds(const struct setting *s, unsigned most,
			 const char *expected, unsigned *out, struct ck_diag *d)
{
	const char *p = s->value;
	uint64_t n;

	if (!ck_digits_take(&p, &n) || *p || n < 1 || n > most)
		return refuse(s, expected, d);
	*out = (unsigned)n;
	return 0;
}

/* True for an IPv4 network, the only kind that OpenMPI accepts. */
static bool is_network(struct ck_str text)
{
	char address[INET_ADDRSTRLEN];
	struct ck_str bits = text, first;
	struct in_addr parsed;
	uint64_t n = 0;

	(void)ck_host_piece(&bits, '/', &first);
	if (!bits.p || first.len >= sizeof(address))
		return false;
	memcpy(address, first.p, first.len);
	address[first.len] = '\0';
	if (inet_pton(AF_INET, address, &parsed) != 1 || bits.len < 1 ||
	    bits.len > 2)
		return false;
	for (size_t i = 0; i < bits.len; i++) {
		if (bits.p[i] < '0' || bits.p[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(bits.p[i] - '0');
	}
	return n <= 32;
}

/* --- options ------------------------------------------------------------------------ */

static int set_hosts(struct ck_hosts_options *o, const struct setting *s,
		     struct ck_diag *d)
{
	return ck_host_list_add(&o->list, s->value, s->separator, d);
}

static int set_hostfile(struct ck_hosts_options *o, const struct setting *s,
			struct ck_diag *d)
{
	return set_text(&o->hostfile, s, d);
}

static int set_map(struct ck_hosts_options *o, const struct setting *s,
		   struct ck_diag *d)
{
	return s->separator == '+' ? ck_host_list_map_all(&o->list, s->value, d)
				   : ck_host_list_map(&o->list, s->value, d);
}

static int set_prefer(struct ck_hosts_options *o, const struct setting *s,
		      struct ck_diag *d)
{
	struct ck_str rest = ck_str_from(s->value), name;
	int rc = 0;

	while (rc == 0 && ck_host_piece(&rest, s->separator, &name))
		rc = ck_host_name_check(name, "option prefer", d);
	if (rc == 0)
		rc = set_text(&o->prefer, s, d);
	for (char *p = o->prefer; rc == 0 && *p; p++)
		if (*p == s->separator)
			*p = '+';
	return rc;
}

static int set_replicas(struct ck_hosts_options *o, const struct setting *s,
			struct ck_diag *d)
{
	static const char *const words[] = {
		[CK_REPLICAS_SAMPLE] = "sample",
		[CK_REPLICAS_FULL] = "full",
		[CK_REPLICAS_FIRST] = "first",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++)
		if (strcmp(s->value, words[i]) == 0) {
			o->replicas = (enum ck_replicas)i;
			return 0;
		}
	return refuse(s, "sample, full or first", d);
}

static int set_allhosts(struct ck_hosts_options *o, const struct setting *s,
			struct ck_diag *d)
{
	(void)s, (void)d;
	o->allhosts = true;
	return 0;
}

/* mpirun treats the text behind a `:` as an alternative agent. */
static int set_agent(struct ck_hosts_options *o, const struct setting *s,
		     struct ck_diag *d)
{
	if (!s->value[strspn(s->value, " ")] || strchr(s->value, ':'))
		return refuse(s, "a program, without `:`", d);
	return set_text(&o->agent, s, d);
}

static int set_program(struct ck_hosts_options *o, const struct setting *s,
		       struct ck_diag *d)
{
	if (s->value[0] != '/')
		return refuse(s, "an absolute path", d);
	return set_text(&o->program, s, d);
}

static int set_net(struct ck_hosts_options *o, const struct setting *s,
		   struct ck_diag *d)
{
	struct ck_str rest = ck_str_from(s->value), network;

	while (ck_host_piece(&rest, s->separator, &network))
		if (!is_network(network))
			return refuse(s,
				      "networks as 10.0.0.0/8, with + "
				      "between",
				      d);
	return set_text(&o->net, s, d);
}

static int set_timeout(struct ck_hosts_options *o, const struct setting *s,
		       struct ck_diag *d)
{
	return parse_seconds(s, TIMEOUT_MOST, "seconds from 1 to 600",
			     &o->timeout, d);
}

static int set_rejoin(struct ck_hosts_options *o, const struct setting *s,
		      struct ck_diag *d)
{
	unsigned seconds = 0;
	int rc;

	if (strcmp(s->value, "off") == 0) {
		o->rejoin = CK_RESTART_OFF;
		return 0;
	}
	rc = parse_seconds(s, REJOIN_MOST, "seconds from 1 to 3600, or off",
			   &seconds, d);
	if (rc == 0)
		o->rejoin = (int)seconds;
	return rc;
}

static int set_segment(struct ck_hosts_options *o, const struct setting *s,
		       struct ck_diag *d)
{
	uint64_t n;

	if (!ck_size_parse(s->value, &n) || n < 256 * kib || n > 64 * mib ||
	    (n & (n - 1)))
		return refuse(s, "a power of two from 256K to 64M", d);
	o->segment = n;
	return 0;
}

static int set_memory(uint64_t *out, const struct setting *s, struct ck_diag *d)
{
	uint64_t n;

	if (!ck_size_parse(s->value, &n) || n < mib || n > 1024 * gib)
		return refuse(s, "a size from 1M to 1024G", d);
	*out = n;
	return 0;
}

static int set_cache(struct ck_hosts_options *o, const struct setting *s,
		     struct ck_diag *d)
{
	return set_memory(&o->cache, s, d);
}

static int set_ownermem(struct ck_hosts_options *o, const struct setting *s,
			struct ck_diag *d)
{
	return set_memory(&o->ownermem, s, d);
}

/* The first two name hosts; all others need one of them. */
static const struct hosts_option {
	const char *name;
	int (*set)(struct ck_hosts_options *o, const struct setting *s,
		   struct ck_diag *d);
} table[] = {
	{ "hosts", set_hosts },	      { "hostfile", set_hostfile },
	{ "map", set_map },	      { "prefer", set_prefer },
	{ "replicas", set_replicas }, { "allhosts", set_allhosts },
	{ "agent", set_agent },	      { "program", set_program },
	{ "net", set_net },	      { "timeout", set_timeout },
	{ "rejoin", set_rejoin },     { "segment", set_segment },
	{ "cache", set_cache },	      { "ownermem", set_ownermem },
};

int ck_hosts_options_set(struct ck_hosts_options *o, const char *name,
			 const char *value, char separator, struct ck_diag *d)
{
	struct ck_str given = { name, strcspn(name, "=") };
	struct setting s = { .value = value, .separator = separator };
	size_t i = 0;

	while (i < CK_ARRAY_SIZE(table) && !ck_str_is(given, table[i].name))
		i++;
	if (i == CK_ARRAY_SIZE(table))
		return ck_fail(d, EINVAL, "option %s: unknown", ck_show(given));
	s.name = table[i].name;
	if (i > 1)
		o->dependent = s.name;
	return table[i].set(o, &s, d);
}

/* --- all options ------------------------------------------------------------------ */

bool ck_hosts_options_given(const struct ck_hosts_options *o)
{
	return o->list.n || o->hostfile;
}

int ck_hosts_options_check(const struct ck_hosts_options *o, struct ck_diag *d)
{
	if (o->dependent && !ck_hosts_options_given(o))
		return ck_fail(d, EINVAL,
			       "option %s: only with hosts or hostfile",
			       o->dependent);
	return 0;
}

/* 1 GiB, or 1/16 of memory. */
static uint64_t default_cache(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t all = 0;

	if (pages <= 0 || size <= 0 ||
	    !ck_mul(&all, (uint64_t)pages, (uint64_t)size))
		return gib;
	return ck_max(ck_min(all / 16, gib), mib);
}

static void set_defaults(struct ck_hosts_options *o)
{
	if (!o->timeout)
		o->timeout = TIMEOUT;
	if (!o->rejoin)
		o->rejoin = REJOIN;
	if (!o->segment)
		o->segment = 8 * mib;
	if (!o->cache)
		o->cache = default_cache();
	if (!o->ownermem)
		o->ownermem = 256 * mib;
}

/* Makes a relative path of the agent absolute: mpirun starts it from another
 * directory. */
static int settle_agent(struct ck_hosts_options *o, struct ck_diag *d)
{
	size_t len = o->agent ? strcspn(o->agent, " ") : 0;
	ck_auto_free char *here = NULL;
	char *agent;

	if (!len || *o->agent == '/' || !memchr(o->agent, '/', len))
		return 0;
	here = getcwd(NULL, 0);
	if (!here)
		return ck_fail(d, errno, "option agent: the directory: %s",
			       strerror(errno));
	if (strpbrk(here, " :"))
		return ck_fail(d, EINVAL,
			       "option agent: %s: expected a path without "
			       "spaces and `:`",
			       ck_show(ck_str_from(here)));
	if (asprintf(&agent, "%s/%s", here, o->agent) < 0)
		return ck_fail(d, ENOMEM, "out of memory");
	free(o->agent);
	o->agent = agent;
	return 0;
}

int ck_hosts_options_settle(struct ck_hosts_options *o, const char *source,
			    struct ck_diag *d)
{
	int rc = 0;

	if (o->hostfile)
		rc = ck_host_list_read(&o->list, o->hostfile, d);
	if (rc == 0)
		rc = ck_host_list_settle(&o->list, source, d);
	if (rc == 0)
		rc = ck_hosts_options_settle_known(o, d);
	return rc ? rc : settle_agent(o, d);
}

int ck_hosts_options_settle_known(struct ck_hosts_options *o, struct ck_diag *d)
{
	set_defaults(o);
	return o->prefer ? ck_host_list_prefer(&o->list, o->prefer, '+',
					       &o->order, &o->norder, d)
			 : 0;
}

void ck_hosts_options_fini(struct ck_hosts_options *o)
{
	ck_host_list_fini(&o->list);
	free(o->hostfile);
	free(o->prefer);
	free(o->order);
	free(o->agent);
	free(o->program);
	free(o->net);
	*o = (struct ck_hosts_options){ 0 };
}
