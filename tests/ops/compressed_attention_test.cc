// Cases of the ops of compressed attention, and of the rows kept from earlier decode calls.
#include <algorithm>
#include <cmath>

#include "support/op_cases.h"

namespace lamina::testing {
namespace {

std::size_t at(double i) { return static_cast<std::size_t>(i); }
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

auto windows_of(std::size_t tokens, std::size_t ratio) {
  return [=](const std::vector<Doubles>& in) {
    std::size_t windows = (tokens + ratio - 1) / ratio;
    Doubles ends, starts;
    for (std::size_t b = 0; b * tokens < in[0].size(); ++b) {
      for (std::size_t t = 0; t < tokens; ++t) {
        double position = in[0][b * tokens + t];
        if ((at(position) + 1) % ratio != 0) continue;
        ends.push_back(static_cast<double>(t));
        starts.push_back(position + 1 - static_cast<double>(ratio));
      }
      ends.resize((b + 1) * windows, -1);
      starts.resize((b + 1) * windows, 0);
    }
    return std::vector<Doubles>{ends, starts};
  };
}

const OpCases kEnds = {
    .op = "window_ends",
    .dtypes = {DType::f32},
    .cases = {{.name = "documents of 5, 1 and 3 tokens; one that goes on",
               .inputs = {ints({2, 9}, {0, 1, 2, 3, 4, 0, 0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13})},
               .attrs = {{"ratio", std::int64_t{2}}},
               .expect = windows_of(9, 2)},
              {.name = "windows of one token",
               .inputs = {ints({1, 3}, {0, 1, 2})},
               .attrs = {{"ratio", std::int64_t{1}}},
               .expect = windows_of(3, 1)},
              {.name = "no window ends",
               .inputs = {ints({1, 3}, {0, 1, 2})},
               .attrs = {{"ratio", std::int64_t{4}}},
               .expect = windows_of(3, 4)}}};

// values and gates[B, T, C], bias[ratio, C], ends and starts[B, W].
auto pooled(std::size_t batch, std::size_t tokens, std::size_t channels, std::size_t ratio,
            bool overlap) {
  return [=](const std::vector<Doubles>& in) {
    std::size_t windows = in[3].size() / batch, width = overlap ? channels / 2 : channels;
    Doubles y;
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t w = 0; w < windows; ++w)
        for (std::size_t c = 0; c < width; ++c) {
          double end = in[3][b * windows + w], start = in[4][b * windows + w];
          double sum = 0, weighted = 0;
          std::size_t before = overlap && start > 0 ? ratio : 0;
          for (std::size_t i = 0; end >= 0 && i < before + ratio; ++i) {
            std::size_t t = at(end) + 1 - ratio - before + i;  // very large before the row
            if (t >= tokens) continue;
            std::size_t channel = c + (i >= before ? channels - width : 0);
            std::size_t place = (b * tokens + t) * channels + channel;
            double e = std::exp(in[1][place] + in[2][i % ratio * channels + channel]);
            sum += e;
            weighted += e * in[0][place];
          }
          y.push_back(end >= 0 ? weighted / sum : 0);
        }
    return std::vector<Doubles>{y};
  };
}

std::vector<std::pair<std::string, AttrValue>> pool_attrs(std::int64_t ratio, bool overlap) {
  return {{"ratio", ratio}, {"overlap", std::int64_t{overlap}}};
}

const OpCases kPool = {.op = "window_pool",
                       .cases = {{.name = "windows that end here and there",
                                  .inputs = {{.shape = {2, 7, 5}},
                                             {.shape = {2, 7, 5}},
                                             {.shape = {3, 5}},
                                             ints({2, 2}, {2, 6, 4, -1}),
                                             ints({2, 2}, {0, 3, 3, 0})},
                                  .attrs = pool_attrs(3, false),
                                  .expect = pooled(2, 7, 5, 3, false)},
                                 {.name = "windows that reach out of the row",
                                  .inputs = {{.shape = {2, 7, 5}},
                                             {.shape = {2, 7, 5}},
                                             {.shape = {3, 5}},
                                             ints({2, 2}, {0, 8, 1, 7}),
                                             ints({2, 2}, {0, 3, 3, 0})},
                                  .attrs = pool_attrs(3, false),
                                  .expect = pooled(2, 7, 5, 3, false)},
                                 {.name = "overlapping",
                                  .inputs = {{.shape = {1, 9, 140}},
                                             {.shape = {1, 9, 140}},
                                             {.shape = {2, 140}},
                                             ints({1, 4}, {1, 3, 7, -1}),
                                             ints({1, 4}, {0, 2, 2, 0})},
                                  .attrs = pool_attrs(2, true),
                                  .expect = pooled(1, 9, 140, 2, true)},
                                 {.name = "no windows",
                                  .inputs = {{.shape = {1, 2, 4}},
                                             {.shape = {1, 2, 4}},
                                             {.shape = {4, 4}},
                                             ints({1, 1}, {-1}),
                                             ints({1, 1}, {0})},
                                  .attrs = pool_attrs(4, false),
                                  .expect = pooled(1, 2, 4, 4, false)}}};

// The gradient's formula; the inputs are window_pool's inputs and dy.
struct PoolGradCase {
  std::string name;
  std::int64_t batch, tokens, channels, ratio;
  bool overlap;
  Doubles ends, starts;
};

std::vector<Doubles> pool_gradients(const PoolGradCase& p, const std::vector<Doubles>& in) {
  std::vector<Doubles> out = {Doubles(in[0].size()), Doubles(in[0].size()), Doubles(in[2].size())};
  const auto windows = static_cast<std::int64_t>(p.ends.size()) / p.batch;
  const std::int64_t width = p.overlap ? p.channels / 2 : p.channels;
  struct Slot {
    std::size_t token, bias;  // places in values and bias
  };
  for (std::int64_t w = 0; w < p.batch * windows; ++w)
    for (std::int64_t c = 0; c < width; ++c) {
      const auto end = static_cast<std::int64_t>(in[3][at(w)]);
      if (end < 0) continue;
      std::vector<Slot> slots;
      for (std::int64_t half = p.overlap && in[4][at(w)] > 0 ? 0 : 1; half < 2; ++half)
        for (std::int64_t i = 0; i < p.ratio; ++i) {
          const std::int64_t t = end + 1 - (2 - half) * p.ratio + i;
          const std::int64_t channel = c + (half == 1 ? p.channels - width : 0);
          if (t >= 0 && t < p.tokens)
            slots.push_back({at((w / windows * p.tokens + t) * p.channels + channel),
                             at(i * p.channels + channel)});
        }
      double sum = 0, y = 0;
      for (const Slot& s : slots) {
        const double e = std::exp(in[1][s.token] + in[2][s.bias]);
        sum += e;
        y += e * in[0][s.token];
      }
      y /= sum;
      for (const Slot& s : slots) {
        const double pdy =
            std::exp(in[1][s.token] + in[2][s.bias]) / sum * in[5][at(w * width + c)];
        out[0][s.token] += pdy;
        out[1][s.token] += pdy * (in[0][s.token] - y);
        out[2][s.bias] += pdy * (in[0][s.token] - y);
      }
    }
  return out;
}

OpCase pool_grad(PoolGradCase p) {
  const auto windows = static_cast<std::int64_t>(p.ends.size()) / p.batch;
  const In values{.shape = {p.batch, p.tokens, p.channels}};
  return {.name = p.name,
          .inputs = {values,
                     values,
                     {.shape = {p.ratio, p.channels}},
                     ints({p.batch, windows}, p.ends),
                     ints({p.batch, windows}, p.starts),
                     {.shape = {p.batch, windows, p.overlap ? p.channels / 2 : p.channels}}},
          .attrs = pool_attrs(p.ratio, p.overlap),
          .expect = [p](const std::vector<Doubles>& in) { return pool_gradients(p, in); },
          .gradient = false};
}

// Windows of two tokens, one after the other.
PoolGradCase many_windows() {
  PoolGradCase out{.name = "many windows",
                   .batch = 1,
                   .tokens = 150,
                   .channels = 4,
                   .ratio = 2,
                   .overlap = true,
                   .ends = {},
                   .starts = {}};
  for (double end = 1; end < 150; end += 2) {
    out.ends.push_back(end);
    out.starts.push_back(end - 1);
  }
  return out;
}

const OpCases kPoolGrad = {.op = "window_pool_grad",
                           .cases = {pool_grad({.name = "two windows",
                                                .batch = 1,
                                                .tokens = 6,
                                                .channels = 3,
                                                .ratio = 3,
                                                .overlap = false,
                                                .ends = {2, 5},
                                                .starts = {0, 3}}),
                                     pool_grad({.name = "overlapping, and unused ones",
                                                .batch = 2,
                                                .tokens = 9,
                                                .channels = 6,
                                                .ratio = 2,
                                                .overlap = true,
                                                .ends = {1, 3, 7, 0, 4, -1},
                                                .starts = {0, 2, 2, 0, 3, 0}}),
                                     pool_grad({.name = "in any order, and out of the row",
                                                .batch = 2,
                                                .tokens = 7,
                                                .channels = 4,
                                                .ratio = 3,
                                                .overlap = true,
                                                .ends = {5, 2, 8, 0, -1, 4, 4, 3},
                                                .starts = {3, 1, 6, 0, 0, 2, 0, 3}}),
                                     pool_grad(many_windows())}};

// window[B, K, W], x[B, T, W], start, count.
auto extended(std::size_t kept, std::size_t tokens, std::size_t width) {
  return [=](const std::vector<Doubles>& in) {
    Doubles window, all;
    for (std::size_t b = 0; b < in[2].size(); ++b) {
      Doubles rows(kept * width);
      if (in[2][b] != 0)
        std::copy_n(in[0].begin() + static_cast<std::ptrdiff_t>(b * kept * width), kept * width,
                    rows.begin());
      auto from = in[1].begin() + static_cast<std::ptrdiff_t>(b * tokens * width);
      rows.insert(rows.end(), from, from + static_cast<std::ptrdiff_t>(tokens * width));
      all.insert(all.end(), rows.begin(), rows.end());
      auto latest = rows.begin() + static_cast<std::ptrdiff_t>(at(in[3][b]) * width);
      window.insert(window.end(), latest, latest + static_cast<std::ptrdiff_t>(kept * width));
    }
    return std::vector<Doubles>{window, all};
  };
}

const OpCases kExtend = {
    .op = "extend_window",
    .dtypes = {DType::f32, DType::bf16, DType::i32},
    .cases = {{.name = "a fresh row, one that goes on, one with padding, one with nothing",
               .inputs = {{.shape = {4, 3, 2}, .high = 9},
                          {.shape = {4, 2, 2}, .high = 9},
                          ints({4}, {0, 5, 7, 2}),
                          ints({4}, {2, 2, 1, 0})},
               .expect = extended(3, 2, 2)},
              {.name = "more tokens than the window keeps",
               .inputs = {{.shape = {1, 2, 3}, .high = 9},
                          {.shape = {1, 5, 3}, .high = 9},
                          ints({1}, {4}),
                          ints({1}, {5})},
               .expect = extended(2, 5, 3)},
              {.name = "rows of whole vectors",
               .inputs = {{.shape = {2, 2, 8}, .high = 9},
                          {.shape = {2, 3, 8}, .high = 9},
                          ints({2}, {4, 0}),
                          ints({2}, {1, 2})},
               .expect = extended(2, 3, 8)}}};

// q[1, T, N, D] over cache[1, ring + E, D] from `start`, with all entries or the k best.
auto attended(std::size_t tokens, std::size_t heads, std::size_t width, std::size_t slots,
              std::size_t ring, std::size_t window, std::size_t ratio, std::size_t k) {
  return [=](const std::vector<Doubles>& in) {
    Doubles y;
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::size_t position = at(in[2][0]) + t, entries = slots - ring;
      std::vector<std::size_t> seen;
      for (std::size_t i = 0; i < window && i <= position; ++i)
        seen.push_back((position - i) % ring);
      std::vector<std::size_t> ended;
      for (std::size_t e = 0; e < entries && (e + 1) * ratio <= position + 1; ++e)
        ended.push_back(e);
      if (k > 0)
        std::ranges::stable_sort(ended, std::greater(),
                                 [&](std::size_t e) { return in[3][t * entries + e]; });
      for (std::size_t i = 0; i < ended.size() && (k == 0 || i < k); ++i)
        seen.push_back(ring + ended[i]);
      for (std::size_t n = 0; n < heads; ++n) {
        const double* q = &in[0][(t * heads + n) * width];
        Doubles sum(width);
        double total = 0;
        for (std::size_t slot : seen) {
          const double* row = &in[1][slot * width];
          double product = 0;
          for (std::size_t i = 0; i < width; ++i) product += q[i] * row[i];
          double p = std::exp(product / std::sqrt(static_cast<double>(width)));
          total += p;
          for (std::size_t i = 0; i < width; ++i) sum[i] += p * row[i];
        }
        for (double v : sum) y.push_back(v / total);
      }
    }
    return std::vector<Doubles>{y};
  };
}

OpCase step_case(std::string name, std::size_t tokens, double start, std::size_t k) {
  constexpr std::size_t kRing = 5, kEntries = 4, kWidth = 4;
  const auto t = static_cast<std::int64_t>(tokens);
  OpCase out{.name = std::move(name),
             .inputs = {{.shape = {1, t, 2, kWidth}},
                        {.shape = {1, kRing + kEntries, kWidth}},
                        ints({1}, {start})},
             .attrs = {{"ratio", std::int64_t{2}},
                       {"window", std::int64_t{3}},
                       {"ring", std::int64_t{kRing}},
                       {"k", static_cast<std::int64_t>(k)}},
             .expect = attended(tokens, 2, kWidth, kRing + kEntries, kRing, 3, 2, k),
             .gradient = false};
  if (k > 0) out.inputs.push_back({.shape = {1, t, kEntries}, .dtype = DType::f32, .widens = true});
  return out;
}

// Two rows of different lengths, sinks, and a state whose slots are mostly unused.
OpCase long_state(std::string name, std::int64_t tokens, double start, std::int64_t k) {
  constexpr std::int64_t kRing = 20, kEntries = 300, kWidth = 10;
  OpCase out{
      .name = std::move(name),
      .inputs = {{.shape = {2, tokens, 5, kWidth}},
                 {.shape = {2, kRing + kEntries, kWidth}},
                 ints({2}, {start, start / 2}),
                 kAbsent,
                 {.shape = {5}, .dtype = DType::f32, .widens = true}},
      .attrs = {{"ratio", std::int64_t{3}}, {"window", std::int64_t{7}}, {"ring", kRing}, {"k", k}},
      .gradient = false};
  if (k > 0) out.inputs[3] = {.shape = {2, tokens, kEntries}, .dtype = DType::f32, .widens = true};
  return out;
}

// A NaN counts as the best score.
OpCase nan_score() {
  OpCase c = step_case("a score that is NaN", 1, 6, 2);
  c.inputs[3].values = {0.5, NAN, 0.7, 0.9};
  c.expect = [of_numbers = c.expect](std::vector<Doubles> in) {
    in[3][1] = 1;
    return of_numbers(in);
  };
  return c;
}

OpCase capped(OpCase c) {
  c.name += ", capped";
  c.expect = {};
  c.attrs.emplace_back("soft_cap", 0.4);
  return c;
}

const OpCases kStep = {
    .op = "compressed_attention_step",
    .cases = {step_case("the first token", 1, 0, 0), step_case("the ring goes round", 3, 4, 0),
              step_case("the best two entries of three tokens", 3, 4, 2),
              step_case("of one token", 1, 6, 2), nan_score(),
              step_case("fewer entries than may be kept", 1, 2, 3),
              long_state("one token of a long state", 1, 400, 0),
              long_state("the best of a long state", 1, 400, 17),
              long_state("several tokens of a long state", 9, 300, 0),
              long_state("the best for several tokens", 9, 300, 17),
              capped(long_state("one token of a long state", 1, 400, 0)),
              capped(long_state("the best for several tokens", 9, 300, 17))}};

// Adds the first case with a cap.
OpCases with_cap(OpCases list) {
  list.cases.push_back(capped(list.cases.front()));
  return list;
}

const OpCases kAttention =
    with_cap({.op = "compressed_attention",
              .dtypes = {DType::f32, DType::f64},
              .cases = {{.name = "window and entries, with sinks",
                         .inputs = {{.shape = {2, 6, 3, 4}},
                                    {.shape = {2, 6, 4}},
                                    {.shape = {2, 3, 4}},
                                    ints({2, 3}, {1, 3, 5, 1, 4, -1}),
                                    ints({2, 3}, {0, 2, 4, 0, 0, 0}),
                                    ints({2, 6}, {0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1, 2}),
                                    kAbsent,
                                    {.shape = {3}, .dtype = DType::f32, .widens = true}},
                         .attrs = {{"ratio", std::int64_t{2}}, {"window", std::int64_t{2}}}},
                        {.name = "the best entry only",
                         .inputs = {{.shape = {1, 6, 2, 4}},
                                    {.shape = {1, 6, 4}},
                                    {.shape = {1, 3, 4}},
                                    ints({1, 3}, {1, 3, 5}),
                                    ints({1, 3}, {0, 2, 4}),
                                    ints({1, 6}, {0, 1, 2, 3, 4, 5}),
                                    {.shape = {1, 6, 3}, .dtype = DType::f32, .widens = true}},
                         .attrs = {{"ratio", std::int64_t{2}},
                                   {"window", std::int64_t{3}},
                                   {"k", std::int64_t{1}}}}}});

LAMINA_TEST_OP(WindowEnds, kEnds)
LAMINA_TEST_OP(WindowPool, kPool)
LAMINA_TEST_OP(WindowPoolGrad, kPoolGrad)
LAMINA_TEST_OP(ExtendWindow, kExtend)
LAMINA_TEST_OP(CompressedAttention, kAttention)
LAMINA_TEST_OP(CompressedAttentionStep, kStep)

}  // namespace
}  // namespace lamina::testing
