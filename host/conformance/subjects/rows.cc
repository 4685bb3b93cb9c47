#include "conformance/subjects/rows.h"

#include <algorithm>
#include <random>

namespace lamina::conformance {

program::Rows random_rows(const decoder::Model& model, std::int64_t batch, std::int64_t tokens,
                          unsigned seed) {
  std::mt19937 random(seed);
  program::Rows rows{
      .batch = batch, .tokens = tokens, .ids = {}, .labels = {}, .positions = {}, .segments = {}};
  std::size_t n = static_cast<std::size_t>(batch * tokens);
  for (std::size_t i = 0; i < n; ++i)
    rows.ids.push_back(
        static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(model.vocab_size())));
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t t = static_cast<std::int64_t>(i) % tokens;
    rows.positions.push_back(static_cast<std::int32_t>(t));
    bool counted = t + 1 < tokens && random() % 8 != 0;
    rows.labels.push_back(counted ? rows.ids[i + 1] : -100);
  }
  rows.segments.assign(n, 1);
  return rows;
}

namespace {

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

program::Rows pack(const std::vector<program::Rows>& documents, std::int64_t tokens) {
  program::Rows row{
      .batch = 1, .tokens = tokens, .ids = {}, .labels = {}, .positions = {}, .segments = {}};
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const program::Rows& document = documents[d];
    append(row.ids, document.ids);
    append(row.labels, document.labels);
    append(row.positions, document.positions);
    row.segments.resize(row.ids.size(), static_cast<std::int32_t>(d + 1));
  }
  std::size_t n = static_cast<std::size_t>(tokens);
  row.ids.resize(n, 1);
  row.labels.resize(n, -100);
  row.positions.resize(n, 0);
  row.segments.resize(n, 0);
  return row;
}

program::Rows stacked(const std::vector<program::Rows>& parts) {
  program::Rows out = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    out.batch += parts[i].batch;
    append(out.ids, parts[i].ids);
    append(out.labels, parts[i].labels);
    append(out.positions, parts[i].positions);
    append(out.segments, parts[i].segments);
  }
  return out;
}

std::int64_t row_tokens(const decoder::Model& model) {
  constexpr std::int64_t kTokens = 29;
  return std::min(kTokens, model.max_length().value_or(kTokens));
}

bool has_positions(const decoder::Model& model, std::int64_t tokens) {
  const registry::EmbedSpec& embed = model.options().embed;
  return embed.positions != registry::Positions::learned || tokens <= embed.max_positions;
}

}  // namespace lamina::conformance
