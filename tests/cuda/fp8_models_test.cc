// A whole model with weights in FP8, with and without products of FP8 operands.
#include <gtest/gtest.h>

#include "cuda/fp8_switch.h"
#include "cuda/gpu.h"
#include "decode/session.h"
#include "formats/block_formats.h"
#include "model/load.h"
#include "support/packed_model.h"

namespace lamina::testing {
namespace {

struct Fp8Model : PackedModel {
  Fp8Model()
      : PackedModel(*formats::fp8_format(128),
                    "family = \"llama2\"\nmodel = { vocab_size = 258, hidden_size = 128, "
                    "intermediate_size = 256, num_hidden_layers = 2, num_attention_heads = 4, "
                    "num_key_value_heads = 2 }\n") {}

  // Logits of a prompt whose number of tokens is no multiple of 16, and of one token more.
  std::vector<float> logits() const {
    const model::Loaded m =
        model::load(*this / "packed", built_plugins(), DType::bf16, test_gpu(), {.packed = true});
    decode::Session session(m.model(), m.weights.pointers(),
                            {.capacity = 80, .call_tokens = 70, .dtype = DType::bf16}, test_gpu());
    std::vector<std::int32_t> ids(71);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7 % 61);
    std::vector<float> out;
    std::span<const std::int32_t> rest = ids;
    for (const std::size_t count : {70, 1}) {
      const auto logits = session.append(rest.first(count));
      out.insert(out.end(), logits.begin(), logits.end());
      rest = rest.subspan(count);
    }
    return out;
  }
};

// An activation is rounded by up to 2^-4 of its value, 2.6 % in the mean square, so a product is
// off by about 2.6 % of its size. Eight products, one after the other, add up to 7 %; twice that is
// allowed.
TEST(CudaFp8, LogitsStayCloseAndOtherwiseEqual) {
  const Fp8Model model;
  const std::vector<float> without = model.logits();
  {
    const Fp8Switch off("0");
    EXPECT_EQ(model.logits(), without);
  }
  const Fp8Switch on("1");
  const std::vector<float> with = model.logits();
  EXPECT_EQ(model.logits(), with);
  const double difference = relative_difference(with, without);
  EXPECT_LT(difference, 0.15);
  EXPECT_GT(difference, 1e-3);
}

}  // namespace
}  // namespace lamina::testing
