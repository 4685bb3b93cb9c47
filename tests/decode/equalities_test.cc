// Decoding gives the logits of the training forward pass, for every way to read a sequence. The
// checks come from the conformance kit.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "conformance/numbers/decoding.h"
#include "decode/session.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

class Sequence : public ::testing::TestWithParam<TestModel> {};

TEST_P(Sequence, PrefillInAnyPiecesEqualsForward) {
  expect_conforms(conformance::check_prefill_in_pieces, GetParam());
}
TEST_P(Sequence, DecodingTokenByTokenEqualsForward) {
  expect_conforms(conformance::check_token_by_token, GetParam());
}
TEST_P(Sequence, PromptThenTokensThenAnotherPieceEqualsForward) {
  expect_conforms(conformance::check_prompt_tokens_and_prompt, GetParam());
}
TEST_P(Sequence, AResetSessionIsAsNew) {
  expect_conforms(conformance::check_reset_is_as_new, GetParam());
}
TEST_P(Sequence, RaggedPromptsInABatchAreAsEachAlone) {
  expect_conforms(conformance::check_ragged_batch_is_alone, GetParam());
}
TEST_P(Sequence, OneThreadAndTwoDecodeTheSameBits) {
  expect_conforms(conformance::check_threads_decode_the_same, GetParam());
}

// Returns a function that returns tokens [begin, end) of a row, borrowed from `rows`.
auto parts_of(const Rows& rows) {
  return [&rows](std::size_t row, std::int64_t begin, std::int64_t end) {
    return std::span<const std::int32_t>(rows.ids).subspan(
        row * static_cast<std::size_t>(rows.tokens) + static_cast<std::size_t>(begin),
        static_cast<std::size_t>(end - begin));
  };
}

// A chat continues from the prefix that it shares with the text that was read before.
TEST_P(Sequence, KeepingAPrefixEqualsReadingAfresh) {
  const decoder::Model model = open_model(GetParam().path);
  if (!model.is_autoregressive()) GTEST_SKIP() << "it is never decoded";
  const weights::Weights weights = load_weights(GetParam(), model);
  const Rows rows = random_rows(model, 2, test_tokens(model));
  const auto tokens = static_cast<std::size_t>(rows.tokens);
  const decode::SessionOptions options = {.capacity = rows.tokens, .call_tokens = rows.tokens};
  decode::Session s(model, weights.pointers(), options, cpu::cpu_backend());
  s.append(std::span(rows.ids).first(tokens));
  // The first half of the text that was read, then other tokens.
  std::vector<std::int32_t> other(rows.ids.begin(), rows.ids.begin() + std::ptrdiff_t(tokens / 2));
  other.insert(other.end(), rows.ids.begin() + std::ptrdiff_t(tokens + tokens / 2),
               rows.ids.begin() + std::ptrdiff_t(2 * tokens));
  const std::size_t kept = s.keep_prefix(other);
  EXPECT_LT(kept, other.size());
  const std::span<const float> got = s.append(std::span(other).subspan(kept));
  decode::Session fresh(model, weights.pointers(), options, cpu::cpu_backend());
  EXPECT_LE(relative_difference(got, fresh.append(std::span<const std::int32_t>(other))), 1e-4);
  // The session holds all tokens already: it reads the last one again to compute its logits.
  const std::size_t again = s.keep_prefix(other);
  EXPECT_LT(again, other.size());
  EXPECT_EQ(s.length(), static_cast<std::int64_t>(again));
}

// A new request takes the row of a finished one, beside two requests that continue.
TEST_P(Sequence, ResettingOneRowOfThreeEqualsDecodingEachAlone) {
  const decoder::Model model = open_model(GetParam().path);
  if (!model.is_autoregressive()) GTEST_SKIP() << "it is never decoded";
  const weights::Weights weights = load_weights(GetParam(), model);
  const Rows rows = random_rows(model, 4, test_tokens(model));
  const std::int64_t half = rows.tokens / 2;
  const auto part = parts_of(rows);
  const decode::SessionOptions alone = {.capacity = rows.tokens, .call_tokens = rows.tokens};
  decode::SessionOptions three = alone;
  three.batch = 3;
  decode::Session s(model, weights.pointers(), three, cpu::cpu_backend());
  using Parts = std::vector<std::span<const std::int32_t>>;
  s.append(Parts{part(0, 0, half), part(1, 0, half + 1), part(2, 0, 1)});
  s.reset(1);
  EXPECT_EQ(s.length(0), half);
  EXPECT_EQ(s.length(1), 0);
  s.append(Parts{part(0, half, half), part(3, 0, half), part(2, 1, 2)});
  const std::span<const float> got =
      s.append(Parts{part(0, half, half + 1), part(3, half, half + 1), part(2, 2, 3)});
  const auto vocab = static_cast<std::size_t>(model.vocab_size());
  const Parts whole = {part(0, 0, half + 1), part(3, 0, half + 1), part(2, 0, 3)};
  for (std::size_t row = 0; row < 3; ++row) {
    decode::Session fresh(model, weights.pointers(), alone, cpu::cpu_backend());
    EXPECT_LE(relative_difference(got.subspan(row * vocab, vocab), fresh.append(whole[row])), 1e-4)
        << "row " << row;
  }
}

// The beams of a search.
TEST_P(Sequence, ReorderedSequencesContinueAsTheirParents) {
  const decoder::Model model = open_model(GetParam().path);
  if (!model.is_autoregressive()) GTEST_SKIP() << "it is never decoded";
  const weights::Weights weights = load_weights(GetParam(), model);
  const Rows rows = random_rows(model, 2, test_tokens(model));
  const std::int64_t half = rows.tokens / 2;
  const auto part = parts_of(rows);
  const decode::SessionOptions alone = {.capacity = rows.tokens, .call_tokens = rows.tokens};
  decode::SessionOptions two = alone;
  two.batch = 2;
  using Parts = std::vector<std::span<const std::int32_t>>;
  const auto vocab = static_cast<std::size_t>(model.vocab_size());
  using Parents = std::vector<std::size_t>;
  for (const Parents& parents : {Parents{0, 1}, Parents{1, 0}, Parents{1, 1}}) {
    decode::Session s(model, weights.pointers(), two, cpu::cpu_backend());
    s.append(Parts{part(0, 0, half), part(1, 0, half)});
    s.reorder(parents);
    const std::span<const float> got =
        s.append(Parts{part(parents[0], half, half + 1), part(parents[1], half, half + 1)});
    for (std::size_t row = 0; row < 2; ++row) {
      decode::Session fresh(model, weights.pointers(), alone, cpu::cpu_backend());
      EXPECT_LE(relative_difference(got.subspan(row * vocab, vocab),
                                    fresh.append(part(parents[row], 0, half + 1))),
                1e-4)
          << "row " << row << " continues " << parents[row];
    }
  }
}

TEST_P(Sequence, IsRefusedBeyondItsContextAndStaysUsable) {
  const decoder::Model model = open_model(GetParam().path);
  if (!model.is_autoregressive()) GTEST_SKIP() << "it is never decoded";
  const weights::Weights weights = load_weights(GetParam(), model);
  const Rows rows = random_rows(model, 1, test_tokens(model));
  const auto ids = [&](std::int64_t first, std::int64_t count) {
    return std::span(rows.ids).subspan(static_cast<std::size_t>(first),
                                       static_cast<std::size_t>(count));
  };
  decode::Session s(model, weights.pointers(),
                    {.capacity = rows.tokens, .call_tokens = rows.tokens}, cpu::cpu_backend());
  s.append(ids(0, rows.tokens - 1));
  EXPECT_USER_ERROR(
      s.append(ids(0, 2)), ExitCode::data,
      fmt::format("decode: the sequence would have {} tokens; the context has room for {}\n"
                  "  raise --ctx-size, or shorten the prompt",
                  rows.tokens + 1, rows.tokens));
  const std::vector<float> all = forward(model, weights.pointers(), rows);
  EXPECT_LE(relative_difference(s.append(ids(rows.tokens - 1, 1)),
                                std::span(all).last(static_cast<std::size_t>(model.vocab_size()))),
            1e-4);
}

// Rotations change at 16 tokens, so a longer sequence must be read in one call.
TEST(Session, ALengthThatNeedsALongerCallIsRefusedAndChangesNothing) {
  const TestModel& test = test_model("phi3_two_scalings");
  const decoder::Model model = open_model(test.path);
  const weights::Weights weights = load_weights(test, model);
  const Rows rows = random_rows(model, 1, 20);
  const std::span<const std::int32_t> ids = rows.ids;
  const auto session = [&] {
    return decode::Session(model, weights.pointers(), {.capacity = 32, .call_tokens = 8},
                           cpu::cpu_backend());
  };
  decode::Session s = session(), same = session();
  s.append(ids.first(8));
  same.append(ids.first(8));
  EXPECT_ERROR_SAYS(s.append(ids.subspan(8, 10)), ExitCode::usage,
                    "so its 18 tokens must be read at once; the limit is 8");
  EXPECT_EQ(s.length(0), 8);
  EXPECT_TRUE(std::ranges::equal(s.append(ids.subspan(8, 1)), same.append(ids.subspan(8, 1))));
}

// The prompts have more lengths than the session keeps programs. Each length is used twice: before
// and after its program is evicted.
TEST(Session, KeepsFewProgramsForPromptsOfManyLengths) {
  const TestModel& test = test_models().front();
  const decoder::Model model = open_model(test.path);
  const weights::Weights weights = load_weights(test, model);
  const auto lengths = static_cast<std::int64_t>(decode::Session::kMaxPrograms) + 8;
  const Rows rows = random_rows(model, 1, lengths);
  const decode::SessionOptions options = {.capacity = lengths, .call_tokens = lengths};
  decode::Session session(model, weights.pointers(), options, cpu::cpu_backend());
  std::vector<std::vector<float>> first;
  for (std::int64_t n = 1; n <= 2 * lengths; ++n) {
    const auto length = static_cast<std::size_t>((n - 1) % lengths + 1);
    session.reset();
    const std::span<const float> logits = session.append(std::span(rows.ids).first(length));
    if (n <= lengths)
      first.emplace_back(logits.begin(), logits.end());
    else
      EXPECT_TRUE(std::ranges::equal(logits, first[length - 1])) << length << " tokens";
  }
  EXPECT_EQ(session.num_programs(), decode::Session::kMaxPrograms);
}

TEST(Session, ContinuesFromARestoredState) {
  const TestModel& test = test_models().front();
  const decoder::Model model = open_model(test.path);
  const weights::Weights weights = load_weights(test, model);
  const Rows rows = random_rows(model, 1, 9);
  const std::span<const std::int32_t> before = std::span(rows.ids).first(8);
  decode::Session session(model, weights.pointers(), {.capacity = 9}, cpu::cpu_backend());
  const auto next = [&](std::byte byte) {
    session.restore(std::span(&before, 1),
                    [&](const decoder::StateTensor& state, const TensorRef& tensor) {
                      EXPECT_EQ(static_cast<std::int64_t>(tensor.bytes()), state.bytes());
                      cpu::cpu_backend().context().queue().fill(tensor, byte);
                    });
    EXPECT_TRUE(std::ranges::equal(session.tokens(), before));
    const std::span<const float> logits = session.append(std::span(rows.ids).last(1));
    return std::vector<float>(logits.begin(), logits.end());
  };
  const std::vector<float> zeros = next({}), others = next(std::byte{0x3e});
  EXPECT_NE(zeros, others);
  EXPECT_EQ(zeros, next({}));
}

INSTANTIATE_TEST_SUITE_P(All, Sequence, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
