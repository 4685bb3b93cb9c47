// What must not change a model's numbers: how its layers are run, what shares its rows, how many
// threads there are, and the way of its weights through files.
#include <gtest/gtest.h>

#include <map>

#include "backends/cpu/backend.h"
#include "backends/cpu/device/threads.h"
#include "io/weight_files.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "weights/published.h"

namespace lamina::testing {
namespace {

class Model : public ::testing::TestWithParam<TestModel> {};

std::span<const float> row(const std::vector<float>& logits, std::int64_t vocab, std::int64_t first,
                           std::int64_t count) {
  return std::span(logits).subspan(static_cast<std::size_t>(first * vocab),
                                   static_cast<std::size_t>(count * vocab));
}

TEST_P(Model, ScannedAndUnrolledForwardAreTheSame) {
  decoder::Model scanned = open_model(GetParam().path, true);
  decoder::Model unrolled = open_model(GetParam().path, false);
  ASSERT_EQ(unrolled.stack().segments.size(),
            static_cast<std::size_t>(unrolled.config().num_layers()));
  Rows rows = random_rows(scanned, 2, test_tokens(scanned));
  weights::Weights weights = load_weights(GetParam(), scanned);
  inspect::ForwardResult a = forward_with_hidden(scanned, weights.pointers(), rows);
  inspect::ForwardResult b = forward_with_hidden(unrolled, weights.pointers(), rows);
  EXPECT_LE(relative_difference(a.logits, b.logits), 1e-6);
  for (std::size_t i = 0; i < a.hidden.size(); ++i)
    EXPECT_LE(relative_difference(a.hidden[i], b.hidden[i]), 1e-6) << "layer " << i;
}

TEST_P(Model, PackedDocumentsAreAsEachAlone) {
  decoder::Model model = open_model(GetParam().path);
  // Rotations of a packed row go by the longest position in it.
  if (model.length_dependent_from()) GTEST_SKIP() << "its rotations depend on the length of a row";
  weights::Weights weights = load_weights(GetParam(), model);
  std::int64_t tokens = test_tokens(model), vocab = model.vocab_size();
  std::vector<Rows> documents;
  std::int64_t used = 0;
  for (std::int64_t n : {std::int64_t{7}, std::int64_t{1}, tokens - 11}) {
    documents.push_back(random_rows(model, 1, n, static_cast<unsigned>(n)));
    used += n;
  }
  ASSERT_LT(used, tokens);  // some padding
  std::vector<float> packed = forward(model, weights.pointers(), pack(documents, tokens));
  std::int64_t at = 0;
  for (const Rows& document : documents) {
    std::vector<float> alone = forward(model, weights.pointers(), document);
    EXPECT_LE(relative_difference(row(packed, vocab, at, document.tokens), alone), 2e-5)
        << "document at " << at;
    at += document.tokens;
  }
}

TEST_P(Model, RowsOfABatchAreAsEachAlone) {
  decoder::Model model = open_model(GetParam().path);
  weights::Weights weights = load_weights(GetParam(), model);
  std::int64_t tokens = test_tokens(model), vocab = model.vocab_size();
  Rows batch = random_rows(model, 3, tokens);
  std::vector<float> together = forward(model, weights.pointers(), batch);
  for (std::int64_t b = 0; b < 3; ++b) {
    Rows one = random_rows(model, 1, tokens);
    std::copy_n(batch.ids.begin() + b * tokens, tokens, one.ids.begin());
    EXPECT_LE(relative_difference(row(together, vocab, b * tokens, tokens),
                                  forward(model, weights.pointers(), one)),
              stated_tolerance(GetParam(), "hidden_max_abs_over_max", 2e-5));
  }
}

TEST_P(Model, OneThreadAndTwoGiveTheSameBits) {
  decoder::Model model = open_model(GetParam().path);
  Rows rows = random_rows(model, 2, test_tokens(model));
  for (DType dtype : {DType::f32, DType::bf16}) {
    weights::Weights weights = load_weights(GetParam(), model, dtype);
    cpu::set_threads(1, false);
    std::vector<float> one = forward(model, weights.pointers(), rows, dtype);
    cpu::set_threads(2, false);
    std::vector<float> two = forward(model, weights.pointers(), rows, dtype);
    EXPECT_TRUE(same_bits(one, two)) << name(dtype);
  }
}

// As near as weights that differ by a rounding of bfloat16 let it be: some models magnify that, and
// where experts are chosen the choice may be another.
TEST_P(Model, Bfloat16IsNearFloat32) {
  decoder::Model model = open_model(GetParam().path);
  Rows rows = random_rows(model, 2, test_tokens(model));
  weights::Weights weights = load_weights(GetParam(), model);
  std::vector<float> exact = forward(model, weights.pointers(), rows);
  std::vector<std::vector<float>> copies = copy_of(model, weights.pointers());
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    disturb(copies[i], 1.0 / 256);
    bool table = model.parameters().all()[i].used_dtype(DType::f32) == DType::i32;
    pointers.push_back(table ? weights.pointers()[i] : copies[i].data());
  }
  double magnified = relative_difference(forward(model, pointers, rows), exact);
  std::vector<float> coarse =
      forward(model, load_weights(GetParam(), model, DType::bf16).pointers(), rows, DType::bf16);
  EXPECT_LE(relative_difference(coarse, exact), std::max(0.1, 4 * magnified));
  EXPECT_GT(relative_difference(coarse, exact), 0);
}

// Writes the weights under published names or ours, and reads them back.
TEST_P(Model, WeightsSurviveAnExport) {
  decoder::Model model = open_model(GetParam().path);
  weights::Weights weights = load_weights(GetParam(), model);
  std::vector<std::vector<float>> before = copy_of(model, weights.pointers());
  for (bool published : {true, false}) {
    TempDir folder;
    weights::TensorMap map = weights::published_tensors(model);
    std::vector<io::TensorSpec> specs;
    std::map<std::string, std::vector<float>> values;
    for (std::size_t t = 0; published && t < map.tensors().size(); ++t) {
      const auto& [name, shape, pieces] = map.tensors()[t];
      const int parameter = map.pieces()[static_cast<std::size_t>(pieces.front())].parameter;
      specs.push_back({name, model.parameters()[parameter].used_dtype(DType::f32), shape});
      values[name] = weights::assemble(
          map, static_cast<int>(t), [&](int p, std::int64_t first, std::int64_t count) {
            return std::span<const float>(before[static_cast<std::size_t>(p)])
                .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
          });
    }
    for (std::size_t i = 0; !published && i < before.size(); ++i) {
      const decoder::Parameter& p = model.parameters().all()[i];
      specs.push_back({p.name, p.used_dtype(DType::f32), p.desc.shape});
      values[p.name] = before[i];
    }
    std::vector<std::byte> bytes;
    io::write_weight_files(folder.path(), specs, [&](const io::TensorSpec& spec) {
      const std::vector<float>& tensor = values.at(spec.name);
      bytes.resize(tensor.size() * static_cast<std::size_t>(size_bytes(spec.dtype)));
      weights::store(tensor, spec.dtype, 0, bytes.data());
      return std::span<const std::byte>(bytes);
    });
    weights::Weights again = weights::Weights::load(
        model, std::make_shared<io::WeightFiles>(folder.path()), DType::f32, cpu::cpu_backend());
    std::vector<std::vector<float>> after = copy_of(model, again.pointers());
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(same_bits(after[i], before[i])) << model.parameters().all()[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Model, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
