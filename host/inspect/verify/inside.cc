#include "inspect/verify/inside.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "inspect/verify/report.h"
#include "lamina/names.h"

namespace lamina::inspect {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Kind {
  values,    // relative to the largest
  experts,   // the chosen ones, by rising index
  weights,   // of the chosen ones, in that order
  selected,  // keys or entries with the best scores, by rising index; -1 first if there are fewer
  first,     // values; our tensor may have further rows in dim 1
  layers,    // values of all layers that have any, stacked; rows are all tokens
};

struct Quantity {
  std::string_view before, after;  // the layer's index is between them
  Kind kind;
  std::array<std::string_view, 2> tags;  // the first one that the layer has counts
  int which = -1;                        // index among several values with one tag; -1 = the last
};

constexpr Quantity kQuantities[] = {
    {"attn.", "", Kind::values, {LAMINA_TAG_OUT_PROJ}},
    {"mlp.", "", Kind::values, {LAMINA_TAG_MOE_OUT, LAMINA_TAG_MLPWO}},
    {"router.", ".logits", Kind::values, {LAMINA_TAG_ROUTER_LOGITS}},
    {"router.", ".experts", Kind::experts, {LAMINA_TAG_ROUTER_EXPERTS}},
    {"router.", ".weights", Kind::weights, {LAMINA_TAG_ROUTER_WEIGHTS}},
    {"indexer.", ".selected", Kind::selected, {LAMINA_TAG_INDEXER_SCORES}},
    {"compressor.", ".entries", Kind::first, {LAMINA_TAG_COMPRESSED_ENTRIES}},
    {"hc.", ".attn.collapsed", Kind::values, {LAMINA_TAG_MHC_COLLAPSED}, 0},
    {"hc.", ".attn.post", Kind::values, {LAMINA_TAG_MHC_POST}, 0},
    {"hc.", ".attn.comb", Kind::values, {LAMINA_TAG_MHC_COMB}, 0},
    {"hc.", ".ffn.collapsed", Kind::values, {LAMINA_TAG_MHC_COLLAPSED}, 1},
    {"hc.", ".ffn.post", Kind::values, {LAMINA_TAG_MHC_POST}, 1},
    {"hc.", ".ffn.comb", Kind::values, {LAMINA_TAG_MHC_COMB}, 1},
    {"router_logits", "", Kind::layers, {LAMINA_TAG_ROUTER_LOGITS}},
};

// Tags that a comparison reads in addition to its own.
std::vector<std::string_view> companions(Kind kind) {
  if (kind == Kind::weights) return {LAMINA_TAG_ROUTER_EXPERTS};
  if (kind == Kind::selected) return {LAMINA_TAG_WINDOW_ENDS};
  return {};
}

// The layer in a name such as "router.3.logits".
std::optional<std::int64_t> layer_in(std::string_view name, const Quantity& q) {
  if (q.kind == Kind::layers || !name.starts_with(q.before) || !name.ends_with(q.after))
    return std::nullopt;
  name.remove_prefix(q.before.size());
  if (name.size() <= q.after.size()) return std::nullopt;
  name.remove_suffix(q.after.size());
  std::uint32_t layer = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, bad] = std::from_chars(name.data(), end, layer);
  if (bad != std::errc() || stop != end) return std::nullopt;
  return layer;
}

bool is_about(std::string_view name, const Quantity& q) {
  return q.kind == Kind::layers ? name == q.before : layer_in(name, q).has_value();
}

const program::Record* find(const program::LayerRecords& records, std::int64_t layer,
                            std::string_view tag, int which = -1) {
  auto at = records.find({layer, std::string(tag)});
  if (at == records.end()) return nullptr;
  std::size_t count = at->second.size(),
              index = which < 0 ? count - 1 : static_cast<std::size_t>(which);
  return index < count ? &at->second[index] : nullptr;
}

// Rows of K indices: the position of the smallest in each, then of the next.
std::vector<std::size_t> rising(const program::Record& experts) {
  std::size_t k = static_cast<std::size_t>(experts.shape[-1]);
  std::vector<std::size_t> order(experts.values.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t row = 0; row < order.size(); row += k)
    std::ranges::sort(order.begin() + static_cast<std::ptrdiff_t>(row),
                      order.begin() + static_cast<std::ptrdiff_t>(row + k), {},
                      [&](std::size_t i) { return experts.values[i]; });
  return order;
}

std::vector<float> picked(const program::Record& from, const std::vector<std::size_t>& order) {
  std::vector<float> out;
  for (std::size_t i : order) out.push_back(from.values[i]);
  return out;
}

// The first k among the keys that each token may see, by falling score. A token sees the keys up to
// itself, or the windows that have ended.
std::vector<float> best(const program::Record& scores, const program::Record* ends, std::size_t k) {
  const std::int64_t tokens = scores.shape[1], keys = scores.shape[2];
  std::vector<float> out;
  for (std::int64_t row = 0; row < scores.shape[0] * tokens; ++row) {
    const float token = static_cast<float>(row % tokens);
    auto last_token = [&](std::int64_t key) {
      return ends ? ends->values[static_cast<std::size_t>(row / tokens * keys + key)]
                  : static_cast<float>(key);
    };
    std::vector<std::int64_t> seen;
    for (std::int64_t key = 0; key < keys; ++key)
      if (last_token(key) >= 0 && last_token(key) <= token) seen.push_back(key);
    std::ranges::stable_sort(seen, std::ranges::greater{}, [&](std::int64_t key) {
      return scores.values[static_cast<std::size_t>(row * keys + key)];
    });
    if (seen.size() > k) seen.resize(k);
    std::ranges::sort(seen);
    out.insert(out.end(), k - seen.size(), -1.0f);
    for (std::int64_t key : seen) out.push_back(static_cast<float>(key));
  }
  return out;
}

// Number of rows of k that differ; infinite if the number of rows differs.
double rows_that_differ(const std::vector<float>& got, const std::vector<std::int32_t>& want,
                        std::size_t k) {
  if (got.size() != want.size()) return kInfinity;
  std::size_t differ = 0;
  for (std::size_t row = 0; row < want.size(); row += k) {
    bool same = true;
    for (std::size_t i = row; i < row + k; ++i)
      same = same && got[i] == static_cast<float>(want[i]);
    differ += !same;
  }
  return static_cast<double>(differ);
}

// Our [B, rows, ...] cut to the golden's rows.
std::vector<float> first_rows(const program::Record& record, std::int64_t rows) {
  if (rows > record.shape[1]) return {};
  std::vector<float> out;
  std::int64_t batch = record.shape[0],
               all = static_cast<std::int64_t>(record.values.size()) / batch;
  std::int64_t kept = all / record.shape[1] * rows;
  for (std::int64_t b = 0; b < batch; ++b)
    out.insert(out.end(), record.values.begin() + b * all, record.values.begin() + b * all + kept);
  return out;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  return max_abs_difference(got, want) / std::max(max_abs(want), 1e-30);
}

Comparison compare(const GoldenCase& c, const std::string& name, const Quantity& q,
                   const program::LayerRecords& records, std::int64_t layer,
                   const program::Record& record) {
  Comparison out{name, 0, c.tolerance("hidden_max_abs_over_max", 1e-4), {}, false};
  if (c.shape(name).ndim() < 2 || c.shape(name)[-1] == 0)
    user_error(ExitCode::checkpoint, c.golden.path_of(name),
               "tensor '{}' is {}; expected rows of values", name, to_string(c.shape(name)));
  const std::size_t k = static_cast<std::size_t>(c.shape(name)[-1]);
  switch (q.kind) {
    case Kind::values:
    case Kind::layers:
      out.error = relative_error(record.values, c.floats(name));
      break;
    case Kind::first:
      out.error = relative_error(first_rows(record, c.shape(name)[1]), c.floats(name));
      break;
    case Kind::experts:
      out.error = rows_that_differ(picked(record, rising(record)), c.ints(name), k);
      break;
    case Kind::weights: {
      const program::Record* experts = find(records, layer, LAMINA_TAG_ROUTER_EXPERTS, q.which);
      bool known = experts && experts->shape == record.shape;
      out.error =
          known ? relative_error(picked(record, rising(*experts)), c.floats(name)) : kInfinity;
      break;
    }
    case Kind::selected:
      out.error = rows_that_differ(best(record, find(records, layer, LAMINA_TAG_WINDOW_ENDS), k),
                                   c.ints(name), k);
      break;
  }
  out.follows_choice =
      q.kind == Kind::experts || q.kind == Kind::weights || q.kind == Kind::selected;
  if (q.kind == Kind::experts || q.kind == Kind::selected) {
    out.tolerance = 0;
    if (out.error > 0) out.note = "tokens with another choice";
  }
  return out;
}

// The values of all layers that have the tag, concatenated.
program::Record joined(const program::LayerRecords& records, std::string_view tag) {
  program::Record out;
  for (const auto& [key, list] : records)
    if (key.second == tag)
      out.values.insert(out.values.end(), list.back().values.begin(), list.back().values.end());
  return out;
}

}  // namespace

std::vector<std::string> tags_of(const GoldenCase& c) {
  std::vector<std::string> out;
  auto need = [&](std::string_view tag) {
    if (!tag.empty() && std::ranges::find(out, tag) == out.end()) out.emplace_back(tag);
  };
  for (std::string_view name : c.golden.names())
    for (const Quantity& q : kQuantities) {
      if (!is_about(name, q)) continue;
      for (std::string_view tag : q.tags) need(tag);
      for (std::string_view tag : companions(q.kind)) need(tag);
    }
  return out;
}

std::vector<std::string> tags_of(std::string_view quantity) {
  std::vector<std::string> out;
  for (const Quantity& q : kQuantities)
    if (is_about(quantity, q))
      for (std::string_view tag : q.tags)
        if (!tag.empty()) out.emplace_back(tag);
  return out;
}

std::vector<Comparison> compare_inside(const GoldenCase& c, const program::LayerRecords& records) {
  std::vector<Comparison> out;
  for (std::string_view view : c.golden.names()) {
    const std::string name(view);
    for (const Quantity& q : kQuantities) {
      if (!is_about(name, q)) continue;
      if (q.kind == Kind::layers) {
        const program::Record all = joined(records, q.tags[0]);
        if (!all.values.empty()) out.push_back(compare(c, name, q, records, 0, all));
        continue;
      }
      const std::int64_t layer = *layer_in(name, q);
      const program::Record* record = nullptr;
      for (std::string_view tag : q.tags)
        if (!record && !tag.empty()) record = find(records, layer, tag, q.which);
      if (record) out.push_back(compare(c, name, q, records, layer, *record));
    }
  }
  return out;
}

}  // namespace lamina::inspect
