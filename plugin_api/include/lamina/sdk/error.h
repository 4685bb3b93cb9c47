// Errors inside a plugin are exceptions; at the border they become status codes. Also the small
// conversions between C++ views and those of the C contract.
#pragma once

#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "lamina/abi.h"
#include "lamina/names.h"

// The SDK is hidden, so that two plugins never share a symbol, whatever their flags.
#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// Where a call was made; the last parameter of nearly every function of the SDK. Not
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

// Something the plugin found to be wrong.
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

// The host has refused a call and keeps the message: there is nothing to add.
struct Refused {
  lamina_status_t status;
};

inline void check(lamina_status_t status) {
  if (status != LAMINA_OK) throw Refused{status};
}

// Runs `body` and converts whatever it throws to a status; the text goes to `target`, a
// lamina_build_t or a lamina_reply_t. No exception crosses the border.
template <class Target, class Body>
lamina_status_t guarded(Target* target, Body&& body) noexcept {
  auto fail = [&](lamina_status_t status, std::string_view text, const lamina_where_t* at) {
    target->api->fail(target, status, to_str(text), at);
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

}  // namespace lamina::sdk
#pragma GCC visibility pop
