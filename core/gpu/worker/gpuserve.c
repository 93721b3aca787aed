/* SPDX-License-Identifier: MIT */
/*
 * gpuserve: the main loop of a GPU worker (gpuserve.h): receives requests of
 * the mount, starts them on the devices, and replies when they are done. While
 * requests are in flight the devices are polled at short intervals, since a
 * slot takes only tens of microseconds; otherwise the loop sleeps in ppoll(2).
 * One thread.
 *
 * The loop ends when the mount closes the socket, on a device error, or if NCCL
 * does not return; in the last two cases memory in use is freed only by the end
 * of the process.
 */
#include "gpuserve.h"
#include "fd_passing.h"
#include "gather_request.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* An allocation. */
struct memory {
	struct ck_gpu_memory is;
	uint8_t token[CK_FD_PASSING_TOKEN];
	uint32_t in_flight; /* requests in flight with their result there */
	bool used;
};

struct serving {
	int sock;
	/* by number; number 0 is not used; elements may be NULL */
	struct memory **memories;
	size_t nmemories, memories_cap;
	uint8_t *memory;
	size_t size;
	uint32_t slots;
	struct ck_gather_request *jobs; /* by slot */
	struct ck_gpu *gpu;
	struct ck_fd_passing hand;
	uint32_t in_flight;
	uint64_t last_heartbeat; /* last heartbeat, ms */
	uint32_t looks;		 /* polls since a request was started */
	uint32_t *waiting;	 /* slots that wait for a device; a queue */
	uint32_t first, nwaiting;
	/* To a rank of a job: */
	struct ck_gpurounds *rounds; /* NULL without rounds */
	int rank, rank_memory;
	uint32_t set; /* of the job */
	bool stuck;   /* a transfer does not end */
	int rc;	      /* of the mount's socket */
};

/* Sends DONE: the mount may reuse the slot. */
static int answer(struct serving *s, struct ck_gather_request *j, int rc)
{
	const struct ck_gpu_message m = {
		.kind = CK_GPU_DONE,
		.slot = (uint32_t)(j - s->jobs),
		.use = j->use,
		.rc = rc,
	};

	if (j->memory)
		s->memories[j->memory]->in_flight--;
	j->in_flight = false;
	s->in_flight--;
	ck_gather_request_clear(j);
	return ck_gpu_send(s->sock, &m, true);
}

/* --- rounds ---------------------------------------------------------------------------- */

static void request_failed(void *arg, struct ck_gpurounds_request *w, int rc)
{
	struct serving *s = arg;
	int sent = answer(s, (struct ck_gather_request *)w->work, rc);

	if (sent)
		s->rc = sent;
}

static void joined(void *arg, int rc, const char *text)
{
	struct serving *s = arg;
	struct ck_gpu_message m = { .kind = CK_GPU_JOINED,
				    .rc = rc,
				    .set = s->set };

	(void)snprintf(m.text, sizeof(m.text), "%.*s", CK_GPU_TEXT - 1, text);
	if (s->sock >= 0 && !s->rc)
		s->rc = ck_gpu_send(s->sock, &m, true);
	if (s->sock < 0 && rc && rc != -EPIPE)
		ck_log("no bytes go by NCCL: %s", ck_show(ck_str_from(text)));
}

static void absent(void *arg, uint32_t rank, struct ck_str why)
{
	struct serving *s = arg;
	struct ck_gpu_message m = { .kind = CK_GPU_ABSENT,
				    .set = s->set,
				    .rank = rank };

	(void)snprintf(m.text, sizeof(m.text), "%.*s", (int)why.len, why.p);
	if (s->sock >= 0 && !s->rc)
		s->rc = ck_gpu_send(s->sock, &m, true);
}

/* Ends the part in rounds. Returns 0, or -EIO if a transfer does not end. */
static int leave(struct serving *s)
{
	bool right = ck_gpurounds_free(s->rounds);

	s->rounds = NULL;
	s->stuck |= !right;
	ck_fd_cleanup(&s->rank);
	ck_fd_cleanup(&s->rank_memory);
	return right ? 0 : -EIO;
}

/* Takes ownership of the descriptors. */
static int join(struct serving *s, int sock, int memory, uint64_t size)
{
	struct ck_gpurounds_options o = {
		.gpu = s->gpu,
		.sock = sock,
		.memory = memory,
		.size = size,
		.failed = request_failed,
		.joined = joined,
		.absent = absent,
		.arg = s,
	};
	int rc = leave(s);

	s->rank = sock;
	s->rank_memory = memory;
	if (rc)
		return rc;
	rc = ck_gpurounds_make(&o, &s->rounds);
	if (rc)
		joined(s, rc, strerror(-rc));
	return 0;
}

static int take_join(struct serving *s, const struct ck_gpu_message *m,
		     const int files[static CK_GPU_FILES])
{
	s->set = m->set;
	return join(s, files[0], files[1], m->bytes);
}

/* Without rounds the mount still uses this process. A process that serves only
 * rounds ends. */
static int turn_rounds(struct serving *s)
{
	int rc = s->rounds ? ck_gpurounds_advance(s->rounds) : 0;

	if (rc == 0)
		return s->rc;
	if (rc != -ECANCELED)
		joined(s, rc,
		       rc == -EPIPE ? "the job has ended" : strerror(-rc));
	if (leave(s))
		return -EIO;
	return s->sock < 0 ? -EPIPE : s->rc;
}

/* --- requests of the mount ------------------------------------------------ */

/* Starts waiting requests in order. */
static void start_waiting(struct serving *s)
{
	while (s->nwaiting) {
		struct ck_gather_request *j = &s->jobs[s->waiting[s->first]];

		if (s->gpu->start(s->gpu, &j->work) == -EAGAIN)
			return;
		s->first = (s->first + 1) % s->slots;
		s->nwaiting--;
	}
}

static struct memory *memory_of(struct serving *s, uint32_t number)
{
	struct memory *m = number < s->nmemories ? s->memories[number] : NULL;

	return m && m->used ? m : NULL;
}

/* Validates the destination of the result. */
static bool take_place(struct serving *s, const struct ck_gpu_message *m,
		       struct ck_gather_request *j)
{
	struct memory *memory;

	j->memory = m->memory;
	if (m->memory == 0)
		return true;
	memory = memory_of(s, m->memory);
	if (!memory || m->at % CK_GATHER_ALIGN || m->at > memory->is.size ||
	    m->results > memory->is.size - m->at)
		return false;
	memory->in_flight++;
	j->work.to = &memory->is;
	j->work.to_at = m->at;
	return true;
}

static int take_gather(struct serving *s, const struct ck_gpu_message *m)
{
	struct ck_gather_request *j;

	if (m->slot >= s->slots)
		return -EPROTO;
	j = &s->jobs[m->slot];
	if (j->in_flight || !ck_gather_request_take(s->memory, m, j) ||
	    !take_place(s, m, j))
		return -EPROTO;
	j->in_flight = true;
	j->use = m->use;
	if (s->in_flight++ == 0)
		s->last_heartbeat = ck_msec_now();
	s->looks = 0;
	if (m->wanted && s->rounds && m->set == s->set)
		ck_gpurounds_add(s->rounds, &j->request);
	else if (m->wanted)
		request_failed(s, &j->request, -EREMOTEIO);
	else
		s->waiting[(s->first + s->nwaiting++) % s->slots] = m->slot;
	return s->rc;
}

/* Makes room for the number. NULL if it is invalid, in use, or if out of
 * memory. */
static struct memory *memory_new(struct serving *s, uint32_t number)
{
	size_t n = s->nmemories;
	struct memory **grown, *new;

	if (number == 0 || number >= CK_GPU_MEMORIES)
		return NULL;
	if (number >= n) {
		grown = ck_grow(s->memories, &s->memories_cap, n,
				number + 1 - n, sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + n, 0, (number + 1 - n) * sizeof(*grown));
		s->memories = grown;
		s->nmemories = number + 1UL;
	}
	if (!s->memories[number])
		s->memories[number] = calloc(1, sizeof(**grown));
	new = s->memories[number];
	return new && !new->used ? new : NULL;
}

/* Writes how other processes open it. */
static int describe(const struct serving *s, struct memory *m,
		    struct ck_gpu_message *answer)
{
	answer->bytes = m->is.size;
	memcpy(answer->handle, m->is.handle, sizeof(answer->handle));
	if (m->is.file < 0)
		return 0;
	(void)snprintf(answer->text, sizeof(answer->text), "%s", s->hand.name);
	if (ck_fd_passing_token(m->token))
		return -EIO;
	memcpy(answer->token, m->token, sizeof(answer->token));
	return 0;
}

static int take_allocate(struct serving *s, const struct ck_gpu_message *m)
{
	struct ck_gpu_message answer = { .kind = CK_GPU_ALLOCATED,
					 .memory = m->memory };
	struct memory *new = memory_new(s, m->memory);

	if (!new || m->bytes == 0)
		return -EPROTO;
	answer.rc = s->gpu->allocate(s->gpu, m->uuid, m->bytes, m->with_file,
				     &new->is);
	new->used = answer.rc == 0;
	if (new->used)
		answer.rc = describe(s, new, &answer);
	if (new->used && answer.rc) {
		s->gpu->release(s->gpu, &new->is);
		new->used = false;
	}
	new->in_flight = 0;
	return ck_gpu_send(s->sock, &answer, true);
}

/* Compares all tokens in constant time, so that a caller learns nothing about
 * them. */
static int file_of(void *arg, const uint8_t *token)
{
	struct serving *s = arg;
	int found = -1;

	for (size_t i = 0; i < s->nmemories; i++) {
		const struct memory *m = s->memories[i];
		uint8_t differs = 0;

		if (!m)
			continue;
		for (size_t k = 0; k < CK_FD_PASSING_TOKEN; k++)
			differs |= (uint8_t)(token[k] ^ m->token[k]);
		if (m->used && m->is.file >= 0 && !differs)
			found = m->is.file;
	}
	return found;
}

static int take_release(struct serving *s, const struct ck_gpu_message *m)
{
	struct memory *memory = memory_of(s, m->memory);

	if (!memory || memory->in_flight)
		return -EPROTO;
	s->gpu->release(s->gpu, &memory->is);
	memory->used = false;
	return 0;
}

/* Returns 0; -EAGAIN if there is no request; or another errno. */
static int take_one(struct serving *s)
{
	int files[CK_GPU_FILES], rc;
	struct ck_gpu_message m;

	if (s->sock < 0)
		return -EAGAIN;
	rc = ck_gpu_take(s->sock, &m, files);
	if (rc == 0 && m.kind == CK_GPU_JOIN)
		return take_join(s, &m, files);
	ck_fd_cleanup(&files[0]);
	ck_fd_cleanup(&files[1]);
	if (rc)
		return rc;
	switch (m.kind) {
	case CK_GPU_GATHER: return take_gather(s, &m);
	case CK_GPU_ALLOCATE: return take_allocate(s, &m);
	case CK_GPU_RELEASE: return take_release(s, &m);
	default: return -EPROTO;
	}
}

/* --- completion ----------------------------------------------------------- */

/* After a device error requests complete but may still be in flight: they get
 * no reply, so that the mount does not reuse their memory. */
static int answer_done(struct serving *s)
{
	struct ck_gpu_work *w;
	int rc = 0;

	while (rc == 0 && (w = s->gpu->done(s->gpu)) &&
	       !s->gpu->trouble(s->gpu))
		rc = answer(s, (struct ck_gather_request *)w, w->rc);
	return rc;
}

static int send_message(int sock, enum ck_gpu_kind kind, int rc,
			const char *text)
{
	struct ck_gpu_message m = { .kind = kind, .rc = rc };

	(void)snprintf(m.text, sizeof(m.text), "%.*s", CK_GPU_TEXT - 1, text);
	return ck_gpu_send(sock, &m, true);
}

/* Sends a heartbeat. */
static int send_heartbeat(struct serving *s)
{
	const struct ck_gpu_message m = { .kind = CK_GPU_TURNS };
	uint64_t now = ck_msec_now();

	if (s->in_flight == 0 || now - s->last_heartbeat < CK_GPU_TURNS_MSEC)
		return 0;
	s->last_heartbeat = now;
	return ck_gpu_send(s->sock, &m, true);
}

/* --- main loop ------------------------------------------------------------ */

/* Microseconds until the next poll; UINT32_MAX if only an event matters.
 * Requests that wait for a round are polled rarely. A single small request is
 * polled without sleeping, since it is done sooner. */
static uint32_t next_look(struct serving *s)
{
	enum { SOON_USEC = 20, LOOKS = 16 };

	uint32_t usec = UINT32_MAX;

	if (s->in_flight > ck_gpurounds_open(s->rounds))
		return s->in_flight == 1 && s->looks++ < LOOKS ? 0 : SOON_USEC;
	if (s->rounds)
		usec = ck_gpurounds_wait(s->rounds);
	if (s->in_flight)
		usec = (uint32_t)ck_min(usec, CK_GPU_TURNS_MSEC * 1000);
	return (uint32_t)ck_min(usec, ck_fd_passing_wait(&s->hand));
}

/* Waits for an event or the next poll. */
static void wait_a_little(struct serving *s)
{
	uint32_t usec = next_look(s);
	const struct timespec soon = { .tv_sec = usec / 1000000,
				       .tv_nsec = usec % 1000000 * 1000L };
	struct pollfd fds[2 + CK_FD_PASSING_POLL];

	fds[0] = (struct pollfd){ .fd = s->sock, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = s->rounds ? s->rank : -1 };
	if (s->rounds)
		fds[1].events = ck_gpurounds_events(s->rounds);
	ck_fd_passing_fds(&s->hand, fds + 2);
	if (ppoll(fds, CK_ARRAY_SIZE(fds), usec < UINT32_MAX ? &soon : NULL,
		  NULL) > 0)
		ck_fd_passing_serve(&s->hand, fds + 2, file_of, s);
}

static int serve(struct serving *s)
{
	const char *trouble = NULL;
	int rc;

	do {
		wait_a_little(s);
		do
			rc = take_one(s);
		while (rc == 0);
		if (rc != -EAGAIN)
			break;
		start_waiting(s);
		rc = turn_rounds(s);
		if (rc == 0)
			rc = answer_done(s);
		if (rc == 0)
			rc = send_heartbeat(s);
		trouble = s->gpu->trouble(s->gpu);
	} while (rc == 0 && !trouble);
	if (rc == -EPIPE)
		return 0;
	if (rc == -EPROTO)
		trouble = "it was asked for what cannot be";
	if (s->stuck && !trouble)
		trouble = "NCCL does not end a round";
	if (!trouble)
		return rc;
	if (s->sock >= 0)
		(void)send_message(s->sock, CK_GPU_FAILED, -EIO, trouble);
	return rc ? rc : -EIO;
}

static int map(struct serving *s, int memory)
{
	struct stat st;

	if (s->sock < 0)
		return 0;
	if (fstat(memory, &st))
		return -errno;
	s->size = (size_t)st.st_size;
	s->slots = (uint32_t)ck_min(s->size / ck_gpu_slot_size(),
				    CK_GPU_SLOTS_MOST);
	if (s->slots == 0)
		return -EINVAL;
	s->memory = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED,
			 memory, 0);
	if (s->memory == MAP_FAILED) {
		s->memory = NULL;
		return -errno;
	}
	s->jobs = calloc(s->slots, sizeof(*s->jobs));
	s->waiting = calloc(s->slots, sizeof(*s->waiting));
	return s->jobs && s->waiting ? 0 : -ENOMEM;
}

static int open_gpus(struct serving *s,
		     const struct ck_gpuserve_options *options,
		     struct ck_diag *d)
{
	struct ck_gpu_options gpus = { .devices = options->devices,
				       .n = options->n,
				       .memory = s->memory,
				       .size = s->size,
				       .room = CK_GPU_ROOM };
	int rc = ck_gpu_open(&gpus, &s->gpu, d);

	if (rc)
		return rc;
	rc = ck_fd_passing_open(&s->hand);
	if (rc)
		return ck_fail(d, -rc, "its socket: %s", strerror(-rc));
	return options->opened ? options->opened(d) : 0;
}

static void serving_fini(struct serving *s)
{
	(void)leave(s);
	if (s->stuck) /* the process ends soon, which frees everything */
		return;
	for (size_t i = 0; i < s->nmemories; i++) {
		if (s->memories[i] && s->memories[i]->used)
			s->gpu->release(s->gpu, &s->memories[i]->is);
		free(s->memories[i]);
	}
	if (s->gpu)
		s->gpu->close(s->gpu);
	ck_fd_passing_close(&s->hand);
	for (uint32_t i = 0; s->jobs && i < s->slots; i++)
		ck_gather_request_clear(&s->jobs[i]);
	free(s->jobs);
	free(s->waiting);
	free(s->memories);
	if (s->memory)
		(void)munmap(s->memory, s->size);
}

/* Reports success or failure of the start. */
static int send_begun(const struct serving *s, int rank, int rc,
		      const struct ck_diag *d)
{
	if (s->sock < 0 && rc) {
		ck_log("no bytes go by NCCL: %s", d->text);
		ck_gpurounds_decline(rank, d->text);
	}
	if (s->sock < 0)
		return rc;
	if (rc == 0)
		return send_message(s->sock, CK_GPU_READY, 0, s->gpu->devices);
	(void)send_message(s->sock, CK_GPU_FAILED, rc, d->text);
	return rc;
}

int ck_gpuserve_run(const struct ck_gpuserve_options *options)
{
	struct serving s = { .sock = options->sock,
			     .hand.listener = -1,
			     .rank = -1,
			     .rank_memory = -1 };
	struct ck_diag d = { 0 };
	int rc = map(&s, options->memory);

	if (rc)
		(void)ck_fail(&d, -rc, "its memory: %s", strerror(-rc));
	else
		rc = open_gpus(&s, options, &d);
	rc = send_begun(&s, options->rounds_sock, rc, &d);
	if (rc == 0 && options->rounds_sock >= 0)
		rc = join(&s, fcntl(options->rounds_sock, F_DUPFD_CLOEXEC, 0),
			  fcntl(options->rounds_memory, F_DUPFD_CLOEXEC, 0),
			  options->rounds_size);
	if (rc == 0)
		rc = serve(&s);
	serving_fini(&s);
	return rc;
}
