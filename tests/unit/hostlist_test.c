/* SPDX-License-Identifier: MIT */
/*
 * Lists of hosts: valid and invalid names, files of hosts, and maps of paths with each
 * separator in a path. This host is found in a list by each of its names.
 */
#include "source/hostlist.h"
#include "source/hostlist_internal.h"
#include "tap.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ck_diag d;
static char root[PATH_MAX];

static struct ck_host_list listed(const char *text)
{
	struct ck_host_list list = { 0 };

	eq_err(ck_host_list_add(&list, text, ',', &d), 0);
	return list;
}

/* --- the resolver ------------------------------------------------------------------- */

int __real_getaddrinfo(const char *name, const char *service,
		       const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *name, const char *service,
		       const struct addrinfo *hints, struct addrinfo **out);

/* A fake resolver that knows one name, and needs no network. */
int __wrap_getaddrinfo(const char *name, const char *service,
		       const struct addrinfo *hints, struct addrinfo **out)
{
	struct addrinfo numeric = *hints;

	numeric.ai_flags |= AI_NUMERICHOST;
	return __real_getaddrinfo(strcmp(name, "here.invalid") ? name
							       : "127.0.0.77",
				  service, &numeric, out);
}

/* --- names -------------------------------------------------------------------------- */

static void good_names(void)
{
	struct ck_host_list list = listed("a,b-1.x.org:2,10.77.0.3:16,C:01");

	eq_u64(list.n, 4);
	eq_text(list.hosts[0].name, "a");
	eq_u64(list.hosts[0].ranks, 1);
	eq_text(list.hosts[1].name, "b-1.x.org");
	eq_u64(list.hosts[1].ranks, 2);
	eq_u64(list.hosts[2].ranks, 16);
	eq_text(list.hosts[3].name, "C");
	ok(!list.hosts[1].path);
	/* A second text is appended. */
	eq_err(ck_host_list_add(&list, "d+e:3", '+', &d), 0);
	eq_u64(list.n, 6);
	eq_u64(list.hosts[5].ranks, 3);
	ck_host_list_fini(&list);
}

static void bad_names(void)
{
	static const struct {
		const char *text;
		char separator;
		const char *says;
	} cases[] = {
		{ "", ',', "option hosts: names no host" },
		{ ",", ',', "option hosts: a name of a host is empty" },
		{ "a,,b", ',', "is empty" },
		{ "a,", ',', "is empty" },
		{ "a++b", '+', "is empty" },
		{ ":2", ',', "is empty" },
		{ "-a", ',', "option hosts: -a is no name" },
		{ "a_b", ',', "a_b is no name" },
		{ "a b", ',', "a b is no name" },
		{ "a+b", ',', "a+b is no name" },
		{ "a,b", '+', "a,b is no name" },
		{ "a/b", ',', "a/b is no name" },
		{ "\xc3\xa4", ',', "is no name" },
		{ "a\n", ',', "a%0A is no name" },
		{ "$(id)", ',', "is no name" },
		{ "a:0", ',',
		  "hosts: a:0: expected a number of processes from 1 to" },
		{ "a:17", ',', "hosts: a:17: expected" },
		{ "a:", ',', "hosts: a:: expected" },
		{ "a:1:2", ',', "hosts: a:1:2: expected" },
		{ "a:+1", ',', "hosts: a:+1: expected" },
		{ "a: 1", ',', "hosts: a: 1: expected" },
		{ "a:1x", ',', "hosts: a:1x: expected" },
		{ "a:4294967297", ',', "hosts: a:4294967297: expected" },
		{ "a,b,a", ',', "option hosts: a is named twice" },
		{ "a,A", ',', "A is named twice" },
		{ "a:2,a:3", ',', "a is named twice" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_host_list list = { 0 };

		d = (struct ck_diag){ 0 };
		eq_err(ck_host_list_add(&list, cases[i].text,
					cases[i].separator, &d),
		       -EINVAL);
		printf("# %s\n", d.text);
		ok(strstr(d.text, cases[i].says));
		ck_host_list_fini(&list);
	}
}

static void long_names(void)
{
	struct ck_host_list list = { 0 };
	char name[CK_HOST_NAME_MOST + 2];

	memset(name, 'a', sizeof(name));
	name[CK_HOST_NAME_MOST] = '\0';
	eq_err(ck_host_list_add(&list, name, ',', &d), 0);
	memset(name, 'b', sizeof(name));
	name[CK_HOST_NAME_MOST + 1] = '\0';
	eq_err(ck_host_list_add(&list, name, ',', &d), -EINVAL);
	ck_host_list_fini(&list);
}

static void many_hosts(void)
{
	struct ck_host_list list = { 0 };
	char name[32];

	for (unsigned i = 0; i < CK_HOST_LIST_MOST; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		if (ck_host_list_add(&list, name, ',', &d))
			break;
	}
	eq_u64(list.n, CK_HOST_LIST_MOST);
	eq_err(ck_host_list_add(&list, "more", ',', &d), -EINVAL);
	ok(strstr(d.text, "more than 4096 hosts"));
	ck_host_list_fini(&list);
}

/* --- files -------------------------------------------------------------------------- */

static const char *file_with(const char *text, size_t len)
{
	static char path[PATH_MAX + 8];
	FILE *f;

	snprintf(path, sizeof(path), "%s/hosts", root);
	f = fopen(path, "we");
	if (!f || fwrite(text, 1, len, f) != len || fclose(f))
		abort();
	return path;
}

static int read_text(struct ck_host_list *list, struct ck_str text)
{
	*list = (struct ck_host_list){ 0 };
	d = (struct ck_diag){ 0 };
	return ck_host_list_read(list, file_with(text.p, text.len), &d);
}

static void good_files(void)
{
	struct ck_host_list list;

	eq_err(read_text(&list, CK_STR("# all\n\n  a\t\nb:2 # two\r\n#c\n\r\n"
				       "10.0.0.1:3#")),
	       0);
	eq_u64(list.n, 3);
	eq_text(list.hosts[0].name, "a");
	eq_text(list.hosts[1].name, "b");
	eq_u64(list.hosts[1].ranks, 2);
	eq_u64(list.hosts[2].ranks, 3);
	/* Hosts of an option cannot be added to those of a file. */
	eq_err(ck_host_list_add(&list, "b", ',', &d), -EINVAL);
	ck_host_list_fini(&list);
}

static void bad_files(void)
{
	static const struct {
		struct ck_str text;
		const char *says;
	} cases[] = {
		{ { "", 0 }, "hosts: names no host" },
		{ { "# a\n\n", 5 }, "hosts: names no host" },
		{ { "a\nb slots=2\n", 12 }, "hosts: line 2: b slots=2 is no" },
		{ { "a\n\n\n\n\n\n\n\n\n\na\n", 13 }, "line 11: a is named" },
		{ { "a,b\n", 4 }, "line 1: a,b is no name" },
		{ { "a:99\n", 5 }, "line 1: a:99: expected" },
		{ { "a\0b\n", 4 }, "line 1: a%00b is no name" },
		{ { "a\0\n", 3 }, "line 1: a%00 is no name" },
	};
	struct ck_host_list list;

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		eq_err(read_text(&list, cases[i].text), -EINVAL);
		printf("# %s\n", d.text);
		ok(strstr(d.text, cases[i].says));
		ok(strncmp(d.text, "option hostfile: ", 17) == 0);
		ck_host_list_fini(&list);
	}
}

static void no_files(void)
{
	struct ck_host_list list = { 0 };
	char *many = calloc(1, (1 << 20) + 1);

	eq_err(ck_host_list_read(&list, "/nonexistent/a\n", &d), -ENOENT);
	eq_text(d.text, "option hostfile: /nonexistent/a%0A: No such file or "
			"directory");
	eq_err(ck_host_list_read(&list, root, &d), -EISDIR);
	memset(many, '\n', (1 << 20) + 1);
	many[0] = 'a';
	eq_err(read_text(&list, (struct ck_str){ many, 1 << 20 }), 0);
	ck_host_list_fini(&list);
	eq_err(read_text(&list, (struct ck_str){ many, (1 << 20) + 1 }),
	       -EFBIG);
	ck_host_list_fini(&list);
	free(many);
}

/* --- paths -------------------------------------------------------------------------- */

static void maps(void)
{
	struct ck_host_list list = listed("localhost,a,b,c,e");

	eq_err(ck_host_list_map(&list, "a=/x=y+b=\\z", &d), 0);
	eq_err(ck_host_list_map_all(&list, "b=/p\\+q\\\\r\\s+C=/t,u", &d), 0);
	eq_err(ck_host_list_settle(&list, "/nonexistent/d", &d), 0);
	eq_text(list.hosts[0].path, "/nonexistent/d");
	eq_text(list.hosts[1].path, "/x=y+b=\\z");
	eq_text(list.hosts[2].path, "/p+q\\r\\s");
	eq_text(list.hosts[3].path, "/t,u");
	eq_text(list.hosts[4].path, "/nonexistent/d");
	ck_host_list_fini(&list);
}

static void bad_maps(void)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "expected HOST=PATH" },
		{ "a", "option map: a: expected HOST=PATH" },
		{ "=/x", "is empty" },
		{ "a_b=/x", "a_b is no name" },
		{ "a=", "option map: a:  is no absolute path" },
		{ "a=x", "option map: a: x is no absolute path" },
		{ "a=/x+", "expected HOST=PATH" },
		{ "a=/x+b", "b: expected HOST=PATH" },
		{ "a=/x+A=/y", "option map: A is named twice" },
		{ "a=/x\\", "c is none" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_host_list list = listed("a,b");
		int rc = ck_host_list_map_all(&list, cases[i].text, &d);

		/* The last row is valid: the path of `a` ends with a backslash. */
		if (rc == 0) {
			eq_text(list.maps[0].path, "/x\\");
			eq_err(ck_host_list_map(&list, "c=/", &d), 0);
			rc = ck_host_list_settle(&list, "/", &d);
		}
		eq_err(rc, -EINVAL);
		printf("# %s\n", d.text);
		ok(strstr(d.text, cases[i].says));
		ck_host_list_fini(&list);
	}
}

/* A name that is not in the list may still be a name of this host. */
static void map_here(void)
{
	struct ck_host_list list = listed("127.0.0.1,a");

	eq_err(ck_host_list_map(&list, "localhost=/here", &d), 0);
	eq_err(ck_host_list_settle(&list, "/there", &d), 0);
	eq_text(list.hosts[0].path, "/here");
	eq_text(list.hosts[1].path, "/there");
	ck_host_list_fini(&list);

	list = listed("127.0.0.1,a");
	eq_err(ck_host_list_map(&list, "localhost=/x", &d), 0);
	eq_err(ck_host_list_map(&list, "127.0.0.1=/y", &d), 0);
	eq_err(ck_host_list_settle(&list, "/there", &d), -EINVAL);
	ok(strstr(d.text, "option map: 127.0.0.1 is named twice"));
	ck_host_list_fini(&list);
}

static void is_at(const char *source, const char *path)
{
	struct ck_host_list list = listed("a,localhost");
	ck_auto_free char *cwd = getcwd(NULL, 0);
	ck_auto_free char *want = NULL;

	eq_err(ck_host_list_settle(&list, source, &d), 0);
	if (!cwd || asprintf(&want, "%s/%s", cwd, path) < 0)
		abort();
	eq_text(list.hosts[0].path, want);
	eq_text(list.hosts[1].path, want);
	ck_host_list_fini(&list);
}

static void sources(void)
{
	ck_auto_free char *cwd = getcwd(NULL, 0);

	ok(cwd && chdir(root) == 0);
	/* Links in the path of this host are resolved. */
	ok(mkdir("real", 0700) == 0 && symlink("real", "link") == 0);
	is_at("link/../link", "real");
	/* A path that may be on another host is only made absolute. */
	is_at("not/here", "not/here");
	ok(rmdir("real") == 0 && unlink("link") == 0);
	ok(cwd && chdir(cwd) == 0);
}

/* --- this host ---------------------------------------------------------------------- */

/* Settles "x.invalid,NAME:3,y.invalid"; NAME must become the first host. */
static void is_first(const char *name)
{
	struct ck_host_list list = listed("x.invalid");
	char own[512];

	snprintf(own, sizeof(own), "%s:3", name);
	eq_err(ck_host_list_add(&list, own, ',', &d), 0);
	eq_err(ck_host_list_add(&list, "y.invalid", ',', &d), 0);
	eq_err(ck_host_list_settle(&list, "/", &d), 0);
	printf("# %s\n", name);
	eq_u64(list.n, 3);
	eq_text(list.hosts[0].name, name);
	eq_u64(list.hosts[0].ranks, 3);
	eq_text(list.hosts[1].name, "x.invalid");
	eq_text(list.hosts[2].name, "y.invalid");
	ck_host_list_fini(&list);
}

static bool is_nameable(const char *name)
{
	return ck_host_name_check(ck_str_from(name), "", NULL) == 0;
}

/* An IPv4 address of an interface other than lo. */
static bool own_address(char *text)
{
	struct ifaddrs *all = NULL;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		const struct sockaddr_in *in = (void *)i->ifa_addr;

		if (!in || in->sin_family != AF_INET)
			continue;
		inet_ntop(AF_INET, &in->sin_addr, text, INET_ADDRSTRLEN);
		found = strncmp(text, "127.", 4) != 0;
	}
	freeifaddrs(all);
	return found;
}

static void own_names(void)
{
	char name[HOST_NAME_MAX + 1] = "", address[INET_ADDRSTRLEN];

	is_first("localhost");
	is_first("LocalHost");
	is_first("127.0.0.1");
	is_first("127.8.9.10");
	is_first("here.invalid");
	if (own_address(address))
		is_first(address);
	ok(gethostname(name, sizeof(name) - 1) == 0);
	if (is_nameable(name))
		is_first(name);
	name[strcspn(name, ".")] = '\0';
	if (is_nameable(name))
		is_first(name);
}

static void not_named(void)
{
	struct ck_host_list list = listed("x.invalid:4,198.51.100.1");
	char name[HOST_NAME_MAX + 1] = "";

	eq_err(ck_host_list_settle(&list, "/", &d), 0);
	ok(gethostname(name, sizeof(name) - 1) == 0);
	eq_u64(list.n, 3);
	eq_text(list.hosts[0].name, is_nameable(name) ? name : "localhost");
	eq_u64(list.hosts[0].ranks, 1);
	eq_text(list.hosts[1].name, "x.invalid");
	eq_u64(list.hosts[1].ranks, 4);
	ck_host_list_fini(&list);
}

static void named_twice(void)
{
	struct ck_host_list list = listed("localhost,a,127.0.0.1");

	eq_err(ck_host_list_settle(&list, "/", &d), -EINVAL);
	eq_text(d.text, "option hosts: this host is named twice: localhost, "
			"127.0.0.1");
	ck_host_list_fini(&list);
}

/* --- preference --------------------------------------------------------------------- */

static void preferences(void)
{
	struct ck_host_list list = listed("a,b,127.0.0.1,c");
	size_t *order = NULL, n = 0;

	eq_err(ck_host_list_settle(&list, "/", &d), 0);
	eq_err(ck_host_list_prefer(&list, "C,localhost,a", ',', &order, &n, &d),
	       0);
	eq_u64(n, 3);
	ok(order[0] == 3 && order[1] == 0 && order[2] == 1);
	free(order);
	order = NULL;
	eq_err(ck_host_list_prefer(&list, "a+x", '+', &order, &n, &d), -EINVAL);
	eq_text(d.text, "option prefer: x is none of the hosts");
	eq_err(ck_host_list_prefer(&list, "a,b,a", ',', &order, &n, &d),
	       -EINVAL);
	ok(strstr(d.text, "option prefer: a is named twice"));
	eq_err(ck_host_list_prefer(&list, "localhost,127.0.0.1", ',', &order,
				   &n, &d),
	       -EINVAL);
	eq_err(ck_host_list_prefer(&list, "", ',', &order, &n, &d), -EINVAL);
	ok(strstr(d.text, "option prefer: a name of a host is empty"));
	eq_err(ck_host_list_prefer(&list, "a b", ',', &order, &n, &d), -EINVAL);
	ok(!order);
	ck_host_list_fini(&list);
}

int main(void)
{
	snprintf(root, sizeof(root), "%s/ckptfs-hostlist-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(root))
		return 1;
	good_names();
	bad_names();
	long_names();
	many_hosts();
	good_files();
	bad_files();
	no_files();
	maps();
	bad_maps();
	map_here();
	sources();
	own_names();
	not_named();
	named_twice();
	preferences();
	unlink(file_with("", 0));
	rmdir(root);
	return tap_done();
}
