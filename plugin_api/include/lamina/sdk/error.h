// Errors inside a plugin: exceptions, or jumps under -fno-exceptions; at the border they become
// status codes. Also conversions between C++ and C views.
#pragma once

#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lamina/abi.h"
#include "lamina/names.h"

// Hidden visibility, so that two plugins never share a symbol, whatever their flags.
#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// The source position of a call; the last parameter of nearly every function of the SDK. Not
// std::source_location, which older compilers lack.
struct At {
  const char* file;
  std::uint32_t line;
  static constexpr At current(const char* file = __builtin_FILE(),
                              std::uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

inline lamina_str_t to_str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view to_view(lamina_str_t text) { return {text.ptr, text.len}; }

inline lamina_where_t to_where(const At& at) {
  return {{at.file, std::strlen(at.file)}, at.line, 0};
}

// A span of the C contract over a contiguous range. Borrowed.
template <class Range>
lamina_span_t to_span(const Range& range) {
  return {std::data(range), static_cast<std::uint32_t>(std::size(range)),
          sizeof(*std::data(range))};
}

// An error that the plugin found.
class Error : public std::exception {
 public:
  Error(lamina_status_t status, std::string message, At at = At::current())
      : status_(status), message_(std::move(message)), at_(at) {}
  const char* what() const noexcept override { return message_.c_str(); }
  lamina_status_t status() const { return status_; }
  const At& at() const { return at_; }

 private:
  lamina_status_t status_;
  std::string message_;
  At at_;
};

// A call that the host refused. The host has the message already.
struct Refused {
  lamina_status_t status;
};

#ifdef __cpp_exceptions

[[noreturn]] inline void raise(Error error) { throw error; }
[[noreturn]] inline void raise(Refused refused) { throw refused; }

// Runs `body`, which may raise(), and returns the status for the host. `report` gets the status,
// the text and the source position (null if unknown) of an error that the host does not know yet.
template <class Body, class Report>
lamina_status_t contained(Body&& body, Report&& report) noexcept {
  const auto fail = [&](lamina_status_t status, std::string_view text, const lamina_where_t* at) {
    report(status, text, at);
    return status;
  };
  try {
    body();
    return LAMINA_OK;
  } catch (const Refused& refused) {
    return refused.status;
  } catch (const Error& error) {
    const lamina_where_t at = to_where(error.at());
    return fail(error.status(), error.what(), &at);
  } catch (const std::bad_alloc&) {
    return fail(LAMINA_ERROR_MEMORY, "out of memory", nullptr);
  } catch (const std::exception& error) {
    return fail(LAMINA_ERROR_INTERNAL, error.what(), nullptr);
  } catch (...) {
    return fail(LAMINA_ERROR_INTERNAL, "an exception of unknown type", nullptr);
  }
}

#else

// Under -fno-exceptions raise() jumps to the function that the host called. Destructors on the way
// do not run, so a refused block leaks its allocations; this happens once per error. The compiler's
// builtin jumps, not <csetjmp>: a plugin that imports longjmp could jump out of its functions,
// and the conformance kit refuses that import (C-1).
struct WayOut {
  void* jump[5];
  const Error* error;  // null: the host has the message
  lamina_status_t status;
  WayOut* outer;
};
inline thread_local WayOut* way_out = nullptr;

[[noreturn, gnu::noinline]] inline void leave(lamina_status_t status, const Error* error) {
  way_out->status = status;
  way_out->error = error;
  __builtin_longjmp(way_out->jump, 1);
}
[[noreturn]] inline void raise(Error error) {
  const lamina_status_t status = error.status();
  leave(status, new Error(std::move(error)));
}
[[noreturn]] inline void raise(Refused refused) { leave(refused.status, nullptr); }

template <class Body, class Report>
lamina_status_t contained(Body&& body, Report&& report) noexcept {
  WayOut here{};
  here.outer = way_out;
  way_out = &here;
  if (__builtin_setjmp(here.jump) == 0) body();
  way_out = here.outer;
  if (here.error) {
    const lamina_where_t at = to_where(here.error->at());
    report(here.status, here.error->what(), &at);
    delete here.error;
  }
  return here.status;
}

#endif

inline void check(lamina_status_t status) {
  if (status != LAMINA_OK) raise(Refused{status});
}

// Not constexpr: a constant expression that calls it does not compile, and the compiler shows the
// line.
[[noreturn]] inline void does_not_compile(const char* why) {
  raise(Error(LAMINA_ERROR_INTERNAL, why));
}

// Reports errors of `body` to `target`, a lamina_build_t or a lamina_reply_t. No exception crosses
// the border.
template <class Target, class Body>
lamina_status_t guarded(Target* target, Body&& body) noexcept {
  return contained(std::forward<Body>(body),
                   [&](lamina_status_t status, std::string_view text, const lamina_where_t* at) {
                     target->api->fail(target, status, to_str(text), at);
                   });
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
