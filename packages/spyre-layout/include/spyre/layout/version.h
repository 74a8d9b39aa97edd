// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Version of the spyre-layout library. The build and the Python package read it from here.
#define SPYRE_LAYOUT_VERSION "0.1.0"
#define SPYRE_LAYOUT_VERSION_MAJOR 0
#define SPYRE_LAYOUT_VERSION_MINOR 1
#define SPYRE_LAYOUT_VERSION_PATCH 0
