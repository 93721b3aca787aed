/* SPDX-License-Identifier: MIT */
/*
 * options: parses the text after -o by a table. mount(8) passes all words of
 * fstab, also words that the kernel handles, or that mean nothing to a
 * filesystem: those are accepted and ignored. Any other unknown word is an
 * error, since it is most often a misspelt option.
 *
 * No state, no locks: the result is in struct ck_mount_options.
 */
#include "options.h"
#include "options_reading.h"
#include <ctype.h>
#include <errno.h>

struct option {
	/* With `=` at the end: takes a value. With `*`: a prefix. */
	const char *name;
	/* name: as above; value: "" if the option takes no value. */
	int (*set)(struct ck_mount_options *o, const char *name,
		   const char *value, struct ck_diag *d);
	/* For the help: values after `=`, and one line of text. */
	const char *values, *what;
	enum ck_options_taken taken; /* the least of the sets that it is in */
};

/* --- values --------------------------------------------------------------- */

/* Checks for a number without sign. name, expected: for the message. */
static int parse_number(const char *name, const char *value, int base,
			unsigned long most, const char *expected,
			struct ck_diag *d)
{
	char *end = NULL;
	unsigned long n = 0;

	errno = 0;
	if (isdigit((unsigned char)value[0]))
		n = strtoul(value, &end, base);
	if (!end || *end || errno || n > most)
		return ck_fail(d, EINVAL, "option %s=%s: expected %s", name,
			       ck_show(ck_str_from(value)), expected);
	return 0;
}

static int set_uid(struct ck_mount_options *o, const char *name,
		   const char *value, struct ck_diag *d)
{
	int rc = parse_number("uid", value, 10, UINT32_MAX - 1,
			      "a decimal number", d);

	(void)name;
	o->uid = (uid_t)strtoul(value, NULL, 10);
	o->have_uid = true;
	return rc;
}

static int set_gid(struct ck_mount_options *o, const char *name,
		   const char *value, struct ck_diag *d)
{
	int rc = parse_number("gid", value, 10, UINT32_MAX - 1,
			      "a decimal number", d);

	(void)name;
	o->gid = (gid_t)strtoul(value, NULL, 10);
	o->have_gid = true;
	return rc;
}

static int set_umask(struct ck_mount_options *o, const char *name,
		     const char *value, struct ck_diag *d)
{
	int rc = parse_number("umask", value, 8, 0777,
			      "an octal number up to 777", d);

	(void)name;
	o->umask = (mode_t)strtoul(value, NULL, 8);
	return rc;
}

static int set_log(struct ck_mount_options *o, const char *name,
		   const char *value, struct ck_diag *d)
{
	(void)name;
	return ck_option_text(&o->log, "log", value, d);
}

static int set_fsname(struct ck_mount_options *o, const char *name,
		      const char *value, struct ck_diag *d)
{
	(void)name;
	return ck_option_text(&o->fsname, "fsname", value, d);
}

/* Options that select how, and what of, a checkpoint is read. */
static int set_reading(struct ck_mount_options *o, const char *name,
		       const char *value, struct ck_diag *d)
{
	return ck_option_set_reading(&o->format, &o->view, name, value, d);
}

static int set_strict(struct ck_mount_options *o, const char *name,
		      const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->view.strict = true;
	return 0;
}

static int set_allow_other(struct ck_mount_options *o, const char *name,
			   const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->allow_other = true;
	return 0;
}

static int set_auto_unmount(struct ck_mount_options *o, const char *name,
			    const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->auto_unmount = true;
	return 0;
}

static int set_nonempty(struct ck_mount_options *o, const char *name,
			const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->nonempty = true;
	return 0;
}

static int set_direct(struct ck_mount_options *o, const char *name,
		      const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->direct = true;
	return 0;
}

static int set_nopassthrough(struct ck_mount_options *o, const char *name,
			     const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->nopassthrough = true;
	return 0;
}

static int set_noxattr(struct ck_mount_options *o, const char *name,
		       const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->noxattr = true;
	return 0;
}

static int set_debug(struct ck_mount_options *o, const char *name,
		     const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->debug = true;
	return 0;
}

static int set_ro(struct ck_mount_options *o, const char *name,
		  const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->ro = true;
	return 0;
}

static int set_write(struct ck_mount_options *o, const char *name,
		     const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->write = true;
	return 0;
}

static int set_keep_unknown(struct ck_mount_options *o, const char *name,
			    const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->keep_unknown = true;
	return 0;
}

static int set_patch(struct ck_mount_options *o, const char *name,
		     const char *value, struct ck_diag *d)
{
	(void)name, (void)value, (void)d;
	o->patch = true;
	return 0;
}

/* Options of several hosts. */
static int set_of_hosts(struct ck_mount_options *o, const char *name,
			const char *value, struct ck_diag *d)
{
	return ck_hosts_options_set(&o->hosts, name, value, '+', d);
}

/* Options of GPUs. */
static int set_of_gpus(struct ck_mount_options *o, const char *name,
		       const char *value, struct ck_diag *d)
{
	return ck_gpu_choice_set(&o->gpu, name, value, d);
}

const char *const ck_commit_words[] = {
	[CK_COMMIT_CLOSE] = "close",
	[CK_COMMIT_MANUAL] = "manual",
};

static int set_commit(struct ck_mount_options *o, const char *name,
		      const char *value, struct ck_diag *d)
{
	size_t i = 0;

	(void)name;
	while (i < CK_ARRAY_SIZE(ck_commit_words) &&
	       strcmp(value, ck_commit_words[i]) != 0)
		i++;
	if (i == CK_ARRAY_SIZE(ck_commit_words))
		return ck_fail(d, EINVAL,
			       "option commit=%s: expected close or manual",
			       ck_show(ck_str_from(value)));
	o->commit = (enum ck_commit_when)i;
	o->commit_given = true;
	return 0;
}

static const struct option table[] = {
	{ "write", set_write, "", "tensors of DCP, and files/, can be written",
	  CK_TAKES_ALL },
	{ "commit=", set_commit, "close|manual",
	  "with write: when tensors are committed", CK_TAKES_ALL },
	{ "patch", set_patch, "",
	  "with write: bytes not written keep their values", CK_TAKES_ALL },
	{ "keep_unknown", set_keep_unknown, "",
	  "with write: accept unknown classes in .metadata", CK_TAKES_ALL },
	{ "ro", set_ro, "", "read-only, even with write", CK_TAKES_ALL },
	{ "allow_other", set_allow_other, "",
	  "other users may use the mount, as modes allow", CK_TAKES_ALL },
	{ "auto_unmount", set_auto_unmount, "",
	  "the mount ends with its process", CK_TAKES_ALL },
	{ "nonempty", set_nonempty, "",
	  "the mount point may have files; they are hidden", CK_TAKES_ALL },
	{ "uid=", set_uid, "N", "show this owner", CK_TAKES_ALL },
	{ "gid=", set_gid, "N", "show this group", CK_TAKES_ALL },
	{ "umask=", set_umask, "OCTAL", "remove these bits from modes",
	  CK_TAKES_ALL },
	{ "shardlinks=", set_reading, "beneath",
	  "follow links to data files that stay beneath SRC", CK_TAKES_SOURCE },
	{ "linkroot=", set_reading, "DIR", "follow links to files beneath DIR",
	  CK_TAKES_SOURCE },
	{ "sidecar=", set_reading, "FILE",
	  "names the parameters in FSDP1's flat parameters", CK_TAKES_SOURCE },
	{ "rename=", set_reading, "FILE", "names by lines OLD<tab>NEW of FILE",
	  CK_TAKES_SOURCE },
	{ "only=", set_reading, "GLOB[+GLOB...]", "show only these names",
	  CK_TAKES_SOURCE },
	{ "exclude=", set_reading, "GLOB[+GLOB...]", "do not show these names",
	  CK_TAKES_SOURCE },
	{ "kind=", set_reading, "KIND",
	  "require a kind, as dcp or run; see ckptfs(5)", CK_TAKES_SOURCE },
	{ "views=", set_reading, "NAME[+NAME...]",
	  "only these directories, as full+hf; see ckptfs(1)", CK_TAKES_VIEWS },
	{ "ranks=", set_reading, "N[-N][+...]",
	  "only these ranks in local/ and sharded/", CK_TAKES_VIEWS },
	{ "root=", set_reading, "NAME",
	  "prefix of the model that hf/ shows; empty: all", CK_TAKES_VIEWS },
	{ "hf_shard_size=", set_reading, "SIZE",
	  "maximum size of a file in hf/", CK_TAKES_VIEWS },
	{ "hf_template=", set_reading, "DIR",
	  "config.json, tokenizer and file names of hf/", CK_TAKES_VIEWS },
	{ "placements=", set_reading, "FILE",
	  "rules for dimensions in sharded/ and dcp/", CK_TAKES_VIEWS },
	{ "manifest=", set_reading, "FILE",
	  "names, shapes and dtypes that are expected", CK_TAKES_MANIFEST },
	{ "strict", set_strict, "",
	  "with manifest: differences refuse the mount", CK_TAKES_ALL },
	{ "hosts=", set_of_hosts, "A[:N][+B...]",
	  "SRC is spread over these hosts", CK_TAKES_SOURCE },
	{ "hostfile=", set_of_hosts, "FILE", "a file that lists hosts",
	  CK_TAKES_SOURCE },
	{ "map=", set_of_hosts, "A=PATH[+B=PATH...]",
	  "with hosts: where SRC is on some of them", CK_TAKES_SOURCE },
	{ "prefer=", set_of_hosts, "A[+B...]",
	  "with hosts: use the copies of A if copies differ", CK_TAKES_SOURCE },
	{ "replicas=", set_of_hosts, "sample|full|first",
	  "with hosts: how copies are compared", CK_TAKES_SOURCE },
	{ "allhosts", set_of_hosts, "",
	  "with hosts: a missing host is an error", CK_TAKES_SOURCE },
	{ "agent=", set_of_hosts, "PROGRAM",
	  "with hosts: starts programs there; default ssh", CK_TAKES_SOURCE },
	{ "program=", set_of_hosts, "PATH",
	  "with hosts: path of ckptfs on them", CK_TAKES_SOURCE },
	{ "net=", set_of_hosts, "CIDR[+CIDR...]",
	  "with hosts: use only these networks", CK_TAKES_SOURCE },
	{ "timeout=", set_of_hosts, "SECONDS",
	  "with hosts: EIO after a read without progress", CK_TAKES_SOURCE },
	{ "rejoin=", set_of_hosts, "SECONDS|off",
	  "with hosts: how often missing hosts are retried", CK_TAKES_SOURCE },
	{ "segment=", set_of_hosts, "SIZE",
	  "with hosts: maximum size of a read-ahead request", CK_TAKES_SOURCE },
	{ "cache=", set_of_hosts, "SIZE", "with hosts: memory for read-ahead",
	  CK_TAKES_SOURCE },
	{ "ownermem=", set_of_hosts, "SIZE",
	  "with hosts: memory of each process there", CK_TAKES_SOURCE },
	{ "gpu=", set_of_gpus, "off|auto|N[+N...]", "GPUs to use",
	  CK_TAKES_ALL },
	{ "gather=", set_of_gpus, "host|gpu",
	  "with gpu: where reads are assembled", CK_TAKES_ALL },
	{ "nccl=", set_of_gpus, "off|force",
	  "with gpu and hosts: whether NCCL transfers", CK_TAKES_ALL },
	{ "pinned=", set_of_gpus, "SIZE",
	  "with gpu: pinned memory for transfers", CK_TAKES_ALL },
	{ "gpucache=", set_of_gpus, "SIZE",
	  "with gpu: GPU memory that caches closed tensors", CK_TAKES_ALL },
	{ "direct", set_direct, "", "reads bypass the page cache",
	  CK_TAKES_ALL },
	{ "nopassthrough", set_nopassthrough, "",
	  "ckptfs reads and writes files/, not the kernel", CK_TAKES_ALL },
	{ "noxattr", set_noxattr, "", "no extended attributes", CK_TAKES_ALL },
	{ "log=", set_log, "FILE|syslog", "append messages there, too",
	  CK_TAKES_ALL },
	{ "fsname=", set_fsname, "NAME", "the source that df and mount show",
	  CK_TAKES_ALL },
	{ "debug", set_debug, "", "print every request; with -f",
	  CK_TAKES_ALL },
};

static const char *const ignored[] = {
	/* Properties that every mount has, or cannot have. */
	"default_permissions",
	"rw",
	"nodev",
	"dev",
	"nosuid",
	"suid",
	"exec",
	"noexec",
	"atime",
	"noatime",
	"diratime",
	"nodiratime",
	"relatime",
	"norelatime",
	"strictatime",
	"lazytime",
	"nolazytime",
	"sync",
	"async",
	"dirsync",
	/* Words of fstab and of mount(8). */
	"auto",
	"noauto",
	"defaults",
	"nofail",
	"_netdev",
	"user",
	"user=",
	"nouser",
	"users",
	"owner",
	"group",
	"user_id=",
	"group_id=",
	"comment=",
	"x-*",
	"X-*",
};

/* --- finding -------------------------------------------------------------- */

static bool matches(const char *name, const char *word)
{
	size_t len = strlen(name);

	if (name[len - 1] == '=')
		return strncmp(word, name, len) == 0;
	if (name[len - 1] == '*')
		return strncmp(word, name, len - 1) == 0;
	return strcmp(word, name) == 0;
}

#define NAME_LEN 64 /* of names compared; longer words are cut */

static struct ck_str name_of(const char *word)
{
	return (struct ck_str){ word, ck_min(strcspn(word, "="), NAME_LEN) };
}

/* Returns the option with an effect whose name is nearest to a word; NULL if half of
 * the letters or more differ. */
static const char *nearest(const char *word, enum ck_options_taken taken)
{
	const char *best = NULL;
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < CK_ARRAY_SIZE(table); i++) {
		struct ck_str given = name_of(word),
			      name = name_of(table[i].name);
		size_t n = ck_str_distance(given, name, NAME_LEN);

		if (n < least && 2 * n < ck_max(given.len, name.len) &&
		    table[i].taken <= taken) {
			least = n;
			best = table[i].name;
		}
	}
	return best;
}

static bool is_ignored(const char *word)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(ignored); i++)
		if (matches(ignored[i], word))
			return true;
	return false;
}

static const struct option *option_of(const char *word)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(table); i++)
		if (matches(table[i].name, word))
			return &table[i];
	return NULL;
}

static int refuse_unknown(const char *word, enum ck_options_taken taken,
			  struct ck_diag *d)
{
	const char *best = nearest(word, taken);

	return ck_fail(d, EINVAL, "option %s: unknown; %s%s",
		       ck_show(ck_str_from(word)),
		       best ? "the nearest is "
			    : "ckptfs help lists the options",
		       best ? best : "");
}

static int option_set(struct ck_mount_options *o, const char *word,
		      enum ck_options_taken taken, struct ck_diag *d)
{
	static const char *const others[] = {
		[CK_TAKES_MANIFEST] =
			", and for check, ls, cat, cp and getfattr",
		[CK_TAKES_VIEWS] = ", and for ls, cat, cp and getfattr",
		[CK_TAKES_ALL] = "",
	};
	const struct option *option = option_of(word);
	const char *value = strchr(word, '=');

	if (!option)
		return taken == CK_TAKES_ALL && is_ignored(word)
			       ? 0
			       : refuse_unknown(word, taken, d);
	if (option->taken <= taken)
		return option->set(o, option->name, value ? value + 1 : "", d);
	return ck_fail(d, EINVAL, "option %s: only for mounts%s",
		       ck_show(ck_str_from(word)), others[option->taken]);
}

/* In a map `\` is also an escape of the list: see ck_host_list_map_all(). */
static bool keeps_escapes(const struct ck_buf *word)
{
	return ck_str_starts((struct ck_str){ word->data, word->len },
			     CK_STR("map="));
}

/* Takes the next word of *text, up to a comma that has no `\` before it. */
static void next_word(const char **text, struct ck_buf *word)
{
	const char *p = *text;

	word->len = 0;
	for (; *p && *p != ','; p++) {
		if (p[0] == '\\' && p[1]) {
			if (p[1] != ',' && keeps_escapes(word))
				ck_buf_add(word, p, 1);
			p++;
		}
		ck_buf_add(word, p, 1);
	}
	*text = *p ? p + 1 : p;
}

static int parse(struct ck_mount_options *o, const char *text,
		 enum ck_options_taken taken, struct ck_diag *d)
{
	struct ck_buf word = { 0 };
	int rc = 0;

	while (*text && rc == 0) {
		next_word(&text, &word);
		if (word.err)
			rc = ck_fail(d, ENOMEM, "out of memory");
		else if (word.len)
			rc = option_set(o, word.data, taken, d);
	}
	ck_buf_fini(&word);
	return rc;
}

int ck_options_parse(struct ck_mount_options *o, const char *text,
		     struct ck_diag *d)
{
	if (o->given.len)
		ck_buf_text(&o->given, ",");
	ck_buf_text(&o->given, text);
	return parse(o, text, CK_TAKES_ALL, d);
}

int ck_options_parse_reading(struct ck_format_options *o,
			     struct ck_hosts_options *hosts,
			     struct ck_view_options *view,
			     enum ck_options_taken taken, const char *text,
			     struct ck_diag *d)
{
	struct ck_mount_options all = { .format = *o, .hosts = *hosts };
	int rc;

	if (view)
		all.view = *view;
	rc = parse(&all, text, taken, d);
	*o = all.format;
	*hosts = all.hosts;
	if (view) {
		*view = all.view;
		all.view = (struct ck_view_options){ 0 };
	}
	all.hosts = (struct ck_hosts_options){ 0 };
	all.format = (struct ck_format_options){ 0 };
	ck_options_fini(&all);
	return rc;
}

bool ck_options_know(const char *text)
{
	struct ck_buf word = { 0 };
	bool known;

	next_word(&text, &word);
	known = word.len && !word.err && option_of(word.data);
	ck_buf_fini(&word);
	return known;
}

int ck_options_check(const struct ck_mount_options *o, struct ck_diag *d)
{
	if (o->commit_given && !o->write)
		return ck_fail(d, EINVAL, "option commit: only with write");
	if (o->keep_unknown && !o->write)
		return ck_fail(d, EINVAL,
			       "option keep_unknown: only with write");
	if (o->patch && (!o->write || o->commit != CK_COMMIT_CLOSE))
		return ck_fail(d, EINVAL,
			       "option patch: only with write and "
			       "commit=close");
	if (o->write && !o->ro && ck_hosts_options_given(&o->hosts))
		return ck_fail(d, EINVAL,
			       "option write: not for a checkpoint that lies "
			       "on several hosts");
	if (o->view.strict && !o->view.manifest)
		return ck_fail(d, EINVAL, "option strict: only with manifest");
	if (ck_gpu_choice_check(&o->gpu, d))
		return -EINVAL;
	return ck_hosts_options_check(&o->hosts, d);
}

void ck_options_help(struct ck_buf *out)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(table); i++) {
		const struct option *o = &table[i];
		int width = 26 - (int)strlen(o->name);

		ck_buf_printf(out, "  %s%-*s %s\n", o->name, width, o->values,
			      o->what);
	}
}

void ck_options_fini(struct ck_mount_options *o)
{
	free(o->log);
	free(o->fsname);
	ck_format_options_fini(&o->format);
	ck_hosts_options_fini(&o->hosts);
	ck_view_options_fini(&o->view);
	ck_buf_fini(&o->given);
	*o = (struct ck_mount_options){ 0 };
}
