// SPDX-License-Identifier: Apache-2.0
#include "spyre/driver/driver.h"

extern "C" const spyre_driver_api* spyre_driver_get_api(uint32_t abi_major) {
  (void)abi_major;
  return nullptr;
}
