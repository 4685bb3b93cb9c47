// The policies of rematerialisation.
#include "autodiff/remat.h"

#include <algorithm>

#include "support/expect_error.h"

namespace lamina::autodiff {
namespace {

TEST(RematPolicy, EveryTagOfAPolicyExists) {
  for (const RematPolicy& policy : remat_policies())
    for (const auto& tags : {policy.saved, policy.offloaded})
      for (const std::string& tag : tags)
        EXPECT_EQ(std::ranges::count(remat_tags(), tag), 1) << policy.name << ": " << tag;
}

TEST(RematPolicy, NoneKeepsEverythingAndFullNothing) {
  EXPECT_TRUE(find_remat_policy("none").save_policy()(""));
  EXPECT_FALSE(find_remat_policy("full").save_policy()("context"));
  EXPECT_TRUE(find_remat_policy("minimal").save_policy()("query_proj"));
  EXPECT_FALSE(find_remat_policy("minimal").save_policy()(""));
}

TEST(RematPolicy, TypoIsAnswered) {
  EXPECT_USER_ERROR(find_remat_policy("minimall"), ExitCode::usage,
                    "train.remat: unknown policy 'minimall'\n  did you mean 'minimal'?");
}

}  // namespace
}  // namespace lamina::autodiff
