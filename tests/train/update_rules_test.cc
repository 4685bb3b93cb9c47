// Every update rule, compared with its equations in f64: docs/optimizers.md.
#include "train/optimizer/update_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <random>

#include "backends/cpu/backend.h"
#include "config/run_config.h"
#include "core/float16.h"
#include "support/expect_error.h"
#include "support/tensors.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/update_kinds.h"

namespace lamina::testing {
namespace {

using config::OptimizerSection;
using Vector = std::vector<double>;

constexpr double kUpdateRate = 0.02;
constexpr int kUpdates = 5;

Vector random_vector(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  Vector out(n);
  // Rounded to f32, so that both start with equal values.
  for (double& x : out) x = static_cast<double>(static_cast<float>(normal(engine)));
  return out;
}

// One parameter, updated by lamina's optimizer.
class One {
 public:
  One(const Shape& shape, const OptimizerSection& config,
      registry::Role role = registry::Role::weight, DType compute = DType::f32,
      std::vector<std::int64_t> split_rows = {}, double multiplier = 1)
      : config_(config) {
    decoder::Parameter p;
    p.name = "p";
    p.desc.shape = shape;
    p.desc.role = role;
    p.desc.decay = true;
    p.learning.split_rows = std::move(split_rows);
    p.learning.multiplier = multiplier;
    table_.add(p);
    state_.emplace(table_, compute, false, cpu::cpu_backend(), train::GradientLists{}, config_);
    optimizer_.emplace(table_, config_, cpu::cpu_backend());
  }

  void set(const Vector& values) { std::ranges::copy(values, floats(state_->masters()[0])); }
  void step(const Vector& gradient, std::int64_t step) {
    std::ranges::copy(gradient, floats(state_->gradients()[0]));
    optimizer_->update(*state_, kUpdateRate, 1, step);
  }
  Vector values() const {
    const float* p = floats(state_->masters()[0]);
    return {p, p + table_[0].num_elements()};
  }
  double gradient_norm() { return optimizer_->gradient_norm(*state_); }
  const train::TrainState& state() const { return *state_; }

 private:
  decoder::ParameterTable table_;
  OptimizerSection config_;
  std::optional<train::TrainState> state_;
  std::optional<train::Optimizer> optimizer_;
};

// p, g, step from 1; keeps its state.
using Reference = std::function<void(Vector&, const Vector&, int)>;

void expect_as(const Reference& reference, const Shape& shape, const OptimizerSection& config,
               double tolerance) {
  const auto n = static_cast<std::size_t>(shape.num_elements());
  Vector want = random_vector(n, 1);
  One one(shape, config);
  one.set(want);
  for (int s = 0; s < kUpdates; ++s) {
    const Vector g = random_vector(n, static_cast<unsigned>(s) + 2);
    reference(want, g, s + 1);
    one.step(g, s);
    const Vector got = one.values();
    for (std::size_t i = 0; i < n; ++i)
      ASSERT_NEAR(got[i], want[i], tolerance) << "step " << s << ", element " << i;
  }
}

double bf16(double x) { return static_cast<double>(to_float(to_bfloat16(static_cast<float>(x)))); }
double as_it_is(double x) { return x; }

Reference adamw(const OptimizerSection& c, double (*kept)(double) = as_it_is) {
  return [=, m = Vector(), v = Vector()](Vector& p, const Vector& g, int t) mutable {
    m.resize(p.size()), v.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double mi = c.beta1 * m[i] + (1 - c.beta1) * g[i],
                   vi = c.beta2 * v[i] + (1 - c.beta2) * g[i] * g[i];
      p[i] -= kUpdateRate * c.weight_decay * p[i];
      p[i] -= kUpdateRate * mi / (1 - std::pow(c.beta1, t)) /
              (std::sqrt(vi / (1 - std::pow(c.beta2, t)) + c.eps_root) + c.eps);
      m[i] = kept(mi), v[i] = kept(vi);
    }
  };
}

// A CPU updates large tensors in small pieces, which share no values: blocks of 8 bits are whole.
TEST(UpdateRules, PiecesHaveTheBitsOfSeparateTensors) {
  constexpr std::int64_t kPiece = train::kMaxHostPiece, kAll = 2 * kPiece + 300;
  const OptimizerSection c{.moments = "8bit"};
  One whole({kAll}, c);
  const Vector start = random_vector(kAll, 1);
  whole.set(start);
  std::vector<Vector> gradients;
  for (unsigned s = 0; s < 2; ++s) gradients.push_back(random_vector(kAll, s + 2));
  for (int s = 0; s < 2; ++s) whole.step(gradients[static_cast<std::size_t>(s)], s);
  const Vector got = whole.values();
  for (std::int64_t first = 0; first < kAll; first += kPiece) {
    const std::int64_t n = std::min(kPiece, kAll - first);
    const auto part = [&](const Vector& of) {
      return Vector(of.begin() + first, of.begin() + first + n);
    };
    One alone({n}, c);
    alone.set(part(start));
    for (int s = 0; s < 2; ++s) alone.step(part(gradients[static_cast<std::size_t>(s)]), s);
    EXPECT_EQ(alone.values(), part(got)) << first;
  }
}

TEST(UpdateRules, TemporariesOnACpuAreSmall) {
  const OptimizerSection c{.moments = "8bit"};
  decoder::ParameterTable table;
  for (const char* name : {"a", "b", "c"}) {
    decoder::Parameter p;
    p.name = name;
    p.desc.shape = {1024, 1024};
    table.add(p);
  }
  train::Optimizer optimizer(table, c, cpu::cpu_backend());
  constexpr std::size_t kBytesOfElement = 16;  // of the temporaries of its update
  EXPECT_LE(optimizer.scratch_bytes({}, DType::f32), train::kMaxHostPiece * kBytesOfElement);
}

TEST(UpdateRules, AdamWWithEpsilonBelowTheRoot) {
  const OptimizerSection c{.eps = 1e-3, .eps_root = 1e-2};
  expect_as(adamw(c), {7, 9}, c, 1e-6);
}

TEST(UpdateRules, AdamWWithMomentsInBfloat16) {
  const OptimizerSection c{.moments = "bfloat16"};
  // A moment between two values may be rounded either way.
  expect_as(adamw(c, bf16), {7, 9}, c, kUpdateRate * 1e-2);
}

TEST(UpdateRules, SgdWithAndWithoutMomentum) {
  for (double momentum : {0.0, 0.9}) {
    const OptimizerSection c{.name = "sgd", .momentum = momentum};
    const Reference sgd = [=, m = Vector()](Vector& p, const Vector& g, int) mutable {
      m.resize(p.size());
      for (std::size_t i = 0; i < p.size(); ++i) {
        m[i] = momentum * m[i] + g[i];
        p[i] -= kUpdateRate * (c.weight_decay * p[i] + m[i]);
      }
    };
    expect_as(sgd, {33}, c, 1e-6);
    EXPECT_EQ(One({33}, c).state().optimizer_states().size(), momentum > 0 ? 1u : 0u);
  }
}

TEST(UpdateRules, LionMatchesTheReference) {
  const OptimizerSection c{.name = "lion", .beta1 = 0.9, .beta2 = 0.99};
  const Reference lion = [=, m = Vector()](Vector& p, const Vector& g, int) mutable {
    m.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double u = c.beta1 * m[i] + (1 - c.beta1) * g[i];
      p[i] -= kUpdateRate * (c.weight_decay * p[i] + (u > 0) - (u < 0));
      m[i] = c.beta2 * m[i] + (1 - c.beta2) * g[i];
    }
  };
  expect_as(lion, {5, 4}, c, 1e-6);
}

// Adafactor of matrices with separate factors; the clip applies to all together.
Reference adafactor(const Shape& shape, const OptimizerSection& c) {
  const auto batch = static_cast<std::size_t>(shape[0]),
             height = static_cast<std::size_t>(shape[1]),
             width = static_cast<std::size_t>(shape[2]);
  return [=, r = Vector(batch * height), col = Vector(batch * width)](Vector& p, const Vector& g,
                                                                      int t) mutable {
    const double keep = 1 - std::pow(t, -0.8);
    Vector u(p.size());
    double squares = 0;
    for (std::size_t b = 0; b < batch; ++b) {
      Vector rows(height), columns(width);
      for (std::size_t i = 0; i < height; ++i)
        for (std::size_t j = 0; j < width; ++j) {
          const double x = g[(b * height + i) * width + j], square = x * x + 1e-30;
          rows[i] += square / static_cast<double>(width);
          columns[j] += square / static_cast<double>(height);
        }
      double mean = 0;
      for (std::size_t i = 0; i < height; ++i) {
        double& kept = r[b * height + i];
        kept = keep * kept + (1 - keep) * rows[i];
        mean += kept / static_cast<double>(height);
      }
      for (std::size_t j = 0; j < width; ++j) {
        double& kept = col[b * width + j];
        kept = keep * kept + (1 - keep) * columns[j];
      }
      for (std::size_t i = 0; i < height; ++i)
        for (std::size_t j = 0; j < width; ++j) {
          const std::size_t at = (b * height + i) * width + j;
          u[at] = g[at] / std::sqrt(r[b * height + i] / mean * col[b * width + j]);
          squares += u[at] * u[at];
        }
    }
    const double rms = std::sqrt(squares / static_cast<double>(p.size()));
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] -= kUpdateRate * (c.weight_decay * p[i] + u[i] / std::max(1.0, rms));
  };
}

TEST(UpdateRules, AdafactorOfMatrices) {
  const OptimizerSection c{.name = "adafactor"};
  // Matrices of one row have a second moment for each element.
  for (const Shape& shape : {Shape{2, 4, 6}, Shape{2, 1, 6}, Shape{2, 4, 1}, Shape{1, 1, 1}}) {
    SCOPED_TRACE(to_string(shape));
    expect_as(adafactor(shape, c), shape, c, 1e-6);
  }
}

TEST(UpdateRules, AdafactorOfVectors) {
  const OptimizerSection c{.name = "adafactor"};
  const Reference adafactor = [=, v = Vector()](Vector& p, const Vector& g, int t) mutable {
    v.resize(p.size());
    const double keep = 1 - std::pow(t, -0.8);
    Vector u(p.size());
    double squares = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      v[i] = keep * v[i] + (1 - keep) * (g[i] * g[i] + 1e-30);
      u[i] = g[i] / std::sqrt(v[i]);
      squares += u[i] * u[i];
    }
    const double rms = std::sqrt(squares / static_cast<double>(p.size()));
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] -= kUpdateRate * (c.weight_decay * p[i] + u[i] / std::max(1.0, rms));
  };
  expect_as(adafactor, {13}, c, 1e-6);
}

// The change of a matrix is nearly orthogonal: its singular values are near 1.
TEST(UpdateRules, MuonMovesMatricesByNearlyOrthogonalOnes) {
  for (const Shape& shape : {Shape{3, 40}, Shape{40, 3}}) {
    const OptimizerSection c{
        .name = "muon", .weight_decay = 0, .consistent_rms = 1 / std::sqrt(40.0)};
    One one(shape, c);
    one.step(random_vector(120, 3), 0);
    const Vector p = one.values();
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t b = 0; b < 3; ++b) {
        double dot = 0;
        for (std::size_t k = 0; k < 40; ++k)
          dot += shape[0] == 3 ? p[a * 40 + k] * p[b * 40 + k] : p[k * 3 + a] * p[k * 3 + b];
        EXPECT_NEAR(dot / kUpdateRate / kUpdateRate, a == b ? 1 : 0, 0.6);
      }
  }
}

// Singular values of an update with DeepSeek V4's steps, and with the usual five.
TEST(UpdateRules, StableStepsOfMuonBringSingularValuesToOne) {
  const OptimizerSection five{.name = "muon", .weight_decay = 0},
      ten{.name = "muon",
          .weight_decay = 0,
          .newton_schulz_steps = 8,
          .newton_schulz_stable_steps = 2};
  const auto distance = [](const OptimizerSection& c) {
    One one({3, 40}, c);
    one.step(random_vector(120, 3), 0);
    const Vector p = one.values();
    double worst = 0;
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t b = 0; b < 3; ++b) {
        double dot = 0;
        for (std::size_t k = 0; k < 40; ++k) dot += p[a * 40 + k] * p[b * 40 + k];
        worst = std::max(worst, std::abs(dot / kUpdateRate / kUpdateRate - (a == b)));
      }
    return worst;
  };
  EXPECT_LT(distance(ten), 0.02);
  EXPECT_GT(distance(five), 0.1);
}

// A matrix of one row has one singular value, so the polynomials can be computed by hand.
TEST(UpdateRules, NewtonSchulzStepsHaveTheirCoefficients) {
  for (const auto& [quick, stable] : {std::pair{1, 0}, {3, 0}, {5, 0}, {2, 1}, {8, 2}}) {
    const OptimizerSection c{.name = "muon",
                             .weight_decay = 0,
                             .newton_schulz_steps = quick,
                             .newton_schulz_stable_steps = stable};
    One one({1, 2}, c);
    one.step({3, 4}, 0);
    double sigma = 1;
    for (int i = 0; i < quick + stable; ++i) {
      const double cubed = std::pow(sigma, 3), fifth = std::pow(sigma, 5);
      sigma = i < quick ? 3.4445 * sigma - 4.775 * cubed + 2.0315 * fifth
                        : 2 * sigma - 1.5 * cubed + 0.5 * fifth;
    }
    EXPECT_NEAR(one.values()[0], -kUpdateRate * sigma * 0.6, 1e-7) << quick << ' ' << stable;
    EXPECT_NEAR(one.values()[1], -kUpdateRate * sigma * 0.8, 1e-7) << quick << ' ' << stable;
  }
}

// Training p = m w with the multiplier m equals training w.
TEST(UpdateRules, MultiplierTrainsTheDividedParameter) {
  constexpr double kMultiplier = 11.5;
  const Shape shape{4, 6};
  for (const OptimizerSection& c :
       {OptimizerSection{.eps = 0.3}, OptimizerSection{.eps = 0.3, .eps_root = 0.2},
        OptimizerSection{.name = "muon", .eps = 0.3},
        OptimizerSection{.name = "sgd", .momentum = 0.9}, OptimizerSection{.name = "lion"},
        OptimizerSection{.name = "adafactor"}, OptimizerSection{.eps = 0.3, .moments = "8bit"}}) {
    SCOPED_TRACE(c.name);
    One p(shape, c, registry::Role::weight, DType::f32, {}, kMultiplier), w(shape, c);
    Vector start = random_vector(24, 1);
    w.set(start);
    for (double& x : start) x *= kMultiplier;
    p.set(start);
    for (int s = 0; s < kUpdates; ++s) {
      Vector g = random_vector(24, static_cast<unsigned>(s) + 2);
      w.step(g, s);
      const double norm = w.gradient_norm();
      for (double& x : g) x /= kMultiplier;
      p.step(g, s);
      EXPECT_NEAR(p.gradient_norm(), norm, 1e-5 * norm);
    }
    const Vector got = p.values(), want = w.values();
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], kMultiplier * want[i], 2e-5) << i;
  }
}

TEST(UpdateRules, MuonTakesSplitRowsAsSeparateMatrices) {
  const OptimizerSection c{.name = "muon"};
  One joint({5, 4}, c, registry::Role::weight, DType::f32, {2, 3}), whole({5, 4}, c),
      upper({2, 4}, c), lower({3, 4}, c);
  const Vector g = random_vector(20, 4);
  joint.step(g, 0), whole.step(g, 0);
  upper.step({g.begin(), g.begin() + 8}, 0), lower.step({g.begin() + 8, g.end()}, 0);
  Vector want = upper.values();
  std::ranges::copy(lower.values(), std::back_inserter(want));
  const Vector got = joint.values(), other = whole.values();
  double apart = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-6);
    apart = std::max(apart, std::abs(other[i] - got[i]));
  }
  EXPECT_GT(apart, 1e-3);
}

TEST(UpdateRules, MuonIsForMatricesAndLeavesTheRestToAdamW) {
  const OptimizerSection c{.name = "muon"};
  decoder::Parameter p;
  p.desc.shape = {4, 4};
  EXPECT_EQ(train::rule_of(p, c), train::UpdateRule::muon);
  p.desc.role = registry::Role::embedding;
  EXPECT_EQ(train::rule_of(p, c), train::UpdateRule::adamw);
  p.desc.role = registry::Role::weight;
  p.desc.shape = {4};
  EXPECT_EQ(train::rule_of(p, c), train::UpdateRule::adamw);
}

// 8-bit moments give nearly the same result as f32 moments, in a quarter of the memory. The last
// block is short.
TEST(UpdateRules, MomentsIn8BitsLeadNearlyWhereThoseInFloat32Do) {
  constexpr std::int64_t kElements = 3 * train::kBlock + 100;
  for (const char* name : {"adamw", "sgd"}) {
    OptimizerSection whole{.name = name, .weight_decay = 0}, coded = whole;
    if (std::string(name) == "sgd") whole.momentum = coded.momentum = 0.9;
    coded.moments = "8bit";
    One a({kElements}, whole), b({kElements}, coded);
    double moved = 0, apart = 0;
    for (int s = 0; s < 20; ++s) {
      const Vector g = random_vector(kElements, static_cast<unsigned>(s));
      a.step(g, s), b.step(g, s);
    }
    const Vector x = a.values(), y = b.values();
    for (std::size_t i = 0; i < x.size(); ++i)
      moved += x[i] * x[i], apart += (x[i] - y[i]) * (x[i] - y[i]);
    EXPECT_LT(std::sqrt(apart / moved), 0.03) << name;
    EXPECT_GT(apart, 0) << name;
    std::int64_t bytes = 0;
    for (const train::OptimizerState& state : b.state().optimizer_states())
      bytes += state.types[0]->bytes();
    const std::int64_t moments = std::string(name) == "sgd" ? 1 : 2;
    EXPECT_EQ(bytes, moments * (kElements + 4 * 4)) << name;
  }
}

// The moment of Lion decays to nothing with beta2 = 0, and was read back from the decayed one. The
// gradients have one magnitude, whose code is exact.
TEST(UpdateRules, LionIn8BitsReadsTheMomentBeforeItDecays) {
  for (const double beta2 : {0.0, 1e-9, 0.5}) {
    OptimizerSection whole{.name = "lion", .beta1 = 0.9, .beta2 = beta2, .weight_decay = 0},
        coded = whole;
    coded.moments = "8bit";
    One a({train::kBlock}, whole), b({train::kBlock}, coded);
    Vector first = random_vector(train::kBlock, 1), second = first;
    for (std::size_t i = 0; i < first.size(); ++i) {
      first[i] = first[i] < 0 ? -1 : 1;
      second[i] = -first[i];
    }
    a.step(first, 0), b.step(first, 0);
    a.step(second, 1), b.step(second, 1);
    EXPECT_EQ(a.values(), b.values()) << beta2;
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_NEAR(b.values()[i], -2 * kUpdateRate * first[i], 1e-6) << beta2;
  }
}

// Gradients that are zero, or of very different sizes in one block, leave no NaN and no division by
// a moment that was rounded to zero.
TEST(UpdateRules, MomentsIn8BitsSurviveZerosAndWideRanges) {
  One one({train::kBlock}, {.weight_decay = 0, .moments = "8bit"});
  Vector g(train::kBlock);
  one.step(g, 0);
  for (double p : one.values()) EXPECT_EQ(p, 0);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = std::pow(10.0, -static_cast<double>(i % 30));
  for (int s = 1; s < 5; ++s) one.step(g, s);
  for (double p : one.values()) {
    EXPECT_TRUE(std::isfinite(p));
    EXPECT_LE(std::abs(p), 5 * kUpdateRate * 4);
  }
}

// A tensor that is updated in pieces gets the same values as a small one.
TEST(UpdateRules, LargeTensorsAreUpdatedInPieces) {
  constexpr std::int64_t kElements = (std::int64_t{1} << 22) + 300, kPeriod = 7;
  for (const char* moments : {"bfloat16", "8bit"}) {
    const OptimizerSection c{.moments = moments};
    One large({kElements}, c, registry::Role::weight, DType::bf16), small({kPeriod}, c);
    Vector g(kElements), pattern(kPeriod);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = 0.25 * static_cast<double>(i % kPeriod) - 0.5;
    std::copy_n(g.begin(), kPeriod, pattern.begin());
    for (int s = 0; s < 2; ++s) large.step(g, s), small.step(pattern, s);
    const Vector want = small.values();
    const float* got = floats(large.state().masters()[0]);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < kElements; ++i)
      wrong += static_cast<double>(got[i]) != want[static_cast<std::size_t>(i % kPeriod)];
    EXPECT_EQ(wrong, 0) << moments;
  }
}

TEST(UpdateRules, KeysThatTheRuleDoesNotReadAreRefused) {
  const auto load = [](const std::string& keys) {
    return config::parse_run("family = \"any\"\n[data]\ntrain = [\"any\"]\n[optimizer]\n" + keys,
                             "run.toml");
  };
  EXPECT_EQ(load("name = \"muon\"").optimizer.used_momentum(), 0.95);
  EXPECT_EQ(load("name = \"sgd\"").optimizer.used_momentum(), 0);
  EXPECT_USER_ERROR(load("momentum = 0.9"), 2,
                    "run.toml:5: 'optimizer.momentum' requires optimizer.name = \"muon\" or "
                    "\"sgd\", got \"adamw\"\n"
                    "  set optimizer.name = \"muon\" or \"sgd\", or remove it");
  EXPECT_USER_ERROR(load("name = \"sgd\"\nbeta1 = 0.5"), 2,
                    "run.toml:6: 'optimizer.beta1' requires optimizer.name = \"adamw\", \"muon\" "
                    "or \"lion\", got \"sgd\"\n"
                    "  set optimizer.name = \"adamw\", \"muon\" or \"lion\", or remove it");
  EXPECT_ERROR_SAYS(load("newton_schulz_steps = 8"), 2,
                    "'optimizer.newton_schulz_steps' requires optimizer.name = \"muon\", got "
                    "\"adamw\"\n"
                    "  set optimizer.name = \"muon\", or remove it");
  EXPECT_ERROR_SAYS(load("name = \"sgd\"\nnewton_schulz_stable_steps = 2"), 2,
                    "'optimizer.newton_schulz_stable_steps' requires optimizer.name = \"muon\"");
  const std::string split = "groups = [{match = \"*\", split_rows = [2, 2]}]";
  EXPECT_EQ(load("name = \"muon\"\n" + split).optimizer.groups.size(), 1u);
  EXPECT_USER_ERROR(load(split), 2,
                    "run.toml:5: 'split_rows' of a group requires optimizer.name = \"muon\", got "
                    "\"adamw\"\n"
                    "  remove it");
  // The default is a value that is given, too.
  EXPECT_ERROR_SAYS(load("name = \"sgd\"\nbeta1 = 0.9"), 2, "'optimizer.beta1' requires");
  EXPECT_USER_ERROR(load("name = \"muon\"\nmoments = \"8bit\""), 2,
                    "run.toml:6: 'optimizer.moments' = \"8bit\" requires adamw, sgd or lion, got "
                    "muon\n"
                    "  use \"bfloat16\"");
}

TEST(UpdateRules, InBackwardIsRefusedIfAllGradientsAreNeeded) {
  const auto load = [](const std::string& train) {
    return config::parse_run(
        "family = \"any\"\n[data]\ntrain = [\"any\"]\n[optimizer]\nin_backward = true\n[train]\n" +
            train,
        "run.toml");
  };
  const std::string where =
      "run.toml:5: 'optimizer.in_backward' updates a layer before the gradients of other layers "
      "exist, but ";
  EXPECT_TRUE(load("clip_norm = 0").optimizer.in_backward);
  EXPECT_TRUE(load("clip_each = true").optimizer.in_backward);
  EXPECT_USER_ERROR(load("clip_norm = 0.5"), 2,
                    where +
                        "'train.clip_norm' needs the norm of all gradients\n"
                        "  use train.clip_norm = 0, or train.clip_each = true, or remove "
                        "optimizer.in_backward");
  EXPECT_USER_ERROR(load("clip_norm = 0\nbatch_size = 4\nmicrobatch_size = 2"), 2,
                    where +
                        "gradients of several microbatches are accumulated first\n"
                        "  use train.microbatch_size = 4, or remove optimizer.in_backward");
  EXPECT_USER_ERROR(load("clip_norm = 0\nskip_spikes = 3"), 2,
                    where +
                        "'train.skip_spikes' needs the norm of all gradients\n"
                        "  use train.skip_spikes = 0, or remove optimizer.in_backward");
}

}  // namespace
}  // namespace lamina::testing
