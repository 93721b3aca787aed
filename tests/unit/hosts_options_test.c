/* SPDX-License-Identifier: MIT */
/*
 * Options of hosts: the field that each option sets, the limits of each range, the messages of
 * refused values, and the defaults.
 */
#include "source/hosts_options.h"
#include "tap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ck_diag d;

static int set(struct ck_hosts_options *o, const char *name, const char *value)
{
	d = (struct ck_diag){ 0 };
	return ck_hosts_options_set(o, name, value, '+', &d);
}

static void values(void)
{
	struct ck_hosts_options o = { 0 };

	eq_err(set(&o, "hosts=", "127.0.0.1+198.51.100.1:2"), 0);
	eq_err(set(&o, "map", "198.51.100.1=/a\\+b"), 0);
	eq_err(ck_hosts_options_set(&o, "map", "localhost=/c+d=\\+", ',', &d),
	       0);
	eq_err(ck_hosts_options_set(&o, "hosts", "198.51.100.2,198.51.100.3",
				    ',', &d),
	       0);
	eq_err(ck_hosts_options_set(&o, "prefer", "198.51.100.3,localhost", ',',
				    &d),
	       0);
	eq_err(set(&o, "replicas", "full"), 0);
	eq_err(set(&o, "allhosts", ""), 0);
	eq_err(set(&o, "agent", "ssh -p 22"), 0);
	eq_err(set(&o, "program=", "/opt/ckptfs"), 0);
	eq_err(set(&o, "net", "10.0.0.0/8+192.168.1.0/24"), 0);
	eq_err(set(&o, "timeout", "600"), 0);
	eq_err(set(&o, "rejoin", "off"), 0);
	eq_err(set(&o, "segment", "256K"), 0);
	eq_err(set(&o, "cache", "2G"), 0);
	eq_err(set(&o, "ownermem", "1048577"), 0);
	ok(ck_hosts_options_given(&o));
	eq_err(ck_hosts_options_check(&o, &d), 0);
	eq_err(ck_hosts_options_settle(&o, "/src", &d), 0);
	eq_u64(o.list.n, 4);
	eq_text(o.list.hosts[0].path, "/c+d=\\+");
	eq_text(o.list.hosts[1].path, "/a+b");
	eq_u64(o.list.hosts[1].ranks, 2);
	eq_text(o.list.hosts[3].path, "/src");
	eq_text(o.prefer, "198.51.100.3+localhost");
	ok(o.norder == 2 && o.order[0] == 3 && o.order[1] == 0);
	ok(o.replicas == CK_REPLICAS_FULL && o.allhosts);
	eq_text(o.agent, "ssh -p 22");
	eq_text(o.program, "/opt/ckptfs");
	eq_text(o.net, "10.0.0.0/8+192.168.1.0/24");
	ok(o.timeout == 600 && o.rejoin == CK_RESTART_OFF);
	eq_u64(o.segment, 256 << 10);
	eq_u64(o.cache, UINT64_C(2) << 30);
	eq_u64(o.ownermem, 1048577);
	ck_hosts_options_fini(&o);
	ok(!ck_hosts_options_given(&o) && !o.prefer);
}

/* A later value replaces an earlier one. */
static void edges(void)
{
	static const struct {
		const char *name, *value;
	} good[] = {
		{ "timeout", "1" },	 { "rejoin", "1" },
		{ "rejoin", "3600" },	 { "segment", "64M" },
		{ "segment", "262144" }, { "segment", "65536K" },
		{ "cache", "1M" },	 { "cache", "1024G" },
		{ "ownermem", "1024K" }, { "replicas", "sample" },
		{ "replicas", "first" }, { "net", "1.2.3.4/32" },
		{ "net", "0.0.0.0/0" },	 { "hostfile", "x y" },
		{ "prefer", "a-1.b" },
	};
	struct ck_hosts_options o = { 0 };

	for (size_t i = 0; i < CK_ARRAY_SIZE(good); i++) {
		printf("# %s=%s\n", good[i].name, good[i].value);
		eq_err(set(&o, good[i].name, good[i].value), 0);
	}
	ok(o.timeout == 1 && o.rejoin == 3600 && o.segment == 64 << 20);
	ok(o.cache == UINT64_C(1) << 40 && o.ownermem == 1 << 20);
	ok(o.replicas == CK_REPLICAS_FIRST);
	ck_hosts_options_fini(&o);
}

static void refused(void)
{
	static const struct {
		const char *name, *value, *says;
	} cases[] = {
		{ "hosts", "", "option hosts: names no host" },
		{ "hosts", "a,b", "option hosts: a,b is no name" },
		{ "hostfile", "", "option hostfile=: expected a value" },
		{ "map", "a", "option map: a: expected HOST=PATH" },
		{ "prefer", "", "option prefer: a name of a host is empty" },
		{ "prefer", "a+", "option prefer: a name of a host is empty" },
		{ "prefer", "a,b", "option prefer: a,b is no name" },
		{ "replicas", "Full",
		  "option replicas=Full: expected sample, full or first" },
		{ "replicas", "", "expected sample" },
		{ "agent", "", "option agent=: expected a program" },
		{ "agent", "  ", "expected a program" },
		{ "agent", "ssh : rsh", "without `:`" },
		{ "program", "", "option program=: expected an absolute" },
		{ "program", "ckptfs", "expected an absolute path" },
		{ "net", "", "option net=: expected networks" },
		{ "net", "10.0.0.0", "expected networks" },
		{ "net", "10.0.0.0/", "expected networks" },
		{ "net", "10.0.0.0/33", "expected networks" },
		{ "net", "10.0.0.0/-1", "expected networks" },
		{ "net", "10.0.0.0/1x", "expected networks" },
		{ "net", "10.0.0.0/008", "expected networks" },
		{ "net", "10.0.0/8", "expected networks" },
		{ "net", "eth0", "expected networks" },
		{ "net", "fd00::/8", "expected networks" },
		{ "net", "10.0.0.0/8+", "expected networks" },
		{ "net", "10.0.0.0/8,10.0.0.0/8", "expected networks" },
		{ "net", "1111111111111111111111/8", "expected networks" },
		{ "timeout", "0", "option timeout=0: expected seconds from 1" },
		{ "timeout", "601", "seconds from 1 to 600" },
		{ "timeout", "", "seconds" },
		{ "timeout", "1s", "seconds" },
		{ "timeout", "-1", "seconds" },
		{ "timeout", "18446744073709551617", "seconds" },
		{ "rejoin", "0", "from 1 to 3600, or off" },
		{ "rejoin", "3601", "3600" },
		{ "rejoin", "Off", "or off" },
		{ "segment", "255K", "a power of two from 256K to 64M" },
		{ "segment", "128K", "a power of two" },
		{ "segment", "128M", "a power of two" },
		{ "segment", "3M", "a power of two" },
		{ "segment", "8MB", "a power of two" },
		{ "segment", "8m", "a power of two" },
		{ "segment", "M", "a power of two" },
		{ "cache", "1048575", "option cache=1048575: expected a size" },
		{ "cache", "1025G", "from 1M to 1024G" },
		{ "cache", "1T", "a size" },
		{ "cache", "1.5G", "a size" },
		{ "cache", "17179869185G", "a size" },
		{ "cache", " 1G", "a size" },
		{ "ownermem", "", "option ownermem=: expected a size" },
		{ "host", "a", "option host: unknown" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_hosts_options o = { 0 };

		eq_err(set(&o, cases[i].name, cases[i].value), -EINVAL);
		printf("# %s\n", d.text);
		ok(strstr(d.text, cases[i].says));
		ck_hosts_options_fini(&o);
	}
}

static void defaults(void)
{
	struct ck_hosts_options o = { 0 };

	eq_err(ck_hosts_options_check(&o, &d), 0);
	eq_err(set(&o, "hosts", "127.0.0.1"), 0);
	eq_err(ck_hosts_options_settle(&o, "/", &d), 0);
	ok(o.timeout == 30 && o.rejoin == 30 && o.segment == 8 << 20);
	ok(o.cache >= 1 << 20 && o.cache <= 1 << 30);
	ok(o.ownermem == 256 << 20 && o.replicas == CK_REPLICAS_SAMPLE);
	ok(!o.allhosts && !o.agent && !o.program && !o.net && !o.norder);
	ck_hosts_options_fini(&o);
}

static void without_hosts(void)
{
	static const char *const words[][2] = {
		{ "map", "a=/x" },	  { "prefer", "a" },
		{ "replicas", "sample" }, { "allhosts", "" },
		{ "agent", "ssh" },	  { "program", "/x" },
		{ "net", "10.0.0.0/8" },  { "timeout", "30" },
		{ "rejoin", "30" },	  { "segment", "8M" },
		{ "cache", "1G" },	  { "ownermem", "1G" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++) {
		struct ck_hosts_options o = { 0 };
		char want[100];

		eq_err(set(&o, words[i][0], words[i][1]), 0);
		eq_err(ck_hosts_options_check(&o, &d), -EINVAL);
		snprintf(want, sizeof(want),
			 "option %s: only with hosts or hostfile", words[i][0]);
		eq_text(d.text, want);
		eq_err(set(&o, "hostfile", "/nonexistent"), 0);
		eq_err(ck_hosts_options_check(&o, &d), 0);
		ok(ck_hosts_options_given(&o));
		ck_hosts_options_fini(&o);
	}
}

/* Errors are found before any process is started. */
static void unsettled(void)
{
	struct ck_hosts_options o = { 0 };

	eq_err(set(&o, "hostfile", "/nonexistent"), 0);
	eq_err(ck_hosts_options_settle(&o, "/", &d), -ENOENT);
	ck_hosts_options_fini(&o);
	eq_err(set(&o, "hosts", "127.0.0.1"), 0);
	eq_err(set(&o, "prefer", "198.51.100.1"), 0);
	eq_err(ck_hosts_options_settle(&o, "/", &d), -EINVAL);
	ok(strstr(d.text, "option prefer: 198.51.100.1 is none of the hosts"));
	ck_hosts_options_fini(&o);
}

/* Settles option agent, and compares the result; want: NULL if it is refused. */
static void agent_is(const char *agent, const char *want)
{
	struct ck_hosts_options o = { 0 };

	eq_err(set(&o, "hosts", "127.0.0.1"), 0);
	eq_err(set(&o, "agent", agent), 0);
	eq_err(ck_hosts_options_settle(&o, "/", &d), want ? 0 : -EINVAL);
	if (want)
		eq_text(o.agent, want);
	ck_hosts_options_fini(&o);
}

static void agents(void)
{
	char here[] = "/tmp/ckptfs-agent-XXXXXX", spaced[] = "a b", want[64];

	if (!mkdtemp(here) || chdir(here) || mkdir(spaced, 0700))
		abort();
	snprintf(want, sizeof(want), "%s/./agent -p a/b", here);
	agent_is("ssh", "ssh");
	agent_is("ssh -F a/b", "ssh -F a/b");
	agent_is("/x/agent -v", "/x/agent -v");
	agent_is("./agent -p a/b", want);
	ok(chdir(spaced) == 0);
	agent_is("./agent", NULL);
	agent_is("ssh", "ssh");
	ok(chdir("/") == 0);
	snprintf(want, sizeof(want), "%s/%s", here, spaced);
	ok(rmdir(want) == 0 && rmdir(here) == 0);
}

int main(void)
{
	values();
	edges();
	refused();
	defaults();
	without_hosts();
	unsettled();
	agents();
	return tap_done();
}
