/* SPDX-License-Identifier: MIT */
/*
 * patient: the program, except that a host is down only after two minutes of silence. For tests
 * of bytes, which must not depend on how busy the machine is. Ranks on other hosts, and all
 * other processes of the mount, are those of the program itself.
 */
#include "ckptfs/launch.h"
#include "dist/rpc/link.h"

#include <string.h>

enum { PATIENT_MSEC = 120000 };

int __real_ck_link_make(const struct ck_link_options *options,
			struct ck_link **out);
int __wrap_ck_link_make(const struct ck_link_options *options,
			struct ck_link **out);
char *__wrap_ck_subprocess_program(void);

int __wrap_ck_link_make(const struct ck_link_options *options,
			struct ck_link **out)
{
	struct ck_link_options patient = *options;

	patient.calls.silence_msec = PATIENT_MSEC;
	return __real_ck_link_make(&patient, out);
}

char *__wrap_ck_subprocess_program(void)
{
	return strdup(CK_PROGRAM);
}
