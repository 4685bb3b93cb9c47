#include "wrong_family.h"

#include <deque>

#include "registry/custom_ops.h"
#include "registry/library.h"

namespace lamina::conformance {
namespace {

using namespace lamina::sdk;
using sdk::Tensor;

constexpr std::uint32_t kBlock = 1;

void keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 64, .rope = {.theta = 100}});
  key("extra", &Config::extra,
      {.fallback = 0, .min = 0, .max = 1 << 20, .doc = "More tokens in the window."});
}

std::vector<Block<Config>> blocks() { return {{kBlock, "layer", right_block}}; }

std::vector<Weight> weights() {
  return outer_weights() + norm_weights(kBlock) + attention_weights(kBlock) +
         std::vector<Weight>{
             {kBlock, "feed_forward.w1.weight", "model.layers.{L}.mlp.gate_proj.weight"},
             {kBlock, "feed_forward.w2.weight", "model.layers.{L}.mlp.down_proj.weight"},
             {kBlock, "feed_forward.w3.weight", "model.layers.{L}.mlp.up_proj.weight"}};
}

}  // namespace

sdk::Tensor right_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.attend.window = 6 + c.extra;
  Tensor h_BTD = lamina::sdk::rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  Tensor a_BTD = self_attention(s / "attention", h_BTD, step, options);
  x_BTD = x_BTD + a_BTD;
  h_BTD = lamina::sdk::rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
}

Model right_family() {
  Model out;
  out.family = {.name = "subject",
                .hf_model_types = {"subject"},
                .hf_architectures = {"SubjectForCausalLM"},
                .doc = "what checks are tried on"};
  out.keys = keys;
  out.blocks = blocks;
  out.weights = weights;
  // Without multi-token prediction: one small model is enough.
  out.mtp = [](const Config&) { return Mtp{}; };
  return out;
}

Model family_that_draws() {
  Model out = right_family();
  out.keys = [](Schema<Config>& key) {
    keys(key);
    key("noise", &Config::noise,
        {.fallback = 0.25, .min = 0, .below = 1, .doc = "How much layers draw."});
  };
  out.blocks = LAMINA_WRONG_BLOCK({
    Tensor drawn_BTD = cast_like(random(s, x.shape()), x);
    x = x + scale(shift(drawn_BTD, -0.5), c.noise);
    return dropout(right_block(s, c, x, step), c.noise);
  });
  return out;
}

Registered register_family(const Model& model, Border border, const CustomOp* op) {
  struct Kept {
    explicit Kept(const Model& of) : description(of), tables(description) {}
    Model description;
    FamilyTables<Config> tables;
    lamina_family_t family{};
    lamina_block_t block{};
    std::unique_ptr<OpTable> op;
    std::vector<const CustomOp*> ops;
    std::unique_ptr<registry::Family> registered;
  };
  static auto& all = *new std::deque<Kept>;
  loading_host = &registry::plugin_host();
  Kept& kept = all.emplace_back(model);
  kept.family = kept.tables.family();
  if (border) {
    kept.block = *static_cast<const lamina_block_t*>(kept.family.blocks.ptr);
    kept.family.blocks = {&kept.block, 1, sizeof kept.block};
    border(kept.family, kept.block);
  }
  auto identity = std::make_shared<registry::PluginIdentity>();
  identity->id = "org.example.subject";
  std::shared_ptr<const registry::CustomOps> ops;
  if (op) {
    kept.op = std::make_unique<OpTable>(*op);
    kept.ops = {op};
    const lamina_custom_op_t source = kept.op->op();
    ops = std::make_shared<const registry::CustomOps>(registry::read_custom_ops(
        {sizeof(lamina_custom_ops_t), 0, {&source, 1, sizeof source}}, identity));
  }
  loading_ops = &kept.ops;
  kept.registered = std::make_unique<registry::Family>(kept.family, std::move(identity), ops);
  return {&kept.family, kept.registered.get()};
}

}  // namespace lamina::conformance
