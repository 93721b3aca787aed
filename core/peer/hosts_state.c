/* SPDX-License-Identifier: MIT */
/* hosts_state: which hosts are up, and what is read on which. */
#include "hosts_internal.h"

/* A process that is down takes its host with it, for nobody knows better. */
void ck_hosts_note_states(struct ck_hosts *h)
{
	for (uint32_t i = 0; i < h->n; i++) {
		struct ck_hosts_host *host = &h->hosts[i];
		bool up = host->there && ck_calls_is_up(h->calls, host->rank);

		if (up == __atomic_load_n(&host->up, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&host->since, ck_msec_now(), __ATOMIC_RELAXED);
		__atomic_store_n(&host->up, up, __ATOMIC_RELAXED);
	}
}

static bool is_up(const struct ck_hosts_host *host)
{
	return __atomic_load_n(&host->up, __ATOMIC_RELAXED);
}

/* Which of h->hosts has a file; the first is this one. */
static const struct ck_hosts_host *host_of(const struct ck_hosts *h,
					   uint32_t file)
{
	if (file >= h->nfiles || !ck_files_is_remote(h->set, file))
		return &h->hosts[0];
	for (uint32_t i = 1; i < h->n; i++)
		if (h->hosts[i].there &&
		    h->hosts[i].rank == h->files[file].peer)
			return &h->hosts[i];
	return NULL;
}

const char *ck_hosts_host(const struct ck_elsewhere *e, uint32_t file)
{
	const struct ck_hosts *h = (const struct ck_hosts *)e;
	const struct ck_hosts_host *host;

	if (file < h->nfiles && ck_files_info(h->set, file)->err)
		return NULL;
	host = host_of(h, file);
	return host ? host->name : NULL;
}

/* What is read on a host, by all its processes. */
struct load {
	uint32_t files;
	uint64_t bytes;
	bool up;
};

static struct load load_of(const struct ck_hosts *h, const char *name)
{
	struct load load = { 0 };

	for (uint32_t i = 0; i < h->n; i++)
		if (strcmp(h->hosts[i].name, name) == 0)
			load.up |= is_up(&h->hosts[i]);
	for (uint32_t i = 0; i < h->nfiles; i++) {
		const char *on = ck_hosts_host(&h->elsewhere, i);

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
	struct load load = load_of(h, host->name);
	uint64_t since = __atomic_load_n(&host->since, __ATOMIC_RELAXED);
	const char *state = load.up ? "up" : host->there ? "down" : "missing";

	ck_buf_printf(out, "host %s %s %ju %u %ju ", host->name, state,
		      (uintmax_t)((ck_msec_now() - since) / 1000), load.files,
		      (uintmax_t)load.bytes);
	ck_buf_escaped(out, ck_str_from(host->path));
	ck_buf_text(out, "\n");
}

/* Files that cannot be read on any host that is up. */
static uint32_t lost_files(const struct ck_hosts *h)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < h->nfiles; i++) {
		const struct ck_hosts_host *host = host_of(h, i);

		n += ck_files_info(h->set, i)->err || !host || !is_up(host);
	}
	return n;
}

void ck_hosts_print(const struct ck_elsewhere *e, struct ck_buf *out)
{
	const struct ck_hosts *h = (const struct ck_hosts *)e;
	uint32_t lost = h->set ? lost_files(h) : 0;

	for (uint32_t i = 0; i < h->n; i++)
		if (!h->hosts[i].again)
			print_host(h, &h->hosts[i], out);
	if (lost)
		ck_buf_printf(out,
			      "whole: no; %u of %u files are on no host "
			      "that is up\n",
			      lost, h->nfiles);
	else
		ck_buf_text(out, "whole: yes\n");
}
