#include "program/records.h"

#include "inspect/verify/forward.h"

namespace lamina::cli {

using decoder::Role;

LayerRecords record_layers(const decoder::Model& model, std::span<void* const> parameters,
                           const Rows& rows, DType dtype, const std::vector<std::string>& tags,
                           const Backend& backend) {
  decoder::BoundProgram program(model.forward_graph({.batch = rows.batch,
                                                     .tokens = rows.tokens,
                                                     .dtype = dtype,
                                                     .segments = rows.packed(),
                                                     .records = tags}),
                                backend);
  program.bind_parameters(parameters);
  rows.microbatch().bind(program);
  std::vector<float> logits(rows.ids.size() * static_cast<std::size_t>(model.vocab_size()));
  program.bind(Role::logits, logits.data());
  const std::vector<decoder::BoundProgram::NamedOutput> outputs = program.named_outputs();
  std::vector<std::vector<std::byte>> raw;
  for (const auto& output : outputs) {
    raw.emplace_back(static_cast<std::size_t>(output.type.bytes()));
    program.bind_output(output.index, raw.back().data());
  }
  run(program, backend);

  LayerRecords out;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& output = outputs[i];
    const Shape shape = output.type.shape.without_leading();
    const std::size_t count = static_cast<std::size_t>(shape.num_elements());
    const std::size_t bytes = raw[i].size() / output.layers.size();
    for (std::size_t k = 0; k < output.layers.size(); ++k)
      out[{output.layers[k], output.name}].push_back(
          {shape, as_floats(raw[i].data() + k * bytes, count, output.type.dtype)});
  }
  return out;
}

}  // namespace lamina::cli
