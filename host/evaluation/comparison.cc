#include "evaluation/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "core/error.h"
#include "decode/state_storage.h"
#include "program/bound_program.h"
#include "program/microbatch.h"

namespace lamina::evaluation {
namespace {

using decoder::Input;
using decoder::Output;

// Tokens whose logits exist at a time.
constexpr std::int64_t kHeadTokens = 64;

// The graph of the layers. Keys and values in fewer bits exist in decode state only, so such a
// model reads each row in one call of a decode graph.
struct Layers {
  decoder::ModelGraph graph;
  bool has_state = false;
};

Layers layers_of(const decoder::Model& model, const decoder::GraphShape& shape) {
  decoder::GraphFeatures features{.segments = true, .normed = true, .logits = false};
  if (model.is_autoregressive()) {
    const decoder::StateSize size{shape.tokens, shape.tokens};
    const std::vector<decoder::StateTensor> states = model.states(shape, size);
    if (std::ranges::any_of(states, [](const auto& state) { return state.type.storage; })) {
      features.segments = false;  // rows are windows of one document
      return {model.decode_graph(shape, size, features), true};
    }
  }
  return {model.forward_graph(shape, features)};
}

decoder::ModelGraph head_graph(const decoder::Model& model, DType dtype) {
  return model.head_graph({1, kHeadTokens, dtype});
}

// The decode state of rows that begin with their first token.
class RowStates {
 public:
  RowStates(const std::vector<decoder::StateTensor>& states, std::int64_t rows,
            const Backend& backend)
      : states_(decode::allocate_states(states, backend)),
        start_(static_cast<std::size_t>(rows)),
        count_(start_) {}

  void bind(program::BoundProgram& layers) {
    layers.bind_states(states_.tensors);
    layers.bind(Input::start, start_.data());
    layers.bind(Input::count, count_.data());
  }
  // Rows end after their last token.
  void set_lengths(const data::Batch& batch) {
    const auto width = static_cast<std::size_t>(batch.tokens_per_row);
    for (std::size_t row = 0; row < count_.size(); ++row) {
      std::size_t length = width;
      while (length > 1 && batch.segment_ids[row * width + length - 1] == 0) --length;
      count_[row] = static_cast<std::int32_t>(length);
    }
  }

 private:
  decode::StateTensors states_;
  std::vector<std::int32_t> start_, count_;
};

// Computes the logits of tokens of a batch: the layers for the whole batch, the head for a few of
// its tokens at a time.
class LogitsOfRows {
 public:
  LogitsOfRows(const ComparedModel& of, std::int64_t rows, std::int64_t tokens, DType dtype,
               const Backend& backend)
      : LogitsOfRows(of, layers_of(of.model, {rows, tokens, dtype}), rows, tokens, dtype, backend) {
  }

  void run(const data::Batch& batch) {
    program::Microbatch{batch.tokens.data(), batch.labels.data(), batch.positions.data(),
                        batch.segment_ids.data()}
        .bind(layers_);
    if (states_) states_->set_lengths(batch);
    layers_.run(*arena_);
  }

  // REQUIRES: at most kHeadTokens places in the batch.
  void run_head(std::span<const std::size_t> places) {
    for (std::size_t i = 0; i < places.size(); ++i)
      std::memcpy(head_input_.data() + i * token_bytes_, normed_.data() + places[i] * token_bytes_,
                  token_bytes_);
    head_.run(*arena_);
  }
  // Returns the logits of place i of run_head().
  std::span<const float> logits(std::size_t i) const {
    return std::span(logits_).subspan(i * vocab_, vocab_);
  }

 private:
  LogitsOfRows(const ComparedModel& of, Layers layers, std::int64_t rows, std::int64_t tokens,
               DType dtype, const Backend& backend)
      : vocab_(static_cast<std::size_t>(of.model.vocab_size())),
        token_bytes_(static_cast<std::size_t>(of.model.hidden_size() * size_bytes(dtype))),
        states_(states_of(layers, rows, backend)),
        layers_(std::move(layers.graph), backend),
        head_(head_graph(of.model, dtype), backend),
        normed_(static_cast<std::size_t>(rows * tokens) * token_bytes_),
        head_input_(static_cast<std::size_t>(kHeadTokens) * token_bytes_),
        logits_(static_cast<std::size_t>(kHeadTokens) * vocab_),
        arena_(backend.allocate(std::max(layers_.arena_bytes(), head_.arena_bytes()))) {
    layers_.bind_parameters(of.weights);
    layers_.bind(Output::normed, normed_.data());
    head_.bind_parameters(of.weights);
    head_.bind(Input::normed, head_input_.data());
    head_.bind(Output::logits, logits_.data());
    if (states_) states_->bind(layers_);
  }

  static std::unique_ptr<RowStates> states_of(const Layers& layers, std::int64_t rows,
                                              const Backend& backend) {
    if (!layers.has_state) return nullptr;
    decode::check_state_storage(layers.graph.graph, backend);
    return std::make_unique<RowStates>(layers.graph.states, rows, backend);
  }

  std::size_t vocab_, token_bytes_;
  std::unique_ptr<RowStates> states_;  // null without decode state
  program::BoundProgram layers_, head_;
  std::vector<std::byte> normed_, head_input_;
  std::vector<float> logits_;
  std::unique_ptr<Buffer> arena_;
};

std::size_t largest(std::span<const float> logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

// A label that counts: its place in the batch and its index among the labels of its row.
struct Label {
  std::size_t place;
  std::int64_t index;
};

std::vector<Label> counted_labels(const data::Batch& batch, std::size_t num_rows) {
  const auto width = static_cast<std::size_t>(batch.tokens_per_row);
  std::vector<Label> out;
  for (std::size_t row = 0; row < num_rows; ++row) {
    std::int64_t index = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i)
      if (batch.labels[i] >= 0) out.push_back({i, index++});
  }
  return out;
}

void add(const TokenDivergence& token, std::uint64_t row, std::int64_t label,
         ModelDivergence& out) {
  out.loss += token.loss;
  out.reference_loss += token.reference_loss;
  out.kl += token.kl;
  ++out.num_tokens;
  out.num_agreed += token.agrees;
  if (token.kl <= out.largest_kl) return;
  out.largest_kl = token.kl;
  out.largest_row = row;
  out.largest_label = label;
}

}  // namespace

TokenDivergence compare_token(std::span<const float> logits, std::span<const float> reference,
                              std::int32_t label) {
  LAMINA_ASSERT(logits.size() == reference.size() && !logits.empty());
  const std::size_t best = largest(logits), reference_best = largest(reference);
  const double max = logits[best], reference_max = reference[reference_best];
  double sum = 0, reference_sum = 0, cross = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double x = logits[i] - max, r = reference[i] - reference_max, e = std::exp(r);
    sum += std::exp(x);
    reference_sum += e;
    if (e > 0) cross += e * (r - x);
  }
  const double log_sum = std::log(sum), reference_log_sum = std::log(reference_sum);
  const auto at = static_cast<std::size_t>(label);
  return {.loss = log_sum - (logits[at] - max),
          .reference_loss = reference_log_sum - (reference[at] - reference_max),
          .kl = cross / reference_sum - reference_log_sum + log_sum,
          .agrees = best == reference_best};
}

std::vector<decoder::ModelGraph> compared_graphs(const decoder::Model& model,
                                                 const RowsOfWindow& rows,
                                                 const Computing& computing) {
  return {layers_of(model, {rows_together(rows, computing), rows.tokens_per_row, computing.dtype})
              .graph,
          head_graph(model, computing.dtype)};
}

ModelDivergence compare(
    const ComparedModel& model, const ComparedModel& reference, const RowsOfWindow& rows,
    const Computing& computing, const Backend& backend,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress) {
  LAMINA_ASSERT(rows.num_rows > 0 && model.model.vocab_size() == reference.model.vocab_size());
  const std::int64_t together = rows_together(rows, computing);
  LogitsOfRows mine(model, together, rows.tokens_per_row, computing.dtype, backend);
  LogitsOfRows theirs(reference, together, rows.tokens_per_row, computing.dtype, backend);
  ModelDivergence out;
  data::Batch batch;
  const auto width = static_cast<std::size_t>(rows.tokens_per_row);
  for (std::uint64_t first = 0; first < rows.num_rows;) {
    rows.read(first, together, batch);
    const auto count = std::min(static_cast<std::uint64_t>(together), rows.num_rows - first);
    mine.run(batch);
    theirs.run(batch);
    const std::vector<Label> labels = counted_labels(batch, count);
    std::vector<std::size_t> places;
    for (std::size_t begin = 0; begin < labels.size(); begin += places.size()) {
      places.clear();
      for (std::size_t i = begin; i < std::min(labels.size(), begin + kHeadTokens); ++i)
        places.push_back(labels[i].place);
      mine.run_head(places);
      theirs.run_head(places);
      for (std::size_t i = 0; i < places.size(); ++i)
        add(compare_token(mine.logits(i), theirs.logits(i), batch.labels[places[i]]),
            first + places[i] / width, labels[begin + i].index, out);
    }
    first += count;
    if (progress) progress(first, rows.num_rows);
  }
  return out;
}

}  // namespace lamina::evaluation
