#include "decode/shortlist_rows.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "decode/planned_shortlists.h"
#include "decoder/roles/roles.h"
#include "ops/tensor.h"

namespace lamina::decode {

using decoder::Input;
using decoder::ModelGraph;
using decoder::Output;

namespace {

constexpr std::int64_t kGroup = 256;  // of ops::tokens_at_draw

Tensor add_input(ModelGraph& graph, Input role, Type type) {
  graph.inputs.push_back({role, {}, false, {}});
  return graph.graph.add_input(std::string(decoder::role_name(role)), type);
}

void add_output(ModelGraph& graph, Output role, Tensor value) {
  graph.outputs.push_back({.role = role});
  graph.graph.add_output(std::string(decoder::role_name(role)), value);
}

Tensor logits_of(ModelGraph& graph) {
  const auto at = std::ranges::find(graph.outputs, Output::logits, &decoder::OutputRole::role);
  LAMINA_ASSERT(at != graph.outputs.end());
  const auto index = static_cast<std::size_t>(at - graph.outputs.begin());
  return graph.graph.tensor(graph.graph.outputs()[index].value);
}

}  // namespace

void add_shortlists(ModelGraph& graph, const ShortlistShape& shape) {
  const Tensor logits = logits_of(graph);
  const Tensor temperature = add_input(graph, Input::temperature, {DType::f64, {}, {}});
  if (shape.likeliest > 0) {
    const auto best = ops::likeliest_tokens(logits, temperature, {.k = shape.likeliest});
    add_output(graph, Output::likeliest_logits, best.values);
    add_output(graph, Output::likeliest_ids, best.ids);
    add_output(graph, Output::total_weight, best.weight);
    return;
  }
  const Tensor draws = add_input(graph, Input::draws, {DType::f64, {logits.dim(0)}, {}});
  const auto group = ops::tokens_at_draw(logits, temperature, draws);
  add_output(graph, Output::drawn_logits, group.values);
  add_output(graph, Output::drawn_first, group.first);
  add_output(graph, Output::drawn_before, group.before);
  add_output(graph, Output::drawn_largest, group.largest);
  add_output(graph, Output::total_weight, group.weight);
}

void add_possible_shortlists(ModelGraph& graph, const Backend& backend) {
  if (backend.reaches(MemoryKind::host)) return;
  const std::int64_t vocab = logits_of(graph).dim(1);
  add_shortlists(graph, {.likeliest = std::min(kLongestShortlist, vocab)});
  if (vocab > kLongestShortlist) add_shortlists(graph, {.at_draw = true});
}

ShortlistRows::ShortlistRows(const ShortlistShape& shape, std::int64_t batch, std::int64_t vocab)
    : shape_(shape), vocab_(vocab), width_(shape.at_draw ? kGroup : shape.likeliest) {
  const auto rows = static_cast<std::size_t>(batch), width = static_cast<std::size_t>(width_);
  weight_.resize(rows);
  logits_.resize(rows * width);
  ids_.resize(shape.at_draw ? rows : rows * width);
  draws_.resize(rows);
  before_.resize(rows);
  largest_.resize(rows);
}

void ShortlistRows::set_draws(double temperature, std::span<const double> draws) {
  LAMINA_ASSERT(draws.size() == draws_.size());
  temperature_ = temperature;
  std::ranges::copy(draws, draws_.begin());
}

void ShortlistRows::bind(program::BoundProgram& program) {
  program.bind(Input::temperature, &temperature_);
  program.bind(Output::total_weight, weight_.data());
  if (shape_.likeliest > 0) {
    program.bind(Output::likeliest_logits, logits_.data());
    program.bind(Output::likeliest_ids, ids_.data());
    return;
  }
  program.bind(Input::draws, draws_.data());
  program.bind(Output::drawn_logits, logits_.data());
  program.bind(Output::drawn_first, ids_.data());
  program.bind(Output::drawn_before, before_.data());
  program.bind(Output::drawn_largest, largest_.data());
}

Shortlist ShortlistRows::row(std::int64_t row) const {
  const auto b = static_cast<std::size_t>(row), width = static_cast<std::size_t>(width_);
  const auto logits = std::span(logits_).subspan(b * width, width);
  if (shape_.likeliest > 0)
    return LikeliestTokens{.logits = logits,
                           .ids = std::span(ids_).subspan(b * width, width),
                           .weight = weight_[b],
                           .vocab = vocab_};
  return TokensAtDraw{.logits = logits,
                      .first = ids_[b],
                      .before = before_[b],
                      .largest = largest_[b],
                      .weight = weight_[b],
                      .vocab = vocab_};
}

}  // namespace lamina::decode
