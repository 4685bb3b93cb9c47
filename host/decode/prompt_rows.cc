#include "decode/prompt_rows.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "io/stored_weight.h"

namespace lamina::decode {
namespace {

const std::vector<std::string> kNames = {"embeddings", "deepstack", "grid", "position_ids"};

class RowsFile {
 public:
  explicit RowsFile(const std::string& path) : files_(path) {
    for (std::string_view name : files_.names())
      if (std::ranges::find(kNames, name) == kNames.end())
        refuse(ExitCode::checkpoint, fmt::format("has an unknown tensor '{}'", name),
               fmt::format("expected {}", fmt::join(kNames, ", ")));
  }

  bool has(std::string_view name) const { return files_.contains(name); }

  // Reads a tensor of this shape; -1 is any size.
  std::vector<float> read(std::string_view name, const std::vector<std::int64_t>& shape,
                          std::string_view shown) const {
    io::StoredWeight stored(files_, name);
    bool fits = stored.shape().ndim() == static_cast<int>(shape.size());
    for (std::size_t i = 0; fits && i < shape.size(); ++i)
      fits = shape[i] < 0 || stored.shape()[static_cast<int>(i)] == shape[i];
    if (!fits || stored.shape().num_elements() == 0)
      refuse(ExitCode::checkpoint,
             fmt::format("tensor '{}' is {}", name, to_string(stored.shape())),
             fmt::format("expected {}", shown));
    std::vector<float> out(static_cast<std::size_t>(stored.shape().num_elements()));
    stored.decode(0, 1, out);
    return out;
  }
  std::vector<std::int32_t> read_ints(std::string_view name, const std::vector<std::int64_t>& shape,
                                      std::string_view shown) const {
    const std::vector<float> values = read(name, shape, shown);
    // Above 2^24 f32 skips integers; positions in a prompt are far below.
    const auto outside = std::ranges::find_if(
        values, [](float v) { return !(std::abs(v) <= 0x1p24f) || v != std::trunc(v); });
    if (outside != values.end())
      refuse(
          ExitCode::checkpoint,
          fmt::format("tensor '{}' has {} at element {}", name, *outside, outside - values.begin()),
          "expected integers from -2^24 to 2^24");
    return {values.begin(), values.end()};
  }

  [[noreturn]] void refuse(ExitCode code, std::string what, std::string note) const {
    throw UserError(code, {files_.path(), std::move(what), {std::move(note)}});
  }

 private:
  io::WeightFiles files_;
};

// Each image is a box of positions in time, height and width; tokens around it have the same
// position in all three. Wang et al. 2024, "Qwen2-VL", section 2.1.
std::vector<std::int32_t> positions_of(const RowsFile& file, std::span<const std::int32_t> index,
                                       std::span<const std::int32_t> grid) {
  const std::size_t tokens = index.size();
  std::vector<std::int32_t> out(3 * tokens);
  std::int32_t next = 0;
  std::size_t image = 0;
  for (std::size_t t = 0; t < tokens;) {
    if (index[t] < 0) {
      for (std::size_t axis = 0; axis < 3; ++axis) out[axis * tokens + t] = next;
      ++next, ++t;
      continue;
    }
    std::size_t end = t;
    while (end < tokens && index[end] >= 0) ++end;
    // Images may be adjacent.
    if (3 * image >= grid.size())
      file.refuse(ExitCode::data, fmt::format("'grid' has {} images", grid.size() / 3),
                  fmt::format("the prompt has another one at token {}", t));
    const std::int32_t* box = grid.data() + 3 * image++;
    // Sides are at most 2^24: the product of two fits, the product of three may not.
    const auto places = static_cast<std::int64_t>(end - t);
    const std::int64_t frames = box[0], in_frame = std::int64_t{box[1]} * box[2];
    if (std::min({box[0], box[1], box[2]}) < 1 || in_frame > places || frames > places / in_frame)
      file.refuse(
          ExitCode::data,
          fmt::format("image {} of 'grid' is {} x {} x {}", image - 1, box[0], box[1], box[2]),
          fmt::format("the prompt has {} placeholder tokens from token {} on", end - t, t));
    for (std::int64_t i = 0; i < frames * in_frame; ++i, ++t) {
      const auto row = static_cast<std::int32_t>(i);
      out[t] = next + row / (box[1] * box[2]);
      out[tokens + t] = next + row / box[2] % box[1];
      out[2 * tokens + t] = next + row % box[2];
    }
    next += std::max({box[0], box[1], box[2]});
  }
  if (3 * image != grid.size())
    file.refuse(ExitCode::data, fmt::format("'grid' has {} images", grid.size() / 3),
                fmt::format("the prompt has {}", image));
  return out;
}

}  // namespace

std::int64_t PromptRows::longest_image() const {
  std::int64_t longest = 0, length = 0;
  for (std::int32_t row : index) {
    length = row >= 0 ? length + 1 : 0;
    longest = std::max(longest, length);
  }
  return longest;
}

PromptRows read_prompt_rows(const std::string& path, std::span<const std::int32_t> prompt,
                            std::span<const std::int64_t> placeholders,
                            const decoder::Model& model) {
  if (placeholders.empty())
    throw UserError(ExitCode::usage,
                    {"--embeddings",
                     "the model's config.json has no placeholder token for images or sounds",
                     {"name the placeholder token with --placeholder ID"}});
  const RowsFile file(path);
  if (!file.has("embeddings"))
    file.refuse(ExitCode::checkpoint, "has no tensor 'embeddings'",
                "expected [rows, hidden_size], the output of a vision or audio encoder");
  const std::int64_t width = model.hidden_size();
  PromptRows out;
  out.rows = file.read("embeddings", {-1, width}, fmt::format("[rows, {}]", width));
  const std::int64_t count = static_cast<std::int64_t>(out.rows.size()) / width;
  std::int32_t next = 0;
  for (std::int32_t token : prompt)
    out.index.push_back(std::ranges::find(placeholders, token) == placeholders.end() ? -1 : next++);
  if (next != count)
    file.refuse(ExitCode::data,
                fmt::format("has {} rows; the prompt has {} placeholder tokens ({})", count, next,
                            fmt::join(placeholders, ", ")),
                "the prompt needs one placeholder token per row");
  if (file.has("deepstack")) {
    out.features =
        file.read("deepstack", {-1, count, width}, fmt::format("[layers, {}, {}]", count, width));
    if (std::int64_t layers = static_cast<std::int64_t>(out.features.size()) / (count * width);
        layers > model.config().num_layers())
      file.refuse(ExitCode::checkpoint, fmt::format("tensor 'deepstack' has {} layers", layers),
                  fmt::format("the model has {}", model.config().num_layers()));
  }
  const std::int64_t tokens = static_cast<std::int64_t>(prompt.size());
  if (file.has("grid") && file.has("position_ids"))
    file.refuse(ExitCode::checkpoint, "has both 'grid' and 'position_ids'",
                "both define the positions of tokens; keep one");
  if (file.has("position_ids"))
    out.positions = file.read_ints("position_ids", {3, tokens}, fmt::format("[3, {}]", tokens));
  if (file.has("grid"))
    out.positions = positions_of(file, out.index, file.read_ints("grid", {-1, 3}, "[images, 3]"));
  return out;
}

}  // namespace lamina::decode
