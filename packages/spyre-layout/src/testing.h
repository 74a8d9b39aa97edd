// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

/// As much of a test framework as the C++ tests need: the thorough tests are in Python.
namespace spyre::layout::testing {

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(bool holds, const char* text, const char* file, int line) {
  if (!holds) throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + text);
}

template <typename Error>
void check_throws(const std::function<void()>& body, const char* part, const char* file, int line) {
  try {
    body();
  } catch (const Error& error) {
    check(std::string(error.what()).find(part) != std::string::npos, error.what(), file, line);
    return;
  }
  check(false, "nothing was thrown", file, line);
}

inline int run_all() {
  int failures = 0;
  for (const Test& test : tests()) {
    try {
      test.run();
    } catch (const std::exception& error) {
      std::printf("FAILED %s: %s\n", test.name, error.what());
      ++failures;
    }
  }
  std::printf("%zu tests, %d failures\n", tests().size(), failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace spyre::layout::testing

#define TEST(name)                                                                           \
  static void test_##name();                                                                 \
  static const ::spyre::layout::testing::Registration registered_##name(#name, test_##name); \
  static void test_##name()
#define CHECK(condition) \
  ::spyre::layout::testing::check((condition), #condition, __FILE__, __LINE__)
#define CHECK_THROWS(error, part, ...) \
  ::spyre::layout::testing::check_throws<error>([&] { __VA_ARGS__; }, part, __FILE__, __LINE__)
