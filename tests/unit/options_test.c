/* SPDX-License-Identifier: MIT */
/*
 * options: every word of the contract is taken, values land where they
 * belong, and a misspelt word is an error that names the right one.
 */
#include "ckptfs/fs.h"
#include "tap.h"

#include <errno.h>

static int parse(const char *text, struct ck_mount_options *o,
		 struct ck_diag *d)
{
	*o = (struct ck_mount_options){ 0 };
	*d = (struct ck_diag){ 0 };
	return ck_options_parse(o, text, d);
}

static void values(void)
{
	struct ck_mount_options o;
	struct ck_diag d;

	eq_err(parse("uid=1000,gid=0,umask=027,direct,noxattr", &o, &d), 0);
	ok(o.have_uid && o.uid == 1000);
	ok(o.have_gid && o.gid == 0);
	eq_u64(o.umask, 027);
	ok(o.direct && o.noxattr && !o.allow_other && !o.auto_unmount);
	/* A second -o adds, and the later word wins. */
	eq_err(ck_options_parse(&o, "allow_other,auto_unmount,uid=7", &d), 0);
	ok(o.allow_other && o.auto_unmount && o.direct && o.uid == 7);
	eq_mem(o.given.data, o.given.len,
	       "uid=1000,gid=0,umask=027,direct,noxattr,"
	       "allow_other,auto_unmount,uid=7",
	       70);
	ck_options_fini(&o);

	eq_err(parse("fsname=a\\,b\\\\c=d,log=/x y,shardlinks=beneath", &o, &d),
	       0);
	eq_text(o.fsname, "a,b\\c=d");
	eq_text(o.log, "/x y");
	ok(o.format.shardlinks == CK_BENEATH_SYMLINKS);
	ck_options_fini(&o);

	eq_err(parse(",,rw,,", &o, &d), 0);
	ck_options_fini(&o);
	eq_err(parse("uid=4294967294", &o, &d), 0);
	ck_options_fini(&o);
}

static void ignored(void)
{
	static const char *const words[] = {
		"rw",
		"ro",
		"dev",
		"nodev",
		"suid",
		"nosuid",
		"exec",
		"noexec",
		"atime",
		"noatime",
		"auto",
		"noauto",
		"user",
		"users",
		"user=me",
		"nofail",
		"_netdev",
		"defaults",
		"x-systemd.automount",
		"x-a=b",
		"comment=a b",
		"comment=",
		"sync",
		"async",
		"relatime",
		"norelatime",
		"nodiratime",
		"lazytime",
		"user_id=0",
		"group_id=0",
		"default_permissions",
	};
	struct ck_mount_options o;
	struct ck_diag d;

	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++) {
		int rc = parse(words[i], &o, &d);

		printf("# %s\n", words[i]);
		eq_err(rc, 0);
		ck_options_fini(&o);
	}
}

static void refused(void)
{
	static const struct {
		const char *text, *says;
		int err;
	} cases[] = {
		{ "allow_othr", "allow_other", EINVAL },
		{ "alow_other", "allow_other", EINVAL },
		{ "dirct", "direct", EINVAL },
		{ "xattr", "noxattr", EINVAL },
		{ "ro,wirte", "write", EINVAL },
		{ "shardlink=beneath", "shardlinks", EINVAL },
		{ "fsnam=x", "fsname", EINVAL },
		/* Not the words that are accepted and do nothing. */
		{ "relatme", "nearest is rename=", EINVAL },
		{ "ownr", "unknown; ckptfs help lists the options", EINVAL },
		/* Those of no resemblance. */
		{ "d.txt", "unknown; ckptfs help lists the options", EINVAL },
		{ "out=x", "unknown; ckptfs help lists the options", EINVAL },
		/* A word that takes no value, one that needs it. */
		{ "direct=1", "direct", EINVAL },
		{ "uid", "uid", EINVAL },
		{ "uid=", "option uid=: expected a decimal", EINVAL },
		{ "uid=-1", "option uid=-1: expected a decimal", EINVAL },
		{ "uid=1x", "decimal", EINVAL },
		{ "uid= 1", "decimal", EINVAL },
		{ "uid=4294967295", "decimal", EINVAL },
		{ "gid=99999999999999999999", "decimal", EINVAL },
		{ "umask=8", "option umask=8: expected an octal", EINVAL },
		{ "umask=1000", "octal", EINVAL },
		{ "log=", "option log=: expected a value", EINVAL },
		{ "fsname=", "option fsname=: expected a value", EINVAL },
		{ "kind=", "option kind=: not read", EINVAL },
		{ "kind=torchfile",
		  "which reads dcp, torch_checkpointing, safetensors, torch, ranks, run",
		  EINVAL },
		{ "kind", "kind", EINVAL },
		{ "shardlinks=", "beneath", EINVAL },
		{ "shardlinks=all", "beneath", EINVAL },
		{ "write=1", "write", EINVAL },
		{ "commit=", "expected close or manual", EINVAL },
		{ "commit=Close", "expected close or", EINVAL },
		{ "commit", "commit", EINVAL },
		{ "keep_unknwn", "keep_unknown", EINVAL },
		{ "hosts", "option hosts: unknown", EINVAL },
		{ "hosts=", "option hosts: names no host", EINVAL },
		{ "hosts=a_b", "a_b is no name of a host", EINVAL },
		{ "map=a=x", "x is no absolute path", EINVAL },
		{ "ownermem=3", "ownermem=3", EINVAL },
		{ "timeuot=1", "nearest is timeout=", EINVAL },
		{ "a\nb", "%0A", EINVAL },
		{ "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww",
		  "unknown", EINVAL },
	};
	struct ck_mount_options o;
	struct ck_diag d;

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		int rc = parse(cases[i].text, &o, &d);

		printf("# %s: %s\n", ck_show(ck_str_from(cases[i].text)),
		       d.text);
		eq_err(rc, -cases[i].err);
		ok(strstr(d.text, cases[i].says));
		ck_options_fini(&o);
	}
}

/* Sets of options below `least` do not have it; those above do. */
static void takes(const char *text, enum ck_options_taken least)
{
	for (int taken = CK_TAKES_SOURCE; taken < CK_TAKES_ALL; taken++) {
		struct ck_mount_options o = { 0 };
		struct ck_diag d = { 0 };

		printf("# %s in set %d\n", text, taken);
		eq_err(ck_options_parse_reading(&o.format, &o.hosts, &o.view,
						(enum ck_options_taken)taken,
						text, &d),
		       taken < (int)least ? -EINVAL : 0);
		ok((strstr(d.text, "only for mounts") != NULL) ==
		   (taken < (int)least));
		ck_options_fini(&o);
	}
}

static void reading(void)
{
	static const struct {
		const char *text;
		enum ck_options_taken least;
	} sets[] = {
		{ "rename=a", CK_TAKES_SOURCE },
		{ "hosts=a", CK_TAKES_SOURCE },
		{ "manifest=a", CK_TAKES_MANIFEST },
		{ "root=a", CK_TAKES_VIEWS },
		{ "views=hf", CK_TAKES_VIEWS },
		{ "ranks=1", CK_TAKES_VIEWS },
		{ "hf_shard_size=1G", CK_TAKES_VIEWS },
		{ "hf_template=a", CK_TAKES_VIEWS },
		{ "placements=a", CK_TAKES_VIEWS },
		{ "strict", CK_TAKES_ALL },
		{ "ro", CK_TAKES_ALL },
	};
	struct ck_format_options o = { .shardlinks = CK_BENEATH_NO_SYMLINKS };
	struct ck_hosts_options hosts = { 0 };
	struct ck_diag d = { 0 };

	eq_err(ck_options_parse_reading(&o, &hosts, NULL, CK_TAKES_SOURCE,
					"shardlinks=beneath", &d),
	       0);
	ok(o.shardlinks == CK_BENEATH_SYMLINKS);
	eq_err(ck_options_parse_reading(&o, &hosts, NULL, CK_TAKES_SOURCE,
					"kind=safetensors", &d),
	       0);
	eq_text(o.kind, "safetensors");
	eq_err(ck_options_parse_reading(&o, &hosts, NULL, CK_TAKES_SOURCE,
					"write", &d),
	       -EINVAL);
	ok(strstr(d.text, "option write: only for mounts"));
	eq_err(ck_options_parse_reading(&o, &hosts, NULL, CK_TAKES_SOURCE,
					"shrdlink", &d),
	       -EINVAL);
	ok(strstr(d.text, "nearest is shardlinks="));
	for (size_t i = 0; i < CK_ARRAY_SIZE(sets); i++)
		takes(sets[i].text, sets[i].least);
	/* What was there stays. */
	eq_err(ck_options_parse_reading(&o, &hosts, NULL, CK_TAKES_SOURCE,
					"hosts=a+b,agent=x", &d),
	       0);
	eq_err(ck_options_parse_reading(&o, &hosts, NULL, CK_TAKES_SOURCE,
					"hosts=c,allhosts", &d),
	       0);
	ok(hosts.list.n == 3 && hosts.allhosts);
	eq_text(hosts.agent, "x");
	ck_hosts_options_fini(&hosts);
}

/* What takes a value, and what -o does with its separators before. */
static void of_hosts(void)
{
	struct ck_mount_options o;
	struct ck_diag d;

	eq_err(parse("hosts=a:2+b,hostfile=/x\\,y,prefer=b+a,replicas=first,"
		     "allhosts,agent=rsh,program=/p,net=10.0.0.0/8+11.0.0.0/8,"
		     "timeout=1,ownermem=128M",
		     &o, &d),
	       0);
	ok(o.hosts.list.n == 2 && o.hosts.list.hosts[0].ranks == 2);
	eq_text(o.hosts.hostfile, "/x,y");
	eq_text(o.hosts.prefer, "b+a");
	eq_text(o.hosts.agent, "rsh");
	eq_text(o.hosts.program, "/p");
	eq_text(o.hosts.net, "10.0.0.0/8+11.0.0.0/8");
	ok(o.hosts.replicas == CK_REPLICAS_FIRST && o.hosts.allhosts);
	ok(o.hosts.timeout == 1);
	ok(o.hosts.ownermem == 128 << 20);
	eq_err(ck_options_check(&o, &d), 0);
	ck_options_fini(&o);
}

/* A path has any of `+`, `,`, `\` and `=`. */
static void maps(void)
{
	struct ck_mount_options o;
	struct ck_diag d;

	eq_err(parse("map=a=/p\\+q\\,r\\\\s=t\\u+b=/v\\\\+c=/w,direct", &o, &d),
	       0);
	eq_u64(o.hosts.list.nmaps, 3);
	eq_text(o.hosts.list.maps[0].path, "/p+q,r\\s=t\\u");
	eq_text(o.hosts.list.maps[1].path, "/v\\");
	eq_text(o.hosts.list.maps[2].path, "/w");
	ok(o.direct);
	ck_options_fini(&o);
}

static void together(void)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "hosts=a,write", "option write: not for a checkpoint that" },
		{ "hostfile=/x,write,commit=manual", "option write: not for" },
		{ "timeout=3", "option timeout: only with hosts or hostfile" },
		{ "write,allhosts", "option allhosts: only with hosts" },
		{ "hosts=a,write,ro", NULL },
		{ "hosts=a,map=a=/x", NULL },
	};
	struct ck_mount_options o;
	struct ck_diag d;

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		eq_err(parse(cases[i].text, &o, &d), 0);
		eq_err(ck_options_check(&o, &d), cases[i].says ? -EINVAL : 0);
		ok(!cases[i].says || strstr(d.text, cases[i].says));
		ck_options_fini(&o);
	}
}

static void help(void)
{
	struct ck_buf out = { 0 };

	ck_options_help(&out);
	ok(out.err == 0 && strncmp(out.data, "  write ", 8) == 0);
	ok(strstr(out.data, "  commit=close|manual "));
	ok(!strstr(out.data, "noatime"));
	ck_buf_fini(&out);
}

int main(void)
{
	values();
	ignored();
	refused();
	reading();
	of_hosts();
	maps();
	together();
	help();
	return tap_done();
}
