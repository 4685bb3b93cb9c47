// Rounding with error feedback, against its definition and against rounding to nearest.
#include "weights/quantise/error_feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <thread>

#include "backends/cpu/backend.h"
#include "formats/encode.h"
#include "formats/lookup.h"
#include "model/calibration.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/paths.h"
#include "weights/quantise/budget.h"
#include "weights/weights.h"

namespace lamina::weights {
namespace {

using Values = std::vector<float>;

// Inputs with few directions and noise, as activations have them; [count, width].
Values inputs(std::int64_t count, std::int64_t width, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  constexpr std::int64_t kDirections = 6;
  Values directions(static_cast<std::size_t>(kDirections * width));
  for (float& v : directions) v = normal(random);
  Values out;
  for (std::int64_t row = 0; row < count; ++row) {
    float amounts[kDirections];
    for (float& a : amounts) a = normal(random);
    for (std::int64_t i = 0; i < width; ++i) {
      float v = .3f * normal(random);
      for (std::int64_t d = 0; d < kDirections; ++d)
        v += amounts[d] * directions[static_cast<std::size_t>(d * width + i)];
      out.push_back(v);
    }
  }
  return out;
}

SymmetricSums moments_of(const Values& x, std::int64_t width) {
  const auto w = static_cast<std::size_t>(width);
  SymmetricSums out(width);
  for (std::int64_t b = 0; b < out.num_blocks(); ++b)
    for (std::int64_t i = 0; i < out.block_rows(b); ++i)
      for (std::int64_t j = 0; j < out.block_columns(b); ++j) {
        const auto first = static_cast<std::size_t>(b * SymmetricSums::kBlockRows);
        double sum = 0;
        for (std::size_t row = first; row < x.size(); row += w)
          sum += static_cast<double>(x[row + static_cast<std::size_t>(i)]) *
                 static_cast<double>(x[row + static_cast<std::size_t>(j)]);
        out.block(b)[i * out.block_columns(b) + j] = static_cast<float>(sum);
      }
  return out;
}

Values weights_of(std::int64_t rows, std::int64_t width) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, .02f);
  Values out(static_cast<std::size_t>(rows * width));
  for (float& v : out) v = normal(random);
  return out;
}

RowSource source_of(const Values& values) {
  return [&values](std::int64_t first, std::span<float> out) {
    std::copy_n(values.begin() + first, out.size(), out.begin());
  };
}

struct Matrix {
  const formats::BlockFormat& format;
  std::int64_t rows, width;
  Values values = weights_of(rows, width);

  RowsToEncode rows_to_encode() const { return {"w", &format, rows, width}; }
  std::vector<std::byte> room() const {
    return std::vector<std::byte>(static_cast<std::size_t>(format.bytes_of(rows * width)));
  }
  std::vector<std::byte> nearest() const {
    std::vector<std::byte> out = room();
    encode_rows(rows_to_encode(), "test", source_of(values), {}, out.data());
    return out;
  }
  std::vector<std::byte> with_feedback(const InputFactor& factor,
                                       const Workers& workers = {}) const {
    std::vector<std::byte> out = room();
    encode_rows_with_feedback(rows_to_encode(), "test", source_of(values), factor, workers,
                              out.data());
    return out;
  }
  // The sum of squares of the change of all outputs.
  double output_error(const std::vector<std::byte>& blocks, const Values& x) const {
    Values widened(values.size());
    for (std::size_t i = 0; i < widened.size(); i += static_cast<std::size_t>(format.num_values))
      format.widen(blocks.data() + format.bytes_of(static_cast<std::int64_t>(i)),
                   widened.data() + i);
    const auto w = static_cast<std::size_t>(width);
    double sum = 0;
    for (std::size_t row = 0; row < values.size(); row += w)
      for (std::size_t at = 0; at < x.size(); at += w) {
        double change = 0;
        for (std::size_t i = 0; i < w; ++i)
          change += static_cast<double>(x[at + i]) *
                    static_cast<double>(widened[row + i] - values[row + i]);
        sum += change * change;
      }
    return sum;
  }
};

const formats::BlockFormat& format(const char* name) { return *formats::block_format_named(name); }

Workers two_threads() {
  return [](std::int64_t count, const std::function<void(std::int64_t)>& work) {
    std::thread other([&] {
      for (std::int64_t i = 1; i < count; i += 2) work(i);
    });
    for (std::int64_t i = 0; i < count; i += 2) work(i);
    other.join();
  };
}

// A matrix in double, from the upper triangle that `row` gives.
std::vector<double> square(std::int64_t width, bool is_symmetric,
                           const std::function<std::span<const float>(std::int64_t)>& row) {
  const auto w = static_cast<std::size_t>(width);
  std::vector<double> out(w * w);
  for (std::size_t i = 0; i < w; ++i)
    for (std::size_t j = i; j < w; ++j) {
      out[i * w + j] = row(static_cast<std::int64_t>(i))[j - i];
      if (is_symmetric) out[j * w + i] = out[i * w + j];
    }
  return out;
}

// Returns A^T B.
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b,
                            std::size_t width) {
  std::vector<double> out(width * width);
  for (std::size_t m = 0; m < width; ++m)
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t j = 0; j < width; ++j)
        out[i * width + j] += a[m * width + i] * b[m * width + j];
  return out;
}

// Widths of part of a block, and of several blocks of sums and columns.
TEST(InputFactor, SquaredIsTheInverseOfTheDampedMoments) {
  for (const std::int64_t width : {70, 300}) {
    const SymmetricSums sums = moments_of(inputs(400, width, 1), width);
    const InputFactor factor(sums, width == 70 ? Workers() : two_threads());
    const auto w = static_cast<std::size_t>(width);
    std::vector<double> h = square(width, true, [&](std::int64_t i) { return sums.row(i); });
    double mean = 0;
    for (std::size_t i = 0; i < w; ++i) mean += h[i * (w + 1)] / static_cast<double>(width);
    for (std::size_t i = 0; i < w; ++i) h[i * (w + 1)] += .01 * mean;
    const std::vector<double> u =
        square(width, false, [&](std::int64_t i) { return factor.row(i); });
    const std::vector<double> one = product(product(u, u, w), h, w);
    for (std::size_t i = 0; i < w; ++i) {
      for (std::size_t j = 0; j < w; ++j)
        ASSERT_NEAR(one[i * w + j], i == j ? 1 : 0, 2e-3) << width << ' ' << i << ' ' << j;
      const double diagonal = u[i * (w + 1)];
      ASSERT_NEAR(static_cast<double>(factor.importance()[i]) * diagonal * diagonal, 1, 1e-5);
    }
  }
}

TEST(ErrorFeedback, OutputsChangeLessThanWithNearestNumbers) {
  constexpr std::int64_t kWidth = 256;
  const Values x = inputs(400, kWidth, 2);
  const InputFactor factor(moments_of(x, kWidth));
  for (const char* name : {"INT4_32", "INT4_128", "MXFP4", "INT8_128"}) {
    const Matrix m{format(name), 24, kWidth};
    EXPECT_LT(m.output_error(m.with_feedback(factor), x), .5 * m.output_error(m.nearest(), x))
        << name;
  }
}

TEST(ErrorFeedback, ARowDependsOnItselfAlone) {
  constexpr std::int64_t kWidth = 192;
  const InputFactor factor(moments_of(inputs(100, kWidth, 3), kWidth));
  const Matrix all{format("INT4_64"), 37, kWidth};
  const std::vector<std::byte> want = all.with_feedback(factor);
  EXPECT_EQ(all.with_feedback(factor, two_threads()), want);
  Matrix last{format("INT4_64"), 1, kWidth};
  last.values.assign(all.values.end() - kWidth, all.values.end());
  const std::vector<std::byte> got = last.with_feedback(factor);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.end() - std::ssize(got)));
}

TEST(InputFactor, DoesNotDependOnThreads) {
  const SymmetricSums h = moments_of(inputs(400, 300, 4), 300);
  const InputFactor one(h), two(h, two_threads());
  for (std::int64_t i = 0; i < 300; ++i)
    EXPECT_TRUE(std::ranges::equal(one.row(i), two.row(i))) << i;
}

// Inputs that are always 0, fewer inputs than columns, and a single one.
TEST(ErrorFeedback, PoorMomentsGiveFiniteBlocks) {
  constexpr std::int64_t kWidth = 64;
  Values x = inputs(5, kWidth, 5);
  for (std::size_t i = 0; i < x.size(); i += kWidth)
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(i), 20, 0.f);
  const Matrix m{format("INT4_32"), 8, kWidth};
  for (const Values& some : {x, Values(x.begin(), x.begin() + kWidth), Values(kWidth)}) {
    const InputFactor factor(moments_of(some, kWidth));
    const double error = m.output_error(m.with_feedback(factor), x);
    EXPECT_TRUE(std::isfinite(error));
    EXPECT_LT(error, 4 * m.output_error(m.nearest(), x));
  }
}

TEST(ErrorFeedback, ValuesThatAreNotFiniteAreRefused) {
  const InputFactor factor(moments_of(inputs(10, 32, 6), 32));
  Matrix m{format("INT4_32"), 3, 32};
  m.values[70] = NAN;
  EXPECT_ERROR_SAYS(m.with_feedback(factor), ExitCode::checkpoint,
                    "'w' has values in row 2 that are not finite");
}

TEST(RoundingError, IsRelativeAndWeightedByTheInputs) {
  const Matrix m{format("INT4_32"), 20, 64};
  const auto error = [&](std::span<const float> importance, const Workers& workers = {}) {
    return rounding_error(m.rows_to_encode(), "test", source_of(m.values), importance, workers);
  };
  const double plain = error({});
  EXPECT_GT(plain, 1e-3);
  EXPECT_LT(plain, 1e-2);  // 4 bits: about 8 % of each value
  EXPECT_EQ(error({}, two_threads()), plain);
  EXPECT_NEAR(error(Values(64, 3.f)), plain, 1e-9);
  EXPECT_NE(error([&] {
              Values v(64);
              v[5] = 1;
              return v;
            }()),
            plain);
  const Matrix zeros{format("INT4_32"), 2, 32, Values(64)};
  EXPECT_EQ(rounding_error(zeros.rows_to_encode(), "test", source_of(zeros.values), {}, {}), 0);
}

std::vector<int> matrices_of(const decoder::Model& model) {
  std::vector<int> out;
  for (int i = 0; const decoder::Parameter& p : model.parameters().all()) {
    if (p.desc.role == registry::Role::weight) out.push_back(i);
    ++i;
  }
  return out;
}

TEST(CollectMoments, LayersDoNotReadTheHeadAndPredictionLayers) {
  const decoder::Model model =
      lamina::testing::open_model(LAMINA_SOURCE_DIR "/tests/golden/hf/qwen3_next_mtp");
  const std::vector<bool> read = model::read_by_layers(model);
  ASSERT_GT(model.mtp_depth(), 0);
  for (std::size_t i = 0; const decoder::Parameter& p : model.parameters().all()) {
    const bool is_in_layers = p.layer >= 0 && p.layer < model.config().num_layers();
    if (is_in_layers || p.desc.role != registry::Role::norm) {
      EXPECT_EQ(read[i], is_in_layers) << p.name;
    }
    ++i;
  }
}

TEST(CollectMoments, SeveralPassesFindTheSumsOfOne) {
  const decoder::Model model = lamina::testing::open_description(
      "family = \"llama2\"\n[model]\nvocab_size = 64\nhidden_size = 32\nintermediate_size = 48\n"
      "num_hidden_layers = 2\nnum_attention_heads = 2\nmax_position_embeddings = 64\n");
  const auto plain = Weights::initialise(model, 5, DType::f32, cpu::cpu_backend());
  model::CalibrationText text{.tokens_per_row = 16};
  for (int i = 0; i < 48; ++i) text.ids.push_back(i * 7 % 64);
  std::vector<int> wanted = matrices_of(model);
  model::CalibrationOptions options{.dtype = DType::f32};
  const model::CollectedMoments whole =
      model::collect_moments(model, plain.pointers(), text, wanted, options, cpu::cpu_backend());
  EXPECT_TRUE(whole.is_complete);
  // Queries, keys and values have one input, as have the gate and the other half of it.
  ASSERT_EQ(whole.inputs.size(), 8);
  options.most_bytes = 1;
  for (std::size_t pass = 0; pass < 8; ++pass) {
    const model::CollectedMoments some =
        model::collect_moments(model, plain.pointers(), text, wanted, options, cpu::cpu_backend());
    ASSERT_EQ(some.inputs.size(), 1);
    EXPECT_EQ(some.is_complete, pass == 7);
    const model::InputMoments& got = some.inputs.front();
    EXPECT_EQ(got.num_inputs, 48);
    const auto same = std::ranges::find_if(whole.inputs, [&](const model::InputMoments& m) {
      return m.readers.front().parameter == got.readers.front().parameter;
    });
    ASSERT_NE(same, whole.inputs.end());
    EXPECT_TRUE(std::ranges::equal(got.sums.values(), same->sums.values()));
    for (const auto& reader : got.readers) std::erase(wanted, reader.parameter);
  }
  EXPECT_TRUE(wanted.empty());
}

}  // namespace
}  // namespace lamina::weights
