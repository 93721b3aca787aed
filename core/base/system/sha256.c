/* SPDX-License-Identifier: MIT */
/*
 * sha256: finds the functions of libcrypto by name; their types are those of OpenSSL 1.1 and 3.
 * The loaded functions are constant after load(), which runs once.
 */
#include "sha256.h"

#include <dlfcn.h>
#include <pthread.h>

static struct {
	void *(*context_new)(void);
	void (*context_free)(void *context);
	const void *(*sha256)(void);
	int (*init)(void *context, const void *type, void *engine);
	int (*update)(void *context, const void *bytes, size_t len);
	int (*final)(void *context, unsigned char *out, unsigned *len);
	bool is_loaded;
} crypto;

static pthread_once_t loading = PTHREAD_ONCE_INIT;

struct ck_sha256 {
	void *context;
};

static void load(void)
{
	static const char *const names[] = { "libcrypto.so.3",
					     "libcrypto.so.1.1" };
	void *library = NULL;

	for (size_t i = 0; i < CK_ARRAY_SIZE(names) && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	*(void **)&crypto.context_new = dlsym(library, "EVP_MD_CTX_new");
	*(void **)&crypto.context_free = dlsym(library, "EVP_MD_CTX_free");
	*(void **)&crypto.sha256 = dlsym(library, "EVP_sha256");
	*(void **)&crypto.init = dlsym(library, "EVP_DigestInit_ex");
	*(void **)&crypto.update = dlsym(library, "EVP_DigestUpdate");
	*(void **)&crypto.final = dlsym(library, "EVP_DigestFinal_ex");
	crypto.is_loaded = crypto.context_new && crypto.context_free &&
			   crypto.sha256 && crypto.init && crypto.update &&
			   crypto.final;
}

int ck_sha256_make(struct ck_sha256 **out, struct ck_diag *d)
{
	struct ck_sha256 *h;

	(void)pthread_once(&loading, load);
	if (!crypto.is_loaded)
		return ck_fail(d, ELIBACC,
			       "libcrypto.so.3 cannot be loaded; install it "
			       "(package libssl3)");
	h = calloc(1, sizeof(*h));
	if (h)
		h->context = crypto.context_new();
	if (!h || !h->context ||
	    crypto.init(h->context, crypto.sha256(), NULL) != 1) {
		ck_sha256_free(h);
		return ck_fail(d, ENOMEM, "out of memory");
	}
	*out = h;
	return 0;
}

int ck_sha256_add(struct ck_sha256 *h, const void *bytes, size_t len)
{
	return crypto.update(h->context, bytes, len) == 1 ? 0 : -EIO;
}

int ck_sha256_hex(struct ck_sha256 *h, char out[static CK_SHA256_HEX])
{
	unsigned char sum[64]; /* the longest digest of libcrypto */
	unsigned len = 0;

	if (crypto.final(h->context, sum, &len) != 1 || len != CK_SHA256_LEN)
		return -EIO;
	ck_sum128_hex(sum, out); /* in two halves */
	ck_sum128_hex(sum + CK_SHA256_LEN / 2, out + CK_SHA256_LEN);
	return 0;
}

void ck_sha256_free(struct ck_sha256 *h)
{
	if (h && h->context)
		crypto.context_free(h->context);
	free(h);
}
