// Families with a wrong kernel of a custom op and a right lowering.
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

constexpr CustomOp op_with(void (*run)(const KernelCall&), void (*run_back)(const KernelCall&)) {
  return {.name = "subject.squash",
          .doc = "x / (1 + |x|)",
          .lower = lower,
          .forward = {.run = run},
          .backward = {.run = run_back}};
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

WrongFamily right_kernels() { return wrong<kRight>("none", {}); }

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
  };
  WrongFamily unused{"a kernel that no model runs", {"GRD-3"}, right_family(), Level::full};
  unused.op = &kRight;
  unused.only = {"GRD-3"};
  out.push_back(std::move(unused));
  return out;
}

}  // namespace lamina::conformance
