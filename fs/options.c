/* SPDX-License-Identifier: MIT */
/*
 * options: the text after -o, by a table. mount(8) passes what fstab has,
 * also words that mean nothing to a filesystem or that the kernel handles:
 * those are accepted and ignored; a word that nobody knows is an error, since
 * it is most often a known one misspelt.
 */
#include "ckptfs/fs.h"
#include <ctype.h>
#include <errno.h>

struct option {
	/* With `=` at the end: takes a value. With `*`: a prefix. */
	const char *name;
	/* NULL: accepted and ignored. value: "" if it takes none. */
	int (*set)(struct ck_mount_options *o, const char *value,
		   struct ck_diag *d);
};

/* --- values --------------------------------------------------------------- */

/* A number without sign. name, expected: for the message. */
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

static int set_uid(struct ck_mount_options *o, const char *value,
		   struct ck_diag *d)
{
	int rc = parse_number("uid", value, 10, UINT32_MAX - 1,
			      "a decimal number", d);

	o->uid = (uid_t)strtoul(value, NULL, 10);
	o->have_uid = true;
	return rc;
}

static int set_gid(struct ck_mount_options *o, const char *value,
		   struct ck_diag *d)
{
	int rc = parse_number("gid", value, 10, UINT32_MAX - 1,
			      "a decimal number", d);

	o->gid = (gid_t)strtoul(value, NULL, 10);
	o->have_gid = true;
	return rc;
}

static int set_umask(struct ck_mount_options *o, const char *value,
		     struct ck_diag *d)
{
	int rc = parse_number("umask", value, 8, 0777,
			      "an octal number up to 777", d);

	o->umask = (mode_t)strtoul(value, NULL, 8);
	return rc;
}

static int set_text(char **out, const char *name, const char *value,
		    struct ck_diag *d)
{
	if (!*value)
		return ck_fail(d, EINVAL, "option %s=: expected a value", name);
	free(*out);
	*out = strdup(value);
	return *out ? 0 : ck_fail(d, ENOMEM, "out of memory");
}

static int set_log(struct ck_mount_options *o, const char *value,
		   struct ck_diag *d)
{
	return set_text(&o->log, "log", value, d);
}

static int set_fsname(struct ck_mount_options *o, const char *value,
		      struct ck_diag *d)
{
	return set_text(&o->fsname, "fsname", value, d);
}

static int set_shardlinks(struct ck_mount_options *o, const char *value,
			  struct ck_diag *d)
{
	if (strcmp(value, "beneath") != 0)
		return ck_fail(d, EINVAL,
			       "option shardlinks=%s: expected beneath",
			       ck_show(ck_str_from(value)));
	o->format.shardlinks = CK_BENEATH_SYMLINKS;
	return 0;
}

static int set_allow_other(struct ck_mount_options *o, const char *value,
			   struct ck_diag *d)
{
	(void)value, (void)d;
	o->allow_other = true;
	return 0;
}

static int set_auto_unmount(struct ck_mount_options *o, const char *value,
			    struct ck_diag *d)
{
	(void)value, (void)d;
	o->auto_unmount = true;
	return 0;
}

static int set_direct(struct ck_mount_options *o, const char *value,
		      struct ck_diag *d)
{
	(void)value, (void)d;
	o->direct = true;
	return 0;
}

static int set_noxattr(struct ck_mount_options *o, const char *value,
		       struct ck_diag *d)
{
	(void)value, (void)d;
	o->noxattr = true;
	return 0;
}

static int set_debug(struct ck_mount_options *o, const char *value,
		     struct ck_diag *d)
{
	(void)value, (void)d;
	o->debug = true;
	return 0;
}

static int set_ro(struct ck_mount_options *o, const char *value,
		  struct ck_diag *d)
{
	(void)value, (void)d;
	o->ro = true;
	return 0;
}

static int set_write(struct ck_mount_options *o, const char *value,
		     struct ck_diag *d)
{
	(void)value, (void)d;
	o->write = true;
	return 0;
}

static int set_keep_unknown(struct ck_mount_options *o, const char *value,
			    struct ck_diag *d)
{
	(void)value, (void)d;
	o->keep_unknown = true;
	return 0;
}

static int set_patch(struct ck_mount_options *o, const char *value,
		     struct ck_diag *d)
{
	(void)value, (void)d;
	o->patch = true;
	return 0;
}

const char *const ck_commit_words[] = {
	[CK_COMMIT_CLOSE] = "close",
	[CK_COMMIT_FSYNC] = "fsync",
	[CK_COMMIT_MANUAL] = "manual",
};

static int set_commit(struct ck_mount_options *o, const char *value,
		      struct ck_diag *d)
{
	size_t i = 0;

	while (i < CK_ARRAY_SIZE(ck_commit_words) &&
	       strcmp(value, ck_commit_words[i]) != 0)
		i++;
	if (i == CK_ARRAY_SIZE(ck_commit_words))
		return ck_fail(d, EINVAL,
			       "option commit=%s: expected close, fsync or "
			       "manual",
			       ck_show(ck_str_from(value)));
	o->commit = (enum ck_commit_when)i;
	o->commit_given = true;
	return 0;
}

static const struct option table[] = {
	{ "allow_other", set_allow_other },
	{ "auto_unmount", set_auto_unmount },
	{ "commit=", set_commit },
	{ "debug", set_debug },
	{ "direct", set_direct },
	{ "fsname=", set_fsname },
	{ "gid=", set_gid },
	{ "keep_unknown", set_keep_unknown },
	{ "log=", set_log },
	{ "noxattr", set_noxattr },
	{ "patch", set_patch },
	{ "ro", set_ro },
	{ "shardlinks=", set_shardlinks },
	{ "uid=", set_uid },
	{ "umask=", set_umask },
	{ "write", set_write },
	/* What the mount has, or cannot have, in any case. */
	{ "default_permissions", NULL },
	{ "rw", NULL },
	{ "nodev", NULL },
	{ "dev", NULL },
	{ "nosuid", NULL },
	{ "suid", NULL },
	{ "exec", NULL },
	{ "noexec", NULL },
	{ "atime", NULL },
	{ "noatime", NULL },
	{ "diratime", NULL },
	{ "nodiratime", NULL },
	{ "relatime", NULL },
	{ "norelatime", NULL },
	{ "strictatime", NULL },
	{ "lazytime", NULL },
	{ "nolazytime", NULL },
	{ "sync", NULL },
	{ "async", NULL },
	{ "dirsync", NULL },
	/* Words of fstab and of mount(8). */
	{ "auto", NULL },
	{ "noauto", NULL },
	{ "defaults", NULL },
	{ "nofail", NULL },
	{ "_netdev", NULL },
	{ "user", NULL },
	{ "user=", NULL },
	{ "nouser", NULL },
	{ "users", NULL },
	{ "owner", NULL },
	{ "group", NULL },
	{ "user_id=", NULL },
	{ "group_id=", NULL },
	{ "comment=", NULL },
	{ "x-*", NULL },
	{ "X-*", NULL },
};

/* --- finding -------------------------------------------------------------- */

static bool matches(const struct option *o, const char *word)
{
	size_t len = strlen(o->name);

	if (o->name[len - 1] == '=')
		return strncmp(word, o->name, len) == 0;
	if (o->name[len - 1] == '*')
		return strncmp(word, o->name, len - 1) == 0;
	return strcmp(word, o->name) == 0;
}

#define NAME_LEN 32 /* of names compared; longer words are cut */

static struct ck_str cut_name(const char *word)
{
	struct ck_str s = { word, strcspn(word, "=") };

	s.len = ck_min(s.len, NAME_LEN);
	return s;
}

static const char *nearest(const char *word)
{
	const char *best = table[0].name;
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < CK_ARRAY_SIZE(table); i++) {
		size_t n = ck_str_distance(cut_name(word),
					   cut_name(table[i].name), NAME_LEN);

		if (n < least) {
			least = n;
			best = table[i].name;
		}
	}
	return best;
}

static int option_set(struct ck_mount_options *o, const char *word,
		      struct ck_diag *d)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(table); i++) {
		const char *value = strchr(word, '=');

		if (!matches(&table[i], word))
			continue;
		if (!table[i].set)
			return 0;
		return table[i].set(o, value ? value + 1 : "", d);
	}
	return ck_fail(d, EINVAL, "option %s: unknown; the nearest is %s",
		       ck_show(ck_str_from(word)), nearest(word));
}

/* Takes the next word of *text, up to a comma that has no `\` before it. */
static void next_word(const char **text, struct ck_buf *word)
{
	const char *p = *text;

	word->len = 0;
	for (; *p && *p != ','; p++) {
		if (p[0] == '\\' && p[1])
			p++;
		ck_buf_add(word, p, 1);
	}
	*text = *p ? p + 1 : p;
}

int ck_options_parse(struct ck_mount_options *o, const char *text,
		     struct ck_diag *d)
{
	struct ck_buf word = { 0 };
	int rc = 0;

	if (o->given.len)
		ck_buf_text(&o->given, ",");
	ck_buf_text(&o->given, text);
	while (*text && rc == 0) {
		next_word(&text, &word);
		if (word.err)
			rc = ck_fail(d, ENOMEM, "out of memory");
		else if (word.len)
			rc = option_set(o, word.data, d);
	}
	ck_buf_fini(&word);
	return rc;
}

void ck_options_fini(struct ck_mount_options *o)
{
	free(o->log);
	free(o->fsname);
	ck_buf_fini(&o->given);
	*o = (struct ck_mount_options){ 0 };
}
