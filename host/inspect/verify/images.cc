// image.* of a golden case: rows of tokens with images among them.
#include "inspect/verify/images.h"

#include <algorithm>
#include <cmath>

#include "autodiff/vjp.h"
#include "inspect/verify/verifier.h"
#include "program/microbatch.h"
#include "program/records.h"
#include "train/optimizer/gradients.h"
#include "weights/weights.h"

namespace lamina::inspect {

using decoder::Input;
using decoder::Output;

namespace {

std::vector<std::byte> converted(std::span<const float> values, DType dtype) {
  std::vector<std::byte> out(values.size() * static_cast<std::size_t>(size_bytes(dtype)));
  if (!out.empty()) weights::store(values, dtype, 0, out.data());
  return out;
}

}  // namespace

ImageInputs::ImageInputs(const GoldenCase& c, std::span<const std::int64_t> placeholders,
                         const decoder::Model& model, DType dtype) {
  const Shape shape = c.shape("image.input_ids");
  batch_ = shape[0];
  tokens_ = shape[1];
  rows_.rows = c.floats("image.embeddings");
  for (int l = 0; c.has(fmt::format("image.deepstack.{}", l)); ++l) {
    const std::vector<float> more = c.floats(fmt::format("image.deepstack.{}", l));
    rows_.features.insert(rows_.features.end(), more.begin(), more.end());
  }
  rows_.positions = c.ints("image.position_ids");
  std::int32_t next = 0;
  for (std::int32_t token : c.ints("image.input_ids"))
    rows_.index.push_back(std::ranges::find(placeholders, token) == placeholders.end() ? -1
                                                                                       : next++);
  shape_.count = static_cast<std::int64_t>(rows_.rows.size()) / model.hidden_size();
  shape_.layers = static_cast<std::int64_t>(rows_.features.size() / rows_.rows.size());
  if (shape_.count != next)
    user_error(ExitCode::checkpoint, c.golden.path(),
               "image.embeddings has {} rows; image.input_ids has {} placeholder tokens",
               shape_.count, next);
  blocks_ = decode::number_images(rows_.index);
  row_bytes_ = converted(rows_.rows, dtype);
  feature_bytes_ = converted(rows_.features, dtype);
}

void ImageInputs::bind(program::BoundProgram& program) const {
  program::OverrideRows{row_bytes_.data(), feature_bytes_.data(), rows_.index.data(),
                        blocks_.data(), rows_.positions.data()}
      .bind(program);
}

decode::PromptRows ImageInputs::prompt(std::int64_t tokens) const {
  decode::PromptRows out{rows_.rows, rows_.features, {}, {}};
  out.index.assign(rows_.index.begin(), rows_.index.begin() + tokens);
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    const auto first = rows_.positions.begin() + axis * batch_ * tokens_;
    out.positions.insert(out.positions.end(), first, first + tokens);
  }
  return out;
}

// Golden hidden states are the outputs of layers before DeepStack features are added.
void Verifier::images() {
  const program::Rows rows = read_rows(case_, "image.");
  const ImageInputs images(case_, placeholders_, *model_, dtype_);
  forward("image.", rows, &images);
  image_gradients(rows, images);
  if (case_.has("image.greedy_ids")) {
    const decode::PromptRows prompt =
        images.prompt(static_cast<std::int64_t>(case_.ints("image.prompt_ids").size()));
    greedy("image.", prompt.overrides());
  }
  known_.push_back("image.embeddings");
  for (std::int64_t l = 0; l < images.shape().layers; ++l)
    known_.push_back(fmt::format("image.deepstack.{}", l));
}

void Verifier::image_gradients(const program::Rows& rows, const ImageInputs& images) {
  const train::TrainState& state = fresh_state();
  program::BoundProgram program(
      train::add_gradients(
          model_->loss_graph(
              {rows.batch, rows.tokens, dtype_},
              {.positions_3d = true, .embedding_overrides = images.shape(), .training = true}),
          model_->parameters(), autodiff::save_everything()),
      backend_);
  const double labels = static_cast<double>(
      program::count_labels(rows.labels.data(), static_cast<std::int64_t>(rows.labels.size())));
  program.bind_parameters(state.used());
  program.bind_gradients(state.gradients());
  rows.microbatch().bind(program);
  images.bind(program);
  program.set_loss_scales({{"loss", 1 / labels}});
  program::run(program, backend_);
  add("image.loss", std::abs(program.loss("loss") / labels - case_.number("image.loss")),
      case_.tolerance("loss_abs", 1e-5));
  compare_gradients("image.", state);
}

}  // namespace lamina::inspect
