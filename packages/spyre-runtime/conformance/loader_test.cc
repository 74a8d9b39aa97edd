// SPDX-License-Identifier: Apache-2.0
// The driver loader, the environment and device enumeration.
#include <cstdlib>

#include "check.h"
#include "spyre/runtime/runtime.h"

namespace runtime = spyre::runtime;

namespace {

/// Sets a variable for the length of a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// Until a driver loads, each attempt starts afresh; so the failures come first.

TEST(a_missing_library_is_named_with_its_reason) {
  const Variable driver("SPYRE_DRIVER", "/nowhere/libno.so");
  CHECK_THROWS(runtime::device_count(), runtime::RuntimeError, "/nowhere/libno.so: ");
  CHECK_THROWS(runtime::device_count(), runtime::RuntimeError, "SPYRE_DRIVER");
}

TEST(a_library_that_is_no_driver_is_refused) {
  const Variable driver("SPYRE_DRIVER", "libm.so.6");
  CHECK_THROWS(runtime::device_count(), runtime::RuntimeError,
               "does not export spyre_driver_get_api");
}

TEST(another_abi_major_is_refused_naming_both) {
  const Variable driver("SPYRE_DRIVER", NULL_DRIVER_OTHER_ABI);
  CHECK_THROWS(runtime::device_count(), runtime::RuntimeError,
               "speaks driver ABI major 2, but this runtime speaks 1");
}

TEST(a_table_with_a_hole_is_refused) {
  const Variable driver("SPYRE_DRIVER", NULL_DRIVER_HOLE);
  CHECK_THROWS(runtime::device_count(), runtime::RuntimeError, "null entry");
}

TEST(a_short_table_is_refused) {
  const Variable driver("SPYRE_DRIVER", NULL_DRIVER_SHORT);
  CHECK_THROWS(runtime::device_count(), runtime::RuntimeError, "has 64 bytes");
}

TEST(bad_values_of_variables_are_named) {
  const Variable driver("SPYRE_DRIVER", NULL_DRIVER);
  const struct {
    const char *name, *value;
  } bad[] = {{"AIU_WORLD_SIZE", "0"},    {"AIU_WORLD_SIZE", "two"}, {"AIU_WORLD_SIZE", "1.5"},
             {"AIU_WORLD_SIZE", "65"},   {"AIU_WORLD_SIZE", "3"},   {"SPYRE_DEVICES", "0,0"},
             {"SPYRE_DEVICES", "2"},     {"SPYRE_DEVICES", "-1"},   {"SPYRE_DEVICES", "0,"},
             {"SPYRE_DEVICES", "a"},     {"FLEX_DEVICE", "pf"},     {"FLEX_DEVICE", "GPU"},
             {"SENCORES", "0"},          {"SENCORES", "33"},        {"SENCORES", "many"},
             {"SENCORES", "99999999999"}};
  for (const auto& [name, value] : bad) {
    const Variable variable(name, value);
    CHECK_THROWS(runtime::device_count(), runtime::ValueError, name);
    CHECK_THROWS(runtime::device_count(), runtime::ValueError, "\"" + std::string(value) + "\"");
    CHECK_THROWS(runtime::device_count(), runtime::ValueError, "but ");
  }
}

TEST(enumeration_follows_the_environment) {
  const Variable driver("SPYRE_DRIVER", NULL_DRIVER);
  CHECK_EQ(runtime::device_count(), 2);
  {
    const Variable size("AIU_WORLD_SIZE", "1");
    CHECK_EQ(runtime::device_count(), 1);
  }
  {
    const Variable devices("SPYRE_DEVICES", " 1 ");
    CHECK_EQ(runtime::device_count(), 1);
  }
  {
    const Variable devices("SPYRE_DEVICES", "1,0");
    CHECK_EQ(runtime::device_count(), 2);
  }
  {
    const Variable devices("SPYRE_DEVICES", "");
    CHECK_EQ(runtime::device_count(), 0);
    CHECK_THROWS(runtime::ensure_open(0), runtime::IndexError, "0 devices are visible");
  }
  CHECK(!runtime::is_initialized());
}

TEST(a_device_index_out_of_range_is_an_index_error) {
  const Variable driver("SPYRE_DRIVER", NULL_DRIVER);
  for (const int index : {-1, 2, 64, 1000000}) {
    CHECK_THROWS(runtime::ensure_open(index), runtime::IndexError, std::to_string(index));
    CHECK_THROWS(runtime::set_current_device(index), runtime::IndexError, "2 devices are visible");
  }
  CHECK(!runtime::is_initialized());
}

TEST(enumeration_is_fixed_once_a_device_is_open) {
  const Variable driver("SPYRE_DRIVER", NULL_DRIVER);
  {
    const Variable cores("SENCORES", "7");
    runtime::ensure_open(1);
  }
  CHECK(runtime::is_initialized());
  CHECK_EQ(runtime::properties(1).cores, 7);
  CHECK_EQ(runtime::properties(1).driver, "null");
  const Variable devices("SPYRE_DEVICES", "0");
  CHECK_EQ(runtime::device_count(), 2);
  runtime::set_current_device(1);
  CHECK_EQ(runtime::current_device(), 1);
}

}  // namespace

int main() { return check::run_all() == 0 ? 0 : 1; }
