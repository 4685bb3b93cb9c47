#include "cli/verify/prediction.h"

#include "autodiff/remat.h"
#include "cli/verify/rows.h"
#include "core/error.h"
#include "decoder/bound_program.h"
#include "decoder/mtp.h"
#include "train/gradients.h"

namespace lamina::cli {
namespace {

using decoder::Role;

void bind_rows(decoder::BoundProgram& program, const train::Microbatch& rows) {
  auto writable = [](const std::int32_t* p) { return const_cast<std::int32_t*>(p); };
  program.bind(Role::tokens, writable(rows.tokens));
  program.bind(Role::labels, writable(rows.labels));
  program.bind(Role::positions, writable(rows.positions));
  program.bind(Role::segments, writable(rows.segments));
}

}  // namespace

Prediction predict(const decoder::Model& model, std::span<void* const> parameters,
                   const train::Microbatch& rows, std::int64_t batch, std::int64_t tokens,
                   DType dtype, bool segments, const Backend& backend) {
  decoder::BoundProgram program(
      model.forward_graph(
          {.batch = batch, .tokens = tokens, .dtype = dtype, .segments = segments, .mtp = true}),
      backend);
  std::size_t places = static_cast<std::size_t>(batch * tokens);
  std::size_t depth = static_cast<std::size_t>(model.mtp_depth());
  std::vector<float> main(places * static_cast<std::size_t>(model.vocab_size()));
  Prediction out;
  out.hidden.resize(depth * places * static_cast<std::size_t>(model.hidden_size()));
  out.normed.resize(out.hidden.size());
  out.logits.resize(depth * main.size());
  program.bind_parameters(parameters);
  bind_rows(program, rows);
  program.bind(Role::logits, main.data());
  program.bind(Role::mtp_hidden, out.hidden.data());
  program.bind(Role::mtp_normed, out.normed.data());
  program.bind(Role::mtp_logits, out.logits.data());
  run(program, backend);
  return out;
}

double prediction_gradients(const decoder::Model& model, const train::TrainState& state,
                            const train::Microbatch& rows, std::int64_t batch, std::int64_t tokens,
                            DType dtype, bool segments, const Backend& backend) {
  LAMINA_ASSERT(model.mtp_depth() == 1);
  decoder::BoundProgram program(
      train::add_gradients(model.loss_graph({.batch = batch,
                                             .tokens = tokens,
                                             .dtype = dtype,
                                             .segments = segments,
                                             .mtp = true}),
                           model.parameters(), autodiff::save_everything()),
      backend);
  double labels = static_cast<double>(
      decoder::count_mtp_labels(rows.labels, segments ? rows.segments : nullptr, batch, tokens,
                                model.mtp_depth(), model.options().mtp.chained));
  double denominator = labels * model.mtp_weight(0);
  float zero = 0, scale = static_cast<float>(1 / denominator), loss = 0, z_loss = 0, mtp = 0;
  program.bind_parameters(state.used());
  program.bind_gradients(state.gradients());
  bind_rows(program, rows);
  program.bind(Role::loss_scale, &zero);
  program.bind(Role::z_loss_scale, &zero);
  program.bind(Role::mtp_scale, &scale);
  program.bind(Role::loss, &loss);
  program.bind(Role::z_loss, &z_loss);
  program.bind(Role::mtp_loss, &mtp);
  run(program, backend);
  return static_cast<double>(mtp) / denominator;
}

}  // namespace lamina::cli
