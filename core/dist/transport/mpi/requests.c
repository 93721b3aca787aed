/* SPDX-License-Identifier: MIT */
/*
 * requests: the MPI requests in progress, in arrays as MPI_Testsome() needs
 * them. One thread.
 */
#include "mpi_internal.h"

#include <errno.h>
#include <limits.h>

/* The four arrays have the same capacity. */
static int grow(struct ck_mpi *m)
{
	size_t cap = m->cap ? 2 * m->cap : 64;
	void *p;

	if (cap > INT_MAX)
		return -ENOMEM;
	p = reallocarray(m->requests, cap, sizeof(*m->requests));
	if (!p)
		return -ENOMEM;
	m->requests = p;
	p = reallocarray(m->pending, cap, sizeof(*m->pending));
	if (!p)
		return -ENOMEM;
	m->pending = p;
	p = reallocarray(m->indices, cap, sizeof(*m->indices));
	if (!p)
		return -ENOMEM;
	m->indices = p;
	p = reallocarray(m->statuses, cap, sizeof(*m->statuses));
	if (!p)
		return -ENOMEM;
	m->statuses = p;
	m->cap = cap;
	return 0;
}

int ck_mpi_reserve(struct ck_mpi *m)
{
	return m->nrequests < m->cap ? 0 : grow(m);
}

void ck_mpi_note(struct ck_mpi *m, MPI_Request request,
		 struct ck_mpi_pending pending)
{
	m->requests[m->nrequests] = request;
	m->pending[m->nrequests] = pending;
	m->nrequests++;
}

/* Completes a request. done() may add requests, so the arrays may move. */
static void finish(struct ck_mpi *m, const MPI_Status *status,
		   const struct ck_mpi_pending *p, bool failed)
{
	int count = 0;
	bool bad = failed && status->MPI_ERROR != MPI_SUCCESS;

	m->active = true;
	if (!bad)
		(void)MPI_Get_count(status, MPI_BYTE, &count);
	p->done(m, p, bad ? -EIO : 0, count);
}

/* Removes completed requests, which MPI has set to MPI_REQUEST_NULL. */
static void close_gaps(struct ck_mpi *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->nrequests; i++) {
		if (m->requests[i] == MPI_REQUEST_NULL)
			continue;
		m->requests[n] = m->requests[i];
		m->pending[n++] = m->pending[i];
	}
	m->nrequests = n;
}

int ck_mpi_test(struct ck_mpi *m)
{
	int n = 0, rc;

	if (m->nrequests == 0)
		return 0;
	rc = MPI_Testsome((int)m->nrequests, m->requests, &n, m->indices,
			  m->statuses);
	if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS)
		return -EIO;
	if (n == MPI_UNDEFINED || n <= 0)
		return 0;
	for (int i = 0; i < n; i++) {
		struct ck_mpi_pending p = m->pending[m->indices[i]];
		MPI_Status status = m->statuses[i];

		finish(m, &status, &p, rc == MPI_ERR_IN_STATUS);
	}
	close_gaps(m);
	return 0;
}

void ck_mpi_requests_free(struct ck_mpi *m)
{
	free(m->requests);
	free(m->pending);
	free(m->indices);
	free(m->statuses);
}
