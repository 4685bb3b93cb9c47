// Decoding against the forward pass of training: however a sequence is read, its logits are those.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "backends/cpu/device/threads.h"
#include "decode/session.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

constexpr double kTolerance = 1e-4;  // of the largest logit, f32

class Sequence : public ::testing::TestWithParam<TestModel> {
 protected:
  Sequence()
      : model(open_model(GetParam().path)),
        weights(load_weights(GetParam(), model)),
        rows(random_rows(model, 1, test_tokens(model))) {}

  // The logits after the first `n` tokens, by the forward pass of training.
  std::span<const float> expected(std::int64_t n) {
    std::int64_t vocab = model.vocab_size();
    if (model.length_dependent_from()) {  // later tokens change what earlier ones give
      Rows prefix = random_rows(model, 1, n);
      std::copy_n(rows.ids.begin(), n, prefix.ids.begin());
      prefix_logits = forward(model, weights.pointers(), prefix);
      return std::span(prefix_logits).last(static_cast<std::size_t>(vocab));
    }
    if (all_logits.empty()) all_logits = forward(model, weights.pointers(), rows);
    return std::span(all_logits)
        .subspan(static_cast<std::size_t>((n - 1) * vocab), static_cast<std::size_t>(vocab));
  }

  decode::Session session(std::int64_t call_tokens, std::int64_t batch = 1) {
    // What depends on the length must be read at once.
    if (model.length_dependent_from()) call_tokens = rows.tokens;
    return decode::Session(model, weights.pointers(),
                           {.batch = batch, .capacity = rows.tokens, .call_tokens = call_tokens},
                           cpu::cpu_backend());
  }

  std::span<const std::int32_t> ids(std::int64_t first, std::int64_t count) const {
    return std::span(rows.ids).subspan(static_cast<std::size_t>(first),
                                       static_cast<std::size_t>(count));
  }

  decoder::Model model;
  weights::Weights weights;
  Rows rows;
  std::vector<float> all_logits, prefix_logits;
};

TEST_P(Sequence, PrefillInAnyPiecesEqualsForward) {
  for (std::int64_t call_tokens :
       {std::int64_t{1}, std::int64_t{3}, std::int64_t{7}, rows.tokens}) {
    decode::Session s = session(call_tokens);
    EXPECT_LE(relative_difference(s.append(ids(0, rows.tokens)), expected(rows.tokens)), kTolerance)
        << "pieces of " << call_tokens;
  }
}

TEST_P(Sequence, DecodingTokenByTokenEqualsForward) {
  decode::Session s = session(1);
  for (std::int64_t n = 1; n <= rows.tokens; ++n)
    EXPECT_LE(relative_difference(s.append(ids(n - 1, 1)), expected(n)), kTolerance)
        << "after " << n << " tokens";
}

TEST_P(Sequence, PromptThenTokensThenAnotherPieceEqualsForward) {
  decode::Session s = session(7);
  std::int64_t n = 0;
  for (std::int64_t count : {9, 1, 1, 6, 1}) {
    std::span<const float> logits = s.append(ids(n, count));
    n += count;
    EXPECT_LE(relative_difference(logits, expected(n)), kTolerance) << "after " << n << " tokens";
  }
}

TEST_P(Sequence, AResetSessionIsAsNew) {
  decode::Session s = session(rows.tokens);
  s.append(ids(3, rows.tokens - 3));
  s.reset();
  EXPECT_EQ(s.length(), 0);
  EXPECT_LE(relative_difference(s.append(ids(0, 5)), expected(5)), kTolerance);
}

TEST_P(Sequence, RaggedPromptsInABatchAreAsEachAlone) {
  const std::vector<std::int64_t> prompts = {5, 11, 1, 8};
  decode::Session together = session(4, 4);
  std::vector<decode::Session> alone;
  for (std::size_t b = 0; b < 4; ++b) alone.push_back(session(4));
  std::vector<std::int64_t> used(4, 0);
  std::int64_t vocab = model.vocab_size();
  // Each sequence starts at another token of the row; then one gets nothing, then all get some.
  for (const std::vector<std::int64_t>& counts :
       {prompts, std::vector<std::int64_t>{1, 1, 0, 1}, std::vector<std::int64_t>{1, 1, 3, 2}}) {
    std::vector<std::span<const std::int32_t>> pieces;
    for (std::size_t b = 0; b < 4; ++b)
      pieces.push_back(ids(static_cast<std::int64_t>(b) + used[b], counts[b]));
    std::span<const float> logits = together.append(pieces);
    for (std::size_t b = 0; b < 4; ++b) {
      used[b] += counts[b];
      EXPECT_EQ(together.length(static_cast<std::int64_t>(b)), used[b]);
      if (counts[b] == 0) continue;
      std::span<const float> want = alone[b].append(pieces[b]);
      EXPECT_LE(relative_difference(logits.subspan(b * static_cast<std::size_t>(vocab),
                                                   static_cast<std::size_t>(vocab)),
                                    want),
                kTolerance)
          << "sequence " << b << " after " << used[b] << " tokens";
    }
  }
}

TEST_P(Sequence, OneThreadAndTwoDecodeTheSameBits) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    weights::Weights own = load_weights(GetParam(), model, dtype);
    std::vector<std::vector<float>> got[2];
    for (int threads : {1, 2}) {
      cpu::set_threads(threads, false);
      decode::Session s(model, own.pointers(),
                        {.capacity = rows.tokens, .call_tokens = rows.tokens, .dtype = dtype},
                        cpu::cpu_backend());
      for (std::span<const std::int32_t> piece : {ids(0, 9), ids(9, 1), ids(10, 1)}) {
        std::span<const float> logits = s.append(piece);
        got[threads - 1].emplace_back(logits.begin(), logits.end());
      }
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(got[0][i], got[1][i])) << name(dtype);
  }
}

TEST_P(Sequence, IsRefusedBeyondItsContextAndStaysUsable) {
  decode::Session s = session(rows.tokens);
  s.append(ids(0, rows.tokens - 1));
  EXPECT_USER_ERROR(s.append(ids(0, 2)), ExitCode::data,
                    fmt::format("decode: the sequence would have {} tokens; the context holds {}\n"
                                "  raise --ctx-size, or shorten the prompt",
                                rows.tokens + 1, rows.tokens));
  EXPECT_LE(relative_difference(s.append(ids(rows.tokens - 1, 1)), expected(rows.tokens)),
            kTolerance);
}

INSTANTIATE_TEST_SUITE_P(All, Sequence, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
