/* SPDX-License-Identifier: MIT */
/*
 * errno_names: names and texts of error numbers for a glibc older than 2.32, which lacks
 * strerrorname_np() and strerrordesc_np(). meson.build then compiles this file, and defines
 * these names as those below. State: one locale, made by the first call; any thread.
 */
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t untranslated;

/* clang-format off */
#define NAME(e) [e] = #e
static const char *const names[] = {
	[0] = "0",
	NAME(EPERM),
	NAME(ENOENT),
	NAME(ESRCH),
	NAME(EINTR),
	NAME(EIO),
	NAME(ENXIO),
	NAME(E2BIG),
	NAME(ENOEXEC),
	NAME(EBADF),
	NAME(ECHILD),
	NAME(EAGAIN),
	NAME(ENOMEM),
	NAME(EACCES),
	NAME(EFAULT),
	NAME(ENOTBLK),
	NAME(EBUSY),
	NAME(EEXIST),
	NAME(EXDEV),
	NAME(ENODEV),
	NAME(ENOTDIR),
	NAME(EISDIR),
	NAME(EINVAL),
	NAME(ENFILE),
	NAME(EMFILE),
	NAME(ENOTTY),
	NAME(ETXTBSY),
	NAME(EFBIG),
	NAME(ENOSPC),
	NAME(ESPIPE),
	NAME(EROFS),
	NAME(EMLINK),
	NAME(EPIPE),
	NAME(EDOM),
	NAME(ERANGE),
	NAME(EDEADLK),
	NAME(ENAMETOOLONG),
	NAME(ENOLCK),
	NAME(ENOSYS),
	NAME(ENOTEMPTY),
	NAME(ELOOP),
	NAME(ENOMSG),
	NAME(EIDRM),
	NAME(ECHRNG),
	NAME(EL2NSYNC),
	NAME(EL3HLT),
	NAME(EL3RST),
	NAME(ELNRNG),
	NAME(EUNATCH),
	NAME(ENOCSI),
	NAME(EL2HLT),
	NAME(EBADE),
	NAME(EBADR),
	NAME(EXFULL),
	NAME(ENOANO),
	NAME(EBADRQC),
	NAME(EBADSLT),
	NAME(EBFONT),
	NAME(ENOSTR),
	NAME(ENODATA),
	NAME(ETIME),
	NAME(ENOSR),
	NAME(ENONET),
	NAME(ENOPKG),
	NAME(EREMOTE),
	NAME(ENOLINK),
	NAME(EADV),
	NAME(ESRMNT),
	NAME(ECOMM),
	NAME(EPROTO),
	NAME(EMULTIHOP),
	NAME(EDOTDOT),
	NAME(EBADMSG),
	NAME(EOVERFLOW),
	NAME(ENOTUNIQ),
	NAME(EBADFD),
	NAME(EREMCHG),
	NAME(ELIBACC),
	NAME(ELIBBAD),
	NAME(ELIBSCN),
	NAME(ELIBMAX),
	NAME(ELIBEXEC),
	NAME(EILSEQ),
	NAME(ERESTART),
	NAME(ESTRPIPE),
	NAME(EUSERS),
	NAME(ENOTSOCK),
	NAME(EDESTADDRREQ),
	NAME(EMSGSIZE),
	NAME(EPROTOTYPE),
	NAME(ENOPROTOOPT),
	NAME(EPROTONOSUPPORT),
	NAME(ESOCKTNOSUPPORT),
	NAME(EOPNOTSUPP),
	NAME(EPFNOSUPPORT),
	NAME(EAFNOSUPPORT),
	NAME(EADDRINUSE),
	NAME(EADDRNOTAVAIL),
	NAME(ENETDOWN),
	NAME(ENETUNREACH),
	NAME(ENETRESET),
	NAME(ECONNABORTED),
	NAME(ECONNRESET),
	NAME(ENOBUFS),
	NAME(EISCONN),
	NAME(ENOTCONN),
	NAME(ESHUTDOWN),
	NAME(ETOOMANYREFS),
	NAME(ETIMEDOUT),
	NAME(ECONNREFUSED),
	NAME(EHOSTDOWN),
	NAME(EHOSTUNREACH),
	NAME(EALREADY),
	NAME(EINPROGRESS),
	NAME(ESTALE),
	NAME(EUCLEAN),
	NAME(ENOTNAM),
	NAME(ENAVAIL),
	NAME(EISNAM),
	NAME(EREMOTEIO),
	NAME(EDQUOT),
	NAME(ENOMEDIUM),
	NAME(EMEDIUMTYPE),
	NAME(ECANCELED),
	NAME(ENOKEY),
	NAME(EKEYEXPIRED),
	NAME(EKEYREVOKED),
	NAME(EKEYREJECTED),
	NAME(EOWNERDEAD),
	NAME(ENOTRECOVERABLE),
	NAME(ERFKILL),
};

/* clang-format on */

static const char *name_of(int err)
{
	return err >= 0 && (size_t)err < sizeof(names) / sizeof(*names)
		       ? names[err]
		       : NULL;
}

const char *strerrorname_np(int err)
{
	return name_of(err);
}

static void make_locale(void)
{
	untranslated = newlocale(LC_ALL_MASK, "C", NULL);
}

/* Returns NULL for an unknown number, and without memory for the locale. */
const char *strerrordesc_np(int err)
{
	(void)pthread_once(&once, make_locale);
	return name_of(err) && untranslated ? strerror_l(err, untranslated)
					    : NULL;
}
