// Cross-entropy over tiles against doubles and finite differences.
#include "backends/cpu/cross_entropy/cross_entropy.h"

#include <cstring>

#include "vector_support.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kRows = 6, kVocabulary = 101;
const std::vector<std::int32_t> kLabels = {0, 100, kIgnoredLabel, 37, 50, 49};

struct Options {
  std::vector<std::int64_t> tiles = {kVocabulary};  // widths, which add up to the vocabulary
  float soft_cap = 0;
  float z_loss = 0;
  float scale = 1;
};

struct Outcome {
  CrossEntropyLoss loss;
  std::vector<float> row_loss, dlogits;
  bool operator==(const Outcome& o) const {
    return loss.loss == o.loss.loss && loss.z_loss == o.loss.z_loss && dlogits == o.dlogits;
  }
};

template <typename T, typename D>
Outcome run(const std::vector<T>& logits, const Options& options) {
  std::vector<float> max(kRows), sum(kRows), target(kRows);
  const CrossEntropyRows rows = {kLabels.data(), kRows, max.data(), sum.data(), target.data()};
  Outcome out = {{}, std::vector<float>(kRows), {}};
  std::vector<D> dlogits(logits.size());
  const auto tile_at = [&](std::int64_t first, std::int64_t width) {
    return CrossEntropyTile{
        logits.data() + first, sizeof(T) == 2 ? DType::bf16 : DType::f32, kVocabulary, first, width,
        options.soft_cap};
  };
  cross_entropy_begin(rows);
  std::int64_t first = 0;
  for (std::int64_t width : options.tiles) {
    cross_entropy_add_tile(rows, tile_at(first, width));
    first += width;
  }
  out.loss = cross_entropy_loss(rows, options.z_loss, out.row_loss.data());
  first = 0;
  for (std::int64_t width : options.tiles) {
    cross_entropy_gradient(rows, tile_at(first, width),
                           {.scale = options.scale,
                            .z_loss = options.z_loss,
                            .dlogits = dlogits.data() + first,
                            .dtype = sizeof(D) == 2 ? DType::bf16 : DType::f32,
                            .row_stride = kVocabulary});
    first += width;
  }
  for (D d : dlogits) out.dlogits.push_back(static_cast<float>(number(d)));
  return out;
}

double reference_row(const std::vector<double>& logits, std::int32_t label,
                     const Options& options) {
  double total = 0;
  const auto cap = [&](double x) {
    const double c = number(options.soft_cap);
    return c > 0 ? c * std::tanh(x / c) : x;
  };
  for (double x : logits) total += std::exp(cap(x));
  const double lse = std::log(total);
  return lse - cap(logits[static_cast<std::size_t>(label)]) + number(options.z_loss) * lse * lse;
}

template <typename T, typename D>
void expect_matches_reference(const Options& options, double tolerance) {
  const auto logits = as<T>(normal_floats(static_cast<std::size_t>(kRows * kVocabulary), 1, 4.0f));
  const Outcome out = run<T, D>(logits, options);
  double sum = 0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::int32_t label = kLabels[static_cast<std::size_t>(r)];
    std::vector<double> row;
    for (std::int64_t i = 0; i < kVocabulary; ++i)
      row.push_back(number(logits[static_cast<std::size_t>(r * kVocabulary + i)]));
    const bool counts = label != kIgnoredLabel;
    const double want = counts ? reference_row(row, label, options) : 0;
    EXPECT_NEAR(out.row_loss[static_cast<std::size_t>(r)], want, 1e-5 * std::max(1.0, want));
    sum += want;
    for (std::int64_t i = 0; i < kVocabulary; ++i) {
      double slope = 0;
      if (counts) {
        double& x = row[static_cast<std::size_t>(i)];
        const double old = x;
        x = old + 1e-5;
        const double up = reference_row(row, label, options);
        x = old - 1e-5;
        slope = (up - reference_row(row, label, options)) / 2e-5;
        x = old;
      }
      ASSERT_NEAR(out.dlogits[static_cast<std::size_t>(r * kVocabulary + i)],
                  number(options.scale) * slope, tolerance)
          << "row " << r << " column " << i;
    }
  }
  EXPECT_EQ(out.loss.count, 5);
  EXPECT_NEAR(out.loss.loss, sum, 1e-5 * sum);
}

TEST(CrossEntropy, LossAndGradientMatchDoubles) {
  for_each_isa([] {
    for (const Options& o :
         {Options{}, Options{.soft_cap = 5}, Options{.z_loss = 0.01f},
          Options{.soft_cap = 3, .z_loss = 0.1f, .scale = 0.125f}, Options{.tiles = {50, 51}},
          Options{.tiles = {16, 32, 52, 1}, .soft_cap = 8}}) {
      expect_matches_reference<float, float>(o, 2e-6);
      expect_matches_reference<float, bfloat16>(o, 1e-2);
      expect_matches_reference<bfloat16, bfloat16>(o, 1e-2);
      expect_matches_reference<bfloat16, float>(o, 2e-6);
    }
  });
}

TEST(CrossEntropy, SameBitsForAnyNumberOfThreads) {
  const auto logits = normal_floats(static_cast<std::size_t>(kRows * kVocabulary), 2, 4.0f);
  for_each_isa([&] {
    expect_same_for_any_threads([&] { return run<float, float>(logits, {.tiles = {40, 61}}); });
  });
}

TEST(CrossEntropy, SurvivesHugeAndInfiniteLogits) {
  std::vector<float> logits(static_cast<std::size_t>(kRows * kVocabulary), -INFINITY);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::int32_t label = kLabels[static_cast<std::size_t>(r)];
    if (label >= 0) logits[static_cast<std::size_t>(r * kVocabulary + label)] = 1e30f;
  }
  for_each_isa([&] {
    const Outcome out = run<float, float>(logits, {.tiles = {50, 51}});
    EXPECT_EQ(out.loss.loss, 0);
    for (float d : out.dlogits) EXPECT_EQ(d, 0.0f);
  });
}

TEST(CrossEntropy, GradientMayOverwriteTheLogits) {
  std::vector<float> logits = normal_floats(static_cast<std::size_t>(kRows * kVocabulary), 3, 4.0f);
  const Outcome want = run<float, float>(logits, {.soft_cap = 6});
  std::vector<float> max(kRows), sum(kRows), target(kRows);
  const CrossEntropyRows rows = {kLabels.data(), kRows, max.data(), sum.data(), target.data()};
  const CrossEntropyTile tile = {logits.data(), DType::f32, kVocabulary, 0, kVocabulary, 6};
  cross_entropy_begin(rows);
  cross_entropy_add_tile(rows, tile);
  cross_entropy_gradient(
      rows, tile,
      {.scale = 1, .dlogits = logits.data(), .dtype = DType::f32, .row_stride = kVocabulary});
  EXPECT_EQ(logits, want.dlogits);
}

TEST(CrossEntropy, RowScaleWeighsRows) {
  const std::vector<float> logits = normal_floats(static_cast<std::size_t>(kRows * kVocabulary), 4);
  const Outcome plain = run<float, float>(logits, {});
  std::vector<float> max(kRows), sum(kRows), target(kRows), d(logits.size());
  const std::vector<float> weights = {0, 1, 1, 2, 4, 0.5f};
  const CrossEntropyRows rows = {kLabels.data(), kRows, max.data(), sum.data(), target.data()};
  const CrossEntropyTile tile = {logits.data(), DType::f32, kVocabulary, 0, kVocabulary, 0};
  cross_entropy_begin(rows);
  cross_entropy_add_tile(rows, tile);
  cross_entropy_gradient(rows, tile,
                         {.scale = 1,
                          .row_scale = weights.data(),
                          .dlogits = d.data(),
                          .dtype = DType::f32,
                          .row_stride = kVocabulary});
  for (std::size_t i = 0; i < d.size(); ++i)
    EXPECT_EQ(d[i], weights[i / kVocabulary] * plain.dlogits[i]);
}

}  // namespace
}  // namespace lamina::cpu
