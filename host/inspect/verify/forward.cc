#include "inspect/verify/forward.h"

#include "program/records.h"

namespace lamina::inspect {

using decoder::Input;
using decoder::Output;

ForwardResult forward(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                      const program::Rows& rows, const ForwardOptions& options,
                      const Backend& backend) {
  program::BoundProgram program(
      model.forward_graph(
          {rows.batch, rows.tokens, options.dtype},
          {.segments = rows.packed(),
           .positions_3d = !options.positions_3d.empty(),
           .embedding_overrides =
               options.images ? options.images->shape() : decoder::EmbeddingOverrideShape{},
           .hidden = options.hidden}),
      backend);
  program.bind_parameters(parameters);
  rows.microbatch().bind(program);
  program.bind(Input::positions_3d, options.positions_3d.data());
  if (options.images) options.images->bind(program);
  ForwardResult out;
  out.logits.resize(rows.ids.size() * static_cast<std::size_t>(model.vocab_size()));
  program.bind(Output::logits, out.logits.data());
  std::vector<std::vector<std::byte>> raw;
  if (options.hidden) {
    std::vector<TensorRef> tensors;
    raw.resize(static_cast<std::size_t>(model.config().num_layers()) + 1);
    for (auto& buffer : raw) {
      buffer.resize(program.hidden_bytes());
      tensors.push_back(host_tensor(std::span(buffer)));
    }
    program.bind_hidden(tensors);
  }
  program::run(program, backend);
  for (const auto& buffer : raw)
    out.hidden.push_back(program::as_floats(
        buffer.data(), buffer.size() / static_cast<std::size_t>(size_bytes(options.dtype)),
        options.dtype));
  return out;
}

}  // namespace lamina::inspect
