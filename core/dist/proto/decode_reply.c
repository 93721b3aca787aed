/* SPDX-License-Identifier: MIT */
/*
 * decode_reply: parses replies of file servers, which are not trusted: every
 * number, size and name is checked before it is used, and the caller compares
 * them with its own state. No state; one thread at a time per request.
 */
#include "dist/dist_internal.h"

#include <errno.h>
#include <sys/stat.h>

/* --- all replies ---------------------------------------------------------- */

static bool body_fits(const struct ck_query *a, uint32_t len)
{
	switch (a->head.type) {
	case CK_WIRE_LIST: return len <= CK_LIST_HEAD + CK_WIRE_LIST_MAX;
	case CK_WIRE_STAT: return len == 4 + a->n * CK_WIRE_STAT_ROW;
	case CK_WIRE_READ:
		return len == sizeof(uint64_t) + a->nparts * sizeof(uint32_t);
	case CK_WIRE_DIGEST: return len == CK_DIGEST_BYTES;
	default: return len == 0;
	}
}

int ck_query_check(const struct ck_query *a, const struct ck_wire_head *head)
{
	if (!head->answer || head->type != a->head.type ||
	    head->id != a->head.id || head->epoch != a->head.epoch)
		return -EPROTO;
	if (head->err)
		return head->err <= CK_WIRE_ERR_MAX && !head->body &&
				       !head->payload
			       ? 0
			       : -EPROTO;
	return body_fits(a, head->body) && head->payload == a->bytes ? 0
								     : -EPROTO;
}

/* An errno of the file server as a result here. Those that have a meaning
 * within this program become -EIO. */
static int rc_of(uint32_t err)
{
	switch (err) {
	case EINTR:
	case EREMOTE:
	case EINPROGRESS: return -EIO;
	default: return -(int)err;
	}
}

/* Checks the head of a reply, and sets a cursor to its body. Returns 0,
 * -EPROTO, or the error that the server reports. */
static int open_answer(const struct ck_query *a, enum ck_wire_type type,
		       const struct ck_message *m, struct ck_cur *body)
{
	if (a->head.type != type || ck_query_check(a, &m->head) ||
	    m->body.len != m->head.body || m->payload.len != m->head.payload)
		return -EPROTO;
	*body = ck_wire_body(m);
	return rc_of(m->head.err);
}

/* --- DIGEST --------------------------------------------------------------- */

int ck_reply_digest(const struct ck_query *a, const struct ck_message *m,
		    uint8_t out[static 16])
{
	struct ck_cur c;
	int rc = open_answer(a, CK_WIRE_DIGEST, m, &c);

	if (rc == 0)
		memcpy(out, m->body.p, CK_DIGEST_BYTES);
	return rc;
}

/* --- LIST ----------------------------------------------------------------- */

static bool is_name(struct ck_str s)
{
	return s.len > 0 && !memchr(s.p, '/', s.len) &&
	       !memchr(s.p, '\0', s.len) && !ck_str_is(s, ".") &&
	       !ck_str_is(s, "..");
}

static bool row_get(struct ck_cur *c, struct ck_page_row *out)
{
	uint8_t kind;

	if (!ck_cur_u8(c, &kind) || kind == 0 || kind >= CK_WIRE_KINDS ||
	    !ck_wire_text_get(c, &out->name))
		return false;
	out->kind = (enum ck_wire_kind)kind;
	return is_name(out->name);
}

static bool rows_are_sound(struct ck_cur c, uint32_t n)
{
	struct ck_page_row row;

	for (uint32_t i = 0; i < n; i++)
		if (!row_get(&c, &row))
			return false;
	return ck_cur_left(&c) == 0;
}

int ck_reply_list(const struct ck_query *a, const struct ck_message *m,
		  struct ck_page *out)
{
	struct ck_page page;
	uint32_t more;
	int rc = open_answer(a, CK_WIRE_LIST, m, &page.rows);

	if (rc)
		return rc;
	if (!ck_cur_u64(&page.rows, &page.next) ||
	    !ck_cur_u32(&page.rows, &page.n) ||
	    !ck_cur_u32(&page.rows, &more) || more > 1 ||
	    (more && page.n == 0) || !rows_are_sound(page.rows, page.n))
		return -EPROTO;
	page.more = more;
	*out = page;
	return 0;
}

bool ck_page_next(struct ck_page *page, struct ck_page_row *out)
{
	if (page->n == 0 || !row_get(&page->rows, out))
		return false;
	page->n--;
	return true;
}

/* --- STAT ----------------------------------------------------------------- */

static bool info_get(struct ck_cur *c, struct ck_file_info *info)
{
	uint32_t nsec;
	uint64_t sec;

	if (!ck_cur_u32(c, &info->mode) || !ck_cur_u32(c, &info->uid) ||
	    !ck_cur_u32(c, &info->gid) || !ck_cur_u32(c, &info->closed) ||
	    !ck_cur_u32(c, &nsec) || !ck_cur_u64(c, &info->size) ||
	    !ck_cur_u64(c, &sec) || nsec >= 1000000000)
		return false;
	info->mtime.tv_sec = (time_t)sec;
	info->mtime.tv_nsec = (long)nsec;
	return true;
}

/* A usable file is a regular file. An unusable one has a reason, and
 * ENODATA. */
static bool info_is_sound(const struct ck_file_info *info)
{
	if (info->mode > (S_IFMT | 07777) || info->closed & ~0444U ||
	    info->size > INT64_MAX)
		return false;
	if (info->err)
		return info->err == ENODATA && info->why;
	return !info->why && S_ISREG(info->mode);
}

static bool info_is_empty(const struct ck_file_info *info)
{
	static const struct ck_file_info none;

	return !info->err && !info->why && info->mode == none.mode &&
	       info->uid == 0 && info->gid == 0 && info->closed == 0 &&
	       info->size == 0 && info->mtime.tv_sec == 0 &&
	       info->mtime.tv_nsec == 0;
}

static bool looked_get(struct ck_cur *c, struct ck_name_stat *out)
{
	uint32_t err, trouble;
	uint8_t seen, why;
	uint16_t zero;

	*out = (struct ck_name_stat){ 0 };
	if (!ck_cur_u32(c, &out->number) || !ck_cur_u8(c, &seen) || seen > 1 ||
	    !ck_cur_u8(c, &why) || !ck_cur_u16(c, &zero) || zero ||
	    !ck_cur_u32(c, &err) || err > CK_WIRE_ERR_MAX ||
	    !ck_cur_u32(c, &trouble) || trouble > CK_WIRE_ERR_MAX ||
	    !info_get(c, &out->info))
		return false;
	out->info.err = (int)err;
	out->info.why = ck_file_why(why);
	if (why && !out->info.why)
		return false;
	out->seen = seen;
	out->trouble = (int)trouble;
	return seen ? info_is_sound(&out->info)
		    : trouble && info_is_empty(&out->info);
}

int ck_reply_stat(const struct ck_query *a, const struct ck_message *m,
		  struct ck_name_stat *out)
{
	struct ck_cur c;
	uint32_t n;
	int rc = open_answer(a, CK_WIRE_STAT, m, &c);

	if (rc)
		return rc;
	if (!ck_cur_u32(&c, &n) || n != a->n)
		return -EPROTO;
	for (uint32_t i = 0; i < n; i++)
		if (!looked_get(&c, &out[i]))
			return -EPROTO;
	return ck_cur_left(&c) ? -EPROTO : 0;
}

/* --- READ ----------------------------------------------------------------- */

static bool errs_are_sound(struct ck_cur c)
{
	uint32_t err;

	while (ck_cur_u32(&c, &err))
		if (err > CK_WIRE_ERR_MAX)
			return false;
	return ck_cur_left(&c) == 0;
}

static void unpack(const struct ck_query *a, struct ck_cur errs,
		   const uint8_t *packed)
{
	uint32_t err;

	for (size_t i = 0; i < a->nparts && ck_cur_u32(&errs, &err); i++) {
		const struct ck_query_part *p = &a->parts[i];

		if (err == 0)
			ck_copy_desc_unpack(&p->desc, packed);
		else if (p->whole->rc == 0)
			p->whole->rc = rc_of(err);
		packed += p->bytes;
	}
}

int ck_reply_read(const struct ck_query *a, const struct ck_message *m,
		  uint64_t *read)
{
	struct ck_cur c;
	int rc = open_answer(a, CK_WIRE_READ, m, &c);

	if (rc == 0 && (!ck_cur_u64(&c, read) || !errs_are_sound(c)))
		rc = -EPROTO;
	if (rc)
		ck_query_fail(a, rc);
	else
		unpack(a, c, (const uint8_t *)m->payload.p);
	return rc;
}
