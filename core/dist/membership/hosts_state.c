/* SPDX-License-Identifier: MIT */
/*
 * hosts_state: the state of hosts and the location of files, for `status` and
 * messages. A host is missing (never up), up or down. The opening, then the
 * revalidating thread updates the states; any thread reads them.
 */
#include "hosts_internal.h"

#include <errno.h>
#include <time.h>

/* Updates the states, process by process. */
void ck_hosts_note_states(struct ck_hosts *h)
{
	for (uint32_t i = 0; i < h->n; i++) {
		struct ck_hosts_host *host = &h->hosts[i];
		bool up = host->there && ck_calls_is_up(h->calls, i);

		if (host->there)
			__atomic_store_n(&host->was_there, true,
					 __ATOMIC_RELAXED);
		if (up == __atomic_load_n(&host->up, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&host->since, ck_msec_now(), __ATOMIC_RELAXED);
		__atomic_store_n(&host->up, up, __ATOMIC_RELAXED);
	}
}

bool ck_hosts_states(struct ck_hosts *h, bool *up)
{
	uint32_t at = 0;

	if (!__atomic_load_n(&h->revalidation, __ATOMIC_ACQUIRE))
		return false;
	for (uint32_t i = 0; i < h->n; i++) {
		bool is = h->hosts[i].there && ck_calls_is_up(h->calls, i);

		at += i && !h->hosts[i].again;
		up[at] = h->hosts[i].again ? up[at] && is : is;
	}
	return true;
}

static bool is_up(const struct ck_hosts_host *host)
{
	return __atomic_load_n(&host->up, __ATOMIC_RELAXED);
}

static const struct ck_hosts_host *host_at(const struct ck_hosts *h,
					   uint32_t peer)
{
	if (peer == 0 || peer >= h->n ||
	    !__atomic_load_n(&h->hosts[peer].was_there, __ATOMIC_RELAXED))
		return NULL;
	return &h->hosts[peer];
}

/* Returns the peer where the file is read, or would be read if its host was in
 * this job. */
static uint32_t first_peer(struct ck_hosts *h, uint32_t file)
{
	struct ck_location at = { 0 };

	return ck_remote_client_place(&h->requester, file, 0, &at) ? at.peer
								   : 0;
}

/* Returns the host of the i-th replica that is not at the file's first
 * location. */
static const struct ck_hosts_host *host_behind(struct ck_hosts *h,
					       uint32_t file, uint32_t first,
					       uint32_t i)
{
	const struct ck_hosts_host *host = NULL;
	const struct ck_hosts_copy *list;
	size_t n;

	list = ck_hosts_copies_of(h, file, &n);
	for (size_t k = 0; k < n; k++) {
		if (first < h->n && strcmp(h->hosts[list[k].peer].name,
					   h->hosts[first].name) == 0)
			continue;
		if (i == 0) {
			host = host_at(h, list[k].peer);
			break;
		}
		i--;
	}
	return host;
}

static const struct ck_hosts_host *host_of_copy(struct ck_hosts *h,
						uint32_t file, uint32_t i)
{
	bool remote = file < h->nfiles && ck_files_is_remote(h->set, file);
	uint32_t first = remote ? first_peer(h, file) : 0;

	if (i == 0)
		return remote ? host_at(h, first) : &h->hosts[0];
	return host_behind(h, file, first, i - 1);
}

const char *ck_hosts_host(const struct ck_remote_source *e, uint32_t file,
			  uint32_t i)
{
	struct ck_hosts *h = ck_hosts_of(e);
	const struct ck_hosts_host *host;

	if (file < h->nfiles && (ck_files_info(h->set, file)->err ||
				 !ck_files_is_seen(h->set, file)))
		return NULL;
	host = host_of_copy(h, file, i);
	return host ? host->name : NULL;
}

/* --- unavailable files ---------------------------------------------------- */

const char *ck_hosts_time(time_t when)
{
	char text[32] = "?";
	struct tm tm;

	if (gmtime_r(&when, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return ck_shown("%s", text);
}

static const char *show_down(struct ck_hosts *h, uint32_t file)
{
	const struct ck_hosts_host *host = host_of_copy(h, file, 0);
	uint64_t now = ck_msec_now(), since;
	bool others = ck_hosts_host(&h->elsewhere, file, 1) != NULL;

	if (!host)
		return "its host: down";
	/* The host may be down before `up` is updated. */
	since = is_up(host) ? now
			    : __atomic_load_n(&host->since, __ATOMIC_RELAXED);
	return ck_shown(
		"host %s: down since %s%s", host->name,
		ck_hosts_time(time(NULL) - (time_t)((now - since) / 1000)),
		others ? ", and those of its copies" : "");
}

const char *ck_hosts_down_host(const struct ck_remote_source *e, uint32_t file)
{
	struct ck_hosts *h = ck_hosts_of(e);
	struct ck_location place;

	if (file >= h->nfiles || !ck_files_is_remote(h->set, file) ||
	    ck_files_info(h->set, file)->err)
		return NULL;
	if (!ck_files_is_seen(h->set, file))
		return ck_shown("its file %s", ck_file_why_down());
	for (uint32_t i = 0;
	     ck_remote_client_place(&h->requester, file, i, &place); i++)
		if (place.peer < h->n &&
		    ck_remote_client_is_up(&h->requester, place.peer))
			return NULL;
	return show_down(h, file);
}

static void describe_unused(const struct ck_hosts_unused_copy *copy,
			    struct ck_unused_copy *out)
{
	if (copy->err) {
		out->what = ck_shown("a copy that is not used: %s",
				     strerror(copy->err));
	} else if (copy->size < copy->needed) {
		out->err = ENODATA;
		out->what = "a copy that is not used: it is too short";
		out->expected = ck_shown("at least %ju bytes",
					 (uintmax_t)copy->needed);
		out->found = ck_shown("%ju", (uintmax_t)copy->size);
	} else {
		out->what = "a copy that is not used: it differs from the one "
			    "that is";
	}
}

/* Describes an unused replica. Reads are not affected, so its errno is only
 * reported. */
bool ck_hosts_unused(const struct ck_remote_source *e, size_t i,
		     struct ck_unused_copy *out)
{
	struct ck_hosts *h = ck_hosts_of(e);
	const struct ck_hosts_unused_copy *copy;

	if (i >= h->unused.n)
		return false;
	copy = &h->unused.list[i];
	*out = (struct ck_unused_copy){
		.file = copy->file,
		.host = h->hosts[h->groups[copy->host].first].name,
		.err = copy->err ? copy->err : EIO
	};
	describe_unused(copy, out);
	return true;
}

/* --- the status ----------------------------------------------------------- */

struct ck_hosts_load ck_hosts_load(const struct ck_hosts *h, const char *name)
{
	struct ck_hosts_load load = { 0 };

	for (uint32_t i = 0; i < h->n; i++)
		if (strcmp(h->hosts[i].name, name) == 0)
			load.up |= is_up(&h->hosts[i]);
	for (uint32_t i = 0; i < h->nfiles; i++) {
		const char *on = ck_hosts_host(&h->elsewhere, i, 0);

		if (!on || strcmp(on, name) != 0)
			continue;
		load.files++;
		load.bytes += ck_files_info(h->set, i)->size;
	}
	return load;
}

static void print_host(const struct ck_hosts *h,
		       const struct ck_hosts_host *host, struct ck_buf *out)
{
	struct ck_hosts_load load = ck_hosts_load(h, host->name);
	uint64_t since = __atomic_load_n(&host->since, __ATOMIC_RELAXED);
	bool was_there = __atomic_load_n(&host->was_there, __ATOMIC_RELAXED);
	const char *state = load.up ? "up" : was_there ? "down" : "missing";

	ck_buf_printf(out, "host %s %s %ju %u %ju ", host->name, state,
		      (uintmax_t)((ck_msec_now() - since) / 1000), load.files,
		      (uintmax_t)load.bytes);
	ck_buf_escaped(out, ck_str_from(host->path));
	ck_buf_text(out, "\n");
}

/* Files that cannot be read on any host that is up. */
struct lost {
	uint32_t down, differ;
};

static bool differs(const struct ck_hosts *h, uint32_t file)
{
	const char *why = ck_files_info(h->set, file)->why;
	struct ck_str text = ck_str_from(ck_file_why_differs());

	return why && ck_str_starts(ck_str_from(why), text);
}

static struct lost lost_files(const struct ck_hosts *h)
{
	struct lost lost = { 0 };

	for (uint32_t i = 0; i < h->nfiles; i++) {
		if (!ck_files_info(h->set, i)->err &&
		    !ck_hosts_down_host(&h->elsewhere, i))
			continue;
		if (differs(h, i))
			lost.differ++;
		else
			lost.down++;
	}
	return lost;
}

static void print_lost(const struct ck_hosts *h, struct ck_buf *out)
{
	struct lost lost = { 0 };

	if (h->set)
		lost = lost_files(h);
	if (lost.down == 0 && lost.differ == 0) {
		ck_buf_text(out, "whole: yes\n");
		return;
	}
	ck_buf_text(out, "whole: no");
	if (lost.down)
		ck_buf_printf(out, "; %u of %u files are on no host that is up",
			      lost.down, h->nfiles);
	if (lost.differ)
		ck_buf_printf(out, "; %u of %u files differ between hosts",
			      lost.differ, h->nfiles);
	ck_buf_text(out, "\n");
}

void ck_hosts_print(const struct ck_remote_source *e, struct ck_buf *out)
{
	const struct ck_hosts *h = (const struct ck_hosts *)e;

	for (uint32_t i = 0; i < h->n; i++)
		if (!h->hosts[i].again)
			print_host(h, &h->hosts[i], out);
	print_lost(h, out);
}
