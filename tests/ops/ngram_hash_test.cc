// Cases of Engram's n-gram hash, with and without decode state.
#include <cmath>
#include <span>

#include "support/op_cases.h"

namespace lamina::testing {
namespace {

// Sizes of two orders with two heads each; products stay far below 2^31.
const std::vector<std::int64_t> kMultipliers{21, 7, 13}, kSizes{5, 7, 11, 3};
constexpr std::int64_t kPad = 2;
const Doubles kTable{0, 3, 2, 3, 4};

// Rows for the ids of one sequence from place `first`; `segments` may be empty.
void append_rows(const std::vector<std::int64_t>& ids, std::size_t first, Doubles& rows,
                 std::span<const double> segments = {}) {
  for (std::size_t t = first; t < ids.size(); ++t) {
    auto back = [&](std::size_t j) {
      bool outside = t < j || (!segments.empty() && segments[t - j] != segments[t]);
      return outside ? kPad : ids[t - j];
    };
    std::int64_t hash = back(0) * kMultipliers[0], offset = 0;
    for (std::size_t n = 1; n < 3; ++n) {
      hash ^= back(n) * kMultipliers[n];
      for (std::size_t h = 2 * n - 2; h < 2 * n; offset += kSizes[h++]) {
        std::int64_t rest = hash % kSizes[h];
        rows.push_back(static_cast<double>(offset + (rest < 0 ? rest + kSizes[h] : rest)));
      }
    }
  }
}

std::int64_t compressed(const Doubles& table, double token) {
  return static_cast<std::int64_t>(token < 0 ? token : table[static_cast<std::size_t>(token)]);
}

const std::vector<std::pair<std::string, AttrValue>> kAttrs = {
    {"multipliers", kMultipliers}, {"sizes", kSizes}, {"pad", kPad}};

const std::vector<std::pair<std::string, AttrValue>> kAcross = {
    {"multipliers", kMultipliers}, {"sizes", kSizes}, {"pad", kPad}, {"across", std::int64_t{1}}};
// A document of one token, a document directly after it, and padding.
const In kDocuments = ints({2, 6}, {1, 2, 2, 2, 2, 0, 1, 1, 1, 2, 3, 3});

auto hashed(std::size_t batch, bool by_document = true) {
  return [=](const std::vector<Doubles>& in) {
    Doubles rows;
    const bool apart = by_document && in.size() > 2;
    std::size_t tokens = in[0].size() / batch;
    for (std::size_t b = 0; b < batch; ++b) {
      std::vector<std::int64_t> ids;
      for (std::size_t t = 0; t < tokens; ++t)
        ids.push_back(compressed(in[1], in[0][b * tokens + t]));
      append_rows(ids, 0, rows,
                  apart ? std::span(in[2]).subspan(b * tokens, tokens) : std::span<const double>());
    }
    return std::vector<Doubles>{rows};
  };
}

const OpCases kHash = {.op = "ngram_hash",
                       .dtypes = {DType::f32},
                       .cases = {{.name = "two rows",
                                  .inputs = {ints({2, 9}, 0, 4), ints({5}, kTable)},
                                  .attrs = kAttrs,
                                  .expect = hashed(2)},
                                 {.name = "ids that are no tokens",
                                  .inputs = {ints({1, 4}, {-5, 1, -1, 3}), ints({5}, kTable)},
                                  .attrs = kAttrs,
                                  .expect = hashed(1)},
                                 {.name = "no tokens",
                                  .inputs = {ints({2, 0}, 0, 1), ints({5}, kTable)},
                                  .attrs = kAttrs,
                                  .expect = hashed(2)},
                                 {.name = "documents",
                                  .inputs = {ints({2, 6}, 0, 4), ints({5}, kTable), kDocuments},
                                  .attrs = kAttrs,
                                  .expect = hashed(2)},
                                 {.name = "across documents",
                                  .inputs = {ints({2, 6}, 0, 4), ints({5}, kTable), kDocuments},
                                  .attrs = kAcross,
                                  .expect = hashed(2, false)}}};

// history[B, 2], tokens[B, T], table, start[B], count[B].
std::vector<Doubles> stepped(const std::vector<Doubles>& in) {
  Doubles history, rows;
  std::size_t batch = in[3].size(), tokens = in[1].size() / batch;
  for (std::size_t b = 0; b < batch; ++b) {
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < 2; ++i)
      ids.push_back(in[3][b] == 0 ? kPad : static_cast<std::int64_t>(in[0][b * 2 + i]));
    for (std::size_t t = 0; t < tokens; ++t)
      ids.push_back(compressed(in[2], in[1][b * tokens + t]));
    append_rows(ids, 2, rows);
    for (std::size_t i = 0; i < 2; ++i)
      history.push_back(static_cast<double>(ids[static_cast<std::size_t>(in[4][b]) + i]));
  }
  return {history, rows};
}

const OpCases kStep = {
    .op = "ngram_hash_step",
    .dtypes = {DType::f32},
    .cases = {{.name = "a fresh row, one that goes on, one with padding, one with nothing",
               .inputs = {ints({4, 2}, 0, 4), ints({4, 3}, 0, 4), ints({5}, kTable),
                          ints({4}, {0, 7, 3, 5}), ints({4}, {3, 3, 1, 0})},
               .attrs = kAttrs,
               .expect = stepped},
              {.name = "one token",
               .inputs = {ints({1, 2}, 0, 4), ints({1, 1}, 0, 4), ints({5}, kTable), ints({1}, {4}),
                          ints({1}, {1})},
               .attrs = kAttrs,
               .expect = stepped}}};

LAMINA_TEST_OP(NgramHash, kHash)
LAMINA_TEST_OP(NgramHashStep, kStep)

}  // namespace
}  // namespace lamina::testing
