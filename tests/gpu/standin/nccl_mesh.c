/* SPDX-License-Identifier: MIT */
/*
 * nccl_mesh: rendezvous of ranks. The process that made the identity listens, and each rank sends
 * it the address of its own socket. Once it has all addresses, it sends them to each rank, which
 * connects to the ranks before it.
 */
#include "nccl_comms.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PATIENCE = 60000
}; /* milliseconds that the listener waits for all ranks */

/* The contents of an ncclUniqueId, and the message of a rank about itself. */
struct place {
	struct sockaddr_in at;
	uint64_t secret;
	uint64_t host; /* a hash of its name */
	uint32_t rank, ranks, device;
	int fd; /* for the owner of the table */
};

/* --- sockets --------------------------------------------------------------------------------- */

/* True if the list has the name. Its entries are prefixes of names, or after a `=` whole
 * names. */
static bool is_named(const char *list, const char *name)
{
	bool whole = *list == '=';

	for (list += whole; *list; list += *list == ',') {
		size_t len = strcspn(list, ",");

		if (strncmp(list, name, len) == 0 && len &&
		    (!whole || name[len] == '\0'))
			return true;
		list += len;
	}
	return false;
}

static struct in_addr own_address(void)
{
	struct in_addr address = { htonl(INADDR_LOOPBACK) };
	const char *name = getenv("NCCL_SOCKET_IFNAME");
	struct ifaddrs *all = NULL;

	if (!name || getifaddrs(&all) != 0)
		return address;
	for (struct ifaddrs *one = all; one; one = one->ifa_next) {
		struct sockaddr_in at;

		if (!is_named(name, one->ifa_name) || !one->ifa_addr ||
		    one->ifa_addr->sa_family != AF_INET)
			continue;
		memcpy(&at, one->ifa_addr, sizeof(at));
		address = at.sin_addr;
	}
	freeifaddrs(all);
	return address;
}

/* A socket that listens at some port. */
static int listen_at(struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr = own_address() };
	if (fd < 0 || bind(fd, (struct sockaddr *)at, len) != 0 ||
	    listen(fd, COMM_RANKS) != 0 ||
	    getsockname(fd, (struct sockaddr *)at, &len) != 0)
		standin_die("NCCL", "no socket for the stand-in");
	return fd;
}

/* Waits until the socket is ready. False if the communicator is aborted first; or, if comm is
 * NULL, after PATIENCE. */
static bool usable(struct ncclComm *comm, int fd, short events)
{
	struct pollfd polled[2] = { { .fd = fd, .events = events },
				    { .fd = comm ? comm->wake : -1,
				      .events = POLLIN } };
	bool aborting = false;

	while (!aborting && !polled[0].revents) {
		if (poll(polled, 2, comm ? -1 : PATIENCE) == 0)
			return false;
		if (comm) {
			comms_lock();
			aborting = comm->aborting;
			comms_unlock();
		}
	}
	return !aborting;
}

static bool get(struct ncclComm *comm, int fd, void *to, size_t len)
{
	for (size_t got = 0; got < len;) {
		ssize_t n;

		if (!usable(comm, fd, POLLIN))
			return false;
		n = recv(fd, (char *)to + got, len - got, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		got += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* Sends a message that is small enough for any socket buffer. */
static bool put(int fd, const void *from, size_t len)
{
	return send(fd, from, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static int call(struct ncclComm *comm, const struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(int);
	int error = 0;

	if (fd < 0)
		standin_die("NCCL", "no socket for the stand-in");
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0 &&
	    errno != EINPROGRESS)
		error = errno;
	if (!error && usable(comm, fd, POLLOUT) &&
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && !error)
		return fd;
	close(fd);
	return -ECONNREFUSED;
}

static int answer(struct ncclComm *comm, int listener)
{
	return usable(comm, listener, POLLIN)
		       ? accept4(listener, NULL, NULL, SOCK_CLOEXEC)
		       : -ETIMEDOUT;
}

/* --- the listener -------------------------------------------------------------------------- */

struct root {
	struct place self;
	int listener;
};

/* Sends the whole table to each rank. */
static void table_send(struct place *table, uint32_t ranks)
{
	struct place all[COMM_RANKS];

	memcpy(all, table, ranks * sizeof(*table));
	for (uint32_t i = 0; i < ranks; i++)
		(void)put(table[i].fd, all, ranks * sizeof(*table));
}

static void *root_main(void *arg)
{
	struct root *root = arg;
	struct place *table = calloc(COMM_RANKS, sizeof(*table)), one = { 0 };
	uint32_t n = 0, ranks = 1;

	while (table && n < ranks) {
		int fd = answer(NULL, root->listener);

		if (fd < 0)
			break;
		if (!get(NULL, fd, &one, sizeof(one)) ||
		    one.secret != root->self.secret || one.rank >= one.ranks ||
		    one.ranks > COMM_RANKS || table[one.rank].ranks) {
			close(fd);
			continue;
		}
		table[one.rank] = one;
		table[one.rank].fd = fd;
		ranks = one.ranks;
		n++;
	}
	if (n == ranks)
		table_send(table, ranks);
	for (uint32_t i = 0; table && i < COMM_RANKS; i++)
		if (table[i].ranks)
			close(table[i].fd);
	free(table);
	close(root->listener);
	free(root);
	return NULL;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	ncclResult_t result = comms_enter(__func__, NULL);
	struct root *root;
	pthread_t thread;

	if (result)
		return result;
	root = calloc(1, sizeof(*root));
	if (!root)
		standin_die(__func__, "no memory for the stand-in");
	root->listener = listen_at(&root->self.at);
	root->self.secret = (uint64_t)getpid() << 32 | standin_number();
	memset(id, 0, sizeof(*id));
	memcpy(id->internal, &root->self, sizeof(root->self));
	if (pthread_create(&thread, NULL, root_main, root) ||
	    pthread_detach(thread))
		standin_die(__func__, "no thread for the stand-in");
	return ncclSuccess;
}

/* --- the ranks -------------------------------------------------------------------------------- */

CK_WRAPS static uint64_t host_hash(void)
{
	const char *name = getenv("NCCL_HOSTID");
	char own[256] = "";
	uint64_t hash = 5381;

	if (!name && gethostname(own, sizeof(own) - 1) == 0)
		name = own;
	for (; name && *name; name++)
		hash = (hash << 5 ^ hash >> 59) ^ (unsigned char)*name;
	return hash;
}

/* True if another rank uses the same device. Like in NCCL, only these ranks detect that. */
static bool shares_device(const struct ncclComm *comm, const struct place *all)
{
	const char *many = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

	if (many && strcmp(many, "1") == 0 &&
	    standin_faults_now().nccl >= 23003)
		return false;
	for (int i = 0; i < comm->ranks; i++)
		if (i != comm->rank && all[i].host == all[comm->rank].host &&
		    all[i].device == all[comm->rank].device)
			return true;
	return false;
}

static bool table_get(struct ncclComm *comm, const struct place *self,
		      struct place *all)
{
	struct place root;
	bool good;
	int fd;

	memcpy(&root, comm->id.internal, sizeof(root));
	fd = call(comm, &root.at);
	if (fd < 0)
		return false;
	good = put(fd, self, sizeof(*self)) &&
	       get(comm, fd, all, (size_t)comm->ranks * sizeof(*all));
	close(fd);
	return good;
}

static void peer_set(struct ncclComm *comm, uint32_t rank, int fd)
{
	const int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	comms_lock();
	comm->peers[rank].fd = fd;
	comms_unlock();
}

static bool call_all(struct ncclComm *comm, const struct place *self,
		     const struct place *all)
{
	for (uint32_t i = 0; i < self->rank; i++) {
		int fd = call(comm, &all[i].at);

		if (fd < 0)
			return false;
		peer_set(comm, i, fd);
		if (!put(fd, self, sizeof(*self)))
			return false;
	}
	return true;
}

static bool answer_all(struct ncclComm *comm, const struct place *self,
		       int listener)
{
	for (uint32_t i = self->rank + 1; i < self->ranks;) {
		struct place one;
		int fd = answer(comm, listener);

		if (fd < 0)
			return false;
		if (!get(comm, fd, &one, sizeof(one)) ||
		    one.secret != self->secret || one.rank >= self->ranks ||
		    one.rank <= self->rank) {
			close(fd);
			continue;
		}
		peer_set(comm, one.rank, fd);
		i++;
	}
	return true;
}

static bool meet(struct ncclComm *comm, struct place *all)
{
	struct place self = { .host = host_hash(),
			      .device = standin_device_number(comm->device),
			      .rank = (uint32_t)comm->rank,
			      .ranks = (uint32_t)comm->ranks };
	struct place root;
	int listener = listen_at(&self.at);
	bool good;

	memcpy(&root, comm->id.internal, sizeof(root));
	self.secret = root.secret;
	good = table_get(comm, &self, all) &&
	       (shares_device(comm, all) ||
		(call_all(comm, &self, all) &&
		 answer_all(comm, &self, listener)));
	close(listener);
	return good;
}

ncclResult_t comm_meet(struct ncclComm *comm)
{
	struct place *all = calloc(COMM_RANKS, sizeof(*all));
	ncclResult_t result = ncclSuccess;

	if (!all)
		standin_die("NCCL", "no memory for the stand-in");
	standin_pause(&comm->random, standin_delay());
	if (!meet(comm, all))
		(void)usable(comm, -1, 0); /* waits for the abort */
	else if (shares_device(comm, all))
		result = ncclInvalidUsage;
	free(all);
	return result;
}
