// Layer values in training: a model whose block has parameters, updates, metrics and losses of any
// element type and shape, chosen by the bytes of the input. The host refuses it with a message or
// takes a training step without out-of-bounds accesses.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "backends/cpu/threads/threads.h"
#include "decoder/one_block_family.h"
#include "fuzz/choices.h"
#include "fuzz/fuzz.h"
#include "program/rows.h"
#include "support/tensors.h"
#include "train/loop/train_step.h"

namespace lamina::fuzz {
namespace {

using sdk::Tensor;

constexpr std::int64_t kTokens = 3;
constexpr std::string_view kTypes[] = {"f32", "bf16", "f32",  "bf16", "f16",
                                       "f64", "i32",  "bool", "i64"};

// Rest of the input for the block; each build reads it from the front.
Bytes* input = nullptr;

// The block of the model, built for each trace from the same bytes.
class AnyBlock {
 public:
  AnyBlock(sdk::Scope s, Tensor x, const sdk::Step& step) : s_(s), x_(x), step_(step) {}

  Tensor build() {
    values_ = {x_, sdk::reduce_mean(x_, {.dims = {0, 1}})};
    for (std::size_t i = bytes_.below(4); i > 0; --i) param();
    for (std::size_t i = bytes_.below(8); i > 0; --i) value();
    for (std::size_t i = 1 + bytes_.below(4); i > 0; --i) give();
    // Mostly the unchanged carry: values that mix tokens may not leave a layer.
    return bytes_.below(16) == 15 ? values_.back() : x_;
  }

 private:
  struct Param {
    std::string name;
    sdk::Dims dims;
    Tensor tensor;
  };

  Tensor pick() { return bytes_.pick(values_); }
  std::string new_name(const char* kind) { return kind + std::to_string(next_name_++); }

  void param() {
    static constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 5, 17};
    Param out{new_name("p"), {}, {}};
    for (std::size_t i = bytes_.below(4); i > 0; --i) out.dims.push_back(bytes_.pick(kSizes));
    sdk::ParamOptions options;
    options.axes.assign(out.dims.size(), sdk::axis::none);
    options.init = sdk::init::normal(1);
    if (bytes_.below(4) != 3) options.flags = LAMINA_PARAM_BUFFER;
    if (bytes_.below(4) == 3) options.dtype = static_cast<std::uint32_t>(bytes_.below(8));
    const sdk::Dims& d = out.dims;
    out.tensor = d.empty()       ? s_.param(out.name, {}, options)
                 : d.size() == 1 ? s_.param(out.name, {d[0]}, options)
                 : d.size() == 2 ? s_.param(out.name, {d[0], d[1]}, options)
                                 : s_.param(out.name, {d[0], d[1], d[2]}, options);
    values_.push_back(out.tensor);
    params_.push_back(std::move(out));
  }

  void value() {
    Tensor x = pick();
    switch (bytes_.below(8)) {
      case 0:
      case 1:
        return values_.push_back(sdk::cast(x, bytes_.pick(kTypes)));
      case 2:
        return values_.push_back(x + pick());
      case 3:
        return values_.push_back(sdk::reduce_sum(x, {.dims = all_dims(x)}));
      case 4:
        return values_.push_back(sdk::scale(x, bytes_.pick(kNumbers)));
      case 5:
        return values_.push_back(
            sdk::constant(s_, {.shape = x.shape(), .dtype = bytes_.pick(kTypes), .value = 2}));
      case 6:
        return values_.push_back(step_.input(static_cast<std::uint32_t>(1 + bytes_.below(5))));
      default:
        return values_.push_back(sdk::stop_gradient(x));
    }
  }

  void give() {
    static constexpr sdk::Reduce kReduce[] = {sdk::Reduce::sum, sdk::Reduce::mean,
                                              sdk::Reduce::max};
    switch (bytes_.below(8)) {
      case 0:
        return step_.metric(new_name("m"), pick(), bytes_.pick(kReduce));
      case 1: {
        Tensor x = pick();
        return step_.loss(new_name("l"), sdk::reduce_sum(x, {.dims = all_dims(x)}));
      }
      case 2:
        return step_.loss(new_name("l"), pick());
      case 3:
        return step_.pooled_loss(new_name("l"), pick(), pick());
      default:
        return update();
    }
  }

  // Usually has the parameter's shape.
  void update() {
    static constexpr sdk::Update kRules[] = {sdk::Update::add, sdk::Update::sign_step,
                                             sdk::Update::assign};
    if (params_.empty()) return;
    const Param& param = bytes_.pick(params_);
    Tensor x = pick();
    if (bytes_.below(16) != 15 && x.shape() != param.dims) {
      const sdk::Dims ones(param.dims.size(), 1);
      x = sdk::broadcast(sdk::reshape(sdk::reduce_sum(x, {.dims = all_dims(x)}), ones), param.dims);
    }
    if (bytes_.below(2)) x = sdk::cast(x, bytes_.pick(kTypes));
    step_.update(s_, param.name, x, bytes_.pick(kRules));
  }

  static sdk::Dims all_dims(Tensor x) {
    sdk::Dims out;
    for (std::size_t i = 0; i < x.shape().size(); ++i) out.push_back(static_cast<std::int64_t>(i));
    return out;
  }

  Bytes bytes_ = *input;
  sdk::Scope s_;
  Tensor x_;
  const sdk::Step& step_;
  std::vector<Param> params_;
  std::vector<Tensor> values_;
  int next_name_ = 0;
};

const decoder::Build kAnyBlock = LAMINA_BLOCK({ return AnyBlock(s, x, step).build(); });

program::Rows rows_of(std::int64_t vocab, std::int64_t batch) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < batch * kTokens; ++i)
    ids.push_back(static_cast<std::int32_t>(i * 3 % vocab));
  return program::rows_of(ids, ids, batch, kTokens);
}

void train(const decoder::Model& model, DType compute, std::int64_t microbatches) {
  const Backend& backend = cpu::cpu_backend();
  train::TrainState state(model.parameters(), compute, microbatches > 1, backend);
  for (std::size_t i = 0; i < state.masters().size(); ++i)
    std::fill_n(lamina::testing::floats(state.masters()[i]),
                model.parameters().all()[i].num_elements(), 0.5f);
  state.refresh_copies();
  train::TrainStep step(
      model, state, {.shape = {2, kTokens, compute}, .microbatches = microbatches}, {}, backend);
  const program::Rows rows = rows_of(5, 2 * microbatches);
  std::vector<program::Microbatch> batches;
  for (std::int64_t i = 0; i < microbatches; ++i) batches.push_back(rows.microbatch(2 * i));
  step.run(batches, 1e-3, 0);
}

}  // namespace
}  // namespace lamina::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  static const bool one_thread = [] { return cpu::set_threads(1, false), true; }();
  (void)one_thread;
  fuzz::Bytes in(data, size);
  const DType compute = in.below(2) ? DType::bf16 : DType::f32;
  const bool scan_layers = in.below(4) != 3;
  const std::int64_t microbatches = 1 + static_cast<std::int64_t>(in.below(2));
  fuzz::input = &in;
  static const auto family = decoder::family_with(fuzz::kAnyBlock);
  fuzz::refuse_or_accept([&] {
    const decoder::Model model(family, family->configure({}, "fuzz"), {.scan_layers = scan_layers});
    fuzz::train(model, compute, microbatches);
  });
  return 0;
}
