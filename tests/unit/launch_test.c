/* SPDX-License-Identifier: MIT */
/*
 * Launching a job: arguments and environment of mpirun, and which hosts can take part. The
 * fake mpirun and ckptfs print versions. The hosts of a fake agent answer, have other versions,
 * fail, hang, or write without end.
 */
#include "ckptfs/launch.h"
#include "dist/launch/launch_internal.h"
#include "dist/launch/subprocess.h"
#include "tap.h"

#include <sys/stat.h>
#include <unistd.h>

/* The reason of a host that fails without output. */
#define SILENT "no output\n"

enum { PATIENT_MSEC = 60000 };

static struct ck_diag d;
static char root[256];

/* --- arguments ---------------------------------------------------------------------- */

/* want: the arguments, each with `|` after it. */
static void same_words(char **got, const char *want)
{
	struct ck_buf all = { 0 };

	for (size_t i = 0; got && got[i]; i++)
		ck_buf_printf(&all, "%s|", got[i]);
	ok(got);
	eq_text(all.data ? all.data : "", want);
	ck_buf_fini(&all);
	ck_launch_words_free(got);
}

/* Three hosts; the first is this host. */
static struct ck_host_list three(void)
{
	static const char *const paths[] = { "/a b", "/b", "/c:" };
	struct ck_host_list list = { 0 };

	eq_err(ck_host_list_add(&list, "10.0.0.1,b.x.org:2,c:16", ',', &d), 0);
	for (size_t i = 0; i < list.n; i++)
		list.hosts[i].path = strdup(paths[i]);
	return list;
}

static void all_words(void)
{
	static const char want[] =
		"mpirun|--allow-run-as-root|--bind-to|none|--mca|plm|rsh|"
		"--mca|plm_rsh_agent|/x/agent -v|--mca|"
		"orte_enable_recovery|1|--mca|"
		"orte_abort_on_non_zero_status|0|--mca|"
		"orte_keep_fqdn_hostnames|1|--mca|plm_rsh_no_tree_spawn|1|"
		"--mca|oob_tcp_keepalive_time|8|"
		"--mca|oob_tcp_keepalive_intvl|3|--mca|"
		"oob_tcp_keepalive_probes|5|--mca|oob_tcp_retry_delay|1|--mca|"
		"oob_tcp_max_recon_attempts|2|--mca|btl_tcp_if_include|"
		"10.0.0.0/8,192.168.0.0/16|--mca|oob_tcp_if_include|"
		"10.0.0.0/8,192.168.0.0/16|-H|localhost:1|-n|1|--wdir|/|"
		"/bin/ck ptfs|serve|--mpi|--door|ckptfs-1|-o|"
		"shardlinks=beneath,ownermem=268435456|/a b|:|-H|"
		"b.x.org:2|-n|2|--wdir|/|/bin/ck ptfs|serve|--mpi|-o|"
		"shardlinks=beneath,ownermem=268435456|/b|:|-H|c:16|-n|"
		"16|--wdir|/|/bin/ck ptfs|serve|--mpi|-o|"
		"shardlinks=beneath,ownermem=268435456|/c:|";
	struct ck_host_list list = three();
	struct ck_launch_options options = {
		.hosts = &list,
		.agent = "/x/agent -v",
		.program = "/bin/ck ptfs",
		.net = "10.0.0.0/8+192.168.0.0/16",
		.door = "ckptfs-1",
		.shardlinks = true,
		.ownermem = 256 << 20,
	};
	bool there[] = { true, true, true };

	same_words(ck_launch_argv(&options, there), want);
	ck_host_list_fini(&list);
}

static void few_words(void)
{
	static const char want[] =
		"mpirun|--allow-run-as-root|--bind-to|none|--mca|plm|rsh|"
		"--mca|plm_rsh_agent|ssh|--mca|orte_enable_recovery|1|"
		"--mca|orte_abort_on_non_zero_status|0|--mca|"
		"orte_keep_fqdn_hostnames|1|--mca|plm_rsh_no_tree_spawn|1|"
		"--mca|oob_tcp_keepalive_time|8|"
		"--mca|oob_tcp_keepalive_intvl|3|--mca|"
		"oob_tcp_keepalive_probes|5|--mca|oob_tcp_retry_delay|1|--mca|"
		"oob_tcp_max_recon_attempts|2|--mca|orte_launch_agent|"
		"/p serve --shelter orted|-H|localhost:1|-n|1|--wdir|/|"
		"/p|serve|--mpi|--door|D|/a b|:|-H|c:16|-n|16|--wdir|/|"
		"/p|serve|--mpi|/c:|";
	struct ck_host_list list = three();
	struct ck_launch_options options = { .hosts = &list,
					     .program = "/p",
					     .door = "D" };
	bool there[] = { true, false, true };

	same_words(ck_launch_argv(&options, there), want);
	ck_host_list_fini(&list);
}

static void split_words(void)
{
	static const char want[] = "ssh|-p|22|";
	struct ck_words w = { 0 };

	ck_words_split(&w, "  ssh -p   22 ");
	same_words(ck_words_take(&w), want);
}

/* --- the environment ---------------------------------------------------------------- */

/* Filters variables, separated by spaces; want: the remaining ones. */
static void leaves(const char *variables, const char *want)
{
	struct ck_words from = { 0 };
	char **words;

	ck_words_split(&from, variables);
	words = ck_words_take(&from);
	same_words(ck_launch_environment(words), want);
	ck_launch_words_free(words);
}

static void environments(void)
{
	static char *const none[] = { NULL };
	char **nothing = ck_launch_environment(none);

	leaves("PATH=/bin SLURM_JOBID=1 SLURM=2 PBS_JOBID=3 LSB_JOBID=4 "
	       "PMIX_RANK=5 OMPI_UNIVERSE_SIZE=6 OMPI_MCA_btl=tcp,self "
	       "MY_OMPI_X=7 EMPTY= ompi_x=8",
	       "PATH=/bin|SLURM=2|OMPI_MCA_btl=tcp,self|MY_OMPI_X=7|EMPTY=|"
	       "ompi_x=8|");
	leaves("A=1 OMPI_MCA_ess=pmi OMPI_COMM_WORLD_RANK=0", "A=1|");
	ok(nothing && !nothing[0]);
	ck_launch_words_free(nothing);
}

/* --- networks ------------------------------------------------------------------------- */

static char devices[300];

static bool has_line(const struct ck_launch_options *o, const char *text)
{
	struct ck_buf lines = { 0 };
	bool has;

	ck_launch_networks(o, devices, &lines);
	has = lines.data && strstr(lines.data, text);
	ck_buf_fini(&lines);
	return has;
}

static void networks(void)
{
	const struct ck_launch_options free_choice = { 0 },
				       one = { .net = "10.0.0.0/8" };
	ck_auto_free char *device = NULL;

	snprintf(devices, sizeof(devices), "%s/infiniband", root);
	if (mkdir(devices, 0700) || asprintf(&device, "%s/mlx5_0", devices) < 0)
		abort();
	unsetenv("OMPI_MCA_pml");
	ok(!has_line(&one, "RDMA") && !has_line(&free_choice, "RDMA"));
	ok(mkdir(device, 0700) == 0);
	ok(has_line(&one, "mlx5_0 can do RDMA"));
	ok(!has_line(&one, "MPI chooses"));
	setenv("OMPI_MCA_pml", "ucx", 1);
	ok(!has_line(&one, "RDMA"));
	unsetenv("OMPI_MCA_pml");
	ok(rmdir(device) == 0 && rmdir(devices) == 0);
}

/* No other host can be reached over loopback. */
static void self(void)
{
	static const struct {
		const char *net;
		bool lacks;
	} cases[] = { { "", false },
		      { "203.0.113.0/24", true },
		      { "127.0.0.0/8", true },
		      { "255.255.255.255/32+203.0.113.7/32", true } };

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_buf said = { 0 };

		ck_launch_self(cases[i].net, &said);
		ok(!said.err);
		ok(strncmp(said.data, "ckptfs-is: ", 11) == 0);
		ok(!!strstr(said.data, "\nckptfs-lacks: ") == cases[i].lacks);
		ok(!cases[i].lacks ||
		   strstr(said.data, ck_shown("ckptfs-lacks: option net: no "
					      "address in %s\n",
					      cases[i].net)));
		ck_buf_fini(&said);
	}
}

/* --- fake programs ------------------------------------------------------------------ */

static const char *path_of(const char *name)
{
	return ck_shown("%s/%s", root, name);
}

static void write_program(const char *name, const char *text, mode_t mode)
{
	const char *path = path_of(name);
	FILE *f = fopen(path, "we");

	if (!f || fputs(text, f) < 0 || fclose(f) || chmod(path, mode))
		abort();
}

static const char versions[] = "#!/bin/sh\n"
			       "[ \"$*\" = --version ] || exit 3\n"
			       "echo 'mpirun (Open MPI) 4.1.4'\n"
			       "echo\n"
			       "echo 'Report bugs elsewhere'\n";
static const char program[] = "#!/bin/sh\n"
			      "[ \"$*\" = 'serve --self ' ] && exit\n"
			      "[ \"$*\" = 'serve --shelter orted -h' ] &&\n"
			      "	{ echo 'Usage: orted [OPTION]'; exit 1; }\n"
			      "[ \"$*\" = --version ] || exit 3\n"
			      "echo 'ckptfs 0.1.0'\n"
			      "echo 'built with: this and that'\n";
/* Like ssh, it takes one command text for a shell after the host. */
static const char agent[] =
	"#!/bin/sh\n"
	"[ \"$1\" = -v ] && shift\n"
	"host=$1\n"
	"shift\n"
	"[ $# = 1 ] || exit 4\n"
	"show() { echo 'mpirun (Open MPI) '$1 >&2; echo 'ckptfs '$2 >&2; }\n"
	"case $host in\n"
	"good*) echo Welcome, ckptfs user >&2; exec sh -c \"$*\" ;;\n"
	"late) sleep 0.2; exec sh -c \"$*\" ;;\n"
	"mpi) show 4.0.0 0.1.0 ;;\n"
	"own) show 4.1.4 0.1.1 ;;\n"
	"longer) show 4.1.4 0.1.0+ ;;\n"
	"crlf) printf 'mpirun (Open MPI) 4.1.4\\r\\nckptfs 0.1.0\\r\\n' >&2 ;;\n"
	"half) echo 'mpirun (Open MPI) 4.1.4' >&2 ;;\n"
	"lacks) show 4.1.4 0.1.0; echo 'ckptfs-lacks: a \033' >&2 ;;\n"
	"is-1*) show 4.1.4 0.1.0; echo ckptfs-is: a b >&2 ;;\n"
	"is-2) show 4.1.4 0.1.0; echo ckptfs-is: a c >&2 ;;\n"
	"new) show 4.1.4 0.2.0; echo no option >&2; exit 2 ;;\n"
	"fail) echo first >&2; printf 'refused \\033[1m\\n\\n' >&2; exit 255 ;;\n"
	"after) show 4.1.4 0.1.0; exit 1 ;;\n"
	"dies) kill -9 $$ ;;\n"
	"mute) exit 0 ;;\n"
	"hang) exec sleep 600 ;;\n"
	"child) sleep 600 & echo $! >\"${0%/*}/child\"; wait ;;\n"
	"deaf) trap '' TERM; while :; do sleep 0.1; done ;;\n"
	"talk) exec yes >&2 ;;\n"
	"esac\n";

static void write_programs(void)
{
	write_program("mpirun", versions, 0700);
	write_program("ck'pt fs", program, 0700);
	write_program("agent", agent, 0700);
}

static void remove_programs(void)
{
	static const char *const names[] = { "mpirun", "ck'pt fs", "agent",
					     "child" };

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++)
		(void)unlink(path_of(names[i]));
	(void)rmdir(root);
}

/* --- preflight ---------------------------------------------------------------------- */

static void judge(const struct ck_host_list *list, const bool *there,
		  const char *who)
{
	eq_u64(list->n, strlen(who));
	for (size_t i = 0; i < list->n; i++)
		if (!tap_result(there[i] == (who[i] == 'y'), __FILE__, __LINE__,
				list->hosts[i].name))
			printf("# there: %d\n", there[i]);
}

static bool have_answered(const bool *there, const char *who)
{
	for (; *who; who++, there++)
		if (*who == 'y' && !*there)
			return false;
	return true;
}

/* Runs the preflight of hosts, of which the first is this host. names: with commas. who: the
 * expected answers, like "yn"; on a busy machine the limit is extended until all answer. lines:
 * the expected text, or NULL if it varies; the limit is appended to a line without an end.
 * Returns the duration minus the limit, in milliseconds. */
static int64_t ask(const char *names, const char *who, const char *lines,
		   int msec)
{
	struct ck_host_list list = { 0 };
	ck_auto_free char *words = NULL, *ours = strdup(path_of("ck'pt fs"));
	struct ck_launch_options options = { .hosts = &list,
					     .program = ours,
					     .ask_msec = msec };
	struct ck_buf said = { 0 };
	bool there[16] = { false };
	uint64_t took = ck_msec_now();
	int rc;

	if (asprintf(&words, " %s  -v", path_of("agent")) < 0)
		abort();
	options.agent = words;
	eq_err(ck_host_list_add(&list, names, ',', &d), 0);
	rc = ck_launch_preflight(&options, there, &said, &d);
	took = ck_msec_now() - took;
	if (msec < PATIENT_MSEC && (rc || !have_answered(there, who))) {
		ck_buf_fini(&said);
		ck_host_list_fini(&list);
		return ask(names, who, lines, 4 * msec);
	}
	eq_err(rc, 0);
	judge(&list, there, who);
	if (lines && *lines && !strchr(lines, '\n'))
		lines = ck_shown("%s%g s\n", lines, msec / 1000.0);
	if (lines)
		eq_text(said.data ? said.data : "", lines);
	ck_buf_fini(&said);
	ck_host_list_fini(&list);
	return (int64_t)took - msec;
}

static void answers(void)
{
	ask("here,good1,late,good2,crlf", "yyyyy", "", PATIENT_MSEC);
	ask("here,mpi,good,own,longer", "ynynn",
	    "host mpi: missing: it has mpirun (Open MPI) 4.0.0 and ckptfs "
	    "0.1.0, this host has mpirun (Open MPI) 4.1.4 and ckptfs 0.1.0\n"
	    "host own: missing: it has mpirun (Open MPI) 4.1.4 and ckptfs "
	    "0.1.1, this host has mpirun (Open MPI) 4.1.4 and ckptfs 0.1.0\n"
	    "host longer: missing: it has mpirun (Open MPI) 4.1.4 and ckptfs "
	    "0.1.0+, this host has mpirun (Open MPI) 4.1.4 and ckptfs 0.1.0\n",
	    PATIENT_MSEC);
	ask("here,new,lacks", "ynn",
	    "host new: missing: it has mpirun (Open MPI) 4.1.4 and ckptfs "
	    "0.2.0, this host has mpirun (Open MPI) 4.1.4 and ckptfs 0.1.0\n"
	    "host lacks: missing: a %1B\n",
	    PATIENT_MSEC);
	ask("here,fail,after,dies,mute,half,good", "ynnnnny",
	    "host fail: missing: exit status 255: refused %1B[1m\n"
	    "host after: missing: exit status 1: ckptfs 0.1.0\n"
	    "host dies: missing: ended by signal 9: " SILENT
	    "host mute: missing: it did not name its versions: " SILENT
	    "host half: missing: it did not name its versions: mpirun (Open "
	    "MPI) 4.1.4\n",
	    PATIENT_MSEC);
}

/* A host that reports the usage of its daemon can start it. Hosts without `before` are skipped. */
static void tries(void)
{
	struct ck_host_list list = { 0 };
	ck_auto_free char *ours = strdup(path_of("ck'pt fs"));
	ck_auto_free char *with = strdup(path_of("agent"));
	struct ck_launch_options options = { .hosts = &list,
					     .agent = with,
					     .program = ours };
	const bool want[] = { true, true, false, false, false };
	const bool before[] = { true, true, true, false, true };
	bool there[5];
	struct ck_buf said = { 0 };
	int msec = 500;

	eq_err(ck_host_list_add(&list, "here,good,fail,mute,hang", ',', &d), 0);
	for (;; msec *= 4) {
		options.ask_msec = msec;
		memcpy(there, before, sizeof(there));
		eq_err(ck_launch_try(&options, there, &said), 0);
		if (memcmp(there, want, sizeof(want)) == 0 ||
		    msec >= PATIENT_MSEC)
			break;
		ck_buf_fini(&said); /* a busy machine needs a longer limit */
	}
	eq_mem(there, sizeof(there), want, sizeof(want));
	eq_text(said.data,
		ck_shown("host fail: missing: nothing can be started there: "
			 "exit status 255: refused %%1B[1m\n"
			 "host hang: missing: nothing can be started there: "
			 "did not answer in %g s\n",
			 msec / 1000.0));
	ck_buf_fini(&said);
	/* If the probe also fails on this host, no other host is excluded. */
	options.program = "/bin/false";
	memcpy(there, before, sizeof(there));
	eq_err(ck_launch_try(&options, there, &said), 0);
	ok(there[1] && there[2] && there[4] && said.len == 0);
	ck_buf_fini(&said);
	ck_host_list_fini(&list);
}

static int ask_with(const char *names, const char *ours, const char *with);

/* Only hosts that report the same identity are one host. */
static void same_host(void)
{
	ck_auto_free char *ours = strdup(path_of("ck'pt fs"));
	ck_auto_free char *with = strdup(path_of("agent"));

	ask("here,is-1,good,is-2", "yyyy", "", PATIENT_MSEC);
	eq_err(ask_with("here,is-1,good,is-1x", ours, with), -EINVAL);
	eq_text(d.text, "option hosts: is-1 and is-1x are one host");
}

/* True if the process has ended, also if it is a zombie. */
static bool is_over(int pid)
{
	FILE *f = fopen(ck_shown("/proc/%d/stat", pid), "re");
	char state = 'Z';

	if (f) {
		if (fscanf(f, "%*d %*s %c", &state) != 1)
			state = 'Z';
		(void)fclose(f);
	}
	return state == 'Z';
}

/* True if the process whose pid is in the file ends. */
static bool is_gone(const char *file)
{
	FILE *f = fopen(path_of(file), "re");
	int pid = 0;

	if (!f || fscanf(f, "%d", &pid) != 1 || fclose(f) || pid <= 0)
		return false;
	for (int i = 0; i < 6000 && !is_over(pid); i++)
		usleep(10000);
	return is_over(pid);
}

/* Hosts that hang share one deadline, and their processes are ended. */
static void hanging(void)
{
	int64_t more = ask("here,hang,child,talk,good,hang2", "ynnnyn", NULL,
			   2500);

	printf("# %" PRId64 " ms more\n", more);
	ok(more >= 0 && (more < 2000 || TAP_SLOW || !tap_is_long()));
	ok(is_gone("child"));
	more = ask("here,deaf", "yn", "host deaf: missing: did not answer in ",
		   700);
	ok(more >= 0 && (more < 3300 || TAP_SLOW || !tap_is_long()));
}

static int ask_with(const char *names, const char *ours, const char *with)
{
	struct ck_host_list list = { 0 };
	struct ck_launch_options options = { .hosts = &list,
					     .agent = with,
					     .program = ours,
					     .ask_msec = PATIENT_MSEC };
	struct ck_buf lines = { 0 };
	bool there[4];
	int rc;

	eq_err(ck_host_list_add(&list, names, ',', &d), 0);
	rc = ck_launch_preflight(&options, there, &lines, &d);
	if (rc == 0) {
		ok(there[0] && !there[1]);
		eq_text(lines.data, "host b: missing: it cannot be asked: No "
				    "such file or directory\n");
	}
	ck_buf_fini(&lines);
	ck_host_list_fini(&list);
	return rc;
}

static void not_asked(void)
{
	ck_auto_free char *ours = strdup(path_of("ck'pt fs"));

	eq_err(ask_with("here,b", ours, path_of("no-agent")), 0);
	/* The agent works, but ckptfs on this host does not. */
	eq_err(ask_with("here,b", path_of("none"), path_of("agent")), -EPROTO);
	printf("# %s\n", d.text);
	ok(strstr(d.text, "this host does not tell its versions of mpirun and "
			  "ckptfs: exit status 127: "));
	ok(strstr(d.text, "/none: "));
}

/* --- looking for programs ----------------------------------------------------------- */

static void finding(void)
{
	ck_auto_free char *path = strdup(getenv("PATH"));
	ck_auto_free char *self = ck_subprocess_program();
	ck_auto_free char *cwd = getcwd(NULL, 0);

	ok(self && self[0] == '/' && strstr(self, "launch_test"));
	eq_err(ck_launch_find("/bin/sh -c", &d), 0);
	setenv("PATH", "/nonexistent", 1);
	eq_err(ck_launch_find("/bin/sh -c", &d), -ENOENT);
	eq_text(d.text, "mpirun: not found; the package openmpi-bin has it");
	setenv("PATH", path_of(""), 1);
	eq_err(ck_launch_find("/bin/sh -c", &d), 0);
	write_program("mpirun", versions, 0600);
	eq_err(ck_launch_find("/bin/sh -c", &d), -ENOENT);
	ok(unlink(path_of("mpirun")) == 0 &&
	   mkdir(path_of("mpirun"), 0700) == 0);
	eq_err(ck_launch_find("/bin/sh -c", &d), -ENOENT);
	ok(rmdir(path_of("mpirun")) == 0);
	write_program("mpirun", versions, 0700);
	eq_err(ck_launch_find("mpirun -x", &d), 0);
	eq_err(ck_launch_find("/nonexistent/agent", &d), -ENOENT);
	eq_text(d.text, "option agent: /nonexistent/agent: not found");
	eq_err(ck_launch_find("nosuchagent -v", &d), -ENOENT);
	eq_err(ck_launch_find(NULL, &d), -ENOENT);
	ok(strncmp(d.text, "ssh: not found", 14) == 0);
	/* An empty part of PATH is the working directory. */
	ok(cwd && chdir(root) == 0);
	setenv("PATH", "/nonexistent:", 1);
	eq_err(ck_launch_find("/bin/sh -c", &d), 0);
	ok(cwd && chdir(cwd) == 0);
	unsetenv("PATH");
	eq_err(ck_launch_find("/bin/sh -c", &d), -ENOENT);
	setenv("PATH", path, 1);
}

int main(void)
{
	ck_auto_free char *path = NULL;

	snprintf(root, sizeof(root), "%s/ckptfs-launch-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(root) ||
	    asprintf(&path, "%s:%s", root, getenv("PATH")) < 0)
		return 1;
	setenv("PATH", path, 1);
	write_programs();
	all_words();
	few_words();
	split_words();
	environments();
	networks();
	self();
	answers();
	tries();
	same_host();
	hanging();
	not_asked();
	finding();
	remove_programs();
	return tap_done();
}
