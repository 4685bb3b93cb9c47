// Keys and values in int8 and fp8: every way to read a sequence gives the same logits, close to
// the logits of plain keys and values.
#include <gtest/gtest.h>

#include <filesystem>

#include "backends/cpu/backend.h"
#include "decode/session.h"
#include "formats/row_formats.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kTokens = 20;
constexpr const char* kWords[] = {"int8", "fp8"};

std::string key(std::string_view word) { return fmt::format("kv_dtype = \"{}\"\n", word); }

bool is_stored(const decoder::StateTensor& state) { return state.type.storage != nullptr; }

// True if the decode state has keys and values of heads, which may be rounded. Compressed attention
// has others, in a state of a fixed size without parts.
bool has_rows(const decoder::Model& model) {
  if (!model.is_autoregressive()) return false;
  return std::ranges::any_of(model.states({}, {}), [](const decoder::StateTensor& state) {
    return state.kind == registry::StateKind::kv &&
           (state.name.ends_with(".k") || state.name.ends_with(".v"));
  });
}

struct Read {
  const decoder::Model& model;
  const weights::Weights& weights;
  std::span<const std::int32_t> ids;

  decode::Session session(std::int64_t batch = 1) const {
    return {model,
            weights.pointers(),
            {.batch = batch, .capacity = kTokens, .call_tokens = kTokens},
            cpu::cpu_backend()};
  }
  std::vector<float> in_pieces_of(std::size_t size) const {
    decode::Session s = session();
    std::span<const float> logits;
    for (std::size_t at = 0; at < ids.size(); at += size)
      logits = s.append(ids.subspan(at, std::min(size, ids.size() - at)));
    return {logits.begin(), logits.end()};
  }
};

class KvDtype : public ::testing::TestWithParam<TestModel> {};
class RoundedRows : public ::testing::TestWithParam<TestModel> {};

TEST_P(RoundedRows, SequencesInAnyPiecesGiveTheSameLogits) {
  const decoder::Model plain = open_model(GetParam().path);
  const weights::Weights weights = load_weights(GetParam(), plain);
  const Rows rows = random_rows(plain, 1, kTokens);
  const std::vector<float> want = Read{plain, weights, rows.ids}.in_pieces_of(kTokens);
  for (const char* word : kWords) {
    SCOPED_TRACE(word);
    const decoder::Model model = open_changed(GetParam(), key(word));
    const Read read{model, weights, rows.ids};
    const std::vector<float> whole = read.in_pieces_of(kTokens);
    EXPECT_GT(relative_difference(whole, want), 0) << "nothing was rounded";
    EXPECT_LT(relative_difference(whole, want), 0.2);
    // Products of few rows add in another order than products of many (docs/numerics.md), so keys
    // and values of all layers differ in their last bits, and one near the middle of two codes is
    // rounded to the other code. With AVX2 and pieces of 7 the first one is a value of llama2_deep
    // in fp8: layer 5, slot 14, channel 9 has the code 125 instead of 126. All codes of layers 0 to
    // 4 are equal, and all codes in int8. A code of fp8 is up to 1/8 of its number.
    const double tolerance = std::string_view(word) == "fp8" ? 1e-2 : 1e-3;
    for (const std::size_t size : {std::size_t{1}, std::size_t{7}})
      EXPECT_LE(relative_difference(read.in_pieces_of(size), whole), tolerance) << size;
  }
}

// A chat that returns to a prefix, and the beams of a search.
TEST_P(RoundedRows, CutAndReorderedSequencesContinueAsOthers) {
  const decoder::Model plain = open_model(GetParam().path);
  const weights::Weights weights = load_weights(GetParam(), plain);
  const decoder::Model model = open_changed(GetParam(), key("int8"));
  const Rows rows = random_rows(model, 2, kTokens);
  const std::span<const std::int32_t> first = std::span(rows.ids).first(kTokens),
                                      second = std::span(rows.ids).last(kTokens);
  const Read read{model, weights, first};
  decode::Session s = read.session();
  s.append(first);
  const std::size_t kept = s.keep_prefix(first.first(10));
  const std::vector<float> want = Read{model, weights, first.first(10)}.in_pieces_of(10);
  EXPECT_LE(relative_difference(s.append(first.first(10).subspan(kept)), want), 1e-3);

  decode::Session beams = read.session(2);
  using Parts = std::vector<std::span<const std::int32_t>>;
  beams.append(Parts{first.first(9), second.first(9)});
  beams.reorder(std::vector<std::size_t>{1, 1});
  const std::span<const float> both =
      beams.append(Parts{second.subspan(9, 1), second.subspan(9, 1)});
  const std::vector<float> alone = Read{model, weights, second.first(10)}.in_pieces_of(10);
  const auto vocab = static_cast<std::size_t>(model.vocab_size());
  for (std::size_t row = 0; row < 2; ++row)
    EXPECT_LE(relative_difference(both.subspan(row * vocab, vocab), alone), 1e-3) << row;
}

// A device without kernels for writes.
class NoWrites final : public Backend {
 public:
  std::string_view name() const override { return "other"; }
  std::span<const KernelChoice> kernels(const Op& op) const override {
    return op.name == "cache_write" ? std::span<const KernelChoice>() : cpu_.kernels(op);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) const override {
    return cpu_.allocate(bytes);
  }
  std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const override {
    return cpu_.allocate_for_copies(bytes);
  }
  Context& context() const override { return cpu_.context(); }
  bool reaches(MemoryKind kind) const override { return cpu_.reaches(kind); }

 private:
  const Backend& cpu_ = cpu::cpu_backend();
};

TEST(RoundedRowsOfADevice, AreRefusedByTheirOptionOnADeviceWithoutKernels) {
  const TestModel plain = test_model("llama2_deep");
  const decoder::Model model = open_changed(plain, key("int8"));
  const weights::Weights weights = load_weights(plain, model);
  EXPECT_ERROR_SAYS(decode::Session(model, weights.pointers(), {.capacity = 8}, NoWrites()),
                    ExitCode::usage, "cannot write keys and values as ");
}

TEST_P(KvDtype, OnlyKeysAndValuesOfHeadsAreRounded) {
  const decoder::Model plain = open_model(GetParam().path);
  if (!has_rows(plain)) {
    EXPECT_ERROR_SAYS(open_changed(GetParam(), key("int8")), ExitCode::usage,
                      "'model.kv_dtype' is \"int8\", but ");
    return;
  }
  const decoder::Model model = open_changed(GetParam(), key("int8"));
  const std::vector<decoder::StateTensor> before =
                                              plain.states({.dtype = DType::bf16}, {kTokens, 8}),
                                          now = model.states({.dtype = DType::bf16}, {kTokens, 8});
  ASSERT_EQ(before.size(), now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    EXPECT_EQ(before[i].type.shape, now[i].type.shape);
    const bool rounded = is_stored(now[i]);
    EXPECT_EQ(rounded, now[i].kind == registry::StateKind::kv &&
                           (now[i].name.ends_with(".k") || now[i].name.ends_with(".v")))
        << now[i].name;
    const std::int64_t values = now[i].type.num_elements(), width = now[i].type.dim(-1);
    EXPECT_EQ(now[i].bytes(),
              rounded ? values + values / width * formats::kRowScaleBytes : before[i].bytes());
  }
}

// The models whose keys are lines of a file that a test can change.
std::vector<TestModel> described_models() {
  std::vector<TestModel> out = test_models();
  std::erase_if(out, [](const TestModel& m) { return std::filesystem::is_directory(m.path); });
  return out;
}

std::vector<TestModel> models_with_rows() {
  std::vector<TestModel> out = described_models();
  std::erase_if(out, [](const TestModel& m) { return !has_rows(open_model(m.path)); });
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, KvDtype, ::testing::ValuesIn(described_models()),
                         [](const auto& test) { return test_name(test.param.name); });
INSTANTIATE_TEST_SUITE_P(All, RoundedRows, ::testing::ValuesIn(models_with_rows()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
