#include "program/records.h"

#include "core/error.h"
#include "core/float16.h"

namespace lamina::program {

using decoder::Output;

void run(BoundProgram& program, const Backend& backend) {
  auto arena = backend.allocate(program.arena_bytes());
  program.run(*arena);
}

std::vector<float> as_floats(const std::byte* from, std::size_t count, DType dtype) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::i32);
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = dtype == DType::bf16 ? to_float(reinterpret_cast<const bfloat16*>(from)[i])
             : dtype == DType::i32
                 ? static_cast<float>(reinterpret_cast<const std::int32_t*>(from)[i])
                 : reinterpret_cast<const float*>(from)[i];
  return out;
}

LayerRecords record_layers(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                           const Rows& rows, DType dtype, const std::vector<std::string>& tags,
                           const Backend& backend) {
  BoundProgram program(model.forward_graph({rows.batch, rows.tokens, dtype},
                                           {.segments = rows.packed(), .records = tags}),
                       backend);
  program.bind_parameters(parameters);
  rows.microbatch().bind(program);
  std::vector<float> logits(rows.ids.size() * static_cast<std::size_t>(model.vocab_size()));
  program.bind(Output::logits, logits.data());
  const std::vector<BoundProgram::NamedOutput> outputs = program.named_outputs();
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

}  // namespace lamina::program
