#include "core/suggest.h"

#include <algorithm>
#include <vector>

#include "core/lower_case.h"

namespace lamina {
namespace {

// Optimal string alignment distance.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// Names of other things that resemble some of ours: they are no typos of these.
constexpr std::string_view kOtherThings[] = {
    "double", "float16", "float64", "fp4", "int16", "int2",
    "int3",   "int4",    "mish",    "nf4", "simpo", "uint8",
};

}  // namespace

std::string nearest_name(std::string_view typed, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestName = 256;  // the time is the product of both lengths
  if (typed.size() > kLongestName) return "";
  const std::string lower = lower_case(typed);
  const auto same =
      std::ranges::find_if(candidates, [&](const auto& name) { return lower_case(name) == lower; });
  if (same != candidates.end()) return *same;
  if (std::ranges::find(kOtherThings, lower) != std::end(kOtherThings)) return "";
  std::string best;
  int best_distance = 1 << 30;
  const auto common = [&](const std::string& name) {
    return std::ranges::mismatch(typed, name).in1 - typed.begin();
  };
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(typed, candidate);
    // Among equally near names prefer the one with the same prefix: a different ending is more
    // likely than a different beginning.
    if (distance < best_distance || (distance == best_distance && common(candidate) > common(best)))
      best = candidate, best_distance = distance;
  }
  const int longest = static_cast<int>(std::max(typed.size(), best.size()));
  const int most = longest <= 4 ? 1 : std::max(2, longest / 3);  // "path" is not "pack"
  if (best_distance <= most) return best;
  // The beginning of one candidate alone: "cos" for "cosine".
  constexpr std::size_t kShortestBeginning = 3;
  const auto begins = [&](const std::string& name) { return name.starts_with(typed); };
  const auto first = std::ranges::find_if(candidates, begins);
  return typed.size() >= kShortestBeginning && first != candidates.end() &&
                 std::ranges::count_if(candidates, begins) == 1
             ? *first
             : "";
}

}  // namespace lamina
