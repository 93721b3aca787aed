/* SPDX-License-Identifier: MIT */
/* device: what a call of the driver came to, and what stays so. */
#include "gpu/driver/cuda_device.h"
#include "tap.h"

int main(void)
{
	struct ck_device g = { 0 };

	eq_err(ck_device_check(&g, CUDA_SUCCESS), 0);
	eq_err(ck_device_check(&g, CUDA_ERROR_OUT_OF_MEMORY), -ENOSPC);
	eq_err(ck_device_check(&g, CUDA_ERROR_INVALID_DEVICE), -ENODEV);
	eq_err(ck_device_check(&g, CUDA_ERROR_INVALID_VALUE), -EIO);
	ok(!ck_device_is_lost(&g));
	eq_err(ck_device_check(&g, CUDA_ERROR_ECC_UNCORRECTABLE), -EOPNOTSUPP);
	ok(ck_device_is_lost(&g));
	eq_err(ck_device_check(&g, CUDA_ERROR_ILLEGAL_ADDRESS), -EOPNOTSUPP);
	eq_u64((uint64_t)g.lost, CUDA_ERROR_ECC_UNCORRECTABLE);
	eq_err(ck_device_check(&g, CUDA_SUCCESS), -EOPNOTSUPP);
	return tap_done();
}
