// The nearest name.
#include "core/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace lamina {
namespace {

const std::vector<std::string> kKeys = {"train.steps", "train.seed", "optimizer.lr"};

TEST(NearestName, Example) { EXPECT_EQ(nearest_name("train.stpes", kKeys), "train.steps"); }

TEST(NearestName, IsEmptyWhenNothingIsNear) { EXPECT_EQ(nearest_name("colour", kKeys), ""); }

TEST(NearestName, IsEmptyWithoutCandidates) { EXPECT_EQ(nearest_name("x", {}), ""); }

}  // namespace
}  // namespace lamina
