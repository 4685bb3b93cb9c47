// Prompts with images: rows that replace the embeddings of placeholder tokens.
#include <algorithm>

#include "core/error.h"
#include "decode/session.h"
#include "weights/weights.h"

namespace lamina::decode {
namespace {

std::vector<std::byte> converted(std::span<const float> values, DType dtype) {
  std::vector<std::byte> out(values.size() * static_cast<std::size_t>(size_bytes(dtype)));
  if (!out.empty()) weights::store(values, dtype, 0, out.data());
  return out;
}

[[noreturn]] void refuse(ExitCode code, std::string what, std::string note) {
  throw UserError(code, {"images", std::move(what), {std::move(note)}});
}

}  // namespace

std::vector<std::int32_t> number_images(std::span<const std::int32_t> index) {
  std::vector<std::int32_t> out(index.size());
  std::int32_t count = 0;
  for (std::size_t t = 0; t < index.size(); ++t)
    if (index[t] >= 0) out[t] = t > 0 && out[t - 1] > 0 ? count : ++count;
  return out;
}

void Session::check(std::span<const std::int32_t> tokens,
                    const EmbeddingOverrides& overrides) const {
  const std::size_t width = static_cast<std::size_t>(model_.hidden_size()),
                    count = overrides.rows.size() / width;
  if (options_.batch != 1)
    refuse(ExitCode::data, fmt::format("the session has {} sequences", options_.batch),
           "prompts with images need a session with one sequence");
  if (model_.depends_on_length_within(options_.capacity))
    refuse(ExitCode::usage, "this model's rotations depend on the length of the sequence",
           "sequences that are recomputed from their start cannot have images");
  if (overrides.rows.empty() || overrides.rows.size() % width != 0)
    refuse(ExitCode::data, fmt::format("got {} numbers for their rows", overrides.rows.size()),
           fmt::format("expected {} per row, the width of the model", width));
  if (overrides.index.size() != tokens.size())
    refuse(
        ExitCode::data,
        fmt::format("got {} rows of tokens for {} tokens", overrides.index.size(), tokens.size()),
        "expected one index per token, or -1");
  for (std::int32_t row : overrides.index)
    if (row < -1 || row >= static_cast<std::int64_t>(count))
      refuse(ExitCode::data, fmt::format("a token refers to row {} of {}", row, count),
             fmt::format("expected 0 to {}, or -1 for none", count - 1));
  if (overrides.features.size() % overrides.rows.size() != 0 ||
      static_cast<std::int64_t>(overrides.features.size() / overrides.rows.size()) >
          model_.config().num_layers())
    refuse(ExitCode::data, fmt::format("got {} numbers for features", overrides.features.size()),
           fmt::format("each of at most {} layers needs {}, as many as the rows",
                       model_.config().num_layers(), overrides.rows.size()));
  if (!overrides.positions.empty() && overrides.positions.size() != 3 * tokens.size())
    refuse(ExitCode::data,
           fmt::format("got {} positions for {} tokens", overrides.positions.size(), tokens.size()),
           "expected three per token: time, height and width");
}

// Number of tokens from `first` on for the next call: as many as possible, but without a cut
// through an image whose tokens see each other.
std::size_t Session::piece(std::span<const std::int32_t> blocks, std::size_t first, Call call) {
  const std::size_t max_tokens = static_cast<std::size_t>(options_.call_tokens);
  if (blocks.size() - first <= max_tokens) return blocks.size() - first;
  std::size_t end = first + max_tokens;
  while (end > first && blocks[end] != 0 && blocks[end] == blocks[end - 1]) --end;
  if (end > first) return end - first;
  call.tokens = options_.call_tokens;
  if (program(call).has(decoder::Input::image_blocks))
    refuse(
        ExitCode::usage,
        fmt::format("the tokens of an image see each other, and it has more tokens than a call can "
                    "read ({})",
                    max_tokens),
        "raise the maximum tokens per call");
  return max_tokens;
}

std::span<const float> Session::append(std::span<const std::int32_t> tokens,
                                       const EmbeddingOverrides& overrides) {
  check(tokens, overrides);
  check_capacity(length() + static_cast<std::int64_t>(tokens.size()));
  const Call call{
      .embedding_overrides = {.count = static_cast<std::int64_t>(overrides.rows.size()) /
                                       model_.hidden_size(),
                              .layers = static_cast<std::int64_t>(overrides.features.size() /
                                                                  overrides.rows.size())},
      .positions_3d = !overrides.positions.empty()};
  override_rows_ = converted(overrides.rows, options_.dtype);
  deepstack_features_ = converted(overrides.features, options_.dtype);
  const std::vector<std::int32_t> blocks = number_images(overrides.index);
  override_index_.resize(static_cast<std::size_t>(options_.call_tokens));
  image_blocks_.resize(override_index_.size());
  positions_3d_.resize(3 * override_index_.size());
  std::vector<std::size_t> pieces;
  for (std::size_t first = 0; first < tokens.size(); first += pieces.back())
    pieces.push_back(piece(blocks, first, call));
  Call first_call = call;
  first_call.tokens = static_cast<std::int64_t>(pieces.empty() ? 1 : pieces.front());
  if (call.positions_3d && !program(first_call).has(decoder::Input::positions_3d))
    refuse(ExitCode::usage, "this model's tokens have one position each, not three",
           "give the images without positions");
  history_[0].insert(history_[0].end(), tokens.begin(), tokens.end());
  std::size_t first = 0;
  for (std::size_t n : pieces) {
    std::copy_n(overrides.index.begin() + static_cast<std::ptrdiff_t>(first), n,
                override_index_.begin());
    std::copy_n(blocks.begin() + static_cast<std::ptrdiff_t>(first), n, image_blocks_.begin());
    for (std::size_t axis = 0; axis < 3 && call.positions_3d; ++axis)
      std::copy_n(
          overrides.positions.begin() + static_cast<std::ptrdiff_t>(axis * tokens.size() + first),
          n, positions_3d_.begin() + static_cast<std::ptrdiff_t>(axis * n));
    const std::span<const std::int32_t> row[] = {tokens.subspan(first, n)};
    this->call(row, call);
    first += n;
  }
  if (call.positions_3d) shifts_[0] = std::ranges::max(overrides.positions) + 1 - lengths_[0];
  return appended();
}

}  // namespace lamina::decode
