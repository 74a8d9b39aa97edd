// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// A very small test harness, so that the suite needs nothing but a compiler.
namespace check {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Case {
  const char* name;
  std::function<void()> body;
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Register {
  Register(const char* name, std::function<void()> body) {
    cases().push_back({name, std::move(body)});
  }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  std::ostringstream text;
  text << file << ":" << line << ": " << what;
  throw Failure(text.str());
}

template <class A, class B>
void equal(const A& a, const B& b, const char* expression, const char* file, int line) {
  if (a == b) return;
  std::ostringstream text;
  text << expression << ": " << a << " is not " << b;
  fail(file, line, text.str());
}

/// Runs the cases whose names contain `filter`; returns the number that failed.
inline int run_all(const std::string& filter = "") {
  int failed = 0, passed = 0;
  for (const Case& test : cases()) {
    if (std::string(test.name).find(filter) == std::string::npos) continue;
    std::string reason;
    try {
      test.body();
    } catch (const std::exception& error) {
      reason = error.what();
      if (reason.empty()) reason = "exception without a message";
    }
    reason.empty() ? ++passed : ++failed;
    std::printf("%s %s%s%s\n", reason.empty() ? "ok    " : "FAILED", test.name,
                reason.empty() ? "" : ": ", reason.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed;
}

}  // namespace check

#define CHECK_JOIN2(a, b) a##b
#define CHECK_JOIN(a, b) CHECK_JOIN2(a, b)
#define TEST(name)                                                        \
  static void name();                                                     \
  static const check::Register CHECK_JOIN(register_, name)(#name, &name); \
  static void name()
#define CHECK(condition) \
  if (!(condition)) check::fail(__FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) check::equal((a), (b), #a " == " #b, __FILE__, __LINE__)
/// The statement throws Type with a message that contains `text`.
#define CHECK_THROWS(statement, Type, text)                                            \
  do {                                                                                 \
    std::string check_message = "nothing was thrown";                                  \
    bool check_thrown = false;                                                         \
    try {                                                                              \
      statement;                                                                       \
    } catch (const Type& error) {                                                      \
      check_thrown = true;                                                             \
      check_message = error.what();                                                    \
    }                                                                                  \
    if (!check_thrown || check_message.find(text) == std::string::npos) {              \
      check::fail(__FILE__, __LINE__,                                                  \
                  std::string(#statement " should throw " #Type " with \"") + (text) + \
                      "\", but: " + check_message);                                    \
    }                                                                                  \
  } while (false)
