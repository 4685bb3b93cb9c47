// The attention operator, compared with MaxText (goldens maxtext/attn_*): outputs and gradients.
#include <gtest/gtest.h>

#include "attention_problem.h"
#include "core/json.h"
#include "io/safetensors.h"
#include "support/goldens.h"

namespace lamina::cpu {
namespace {

class Golden {
 public:
  explicit Golden(const std::filesystem::path& folder)
      : file_((folder / "golden.safetensors").string()),
        config_(JsonDocument::read((folder / "config.json").string())) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const auto bytes = file_.tensor(name).bytes;
    std::vector<T> x(bytes.size() / sizeof(T));
    std::memcpy(x.data(), bytes.data(), bytes.size());
    return x;
  }
  Doubles reals(const std::string& name) const {
    const std::vector<float> x = values<float>(name);
    return Doubles(x.begin(), x.end());
  }
  std::int64_t dim(const std::string& name, int i) const { return file_.tensor(name).shape[i]; }
  // True if the keys of a model set the mask or blocks: golden/attention_kinds_test.cc tests these.
  bool is_of_a_model() const {
    const JsonValue moba = config_.root().find("moba");
    return (moba && moba.as_bool()) || number("causal_block_size") > 0;
  }
  // 0 if the key is absent or null.
  double number(const char* key) const {
    const JsonValue value = config_.root().find(key);
    return value && !value.is_null() ? value.as_double() : 0;
  }

 private:
  io::SafetensorsFile file_;
  JsonDocument config_;
};

// Runs of tokens of the mask, numbered from 1; 0 elsewhere.
std::vector<std::int32_t> runs(const std::vector<std::uint8_t>& mask, std::int64_t tokens) {
  std::vector<std::int32_t> ids(mask.size(), 0);
  std::int32_t id = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (!mask[i]) continue;
    const bool starts = i % static_cast<std::size_t>(tokens) == 0 || !mask[i - 1];
    ids[i] = starts ? ++id : id;
  }
  return ids;
}

AttentionProblem problem_of(const Golden& golden) {
  AttentionProblem p;
  p.spec.batch = golden.dim("q", 0);
  p.spec.q_tokens = p.spec.kv_tokens = golden.dim("q", 1);
  p.spec.heads = golden.dim("q", 2);
  p.spec.kv_heads = golden.dim("k", 2);
  p.spec.qk_dim = p.spec.v_dim = golden.dim("q", 3);
  p.spec.soft_cap = golden.number("attn_logits_soft_cap");
  p.spec.window = static_cast<std::int64_t>(golden.number("sliding_window_size"));
  p.spec.chunk = static_cast<std::int64_t>(golden.number("chunk_attn_window_size"));
  p.q = golden.reals("q");
  p.k = golden.reals("k");
  p.v = golden.reals("v");
  p.d_o = golden.reals("cotangent");
  if (golden.has("sinks")) p.sinks = golden.reals("sinks");
  if (golden.has("segment_ids")) {
    p.q_segments = golden.values<std::int32_t>("segment_ids");
    for (std::int32_t& id : p.q_segments) id = id < 0 ? 0 : id + 1;  // negative: padding
    p.k_segments = p.q_segments;
  }
  if (golden.has("bidirectional"))
    p.q_blocks = p.k_blocks = runs(golden.values<std::uint8_t>("bidirectional"), p.spec.q_tokens);
  return p;
}

// MaxText gives a row without visible keys the mean of all values; lamina gives it zero. Removes
// these rows from the expected results.
void leave_out_empty_rows(const AttentionProblem& p, Doubles& o, Doubles& dv) {
  const AttentionSpec& s = p.spec;
  for (std::size_t row = 0; row < p.q_segments.size(); ++row) {
    if (p.q_segments[row] != 0) continue;
    const std::int64_t b = static_cast<std::int64_t>(row) / s.q_tokens;
    for (std::int64_t n = 0; n < s.heads; ++n)
      for (std::int64_t h = 0; h < s.v_dim; ++h) {
        const auto at = static_cast<std::int64_t>(row) * s.heads * s.v_dim + n * s.v_dim + h;
        o[static_cast<std::size_t>(at)] = 0;
        const std::int64_t kv_head = n / (s.heads / s.kv_heads);
        for (std::int64_t t = 0; t < s.kv_tokens; ++t)
          dv[static_cast<std::size_t>(((b * s.kv_tokens + t) * s.kv_heads + kv_head) * s.v_dim +
                                      h)] -=
              p.d_o[static_cast<std::size_t>(at)] / static_cast<double>(s.kv_tokens);
      }
  }
}

TEST(AttentionGolden, MatchesMaxText) {
  int cases = 0;
  for (const auto& folder : testing::golden_folders("maxtext", "golden.safetensors")) {
    const std::string name = folder.filename().string();
    if (name.rfind("attn_", 0) != 0) continue;
    SCOPED_TRACE(name);
    const Golden golden(folder);
    if (golden.is_of_a_model()) continue;
    const AttentionProblem p = problem_of(golden);
    Doubles o = golden.reals("out"), dv = golden.reals("grad_v");
    leave_out_empty_rows(p, o, dv);
    for (DType dtype : {DType::f64, DType::f32}) {
      const AttentionResults r = run_attention(p, dtype);
      EXPECT_LT(difference(r.o, o), 2e-5);
      EXPECT_LT(difference(r.dq, golden.reals("grad_q")), 1e-4);
      EXPECT_LT(difference(r.dk, golden.reals("grad_k")), 1e-4);
      EXPECT_LT(difference(r.dv, dv), 1e-4);
      if (golden.has("grad_sinks")) {
        EXPECT_LT(difference(r.dsinks, golden.reals("grad_sinks")), 1e-4);
      }
    }
    ++cases;
  }
  if (cases == 0) GTEST_SKIP() << "no goldens in " << testing::golden_dir();
}

}  // namespace
}  // namespace lamina::cpu
