/* SPDX-License-Identifier: MIT */
/*
 * offer: ckptfs for machines without FUSE. Its `mount` listens on a socket, where clients request
 * tensors of the checkpoint in the way of the ioctl(2) of a mount. The code behind the requests
 * is that of a mount: options, GPU worker, tree, exports.
 *
 *	offer mount -o gpu=0,gather=gpu CHECKPOINT SOCKET
 *
 * SOCKET is of type SOCK_SEQPACKET. An export request is a struct ckptfs_gpu followed by a path
 * of the mount; its reply is an errno (int32_t) and the struct. An export lives until the
 * connection ends, as if the client had the file open. The text request
 *
 *	read THREADS PATH
 *
 * reads a file of the mount twice, by GPU and by the host backend; the reply has both durations,
 * as JSON. The text request
 *
 *	bytes PATH
 *
 * has a reply in JSON, followed by all bytes, read by GPU, as messages of 64 KiB. The program
 * prints "ready" on stdout, and exits at the end of stdin.
 */
#include "../../fs/gpu_ioctl_args.h"
#include "ckptfs/fs.h"
#include "ckptfs/gpu_memory.h"
#include "ckptfs/memory.h"
#include "commands.h"
#include "gpus.h"
#include "offline_tree.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MESSAGE = 8192, PIECE = 1 << 20, SENT = 64 << 10, THREADS_MOST = 64 };

static struct {
	struct ck_mount_options options;
	struct ck_gpus *gpus;
	struct ck_offline u;   /* its route has no gather engine */
	struct ck_route route; /* has the GPU gather engine */
	struct ck_exports *exports;
} offer;

/* --- files ------------------------------------------------------------------------------- */

/* Finds a node by its path. Names stay in use. */
static int find(char *path, struct ck_node *out)
{
	uint64_t dir = CK_TREE_ROOT;
	char *rest, *name = strtok_r(path, "/", &rest);
	int rc = name ? 0 : -ENOENT;

	for (; name && rc == 0; name = strtok_r(NULL, "/", &rest)) {
		rc = ck_tree_name(offer.u.s.tree, dir, ck_str_from(name), out);
		if (rc == 0)
			rc = ck_tree_use(offer.u.s.tree, out);
		dir = out->number;
	}
	return rc;
}

static int file_open(char *path, struct ck_tree_file *out)
{
	struct ck_node node;
	int rc = find(path, &node);

	*out = (struct ck_tree_file){ .is_open = false };
	return rc ? rc : ck_session_file(&offer.u.s, &node, out);
}

/* --- tensors ----------------------------------------------------------------------------- */

/* An export that a connection holds. */
struct held {
	struct held *next;
	struct ck_tree_file file;
	/* NULL if unused, or if the tensor is empty */
	struct ck_export *export;
};

static int give(struct held *h, struct ckptfs_gpu *gpu)
{
	struct ck_export_request wish;
	int rc = ck_gpu_ioctl_check(&h->file, gpu);

	if (rc == 0)
		rc = ck_gpu_ioctl_describe(&h->file, gpu);
	if (rc || !ck_gpu_ioctl_wish(&h->file, gpu, &wish))
		return rc;
	if (!offer.exports)
		return -EOPNOTSUPP;
	rc = offer.options.gather_engine->exports->get(offer.exports, &wish,
						       &h->export);
	if (rc == 0)
		ck_gpu_ioctl_fill(gpu, h->export);
	return rc;
}

static void held_free(struct held *h)
{
	if (h->export)
		offer.options.gather_engine->exports->put(offer.exports,
							  h->export);
	ck_tree_file_close(&h->file);
	free(h);
}

static int held_make(struct held **all, struct ckptfs_gpu *gpu, char *path)
{
	struct held *h = calloc(1, sizeof(*h));
	int rc = h ? file_open(path, &h->file) : -ENOMEM;

	if (rc == 0)
		rc = give(h, gpu);
	if (rc && h)
		held_free(h);
	if (rc)
		return rc;
	h->next = *all;
	*all = h;
	return 0;
}

static void answer_gpu(int sock, char *message, struct held **all)
{
	struct {
		int32_t err;
		uint8_t gpu[sizeof(struct ckptfs_gpu)];
	} answer;
	struct ckptfs_gpu gpu = ck_gpu_ioctl_take(message);

	answer.err = -held_make(all, &gpu, message + sizeof(gpu));
	memcpy(answer.gpu, &gpu, sizeof(gpu));
	(void)!send(sock, &answer, sizeof(answer), MSG_NOSIGNAL);
}

/* --- reads ------------------------------------------------------------------------------- */

/* The files of the checkpoint that the tensor belongs to. */
static struct ck_files *files_of(const struct ck_tree_file *f)
{
	return ck_root_checkpoint(f->node.dir.root)->files;
}

struct reading {
	struct ck_route *route;
	struct ck_tree_file *file;
	uint8_t *to;
	uint64_t size;
	uint64_t next; /* atomic */
	int rc;	       /* atomic */
};

static void came(struct ck_read *r, int rc)
{
	sem_t *sem = r->arg;

	r->to = rc ? NULL : r->to;
	sem_post(sem);
}

/* Reads in the way of fs/read_ops.c: directly by the route, if it has a gather engine. */
static int read_piece(struct reading *a, uint64_t at)
{
	struct ck_read r = { .from = a->file->opened,
			     .files = files_of(a->file),
			     .vpos = at,
			     .len = ck_min(a->size - at, (uint64_t)PIECE),
			     .to = a->to + at,
			     .done = came };
	sem_t sem;
	int rc;

	if (!a->route->gather_engine)
		return ck_host_read(r.files, &r);
	sem_init(&sem, 0, 0);
	r.arg = &sem;
	rc = ck_route_read(a->route, &r);
	if (rc == -EINPROGRESS) {
		while (sem_wait(&sem))
			;
		rc = r.to ? 0 : -EIO;
	}
	sem_destroy(&sem);
	return rc;
}

static void *read_some(void *arg)
{
	struct reading *a = arg;
	uint64_t at = __atomic_fetch_add(&a->next, PIECE, __ATOMIC_RELAXED);
	int rc = 0;

	while (rc == 0 && at < a->size) {
		rc = read_piece(a, at);
		at = __atomic_fetch_add(&a->next, PIECE, __ATOMIC_RELAXED);
	}
	if (rc)
		__atomic_store_n(&a->rc, rc, __ATOMIC_RELAXED);
	return NULL;
}

static double now(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int read_all(struct reading *a, unsigned threads, double *seconds)
{
	pthread_t ids[THREADS_MOST];
	double begun = now();
	unsigned n = 0;

	while (n < threads && ck_thread_start(&ids[n], read_some, a) == 0)
		n++;
	for (unsigned i = 0; i < n; i++)
		pthread_join(ids[i], NULL);
	*seconds = now() - begun;
	return n ? a->rc : -EAGAIN;
}

struct both {
	double gpu, host; /* seconds */
	uint64_t size, gpu_bytes;
	bool same;
};

/* Each way reads once before its timed read, into the same memory, so that page faults of the
 * first touch are not measured. */
static int read_both(struct ck_tree_file *f, unsigned threads, uint8_t *to,
		     struct both *out)
{
	struct reading by_gpu = { &offer.route, f, to, out->size, 0, 0 };
	struct reading by_host = { &offer.u.route, f, to + out->size,
				   out->size,	   0, 0 };
	const struct ck_stats *stats = ck_files_stats(offer.u.s.cp->files);
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0; i++) {
		by_gpu.next = by_host.next = 0;
		out->gpu_bytes = stats ? stats->gpu_bytes : 0;
		rc = read_all(&by_gpu, threads, &out->gpu);
		out->gpu_bytes = stats ? stats->gpu_bytes - out->gpu_bytes : 0;
		if (rc == 0)
			rc = read_all(&by_host, threads, &out->host);
	}
	out->same = memcmp(to, to + out->size, out->size) == 0;
	return rc;
}

static int read_file(char *path, unsigned threads, struct both *out)
{
	struct ck_tree_file f;
	int rc = file_open(path, &f);
	uint8_t *to = NULL;

	if (rc == 0)
		rc = -f.err;
	if (rc == 0) {
		out->size = ck_session_size(&f);
		to = ck_pages_alloc(2 * out->size);
		rc = to ? read_both(&f, threads, to, out) : -ENOMEM;
	}
	if (to)
		ck_pages_free(to, 2 * out->size);
	ck_tree_file_close(&f);
	return rc;
}

static void answer_read(int sock, char *message)
{
	char *rest, text[256];
	unsigned threads = (unsigned)strtoul(message + 5, &rest, 10);
	struct both both = { .same = false };
	int n, rc = threads && threads <= THREADS_MOST
			    ? read_file(rest + strspn(rest, " "), threads,
					&both)
			    : -EINVAL;

	n = snprintf(text, sizeof(text),
		     "{\"err\":%d,\"bytes\":%llu,\"gpu_bytes\":%llu,"
		     "\"same\":%s,\"gpu_seconds\":%.6f,\"host_seconds\":%.6f}",
		     -rc, (unsigned long long)both.size,
		     (unsigned long long)both.gpu_bytes,
		     both.same ? "true" : "false", both.gpu, both.host);
	(void)!send(sock, text, (size_t)n, MSG_NOSIGNAL);
}

/* Returns the size of the file, or a negative errno. The caller owns the bytes in *to. */
static int bytes_read(char *path, uint8_t **to, struct both *out)
{
	const struct ck_stats *stats = ck_files_stats(offer.u.s.cp->files);
	uint64_t before = stats ? stats->gpu_bytes : 0;
	struct ck_tree_file f;
	int rc = file_open(path, &f);

	if (rc == 0)
		rc = -f.err;
	if (rc == 0) {
		struct reading by_gpu = { .route = &offer.route, .file = &f };

		out->size = by_gpu.size = ck_session_size(&f);
		*to = by_gpu.to = malloc(out->size + 1);
		rc = *to ? read_all(&by_gpu, 1, &out->gpu) : -ENOMEM;
		out->gpu_bytes = stats ? stats->gpu_bytes - before : 0;
	}
	ck_tree_file_close(&f);
	return rc;
}

static void answer_bytes(int sock, char *path)
{
	ck_auto_free uint8_t *bytes = NULL;
	struct both both = { .same = false };
	char text[256];
	int rc = bytes_read(path, &bytes, &both);
	int n = snprintf(text, sizeof(text),
			 "{\"err\":%d,\"bytes\":%llu,\"gpu_bytes\":%llu}", -rc,
			 (unsigned long long)both.size,
			 (unsigned long long)both.gpu_bytes);

	(void)!send(sock, text, (size_t)n, MSG_NOSIGNAL);
	for (uint64_t at = 0; rc == 0 && at < both.size; at += SENT)
		(void)!send(sock, bytes + at,
			    ck_min(both.size - at, (uint64_t)SENT),
			    MSG_NOSIGNAL);
}

/* --- connections ------------------------------------------------------------------------- */

static void *serve(void *arg)
{
	int sock = (int)(intptr_t)arg;
	ck_auto_free char *message = malloc(MESSAGE + 1);
	struct held *all = NULL;
	ssize_t n;

	while (message && (n = recv(sock, message, MESSAGE, 0)) > 0) {
		message[n] = '\0';
		if (strncmp(message, "read ", 5) == 0)
			answer_read(sock, message);
		else if (strncmp(message, "bytes ", 6) == 0)
			answer_bytes(sock, message + 6);
		else if ((size_t)n > sizeof(struct ckptfs_gpu))
			answer_gpu(sock, message, &all);
		else
			break;
	}
	while (all) {
		struct held *next = all->next;

		held_free(all);
		all = next;
	}
	close(sock);
	return NULL;
}

static void *accept_all(void *arg)
{
	int listener = (int)(intptr_t)arg;

	for (;;) {
		int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		pthread_t thread;

		if (sock < 0)
			continue;
		if (ck_thread_start(&thread, serve, (void *)(intptr_t)sock))
			close(sock);
		else
			pthread_detach(thread);
	}
	return NULL;
}

static int listen_at(const char *path)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(name.sun_path))
		return -ENAMETOOLONG;
	memcpy(name.sun_path, path, strlen(path) + 1);
	if (sock < 0 || bind(sock, (struct sockaddr *)&name, sizeof(name)) ||
	    listen(sock, 128))
		return -errno;
	return sock;
}

/* --- the command ------------------------------------------------------------------------- */

static int open_all(const char *source)
{
	struct ck_diag d = { 0 };
	int rc = ck_gpus_make(&offer.options, &offer.gpus, &d);

	if (rc == 0)
		rc = ck_gpus_start(offer.gpus, &d);
	if (rc)
		return ck_trouble("%s", d.text);
	rc = ck_offline_open(&offer.u, source);
	if (rc)
		return rc;
	if (ck_gpus_settle(offer.gpus, offer.u.s.cp, NULL, &d))
		return ck_trouble("%s", d.text);
	ck_route_init(&offer.route, offer.u.s.cp->files, NULL);
	offer.route.gather_engine = offer.options.gather_engine;
	if (!offer.options.gather_engine)
		return CK_EXIT_FINE;
	offer.exports = offer.options.gather_engine->exports->make(
		offer.u.s.cp->files, NULL, offer.options.gather_engine,
		offer.options.gpu.cache);
	return offer.exports ? CK_EXIT_FINE : ck_trouble("out of memory");
}

/* Connections may still hold exports at the end: the worker ends with this process. */
static _Noreturn void wait_for_end(void)
{
	char byte;

	printf("ready\n");
	(void)fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(CK_EXIT_FINE);
}

int ck_cmd_mount(int argc, char **argv)
{
	struct ck_diag d = { 0 };
	pthread_t thread;
	int listener;

	if (argc != 5 || strcmp(argv[1], "-o") != 0)
		return ck_trouble("usage: offer mount -o OPTIONS CHECKPOINT "
				  "SOCKET");
	if (ck_options_parse(&offer.options, argv[2], &d) ||
	    ck_options_check(&offer.options, &d))
		return ck_trouble("%s", d.text);
	if (!offer.options.gpu.used)
		return ck_trouble("option gpu= is needed");
	if (open_all(argv[3]))
		return CK_EXIT_TROUBLE;
	listener = listen_at(argv[4]);
	if (listener < 0)
		return ck_trouble("%s: %s", argv[4], strerror(-listener));
	if (ck_thread_start(&thread, accept_all, (void *)(intptr_t)listener))
		return ck_trouble("no thread");
	wait_for_end();
}

int ck_cmd_mount_helper(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return ck_usage();
}
