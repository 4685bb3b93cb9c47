// Families with a wrong kernel of a custom op and a right lowering.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "wrong_family.h"

namespace lamina::conformance {
namespace {

using namespace lamina::sdk;
using sdk::Tensor;

// x / (1 + |x|).
std::vector<Tensor> lower(const OpUse& use) {
  Tensor x = use.in(0);
  return {x / (abs(x) + 1.0)};
}

template <class Function>
void each_row(const KernelCall& call, const Function& function) {
  const sdk::Buffer x = call.in(0);
  call.parallel_for(x.num_rows(), [&](std::int64_t row) {
    std::vector<float> v(static_cast<std::size_t>(x.width()));
    x.load(row, v.data());
    function(row, v);
  });
}
void forward(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e = e / (1 + std::abs(e));
    call.out(0).store(row, v.data());
  });
}
void backward(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    std::vector<float> d(v.size());
    call.d_out(0).load(row, d.data());
    for (std::size_t i = 0; i < v.size(); ++i) d[i] /= (1 + std::abs(v[i])) * (1 + std::abs(v[i]));
    call.d_in(0).store(row, d.data());
  });
}

// Too large by a hundredth, everywhere.
void forward_too_large(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e = 1.05f * e / (1 + std::abs(e));
    call.out(0).store(row, v.data());
  });
}
// Leaves out the square.
void backward_without_square(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    std::vector<float> d(v.size());
    call.d_out(0).load(row, d.data());
    for (std::size_t i = 0; i < v.size(); ++i) d[i] /= 1 + std::abs(v[i]);
    call.d_in(0).store(row, d.data());
  });
}
// Depends on the number of threads, which no result may do.
void forward_by_threads(const KernelCall& call) {
  float threads = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    threads += entry.is_directory() ? 1.0f : 0.0f;
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e = e / (1 + std::abs(e)) * (1 + 1e-6f * threads);
    call.out(0).store(row, v.data());
  });
}
// Right for the first rows only.
void forward_of_few_rows(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e = (row < 256 ? 1.0f : 1.05f) * e / (1 + std::abs(e));
    call.out(0).store(row, v.data());
  });
}
void forward_past_the_end(const KernelCall& call) {
  forward(call);
  const sdk::Buffer y = call.out(0);
  static_cast<char*>(y.data<void>())[y.num_rows() * y.width() * (y.dtype() == 1 ? 4 : 2)] = 0;
}
// Does not write the last element.
void forward_all_but_the_last(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e = e / (1 + std::abs(e));
    const bool last = row + 1 == call.in(0).num_rows();
    call.out(0).store(row, 0, call.in(0).width() - (last ? 1 : 0), v.data());
  });
}
// Replaces NaN by 0.
void forward_that_hides_nan(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e = std::isnan(e) ? 0.0f : e / (1 + std::abs(e));
    call.out(0).store(row, v.data());
  });
}
void forward_that_gives_up(const KernelCall&) {
  throw sdk::Error(LAMINA_ERROR_SHAPE, "rows of this width are beyond it");
}

// Right for 32768 rows, the most that a counter of 16 bits has.
void forward_of_short_counter(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e = (row < 32768 ? 1.0f : 1.05f) * e / (1 + std::abs(e));
    call.out(0).store(row, v.data());
  });
}
// Works in vectors of eight numbers and leaves out the rest.
void forward_of_whole_vectors(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (std::size_t i = 0; i < v.size() / 8 * 8; ++i) v[i] = v[i] / (1 + std::abs(v[i]));
    call.out(0).store(row, v.data());
  });
}

// Has room for `most` numbers of a row and leaves out the rest.
template <std::size_t most>
void forward_of_narrow_rows(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (std::size_t i = 0; i < std::min(v.size(), most); ++i) v[i] = v[i] / (1 + std::abs(v[i]));
    call.out(0).store(row, v.data());
  });
}

constexpr CustomOp op_with(void (*run)(const KernelCall&), void (*run_back)(const KernelCall&)) {
  return {.name = "subject.squash",
          .doc = "x / (1 + |x|)",
          .lower = lower,
          .forward = {.run = run},
          .backward = {.run = run_back}};
}

// min(x, 8), which no small model reaches.
std::vector<Tensor> lower_cap(const OpUse& use) {
  Tensor x = use.in(0);
  return {x - lamina::sdk::relu(x - 8.0)};
}
void forward_cap(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e = std::isnan(e) ? e : std::min(e, 8.0f);
    call.out(0).store(row, v.data());
  });
}
void forward_without_cap(const KernelCall& call) {
  each_row(call,
           [&](std::int64_t row, std::vector<float>& v) { call.out(0).store(row, v.data()); });
}
// NaN in v reaches a result as in the lowering.
void backward_cap(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    std::vector<float> d(v.size());
    call.d_out(0).load(row, d.data());
    for (std::size_t i = 0; i < v.size(); ++i)
      d[i] *= v[i] > 8 ? 0.0f : std::isnan(v[i]) ? v[i] : 1;
    call.d_in(0).store(row, d.data());
  });
}
void backward_without_cap(const KernelCall& call) {
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    std::vector<float> d(v.size());
    call.d_out(0).load(row, d.data());
    for (std::size_t i = 0; i < v.size(); ++i) d[i] *= std::isnan(v[i]) ? v[i] : 1;
    call.d_in(0).store(row, d.data());
  });
}

// x / (at + |x|).
std::vector<Tensor> lower_at(const OpUse& use) {
  Tensor x = use.in(0);
  return {x / (abs(x) + use.attrs.number("at"))};
}
void forward_at(const KernelCall& call) {
  const auto at = static_cast<float>(call.attrs.number("at"));
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e = e / (at + std::abs(e));
    call.out(0).store(row, v.data());
  });
}

// x times the number g[1].
std::vector<Tensor> lower_gain(const OpUse& use) {
  return {cast_like(widen(use.in(0)) * widen(use.in(1)), use.in(0))};
}
void forward_gain(const KernelCall& call) {
  float g = 0;
  call.in(1).load(0, &g);
  each_row(call, [&](std::int64_t row, std::vector<float>& v) {
    for (float& e : v) e *= g;
    call.out(0).store(row, v.data());
  });
}
// `rows`: those that the gradient of g sums.
void gain_gradients(const KernelCall& call, std::int64_t rows) {
  float g = 0;
  call.in(1).load(0, &g);
  double sum = 0;
  const sdk::Buffer x = call.in(0);
  std::vector<float> v(static_cast<std::size_t>(x.width())), d(v.size());
  for (std::int64_t row = 0; row < x.num_rows(); ++row) {
    x.load(row, v.data());
    call.d_out(0).load(row, d.data());
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (row < rows) sum += static_cast<double>(d[i]) * v[i];
      d[i] *= g;
    }
    call.d_in(0).store(row, d.data());
  }
  const auto total = static_cast<float>(sum);
  call.d_in(1).store(0, &total);
}
void backward_gain(const KernelCall& call) { gain_gradients(call, call.in(0).num_rows()); }
void backward_all_but_the_last_row(const KernelCall& call) {
  gain_gradients(call, std::max<std::int64_t>(call.in(0).num_rows() - 1, 1));
}
void backward_of_whole_blocks(const KernelCall& call) {
  const std::int64_t rows = call.in(0).num_rows();
  gain_gradients(call, rows < 600 ? rows : rows / 600 * 600);
}

// h_t = h_(t-1) / 2 + x_t.
std::vector<Tensor> lower_decay(const OpUse& use) {
  Tensor x = widen(use.in(0));
  return {cast_like(use.step().linear_scan(x - x + 0.5, x), use.in(0))};
}
struct DecayFaults {
  bool skips_padding = false;             // leaves the results of padding unwritten
  std::int64_t rows_kept = 1000;          // rows of the batch whose state is written
  std::int64_t tokens_per_run = 1 << 20;  // tokens after which the state begins again
};
void decay(const KernelCall& call, const DecayFaults& faults) {
  const sdk::Buffer x = call.in(0), y = call.out(0);
  const std::int64_t tokens = x.dim(1);
  std::vector<float> v(static_cast<std::size_t>(x.width())), h(v.size());
  for (std::int64_t b = 0; b < x.dim(0); ++b) {
    std::fill(h.begin(), h.end(), 0.0f);
    if (call.state_before()) call.state_before().load(b, h.data());
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t row = b * tokens + t;
      if (t >= call.count(b, tokens)) {
        if (!faults.skips_padding) y.store(row, v.data());
        continue;
      }
      if (call.begins(b, t) || (t > 0 && t % faults.tokens_per_run == 0))
        std::fill(h.begin(), h.end(), 0.0f);
      x.load(row, v.data());
      for (std::size_t i = 0; i < v.size(); ++i) h[i] = h[i] / 2 + v[i];
      y.store(row, h.data());
    }
    if (call.state_after() && b < faults.rows_kept) call.state_after().store(b, h.data());
  }
}
void forward_decay(const KernelCall& call) { decay(call, {}); }
void forward_decay_without_padding(const KernelCall& call) { decay(call, {.skips_padding = true}); }
void forward_decay_of_four_rows(const KernelCall& call) { decay(call, {.rows_kept = 4}); }
void forward_decay_of_short_rows(const KernelCall& call) { decay(call, {.tokens_per_run = 1000}); }

constexpr CustomOp cap_with(void (*run)(const KernelCall&), void (*run_back)(const KernelCall&)) {
  return {.name = "subject.cap",
          .doc = "min(x, 8)",
          .lower = lower_cap,
          .forward = {.run = run},
          .backward = {.run = run_back}};
}
constexpr CustomOp at_with(void (*run)(const KernelCall&)) {
  return {.name = "subject.at",
          .attrs = "at:f=1",
          .doc = "x / (at + |x|)",
          .lower = lower_at,
          .forward = {.run = run}};
}
constexpr CustomOp gain_with(void (*run_back)(const KernelCall&)) {
  return {.name = "subject.gain",
          .inputs = "x g",
          .doc = "x times the number g[1]",
          .lower = lower_gain,
          .forward = {.run = forward_gain},
          .backward = {.run = run_back}};
}
constexpr CustomOp decay_with(void (*run)(const KernelCall&)) {
  return {.name = "subject.decay",
          .doc = "h = h / 2 + x",
          .lower = lower_decay,
          .forward = {.run = run}};
}

// The right block, with its result passed through the op.
template <const CustomOp& op>
std::vector<Block<Config>> squashed() {
  return {{1, "layer", [](Scope s, const Config& c, Tensor x, const Step& step) -> Tensor {
             return x + op({right_block(s, c, x, step) - x});
           }}};
}

constexpr CustomOp kRight = op_with(forward, backward);
constexpr CustomOp kTooLarge = op_with(forward_too_large, backward);
constexpr CustomOp kWithoutSquare = op_with(forward, backward_without_square);
constexpr CustomOp kByThreads = op_with(forward_by_threads, backward);
constexpr CustomOp kFewRows = op_with(forward_of_few_rows, backward);
constexpr CustomOp kPastTheEnd = op_with(forward_past_the_end, backward);
constexpr CustomOp kAllButTheLast = op_with(forward_all_but_the_last, backward);
constexpr CustomOp kHidesNan = op_with(forward_that_hides_nan, backward);
constexpr CustomOp kGivesUp = op_with(forward_that_gives_up, backward);
constexpr CustomOp kShortCounter = op_with(forward_of_short_counter, backward);
constexpr CustomOp kWholeVectors = op_with(forward_of_whole_vectors, backward);
constexpr CustomOp kThousandColumns = op_with(forward_of_narrow_rows<1024>, backward);
constexpr CustomOp kShortColumns = op_with(forward_of_narrow_rows<32768>, backward);
constexpr CustomOp kCap = cap_with(forward_cap, backward_cap);
constexpr CustomOp kNoCap = cap_with(forward_without_cap, backward_cap);
constexpr CustomOp kNoCapBack = cap_with(forward_cap, backward_without_cap);
constexpr CustomOp kAt = at_with(forward_at);
constexpr CustomOp kAtOne = at_with(forward);
constexpr CustomOp kGain = gain_with(backward_gain);
constexpr CustomOp kAllButTheLastRow = gain_with(backward_all_but_the_last_row);
constexpr CustomOp kWholeBlocks = gain_with(backward_of_whole_blocks);
constexpr CustomOp kDecay = decay_with(forward_decay);
constexpr CustomOp kNoPadding = decay_with(forward_decay_without_padding);
constexpr CustomOp kFourRows = decay_with(forward_decay_of_four_rows);
constexpr CustomOp kShortRows = decay_with(forward_decay_of_short_rows);

// The right block, with its result passed through an op that has an attribute from a key.
template <const CustomOp& op>
std::vector<Block<Config>> squashed_at() {
  return {{1, "layer", [](Scope s, const Config& c, Tensor x, const Step& step) -> Tensor {
             return x + op({right_block(s, c, x, step) - x}, {{"at", c.noise}});
           }}};
}
void keys_with_at(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 64, .rope = {.theta = 100}});
  key("at", &Config::noise, {.fallback = 1.0, .above = 0, .doc = "Where half is reached."});
}

// The right block beside a layer of twice the width of the feed-forward, with the op inside.
template <const CustomOp& op>
std::vector<Block<Config>> squashed_between() {
  return {{1, "layer", [](Scope s, const Config& c, Tensor x, const Step& step) -> Tensor {
             Tensor h = op({linear(s / "up", x, 2 * c.intermediate_size)});
             return right_block(s, c, x, step) + linear(s / "down", h, c.hidden_size);
           }}};
}

// The right block, with its result multiplied by a parameter.
template <const CustomOp& op>
std::vector<Block<Config>> multiplied() {
  return {{1, "layer", [](Scope s, const Config& c, Tensor x, const Step& step) -> Tensor {
             Tensor g = s.param("op_gain", {1},
                                {.axes = {axis::none}, .role = Role::scalar, .init = init::ones});
             return x + op({right_block(s, c, x, step) - x, g});
           }}};
}

template <const CustomOp& op>
WrongFamily wrong(std::string_view fault, std::vector<std::string_view> caught_by,
                  std::vector<std::string_view> only = {}) {
  WrongFamily out{fault, std::move(caught_by), right_family(), Level::full};
  out.model.blocks = squashed<op>;
  out.op = &op;
  out.only = std::move(only);
  return out;
}

}  // namespace

std::vector<WrongFamily> right_kernels() {
  WrongFamily at = wrong<kAt>("an attribute from a key", {}, {"GRD-3"});
  at.model.blocks = squashed_at<kAt>;
  at.model.keys = keys_with_at;
  WrongFamily gain = wrong<kGain>("a parameter", {}, {"TRC-2", "GRD-3"});
  gain.model.blocks = multiplied<kGain>;
  gain.model.weights = nullptr;  // published under our names
  return {wrong<kRight>("a function of elements", {}), wrong<kCap>("a cap", {}, {"GRD-3"}),
          wrong<kDecay>("a recurrence", {}, {"GRD-3"}), std::move(at), std::move(gain)};
}

std::vector<WrongFamily> wrong_kernels() {
  std::vector<WrongFamily> out = {
      wrong<kTooLarge>("a kernel differs from its lowering", {"GRD-3"}),
      wrong<kWithoutSquare>("a backward kernel differs from the lowering's gradient", {"GRD-3"}),
      wrong<kByThreads>("a kernel depends on the number of threads", {"GRD-3", "NUM-2"},
                        {"GRD-3", "EQV-1", "NUM-2"}),
      wrong<kFewRows>("a kernel is wrong from its 256th row on", {"GRD-3"}),
      // In unguarded memory it would damage the data beside it.
      wrong<kPastTheEnd>("a kernel writes past its result", {"GRD-3"}, {"GRD-3"}),
      wrong<kAllButTheLast>("a kernel does not write an element of its result", {"GRD-3"},
                            {"GRD-3"}),
      wrong<kHidesNan>("a kernel returns a number for NaN", {"GRD-3"}),
      wrong<kGivesUp>("a kernel fails", {"GRD-3"}, {"GRD-3", "EQV-1"}),
      wrong<kShortCounter>("a kernel is wrong from its 32768th row on", {"GRD-3"}, {"GRD-3"}),
      wrong<kNoCap>("a kernel ignores a cap that no model reaches", {"GRD-3"}, {"GRD-3"}),
      wrong<kNoCapBack>("a backward kernel ignores a cap that no model reaches", {"GRD-3"},
                        {"GRD-3"}),
      wrong<kNoPadding>("a kernel does not write the results of padding", {"GRD-3"}, {"GRD-3"}),
      wrong<kFourRows>("a kernel keeps the state of four rows of a batch", {"GRD-3"}, {"GRD-3"}),
      wrong<kShortRows>("a kernel loses its state after 1000 tokens", {"GRD-3"}, {"GRD-3"}),
      wrong<kThousandColumns>("a kernel leaves out columns from the 1024th on", {"GRD-3"},
                              {"GRD-3"}),
  };
  out.push_back(
      wrong<kWholeVectors>("a kernel leaves out the rest of a width", {"GRD-3"}, {"GRD-3"}));
  out.back().model.blocks = squashed_between<kWholeVectors>;
  out.push_back(wrong<kShortColumns>("a kernel leaves out columns from the 32768th on", {"GRD-3"},
                                     {"GRD-3"}));
  out.back().model.blocks = squashed_between<kShortColumns>;
  out.push_back(wrong<kAtOne>("a kernel ignores an attribute", {"GRD-3"}, {"GRD-3"}));
  out.back().model.blocks = squashed_at<kAtOne>;
  out.back().model.keys = keys_with_at;
  out.push_back(wrong<kAllButTheLastRow>("the gradient of a parameter lacks the last row",
                                         {"GRD-3"}, {"GRD-3"}));
  out.back().model.blocks = multiplied<kAllButTheLastRow>;
  out.back().model.weights = nullptr;
  out.push_back(wrong<kWholeBlocks>("the gradient of a parameter lacks the rows after whole blocks",
                                    {"GRD-3"}, {"GRD-3"}));
  out.back().model.blocks = multiplied<kWholeBlocks>;
  out.back().model.weights = nullptr;
  WrongFamily unused{"a kernel that no model runs", {"GRD-3"}, right_family(), Level::full};
  unused.op = &kRight;
  unused.only = {"GRD-3"};
  out.push_back(std::move(unused));
  return out;
}

}  // namespace lamina::conformance
