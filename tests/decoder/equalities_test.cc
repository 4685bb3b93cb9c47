// A model's numbers do not depend on how its layers run, on the documents in a row, on the number
// of threads, or on saving and loading. The checks come from the conformance kit.
#include "conformance/numbers/one_pass.h"

#include <gtest/gtest.h>

#include "support/goldens.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

class Model : public ::testing::TestWithParam<TestModel> {};

TEST_P(Model, ScannedAndUnrolledForwardAreTheSame) {
  expect_conforms(conformance::check_scanned_pass_is_unrolled, GetParam());
}
TEST_P(Model, PackedDocumentsAreAsEachAlone) {
  expect_conforms(conformance::check_packed_documents_are_alone, GetParam());
}
TEST_P(Model, RowsOfABatchAreAsEachAlone) {
  expect_conforms(conformance::check_rows_of_a_batch_are_alone, GetParam());
}
TEST_P(Model, OneThreadAndTwoGiveTheSameBits) {
  expect_conforms(conformance::check_threads_give_the_same_pass, GetParam());
}
TEST_P(Model, Bfloat16IsNearFloat32) {
  expect_conforms(conformance::check_bfloat16_is_near, GetParam());
}
TEST_P(Model, WeightsSurviveAnExport) {
  expect_conforms(conformance::check_weights_survive_an_export, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, Model, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
