/* SPDX-License-Identifier: MIT */
/*
 * base: the module below all others. Checked numbers, scope-bound cleanup,
 * borrowed and growable bytes, an arena, a bounded cursor, diagnostics, the
 * log, hashes, and the system calls on a checkpoint's files. No code of it depends
 * on the contents of a checkpoint.
 *
 * Conventions of the whole code base:
 *  - fallible functions return 0 or a negative errno and are CK_MUST_USE;
 *  - cold functions take a struct ck_diag last and fail through ck_fail();
 *  - argument order: object, input, output, diag; buffer, length, position.
 */
#ifndef CKPTFS_BASE_H
#define CKPTFS_BASE_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

struct stat; /* of stat(2) */

#define CK_MUST_USE __attribute__((warn_unused_result))
#define CK_EXPORT   __attribute__((visibility("default")))
/* Marks intended arithmetic modulo 2^n; clang's sanitizer reports all other. */
#ifdef __clang__
#define CK_WRAPS __attribute__((no_sanitize("integer")))
#else
#define CK_WRAPS
#endif
#define CK_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define CK_ARRAY_SIZE(a)     (sizeof(a) / sizeof((a)[0]))

/* --- checked numbers: false when the result does not fit --------------- */

static inline CK_MUST_USE bool ck_add(uint64_t *out, uint64_t a, uint64_t b)
{
	return !__builtin_add_overflow(a, b, out);
}

static inline CK_MUST_USE bool ck_mul(uint64_t *out, uint64_t a, uint64_t b)
{
	return !__builtin_mul_overflow(a, b, out);
}

/* Shortages of this process: they do not depend on the file that was read. */
static inline bool ck_is_shortage(int rc)
{
	return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

static inline uint64_t ck_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t ck_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* --- scope-bound cleanup ------------------------------------------------ */

void ck_free_cleanup(void *p);
void ck_fd_cleanup(int *fd); /* closes, sets -1, keeps errno */

#define ck_auto_free __attribute__((cleanup(ck_free_cleanup)))
#define ck_auto_fd   __attribute__((cleanup(ck_fd_cleanup)))
/* Transfers ownership of a pointer to the caller, and sets it to NULL. */
#define ck_steal(p)                                                            \
	({                                                                     \
		__typeof__(*(p)) stolen = *(p);                                \
		*(p) = NULL;                                                   \
		stolen;                                                        \
	})

/* --- borrowed bytes: any values, no terminator -------------------------- */

struct ck_str {
	const char *p;
	size_t len;
};

#define CK_STR(literal) ((struct ck_str){ (literal), sizeof(literal) - 1 })

struct ck_str ck_str_from(const char *text);
bool ck_str_eq(struct ck_str a, struct ck_str b);
bool ck_str_is(struct ck_str a, const char *text);
bool ck_str_starts(struct ck_str a, struct ck_str prefix);
bool ck_str_ends(struct ck_str a, struct ck_str suffix);
/* Natural order: runs of digits compare as numbers, ties by bytes. <0, 0, >0. */
int ck_str_natural_cmp(struct ck_str a, struct ck_str b);
/* Edit distance: bytes to insert, remove or replace to turn a into b. Returns
 * most + 1 if above `most`, or if the differing parts exceed 256 bytes. */
size_t ck_str_distance(struct ck_str a, struct ck_str b, size_t most);
/* Parses decimal digits and advances *text. False if no digit or overflow. */
CK_MUST_USE bool ck_digits_take(const char **text, uint64_t *out);
/* Parses a size in bytes: digits, optionally followed by K, M or G. */
CK_MUST_USE bool ck_size_parse(const char *text, uint64_t *out);

/* --- growable bytes ----------------------------------------------------- */

/* Zero-initialise. An allocation failure sets `err` and makes every later
 * append a no-op, so callers check it once, at the end. */
struct ck_buf {
	char *data; /* owned; NUL after the last byte when not NULL */
	size_t len;
	size_t cap;
	int err; /* 0 or -ENOMEM */
};

void ck_buf_fini(struct ck_buf *b);
void ck_buf_add(struct ck_buf *b, const void *bytes, size_t len);
void ck_buf_str(struct ck_buf *b, struct ck_str s);
void ck_buf_text(struct ck_buf *b, const char *text);
/* Append a little-endian number, the inverse of ck_cur_u8() to ck_cur_u64(). */
void ck_buf_u8(struct ck_buf *b, uint8_t value);
void ck_buf_u16(struct ck_buf *b, uint16_t value);
void ck_buf_u32(struct ck_buf *b, uint32_t value);
void ck_buf_u64(struct ck_buf *b, uint64_t value);
void ck_buf_printf(struct ck_buf *b, const char *fmt, ...) CK_PRINTF(2, 3);
/* Appends bytes safe for a terminal: bytes of control characters (including
 * U+0080 to U+009F) and of malformed UTF-8, and `%`, become %XX. */
void ck_buf_escaped(struct ck_buf *b, struct ck_str s);
/* True if s is valid UTF-8 without control characters; `%` is allowed. */
bool ck_str_plain(struct ck_str s);
/* Appends text from an untrusted peer that should be escaped already: plain
 * lines unchanged, other lines escaped. */
void ck_buf_plain_lines(struct ck_buf *b, struct ck_str text);
/* Appends escaped text as an element of a comma-separated list: its commas
 * become %2C. */
void ck_buf_listed(struct ck_buf *b, struct ck_str escaped);
/* RFC 4648 base64 with padding. */
void ck_buf_base64(struct ck_buf *b, struct ck_str s);

/* Length of the valid UTF-8 sequence (RFC 3629: no overlong form, surrogate
 * or value above U+10FFFF) at p, 0 if there is none within len bytes. */
size_t ck_utf8_len(const char *p, size_t len);
bool ck_utf8_valid(struct ck_str s);

/* --- arena: many small objects, one lifetime ---------------------------- */

/* Zero-initialise. Memory is 8-byte aligned and not cleared. */
struct ck_arena {
	struct ck_arena_block *head;
	size_t left;  /* bytes free in head */
	size_t total; /* bytes taken from the system */
};

/* Memory of undefined content, aligned to 8 bytes. NULL when out of memory. */
void *ck_arena_alloc(struct ck_arena *a, size_t size);
/* Copies s and adds a terminator. p is NULL when out of memory. */
struct ck_str ck_arena_copy(struct ck_arena *a, struct ck_str s);
void ck_arena_fini(struct ck_arena *a);

/* --- flat arrays that grow by doubling ----------------------------------- */

/* Ensures room for `more` elements of `size` bytes behind the `used` ones; *cap
 * is the capacity. Returns the array, possibly moved, and never NULL (also for
 * 0 elements), or NULL when out of memory: then the array is unchanged. */
void *ck_grow(void *array, size_t *cap, size_t used, size_t more, size_t size);
/* Shrinks the array to `count` elements. Returns it, possibly moved; unchanged
 * if the reallocation fails. */
void *ck_trim(void *array, size_t count, size_t size);

/* --- bounded cursor over untrusted bytes -------------------------------- */

/* Every read is bounds-checked; on false the cursor does not move.
 * Integers are little-endian. */
struct ck_cur {
	const uint8_t *p;
	const uint8_t *end;
};

struct ck_cur ck_cur_make(const void *bytes, size_t len);
size_t ck_cur_left(const struct ck_cur *c);
CK_MUST_USE bool ck_cur_u8(struct ck_cur *c, uint8_t *out);
CK_MUST_USE bool ck_cur_u16(struct ck_cur *c, uint16_t *out);
CK_MUST_USE bool ck_cur_u32(struct ck_cur *c, uint32_t *out);
CK_MUST_USE bool ck_cur_u64(struct ck_cur *c, uint64_t *out);
CK_MUST_USE bool ck_cur_skip(struct ck_cur *c, uint64_t len);
/* The next len bytes, borrowed. */
CK_MUST_USE bool ck_cur_bytes(struct ck_cur *c, uint64_t len,
			      struct ck_str *out);
/* Text up to the next '\n', which is consumed and not part of it. */
CK_MUST_USE bool ck_cur_line(struct ck_cur *c, struct ck_str *out);

/* --- diagnostics -------------------------------------------------------- */

/* An error for a person: one line, names already escaped. */
struct ck_diag {
	int err;	/* positive errno, 0 if nothing failed */
	bool transient; /* the source could not be read; a retry may succeed */
	char text[1024];
	/* Set by ck_differs(): the expected and the actual value, else empty.
	 * The text ends with both. */
	char expected[256], found[256];
};

/* Records and returns -err. d may be NULL. */
int ck_fail(struct ck_diag *d, int err, const char *fmt, ...) CK_PRINTF(3, 4);
/* The same for a failed system call on the source; sets `transient`. */
int ck_fail_transient(struct ck_diag *d, int err, const char *fmt, ...)
	CK_PRINTF(3, 4);
/* The same as ck_fail() for an unexpected value: appends
 * "; expected EXPECTED, found FOUND" to the text. */
int ck_differs(struct ck_diag *d, int err, const char *expected,
	       const char *found, const char *fmt, ...) CK_PRINTF(5, 6);
/* The text without the suffix that ck_differs() appended. */
struct ck_str ck_diag_what(const struct ck_diag *d);
/* Prepends "prefix: " to the recorded text. */
void ck_diag_prefix(struct ck_diag *d, const char *fmt, ...) CK_PRINTF(2, 3);
/* s escaped as by ck_buf_escaped, cut at about 200 bytes; from a ring of
 * eight buffers for each thread, so several fit into one ck_fail(). */
const char *ck_show(struct ck_str s);
/* Formats a short text, such as a number with a unit, in the same ring. */
const char *ck_shown(const char *fmt, ...) CK_PRINTF(1, 2);

/* --- log ---------------------------------------------------------------- */

/* Logs one line, from any thread; never blocks on a reader. Lines go to stderr
 * until ck_log_detach(), and always into a ring of the last 1 MiB. */
void ck_log(const char *fmt, ...) CK_PRINTF(1, 2);
/* Also logs to `file`, which it opens, or to syslog(3) if it is "syslog"; NULL
 * changes nothing. */
CK_MUST_USE int ck_log_open(const char *file);
/* Stops logging to stderr, for a process that becomes a daemon. */
void ck_log_detach(void);
/* Appends the lines of the ring, oldest first, whole lines only. If older lines
 * were overwritten, the first line has the form CK_LOG_GONE and counts their
 * bytes; no other line begins like that. */
#define CK_LOG_GONE "[%zu bytes of older lines are gone]"
void ck_log_snapshot(struct ck_buf *out);

/* --- hashes (XXH3, seed 0 unless one is given) ------------------------------ */
uint64_t ck_hash64(struct ck_str s);
/* For tables with untrusted keys: a random seed prevents chosen collisions. */
uint64_t ck_hash64_seeded(struct ck_str s, uint64_t seed);
uint64_t ck_hash_seed(void);
/* Incremental ck_hash64_seeded(). NULL when out of memory. */
struct ck_hasher *ck_hasher_make(uint64_t seed);
void ck_hasher_add(struct ck_hasher *h, struct ck_str s);
uint64_t ck_hasher_sum(const struct ck_hasher *h);
/* XXH3-128 of the same bytes, in the byte order of ck_hash128_hex(). */
void ck_hasher_sum128(const struct ck_hasher *h, uint8_t out[static 16]);
void ck_hasher_free(struct ck_hasher *h);
/* 32 lower-case hex digits as `xxhsum -H2` prints them, and a terminator. */
void ck_sum128_hex(const uint8_t sum[static 16], char out[static 33]);
void ck_hash128_hex(struct ck_str s, char out[static 33]);

/* --- system calls -------------------------------------------------------- */
/* Reads exactly len bytes at fpos, continuing after short reads and EINTR.
 * Returns 0, -ENODATA if the file ends before, or the error of pread(2). */
CK_MUST_USE int ck_pread_full(int fd, void *buf, size_t len, uint64_t fpos);
/* Appends all bytes from the position of fd to the end of the file. Returns 0, or: -EFBIG
 * if there are more than `most`; -ENOMEM; the error of read(2). */
CK_MUST_USE int ck_read_all(int fd, size_t most, struct ck_buf *out);
/* Write all len bytes, continuing after short writes and EINTR. */
CK_MUST_USE int ck_write_full(int fd, const void *buf, size_t len);
CK_MUST_USE int ck_pwrite_full(int fd, const void *buf, size_t len,
			       uint64_t fpos);
/* The time of a clock in `msec` milliseconds from now. */
struct timespec ck_time_in(clockid_t clock, unsigned msec);
/* Milliseconds of a monotonic clock. */
uint64_t ck_msec_now(void);
/* pthread_create(3) with all signals blocked. Returns 0 or a negative errno. */
CK_MUST_USE int ck_thread_start(pthread_t *out, void *(*run)(void *arg),
				void *arg);
/* 16 random hex digits and a terminator. */
CK_MUST_USE int ck_random_hex(char out[static 17]);

/* Whether symlinks that stay beneath the directory may be followed. */
enum ck_beneath { CK_BENEATH_NO_SYMLINKS, CK_BENEATH_SYMLINKS };

/* openat2(RESOLVE_BENEATH | NO_MAGICLINKS | NO_XDEV), close-on-exec. path is
 * any bytes: absolute, empty, with `..`, NUL or longer than 4095 bytes is
 * -EPERM. Returns a descriptor or a negative errno. */
CK_MUST_USE int ck_open_beneath(int dirfd, struct ck_str path, int flags,
				enum ck_beneath how);
/* Open the same directory again, with its own position and locks, or a new
 * unnamed file in it for reading and writing (O_TMPFILE). Return a descriptor,
 * close-on-exec, or a negative errno. */
CK_MUST_USE int ck_open_again(int dirfd);
CK_MUST_USE int ck_open_unnamed(int dirfd);
/* True if `what` is the directory of fd or one of its ancestors, as far as
 * those may be searched. Closes fd. */
CK_MUST_USE bool ck_lies_in(int fd, const struct stat *what);
/* Runs copy(arg). Returns 0, or -EIO if a SIGBUS occurs on a mapping of a
 * truncated file; the process survives. Any thread; not nested; copy() must not
 * own resources. Call ck_sigbus_install() before the first use; it may be called again.
 * Other SIGBUS go to the handler that the process had before. */
CK_MUST_USE int ck_sigbus_guard(void (*copy)(void *arg), void *arg);
CK_MUST_USE int ck_sigbus_install(void);

#endif
