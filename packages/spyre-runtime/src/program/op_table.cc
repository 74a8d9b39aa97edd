// SPDX-License-Identifier: Apache-2.0
#include "spyre/program/op_table.h"
