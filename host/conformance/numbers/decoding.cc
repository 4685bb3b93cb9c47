#include "conformance/numbers/decoding.h"

#include <algorithm>

#include "conformance/check.h"
#include "conformance/numbers/compare.h"
#include "conformance/subjects/rows.h"
#include "decode/session.h"

namespace lamina::conformance {
namespace {

using program::Rows;
using Ids = std::span<const std::int32_t>;

constexpr double kTolerance = 1e-4;  // relative to the largest logit, f32

void expect_near(std::span<const float> got, std::span<const float> want, const std::string& what) {
  const double found = relative_difference(got, want);
  if (!(found <= kTolerance))
    fail("{}: logits differ by {:.2g} of the largest one; rounding is at most {:.2g}", what, found,
         kTolerance);
}

decoder::Model decoded(decoder::Model model) {
  if (!model.is_autoregressive()) skip("it is not autoregressive and is never decoded");
  return model;
}

// A row of tokens, read by decoding and by training.
class Sequence {
 public:
  explicit Sequence(const ModelCase& c)
      : c_(c),
        model(decoded(c.open(true))),
        weights(c.load(model, DType::f32)),
        rows(random_rows(model, 1, row_tokens(model))) {}

  // The logits after the first `n` tokens, by the forward pass of training.
  std::span<const float> expected(std::int64_t n) {
    const std::int64_t vocab = model.vocab_size();
    if (model.length_dependent_from()) {  // later tokens change the logits of earlier ones
      Rows prefix = random_rows(model, 1, n);
      std::copy_n(rows.ids.begin(), n, prefix.ids.begin());
      prefix_logits_ = c_.forward(model, weights.pointers(), prefix);
      return std::span(prefix_logits_).last(static_cast<std::size_t>(vocab));
    }
    if (all_logits_.empty()) all_logits_ = c_.forward(model, weights.pointers(), rows);
    return std::span(all_logits_)
        .subspan(static_cast<std::size_t>((n - 1) * vocab), static_cast<std::size_t>(vocab));
  }

  decode::Session session(std::int64_t call_tokens, std::int64_t batch = 1) const {
    // Such models must read the whole length in one call.
    if (model.length_dependent_from()) call_tokens = rows.tokens;
    return decode::Session(model, weights.pointers(),
                           {.batch = batch, .capacity = rows.tokens, .call_tokens = call_tokens},
                           c_.backend());
  }

  Ids ids(std::int64_t first, std::int64_t count) const {
    return std::span(rows.ids).subspan(static_cast<std::size_t>(first),
                                       static_cast<std::size_t>(count));
  }

 private:
  const ModelCase& c_;

 public:
  const decoder::Model model;
  const weights::Weights weights;
  const Rows rows;

 private:
  std::vector<float> all_logits_, prefix_logits_;
};

}  // namespace

void check_prefill_in_pieces(const ModelCase& c) {
  Sequence s(c);
  for (std::int64_t call_tokens :
       {std::int64_t{1}, std::int64_t{3}, std::int64_t{7}, s.rows.tokens}) {
    decode::Session session = s.session(call_tokens);
    expect_near(session.append(s.ids(0, s.rows.tokens)), s.expected(s.rows.tokens),
                fmt::format("a prompt of {} tokens in pieces of {}, and the pass of training",
                            s.rows.tokens, call_tokens));
  }
}

void check_token_by_token(const ModelCase& c) {
  Sequence s(c);
  decode::Session session = s.session(1);
  for (std::int64_t n = 1; n <= s.rows.tokens; ++n)
    expect_near(session.append(s.ids(n - 1, 1)), s.expected(n),
                fmt::format("{} tokens decoded one by one, and the pass of training", n));
}

void check_prompt_tokens_and_prompt(const ModelCase& c) {
  Sequence s(c);
  decode::Session session = s.session(7);
  std::int64_t n = 0;
  for (std::int64_t count : {9, 1, 1, 6, 1}) {
    if (n + count > s.rows.tokens) break;
    const std::span<const float> logits = session.append(s.ids(n, count));
    n += count;
    expect_near(logits, s.expected(n),
                fmt::format("{} tokens as a prompt, single tokens and another prompt, and the pass "
                            "of training",
                            n));
  }
}

void check_reset_is_as_new(const ModelCase& c) {
  Sequence s(c);
  decode::Session session = s.session(s.rows.tokens);
  session.append(s.ids(3, s.rows.tokens - 3));
  session.reset();
  if (session.length() != 0) fail("a session that is reset has {} tokens", session.length());
  const std::int64_t n = std::min<std::int64_t>(5, s.rows.tokens);
  expect_near(session.append(s.ids(0, n)), s.expected(n), "a session that is reset, and a new one");
}

void check_ragged_batch_is_alone(const ModelCase& c) {
  const std::vector<std::int64_t> prompts = {5, 11, 1, 8};
  Sequence s(c);
  if (s.rows.tokens < 20) skip("it has positions for only {} tokens", s.rows.tokens);
  decode::Session together = s.session(4, 4);
  std::vector<decode::Session> alone;
  for (std::size_t b = 0; b < 4; ++b) alone.push_back(s.session(4));
  std::vector<std::int64_t> used(4, 0);
  const auto vocab = static_cast<std::size_t>(s.model.vocab_size());
  // Each sequence starts at another token of the row; then one gets no token, then all get some.
  for (const std::vector<std::int64_t>& counts :
       {prompts, std::vector<std::int64_t>{1, 1, 0, 1}, std::vector<std::int64_t>{1, 1, 3, 2}}) {
    std::vector<Ids> pieces;
    for (std::size_t b = 0; b < 4; ++b)
      pieces.push_back(s.ids(static_cast<std::int64_t>(b) + used[b], counts[b]));
    const std::span<const float> logits = together.append(pieces);
    for (std::size_t b = 0; b < 4; ++b) {
      used[b] += counts[b];
      const std::int64_t length = together.length(static_cast<std::int64_t>(b));
      if (length != used[b])
        fail("sequence {} of a batch has {} tokens after {}", b, length, used[b]);
      if (counts[b] == 0) continue;
      expect_near(
          logits.subspan(b * vocab, vocab), alone[b].append(pieces[b]),
          fmt::format("sequence {} of a ragged batch after {} tokens, and alone", b, used[b]));
    }
  }
}

void check_threads_decode_the_same(const ModelCase& c) {
  Sequence s(c);
  for (DType dtype : {DType::f32, DType::bf16}) {
    const weights::Weights own = c.load(s.model, dtype);
    std::vector<std::vector<float>> got[2];
    for (int threads : {1, 2}) {
      c.compute.set_threads(threads);
      decode::Session session(
          s.model, own.pointers(),
          {.capacity = s.rows.tokens, .call_tokens = s.rows.tokens, .dtype = dtype}, c.backend());
      for (Ids piece : {s.ids(0, 9), s.ids(9, 1), s.ids(10, 1)}) {
        const std::span<const float> logits = session.append(piece);
        got[threads - 1].emplace_back(logits.begin(), logits.end());
      }
    }
    for (std::size_t i = 0; i < 3; ++i)
      if (!same_bits(got[0][i], got[1][i]))
        fail("logits decoded with one thread and with two, in {}, are not the same bits",
             lamina::name(dtype));
  }
}

}  // namespace lamina::conformance
