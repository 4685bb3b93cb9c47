#include "inspect/verify/forward.h"

#include "core/error.h"
#include "core/float16.h"

namespace lamina::cli {

using decoder::Role;

ForwardResult forward(const decoder::Model& model, std::span<void* const> parameters,
                      const Rows& rows, const ForwardOptions& options, const Backend& backend) {
  decoder::BoundProgram program(
      model.forward_graph(
          {.batch = rows.batch,
           .tokens = rows.tokens,
           .dtype = options.dtype,
           .segments = rows.packed(),
           .hidden = options.hidden,
           .positions_3d = !options.positions_3d.empty(),
           .given = options.images ? options.images->shape() : decoder::GivenRows{}}),
      backend);
  program.bind_parameters(parameters);
  rows.microbatch().bind(program);
  program.bind(Role::positions_3d, const_cast<std::int32_t*>(options.positions_3d.data()));
  if (options.images) options.images->bind(program);
  ForwardResult out;
  out.logits.resize(rows.ids.size() * static_cast<std::size_t>(model.vocab_size()));
  program.bind(Role::logits, out.logits.data());
  std::vector<std::vector<std::byte>> raw;
  if (options.hidden) {
    std::vector<void*> pointers;
    raw.resize(static_cast<std::size_t>(model.config().num_layers()) + 1);
    for (auto& buffer : raw) {
      buffer.resize(program.hidden_bytes());
      pointers.push_back(buffer.data());
    }
    program.bind_hidden(pointers);
  }
  run(program, backend);
  for (const auto& buffer : raw)
    out.hidden.push_back(as_floats(
        buffer.data(), buffer.size() / static_cast<std::size_t>(size_bytes(options.dtype)),
        options.dtype));
  return out;
}

void run(decoder::BoundProgram& program, const Backend& backend) {
  auto arena = backend.allocate(program.arena_bytes());
  program.run(arena->data());
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

}  // namespace lamina::cli
