#include "model/hidden_states.h"

#include <algorithm>
#include <cstddef>

#include "core/error.h"
#include "core/float16.h"
#include "program/bound_program.h"
#include "program/records.h"
#include "program/rows.h"

namespace lamina::model {

using decoder::Input;
using decoder::Output;

namespace {

std::vector<float> to_floats(const std::vector<std::byte>& raw, DType dtype) {
  return program::as_floats(raw.data(), raw.size() / static_cast<std::size_t>(size_bytes(dtype)),
                            dtype);
}

std::vector<std::byte> to_bytes(std::span<const float> values, DType dtype) {
  std::vector<std::byte> out(values.size() * static_cast<std::size_t>(size_bytes(dtype)));
  if (dtype == DType::f32) {
    std::ranges::copy(std::as_bytes(values), out.begin());
    return out;
  }
  LAMINA_ASSERT(dtype == DType::bf16);
  std::ranges::transform(values, reinterpret_cast<bfloat16*>(out.data()), to_bfloat16);
  return out;
}

// Reports the layers that a program has computed.
class LayerCount final : public Watcher {
 public:
  LayerCount(const decoder::Model& model, const HiddenOptions& options)
      : total_(model.config().num_layers()), progress_(options.progress) {}

  void enter(const Graph&, NodeId, std::int64_t) override { ++depth_; }
  void leave() override {
    if (--depth_ == 0) ++done_;
  }
  void ran(const Graph&, NodeId, std::span<const TensorRef>) override {
    progress_(std::min(done_, total_), total_);
  }

 private:
  std::int64_t total_, done_ = 0;
  int depth_ = 0;
  const std::function<void(std::int64_t, std::int64_t)>& progress_;
};

}  // namespace

HiddenStates hidden_states(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                           std::span<const std::int32_t> tokens, const HiddenOptions& options,
                           const Backend& backend) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  program::BoundProgram program(
      model.forward_graph({1, length, options.dtype},
                          {.hidden = options.layers, .normed = true, .logits = false}),
      backend);
  const program::Rows rows = program::rows_of({tokens.begin(), tokens.end()}, tokens, 1, length);
  program.bind_parameters(parameters);
  rows.microbatch().bind(program);
  const auto element = static_cast<std::size_t>(size_bytes(options.dtype));
  std::vector<std::byte> normed(tokens.size() * static_cast<std::size_t>(model.hidden_size()) *
                                element);
  program.bind(Output::normed, normed.data());
  std::vector<std::vector<std::byte>> layers;
  if (options.layers) {
    layers.assign(static_cast<std::size_t>(model.config().num_layers()) + 1,
                  std::vector<std::byte>(program.hidden_bytes()));
    std::vector<TensorRef> tensors;
    for (std::vector<std::byte>& layer : layers) tensors.push_back(host_tensor(std::span(layer)));
    program.bind_hidden(tensors);
  }
  LayerCount count(model, options);
  if (options.progress) program.program().watch(&count);
  program::run(program, backend);
  HiddenStates out{.normed = to_floats(normed, options.dtype), .layers = {}};
  for (const std::vector<std::byte>& layer : layers)
    out.layers.push_back(to_floats(layer, options.dtype));
  return out;
}

std::vector<float> logits_of(const decoder::Model& model,
                             std::span<const ConstTensorRef> parameters,
                             std::span<const float> normed, DType dtype, const Backend& backend) {
  const auto width = static_cast<std::size_t>(model.hidden_size());
  LAMINA_ASSERT(!normed.empty() && normed.size() % width == 0);
  const std::size_t rows = normed.size() / width;
  program::BoundProgram program(model.head_graph({1, static_cast<std::int64_t>(rows), dtype}),
                                backend);
  program.bind_parameters(parameters);
  std::vector<std::byte> given = to_bytes(normed, dtype);
  program.bind(Input::normed, given.data());
  std::vector<float> logits(rows * static_cast<std::size_t>(model.vocab_size()));
  program.bind(Output::logits, logits.data());
  program::run(program, backend);
  return logits;
}

}  // namespace lamina::model
