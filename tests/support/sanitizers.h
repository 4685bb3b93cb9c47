// What a test must know of the sanitizer it runs under.
#pragma once

#include <gtest/gtest.h>

namespace lamina::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

}  // namespace lamina::testing

// Ends a test that asks what a sanitizer does not leave as it is; `why` says what.
#define LAMINA_SKIP_IF_SANITIZED(why) \
  if (::lamina::testing::kSanitized) GTEST_SKIP() << "under a sanitizer: " << (why)
