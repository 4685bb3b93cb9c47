// Gradients of every block, in f64: along a direction in each tensor, the backward graph gives the
// slope of the loss by finite differences. The check comes from the conformance kit.
#include <gtest/gtest.h>

#include "conformance/numbers/finite_differences.h"
#include "support/goldens.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

class Gradient : public ::testing::TestWithParam<TestModel> {};

TEST_P(Gradient, IsTheSlopeOfFiniteDifferencesAlongADirectionInEveryTensor) {
  expect_conforms([](const conformance::ModelCase& c) { check_finite_differences(c, 1); },
                  GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, Gradient, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
