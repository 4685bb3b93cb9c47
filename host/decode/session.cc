#include "decode/session.h"

#include <algorithm>
#include <cstring>
#include <ranges>
#include <utility>

#include "core/error.h"
#include "runtime/host_access.h"

namespace lamina::decode {

using decoder::Input;
using decoder::Output;

namespace {

decoder::GraphShape shape_of(const SessionOptions& options, std::int64_t tokens) {
  return {options.batch, tokens, options.dtype};
}

decoder::StateSize state_size(const SessionOptions& options) {
  return {options.capacity, options.call_tokens};
}

}  // namespace

Session::Session(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                 const SessionOptions& options, const Backend& backend)
    : model_(model),
      parameters_(parameters.begin(), parameters.end()),
      options_(options),
      backend_(backend),
      history_(static_cast<std::size_t>(options.batch)),
      lengths_(static_cast<std::size_t>(options.batch)),
      shifts_(static_cast<std::size_t>(options.batch)) {
  options_.call_tokens = std::min(options_.call_tokens, options_.capacity);
  decoder::ModelGraph step = model.decode_graph(shape_of(options_, 1), state_size(options_));
  check_state_storage(step.graph, backend);
  states_ = std::move(step.states);
  state_ = allocate_states(states_, backend);
  std::size_t batch = static_cast<std::size_t>(options.batch);
  std::size_t call = batch * static_cast<std::size_t>(options_.call_tokens);
  logits_.resize(batch * static_cast<std::size_t>(model.vocab_size()));
  kept_logits_.resize(logits_.size());
  tokens_.resize(call);
  positions_.resize(call);
  segments_.resize(call, 1);
  start_.resize(batch);
  count_.resize(batch);
  rows_.resize(batch);
}

program::BoundProgram& Session::program(std::int64_t tokens) {
  return program(Call{.tokens = tokens});
}

std::unique_ptr<program::BoundProgram> Session::compiled(const Call& call) {
  decoder::ModelGraph graph = model_.decode_graph(
      shape_of(options_, call.tokens), state_size(options_),
      {.positions_3d = call.positions_3d, .embedding_overrides = call.embedding_overrides});
  if (lists_) add_shortlists(graph, lists_->shape());
  auto program = std::make_unique<program::BoundProgram>(std::move(graph), backend_);
  program->bind_parameters(parameters_);
  program->bind_states(state_.tensors);
  program->bind(Input::tokens, tokens_.data());
  program->bind(Input::positions, positions_.data());
  program->bind(Input::segments, segments_.data());
  program->bind(Input::start, start_.data());
  program->bind(Input::count, count_.data());
  program->bind(Input::rows, rows_.data());
  if (lists_)
    program->bind(Output::logits, TensorRef(*device_logits_, 0, logits_type()));
  else
    program->bind(Output::logits, logits_.data());
  return program;
}

program::BoundProgram& Session::program(Call call) {
  if (lists_) call.shortlists = lists_->shape();
  const auto found =
      std::ranges::find(programs_, call, [](const auto& made) { return made.first; });
  if (found == programs_.end()) {
    if (programs_.size() == kMaxPrograms) programs_.pop_back();
    std::unique_ptr<program::BoundProgram> made = compiled(call);
    if (!arena_ || arena_->bytes() < made->arena_bytes())
      arena_ = backend_.allocate(made->arena_bytes());
    programs_.emplace_front(call, std::move(made));
  } else {
    programs_.splice(programs_.begin(), programs_, found);
  }
  program::BoundProgram& program = *programs_.front().second;
  if (lists_) lists_->bind(program);
  if (call.embedding_overrides.count > 0) {  // they differ from prompt to prompt
    program.bind(Input::embedding_overrides, override_rows_.data());
    program.bind(Input::deepstack_features, deepstack_features_.data());
    program.bind(Input::override_index, override_index_.data());
    program.bind(Input::image_blocks, image_blocks_.data());
  }
  if (call.positions_3d) program.bind(Input::positions_3d, positions_3d_.data());
  return program;
}

Type Session::logits_type() const {
  return {DType::f32, {options_.batch, model_.vocab_size()}, {}};
}

void Session::set_shortlists(const ShortlistShape& shape) {
  if (shape.is_whole() || backend_.reaches(MemoryKind::host)) {
    lists_.reset();
    return;
  }
  lists_.emplace(shape, options_.batch, model_.vocab_size());
  if (!device_logits_)
    device_logits_ = backend_.allocate(static_cast<std::size_t>(logits_type().bytes()));
}

std::span<const float> Session::logits(std::int64_t row) {
  LAMINA_ASSERT(lists_ && count_[static_cast<std::size_t>(row)] > 0);
  const std::int64_t vocab = model_.vocab_size();
  const TensorRef all(*device_logits_, 0, logits_type());
  const auto to = std::span(logits_).subspan(static_cast<std::size_t>(row * vocab),
                                             static_cast<std::size_t>(vocab));
  Queue& queue = backend_.context().queue();
  queue.copy(host_tensor(to), all.part(row * vocab, host_tensor(to).type()));
  queue.finish();
  return to;
}

void Session::check_capacity(std::int64_t length) const {
  if (length <= options_.capacity) return;
  throw UserError(ExitCode::data,
                  {"decode",
                   fmt::format("the sequence would have {} tokens; the context has room for {}",
                               length, options_.capacity),
                   {"raise --ctx-size, or shorten the prompt"}});
}

std::span<const float> Session::appended() const {
  return lists_ ? std::span<const float>() : kept_logits_;
}

std::span<const float> Session::append(std::span<const std::int32_t> tokens) {
  return append(std::span(&tokens, 1));
}

std::span<const float> Session::append(std::span<const std::span<const std::int32_t>> tokens) {
  LAMINA_ASSERT(static_cast<std::int64_t>(tokens.size()) == options_.batch);
  bool from_start = false;
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    std::int64_t length = static_cast<std::int64_t>(history_[b].size() + tokens[b].size());
    check_capacity(length);
    from_start =
        from_start || (!history_[b].empty() &&
                       rotation_differs(static_cast<std::int64_t>(history_[b].size()), length));
  }
  check_calls(tokens, from_start);
  for (std::size_t b = 0; b < tokens.size(); ++b)
    history_[b].insert(history_[b].end(), tokens[b].begin(), tokens[b].end());
  if (from_start) {
    std::ranges::fill(lengths_, 0);
    std::vector<std::span<const std::int32_t>> everything(history_.begin(), history_.end());
    read(everything);
  } else {
    read(tokens);
  }
  return appended();
}

// Returns whether a state of `before` tokens becomes invalid when the sequence grows to `after`.
bool Session::rotation_differs(std::int64_t before, std::int64_t after) const {
  const auto limit = model_.length_dependent_from();
  if (!limit || after <= *limit) return false;
  return !model_.rotation_changes_once() || before <= *limit;
}

// A prompt whose length changes rotations must be read in one call.
void Session::check_calls(std::span<const std::span<const std::int32_t>> tokens,
                          bool from_start) const {
  std::size_t longest = 0;
  bool depends = false;
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    const std::size_t count = tokens[b].size() + (from_start ? history_[b].size() : 0);
    const std::int64_t before = from_start ? 0 : lengths_[b];
    longest = std::max(longest, count);
    // The length after the first token of the call, and after the last one.
    depends = depends || (count > 0 &&
                          rotation_differs(before + 1, before + static_cast<std::int64_t>(count)));
  }
  if (depends && longest > static_cast<std::size_t>(options_.call_tokens))
    throw UserError(
        ExitCode::usage,
        {"decode",
         fmt::format("this model's rotations depend on the length of the sequence, so its {} "
                     "tokens must be read at once; the limit is {}",
                     longest, options_.call_tokens),
         {"raise the maximum tokens per call to the length of the context"}});
}

// Reads a prompt in pieces of call_tokens.
void Session::read(std::span<const std::span<const std::int32_t>> tokens) {
  std::vector<std::span<const std::int32_t>> rest(tokens.begin(), tokens.end());
  for (;;) {
    std::size_t longest = 0;
    for (auto& row : rest) longest = std::max(longest, row.size());
    if (longest == 0) return;
    std::vector<std::span<const std::int32_t>> piece;
    for (auto& row : rest) {
      std::size_t n = std::min(row.size(), static_cast<std::size_t>(options_.call_tokens));
      piece.push_back(row.first(n));
      row = row.subspan(n);
    }
    call(piece, {});
  }
}

void Session::call(std::span<const std::span<const std::int32_t>> piece, Call call) {
  std::size_t longest = 0;
  for (const auto& row : piece) longest = std::max(longest, row.size());
  for (std::size_t b = 0; b < piece.size(); ++b) {
    start_[b] = static_cast<std::int32_t>(lengths_[b]);
    count_[b] = static_cast<std::int32_t>(piece[b].size());
    rows_[b] = static_cast<std::int32_t>(piece[b].empty() ? 0 : piece[b].size() - 1);
    // Shorter rows are padded: attention writes past their end, but that is never read, and states
    // of a fixed size ignore tokens from count on.
    // Rotations may depend on the largest position of a row: padding repeats the last one.
    const std::size_t last =
        model_.length_dependent_from() && !piece[b].empty() ? piece[b].size() - 1 : longest;
    for (std::size_t t = 0; t < longest; ++t) {
      tokens_[b * longest + t] = t < piece[b].size() ? piece[b][t] : 0;
      positions_[b * longest + t] = static_cast<std::int32_t>(
          lengths_[b] + shifts_[b] + static_cast<std::int64_t>(std::min(t, last)));
    }
  }
  call.tokens = static_cast<std::int64_t>(longest);
  program::BoundProgram& step = program(call);
  step.run(*arena_);
  std::size_t vocab = static_cast<std::size_t>(model_.vocab_size());
  for (std::size_t b = 0; b < piece.size(); ++b) {
    if (piece[b].empty()) continue;
    lengths_[b] += static_cast<std::int64_t>(piece[b].size());
    if (lists_) continue;
    std::copy_n(logits_.begin() + static_cast<std::ptrdiff_t>(b * vocab), vocab,
                kept_logits_.begin() + static_cast<std::ptrdiff_t>(b * vocab));
  }
}

// True if every state has a separate slot per token, so that tokens after the first `kept` can be
// removed.
bool Session::can_cut(std::int64_t kept) const {
  using registry::StateKind;
  if (shifts_[0] != 0) return false;
  if (rotation_differs(kept, length())) return false;
  return std::ranges::all_of(states_, [&](const decoder::StateTensor& state) {
    const bool by_token = state.kind == StateKind::kv || state.kind == StateKind::latent ||
                          state.kind == StateKind::index_keys;
    return by_token && !state.ring && state.type.dim(1) == options_.capacity;
  });
}

std::size_t Session::keep_prefix(std::span<const std::int32_t> tokens) {
  LAMINA_ASSERT(options_.batch == 1);
  const std::vector<std::int32_t>& history = history_[0];
  const auto [mine, theirs] = std::ranges::mismatch(history, tokens);
  // A call that failed left tokens that are not in the state.
  auto common =
      static_cast<std::size_t>(std::min<std::int64_t>(mine - history.begin(), lengths_[0]));
  if (common == tokens.size() && common > 0) --common;
  if (common < history.size() && !can_cut(static_cast<std::int64_t>(common))) common = 0;
  if (common == 0) {
    reset();
  } else {
    history_[0].resize(common);
    lengths_[0] = static_cast<std::int64_t>(common);
  }
  return common;
}

void Session::restore(std::span<const std::span<const std::int32_t>> tokens,
                      const WriteState& write) {
  LAMINA_ASSERT(static_cast<std::int64_t>(tokens.size()) == options_.batch);
  for (const auto& row : tokens) check_capacity(std::ssize(row));
  reset();
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    history_[b].assign(tokens[b].begin(), tokens[b].end());
    lengths_[b] = std::ssize(tokens[b]);
  }
  for (std::size_t s = 0; s < states_.size(); ++s) write(states_[s], state_.tensors[s]);
}

void Session::reorder(std::span<const std::size_t> parents) {
  const auto batch = static_cast<std::size_t>(options_.batch);
  LAMINA_ASSERT(parents.size() == batch);
  if (std::ranges::equal(parents, std::views::iota(std::size_t{0}, batch))) return;
  std::vector<std::byte> before;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    const std::size_t row_bytes = static_cast<std::size_t>(states_[s].bytes()) / batch;
    change_tensor<std::byte>(backend_.context().queue(), state_.tensors[s],
                             [&](std::span<std::byte> rows) {
                               before.assign(rows.begin(), rows.end());
                               for (std::size_t b = 0; b < batch; ++b)
                                 if (parents[b] != b)
                                   std::memcpy(rows.data() + b * row_bytes,
                                               before.data() + parents[b] * row_bytes, row_bytes);
                             });
  }
  const auto gather = [&](auto& values) {
    auto gathered = values;
    for (std::size_t b = 0; b < batch; ++b) gathered[b] = values[parents[b]];
    values = std::move(gathered);
  };
  gather(history_);
  gather(lengths_);
  gather(shifts_);
}

void Session::reset() {
  for (std::int64_t row = 0; row < options_.batch; ++row) reset(row);
}

void Session::reset(std::int64_t row) {
  history_[static_cast<std::size_t>(row)].clear();
  lengths_[static_cast<std::size_t>(row)] = 0;
  shifts_[static_cast<std::size_t>(row)] = 0;
}

}  // namespace lamina::decode
