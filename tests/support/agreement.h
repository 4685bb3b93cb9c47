// Golden cases as tests: a model agrees with the numbers of another implementation.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "inspect/verify/verify.h"
#include "support/models.h"

namespace lamina::testing {

// True for quantities of a vision encoder, and for *_hf_cached: the reference's cache does not
// rotate its keys again.
inline bool may_be_skipped(const inspect::SkippedQuantity& skipped) {
  const std::string& name = skipped.quantity;
  return !skipped.reason.empty() &&
         (name.find(".visual.") != name.npos || name == "image.pixel_values" ||
          name == "image.grid_thw" || name == "image.rope_deltas" || name.ends_with("_hf_cached"));
}

// Verifies a case, with all of its quantities.
inline void expect_agreement(const std::filesystem::path& directory, DType dtype,
                             const Backend& backend) {
  const inspect::VerifyReport report =
      inspect::verify_case(directory.string(), dtype, built_plugins(), backend);
  EXPECT_FALSE(report.rows.empty());
  for (const inspect::VerifyRow& row : report.rows)
    EXPECT_TRUE(row.passed()) << row.quantity << " is off by " << row.error << ", allowed "
                              << row.tolerance << " " << row.note;
  EXPECT_EQ(report.first_departure, "");
  EXPECT_EQ(report.unread, std::vector<std::string>{});
  EXPECT_TRUE(report.unbuilt.empty());
  for (const inspect::SkippedQuantity& skipped : report.skipped)
    EXPECT_TRUE(may_be_skipped(skipped)) << skipped.quantity << " was not computed";
}

}  // namespace lamina::testing
