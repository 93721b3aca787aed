/* SPDX-License-Identifier: MIT */
/*
 * export: the exports of a mount in device memory, the functions of
 * ck_export_ops (device.h).
 */
#ifndef CK_EXPORT_H
#define CK_EXPORT_H

#include "ckptfs/device.h"

extern const struct ck_export_ops ck_gpu_exports;

#endif
