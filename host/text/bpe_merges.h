// The merging of byte-pair encoding (Sennrich et al. 2016): among neighbouring parts, the merge
// that is first in the list is applied first, leftmost first, until none is left. The caller
// defines the merge of two parts; the order of work is the same for lists of merges, ranks and
// scores.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "text/tokenizer.h"

namespace lamina::text {

struct MergePart {
  TokenId id;
  std::uint32_t end;  // in bytes of the word; it begins at the end of the previous part
};

struct FoundMerge {
  std::uint32_t rank = kNone;  // lower ones first
  TokenId result = 0;
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
};

// Throws UserError (class data) for a word with positions that a part cannot hold.
inline void check_length(std::string_view word) {
  if (word.size() >= FoundMerge::kNone)
    user_error(ExitCode::data, "encoding text", "a word of {} bytes; at most 4 GiB are possible",
               word.size());
}

namespace detail {

// By scanning: fastest for words of usual length.
template <typename Find>
std::size_t merge_few(MergePart* parts, std::size_t n, FoundMerge* merges, const Find& find) {
  const auto begin = [&](std::size_t i) { return i == 0 ? 0 : parts[i - 1].end; };
  for (std::size_t i = 0; i + 1 < n; ++i) merges[i] = find(parts[i], parts[i + 1], begin(i));
  for (;;) {
    std::size_t best = n;
    std::uint32_t best_rank = FoundMerge::kNone;
    for (std::size_t i = 0; i + 1 < n; ++i)
      if (merges[i].rank < best_rank) {
        best = i;
        best_rank = merges[i].rank;
      }
    if (best == n) return n;
    parts[best] = {merges[best].result, parts[best + 1].end};
    --n;
    for (std::size_t i = best + 1; i < n; ++i) parts[i] = parts[i + 1];
    for (std::size_t i = best + 1; i + 1 < n; ++i) merges[i] = merges[i + 1];
    if (best + 1 < n) merges[best] = find(parts[best], parts[best + 1], begin(best));
    if (best > 0) merges[best - 1] = find(parts[best - 1], parts[best], begin(best - 1));
  }
}

// With a heap: at most three candidates per part for any word.
template <typename Find>
std::size_t merge_many(std::vector<MergePart>& parts, const Find& find) {
  struct Link {
    std::uint32_t before, after;
  };
  struct Candidate {
    std::uint32_t rank, at;
    std::uint32_t end;  // of the right part
    TokenId result;
    bool operator<(const Candidate& other) const {  // the queue returns the largest first
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  const auto n = static_cast<std::uint32_t>(parts.size());
  std::vector<Link> links(n);
  std::vector<std::uint32_t> begins(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    links[i] = {i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1};
    begins[i] = i == 0 ? 0 : parts[i - 1].end;
  }
  std::vector<Candidate> first;
  first.reserve(n);
  const auto candidate = [&](std::uint32_t i, const auto& add) {
    if (i == kNone || links[i].after == kNone) return;
    const MergePart& right = parts[links[i].after];
    const FoundMerge found = find(parts[i], right, begins[i]);
    if (found.rank != FoundMerge::kNone) add(Candidate{found.rank, i, right.end, found.result});
  };
  for (std::uint32_t i = 0; i + 1 < n; ++i)
    candidate(i, [&](const Candidate& c) { first.push_back(c); });
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(first));
  const auto push = [&](const Candidate& c) { queue.push(c); };
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const std::uint32_t right = parts[top.at].id < 0 ? kNone : links[top.at].after;
    // Parts only grow to the right, so an equal end of the pair means that neither of them changed.
    if (right == kNone || parts[right].end != top.end) continue;
    parts[top.at] = {top.result, top.end};
    parts[right].id = -1;
    links[top.at].after = links[right].after;
    if (links[top.at].after != kNone) links[links[top.at].after].before = top.at;
    candidate(links[top.at].before, push);
    candidate(top.at, push);
  }
  std::size_t kept = 0;
  for (const MergePart& part : parts)
    if (part.id >= 0) parts[kept++] = part;
  return kept;
}

}  // namespace detail

// Longer words are merged with a heap.
inline constexpr std::size_t kFewParts = 48;

// Merges `parts` in place. `find(left, right, begin)` returns the merge of two neighbours; the left
// one begins at the byte `begin`. Ids of parts must not be negative.
template <typename Find>
void merge_parts(std::vector<MergePart>& parts, const Find& find) {
  if (parts.size() > kFewParts) {
    parts.resize(detail::merge_many(parts, find));
    return;
  }
  FoundMerge merges[kFewParts];
  parts.resize(detail::merge_few(parts.data(), parts.size(), merges, find));
}

}  // namespace lamina::text
