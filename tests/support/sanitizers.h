// Facts about the sanitizer of a test build.
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

// Skips a test of a property that a sanitizer changes; `why` names it.
#define LAMINA_SKIP_IF_SANITIZED(why) \
  if (::lamina::testing::kSanitized) GTEST_SKIP() << "under a sanitizer: " << (why)
