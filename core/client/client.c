/* SPDX-License-Identifier: MIT */
/*
 * client: opens and closes handles of the library, and gives their tensors and objects.
 */
#include "client_internal.h"
#include "options/options.h"

#include <errno.h>

const char *ckptfs_version(void)
{
	return CK_VERSION;
}

static int options_parse(struct ckptfs *ck, const char *text, struct ck_diag *d)
{
	struct ck_hosts_options hosts = { 0 };
	int rc = ck_options_parse_reading(&ck->s.options, &hosts, &ck->s.view,
					  CK_TAKES_VIEWS, text, d);

	if (rc == 0 && ck_hosts_options_given(&hosts))
		rc = ck_fail(d, EOPNOTSUPP,
			     "options of several hosts: the library reads "
			     "checkpoints of one host; mount this one");
	ck_hosts_options_fini(&hosts);
	return rc;
}

static int open_all(struct ckptfs *ck, const char *source, const char *options,
		    struct ck_diag *d)
{
	int rc = options ? options_parse(ck, options, d) : 0;

	if (rc == 0)
		rc = ck_session_open(&ck->s, source, d);
	if (rc)
		return rc;
	ck->catalog = ck_checkpoint_catalog(ck->s.cp);
	rc = ck_client_tables(ck);
	return rc ? ck_fail(d, -rc, "out of memory") : 0;
}

static void free_all(struct ckptfs *ck)
{
	ck_client_tables_free(ck);
	ck_catalog_put(ck->catalog);
	ck_session_close(&ck->s);
	free(ck);
}

int ckptfs_open(const char *source, const char *options, struct ckptfs **out)
{
	int rc = ck_client_guard();
	CK_CLIENT_CALL();
	struct ck_diag d = { 0 };
	struct ckptfs *ck = calloc(1, sizeof(*ck));

	*out = NULL;
	if (rc || !ck) {
		free(ck);
		return ck_client_fail(-ENOMEM, "out of memory");
	}
	ck_log_detach();
	rc = open_all(ck, source, options, &d);
	if (rc) {
		free_all(ck);
		return ck_client_fail_diag(rc, &d);
	}
	*out = ck;
	return 0;
}

void ckptfs_close(struct ckptfs *ck)
{
	CK_CLIENT_CALL();

	if (ck)
		free_all(ck);
}

const char *ckptfs_kind(const struct ckptfs *ck)
{
	return ck_checkpoint_kind(ck->s.cp);
}

/* --- tensors and objects ------------------------------------------------------------ */

uint64_t ckptfs_tensors(const struct ckptfs *ck)
{
	return ck->ntensors;
}

const struct ckptfs_tensor *ckptfs_tensor_at(const struct ckptfs *ck,
					     uint64_t i)
{
	return i < ck->ntensors ? &ck->tensors[i] : NULL;
}

const struct ckptfs_tensor *ckptfs_tensor(const struct ckptfs *ck,
					  const char *fqn)
{
	CK_CLIENT_CALL();
	uint64_t i = ck_client_find(ck, ck_str_from(fqn));

	if (i < ck->ntensors)
		return &ck->tensors[i];
	(void)ck_client_fail(-ENOENT, "%s: no tensor has this name",
			     ck_show(ck_str_from(fqn)));
	ck_client_error_fqn(ck_str_from(fqn));
	return NULL;
}

uint64_t ckptfs_tensor_number(const struct ckptfs *ck,
			      const struct ckptfs_tensor *t)
{
	return (uint64_t)(t - ck->tensors);
}

uint64_t ckptfs_objects(const struct ckptfs *ck)
{
	return ck->nobjects;
}

const struct ckptfs_object *ckptfs_object_at(const struct ckptfs *ck,
					     uint64_t i)
{
	return i < ck->nobjects ? &ck->objects[i] : NULL;
}
