// ERR: failing calls of the host, and the source locations that the plugin passes.
#include <exception>
#include <memory>
#include <string>

#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/subjects/decoration.h"
#include "conformance/subjects/fingerprint.h"
#include "conformance/subjects/subject.h"
#include "core/error.h"

namespace lamina::conformance {
namespace {

// Makes one call of the plugin fail, and all later calls in the same function.
struct Failing {
  std::int64_t at = -1;  // -1: none
  std::int64_t calls = 0;
  bool failed = false;
  std::string function, call;  // the place of the failure
  lamina_status_t answer = LAMINA_OK;
  std::string exception;

  lamina_status_t on_call(const HostCall& given) {
    if (failed) return LAMINA_ERROR_TRACE;
    // Called by destructors, which return nothing; the host keeps the error in any case.
    if (given.function == "scope") return LAMINA_OK;
    if (calls++ != at) return LAMINA_OK;
    failed = true;
    call = fmt::format("call {} of the host ('{}')", calls, given.function);
    return LAMINA_ERROR_INTERNAL;
  }
  lamina_status_t around(std::string_view name, const std::function<lamina_status_t()>& run) {
    const bool before = failed;
    lamina_status_t status = LAMINA_ERROR_INTERNAL;
    try {
      status = run();
    } catch (const std::exception& thrown) {
      exception = thrown.what();
    } catch (...) {
      exception = "of no known type";
    }
    if (failed && !before) {
      function = name;
      answer = status;
    }
    return status;
  }
};

std::unique_ptr<DecoratedFamily> failing_family(const FamilySubject& subject, Failing& state) {
  return std::make_unique<DecoratedFamily>(
      subject.source(), subject.family(),
      Decoration{.on_call = [&state](const HostCall& call) { return state.on_call(call); },
                 .around =
                     [&state](std::string_view name, const std::function<lamina_status_t()>& run) {
                       return state.around(name, run);
                     }});
}

// Opens a model during which a call may fail.
void open_in_vain(const FamilySubject& subject, const SmallModel& small,
                  const registry::Family& family) {
  try {
    subject.open(small, family);
  } catch (const Refused&) {
  } catch (const std::bad_alloc&) {
  }
}

// Makes each call fail in turn, up to a limit per model: blocks are built several times.
template <typename Look>
void fail_each(const FamilySubject& subject, Look&& look) {
  for (const SmallModel& small : subject.models()) {
    const std::uint64_t untouched = fingerprint(subject.open(small));
    Failing state;
    const auto family = failing_family(subject, state);
    subject.open(small, family->family());
    // Every block is built three times: for one token, again, and for several.
    const std::int64_t first_builds = state.calls / 3 + 1;
    for (std::int64_t at = 0; at < first_builds; ++at) {
      state = {.at = at};
      open_in_vain(subject, small, family->family());
      if (state.failed || !state.exception.empty()) look(state);
    }
    if (fingerprint(subject.open(small)) != untouched)
      fail("model '{}' differs after calls have failed in its builds", small.name);
  }
}

}  // namespace

void check_failing_calls(const FamilySubject& subject) {
  fail_each(subject, [](const Failing& found) {
    if (found.exception.empty() && found.answer == LAMINA_OK)
      fail(
          "'{}' returns LAMINA_OK although {} failed; it must return the status of the failed call",
          found.function, found.call);
  });
}

void check_no_exceptions(const FamilySubject& subject) {
  fail_each(subject, [](const Failing& found) {
    if (!found.exception.empty())
      fail("an exception ({}) leaves '{}' when {} fails", found.exception, found.function,
           found.call);
  });
}

void check_lines(const FamilySubject& subject) {
  std::string call;
  std::string function;
  const DecoratedFamily family(
      subject.source(), subject.family(),
      {.on_call =
           [&](const HostCall& given) {
             const bool has_place = given.function != "scope" && given.function != "set" &&
                                    given.function != "segment" && given.function != "embed" &&
                                    given.function != "head";
             if (has_place && (!given.at || given.at->file.len == 0 || given.at->line == 0))
               call = given.function;
             return lamina_status_t{LAMINA_OK};
           },
       .around =
           [&](std::string_view name, const std::function<lamina_status_t()>& run) {
             const lamina_status_t status = run();
             if (!call.empty() && function.empty()) function = name;
             return status;
           }});
  for (const SmallModel& small : subject.models()) {
    subject.open(small, family.family());
    if (!call.empty())
      fail("'{}' calls '{}' without file and line, so that errors cannot name them", function,
           call);
  }
}

}  // namespace lamina::conformance
