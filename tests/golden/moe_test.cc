// Mixtures of experts, compared with MaxText: every folder of maxtext named moe_*.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autodiff/vjp.h"
#include "core/json.h"
#include "decoder/graph/trace_block.h"
#include "inspect/verify/case.h"
#include "inspect/verify/report.h"
#include "io/weight_files.h"
#include "ops/tensor.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// The case's config as keys of the family moe_case.
class Description {
 public:
  Description(const fs::path& directory, std::int64_t width)
      : document_(JsonDocument::read((directory / "config.json").string(),
                                     {.code = ExitCode::checkpoint})) {
    const std::string block = text("decoder_block"), score = text("routed_score_func");
    add("hidden_size", width);
    add("experts", integer("num_experts"));
    add("per_token", integer("num_experts_per_tok"));
    add("width", integer("moe_mlp_dim"));
    add("balance_weight", number("load_balance_loss_weight"));
    if (number("capacity_factor") > 0) add("capacity_factor", number("capacity_factor"));
    if (flag("mlp_bias")) add("bias", true);
    const std::string activation(
        (*document_.root().at("mlp_activations").elements().begin()).as_string());
    if (activation == "gelu") add("activation", "\"gelu_tanh\"");
    if (activation == "relu") add("activation", "\"relu\"");
    if (block == "deepseek") deepseek(score);
    if (block == "gemma4") {
      add("scores", "\"softmax\"");
      add("weights", flag("norm_topk_prob") ? "\"normalized\"" : "\"scores\"");
      add("per_expert_scale", true);
    }
    if (block == "llama4") {
      add("scores", "\"sigmoid\"");
      add("weights", "\"scores\"");
      add("weigh_input", true);
    }
    if (block != "deepseek" && flag("routed_bias")) add("router_bias", true);
    if (block == "gpt_oss") {
      add("limit", number("mlp_activations_limit"));
      add("alpha", 1.702);
    }
    if (flag("has_shared_expert"))
      add("shared_width", integer("shared_experts") * integer("moe_mlp_dim"));
  }

  std::string toml() const { return "family = \"moe_case\"\n[model]\n" + text_; }
  // No function is applied before the choice.
  bool chooses_by_logits() { return text("routed_score_func").empty(); }
  double number(const char* key) { return document_.root().at(key).as_double(); }

 private:
  // Adds the routing bias to the choice; in models not named deepseek3 it also affects the weights.
  void deepseek(const std::string& score) {
    const bool root = score == "sqrtsoftplus";
    add("scores", fmt::format("\"{}\"", root ? "sqrt_softplus" : score));
    add("weights", root || score == "sigmoid" ? "\"normalized\"" : "\"scores\"");
    if (number("mlp_activations_limit") > 0) add("limit", number("mlp_activations_limit"));
    add("scale", number("routed_scaling_factor"));
    add("balance_of_scores", true);
    const bool third = text("model_name").starts_with("deepseek3");
    if (flag("routed_bias")) {
      add("correction_bias", true);
      add("bias_rate", number("routed_bias_update_rate"));
      add("biased_weights", !third);
    }
    if (!third || integer("n_routing_groups") <= 0) return;
    add("groups", integer("n_routing_groups"));
    add("groups_kept", integer("topk_routing_group"));
  }

  std::string text(const char* key) { return std::string(document_.root().at(key).as_string()); }
  std::int64_t integer(const char* key) { return document_.root().at(key).as_int64(); }
  bool flag(const char* key) { return document_.root().at(key).as_bool(); }
  template <typename T>
  void add(const char* key, const T& value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }

  JsonDocument document_;
  std::string text_;
};

// Lamina's name of a MaxText parameter.
std::string our_name(std::string theirs, bool corrects) {
  static const std::map<std::string, std::string> names = {
      {"gate/kernel", "router.weight"},
      {"gate/bias", "router.bias"},
      {"per_expert_scale", "router.per_expert_scale"},
      {"wi_0", "experts.w1.weight"},
      {"wi_1", "experts.w3.weight"},
      {"wo", "experts.w2.weight"},
      {"wi_0_bias", "experts.w1.bias"},
      {"wi_1_bias", "experts.w3.bias"},
      {"wo_bias", "experts.w2.bias"},
      {"shared_experts/wi_0/kernel", "shared.w1.weight"},
      {"shared_experts/wi_1/kernel", "shared.w3.weight"},
      {"shared_experts/wo/kernel", "shared.w2.weight"}};
  if (theirs.starts_with("MoeBlock_0/")) theirs = theirs.substr(11);
  if (corrects && theirs == "gate/bias") return "router.correction_bias";
  return names.at(theirs);
}

// MaxText's matrices are [in, out], lamina's are [out, in].
std::vector<float> transposed(const std::vector<float>& from, const Shape& shape, bool matrix) {
  if (!matrix) return from;
  const auto rows = static_cast<std::size_t>(shape[-2]);
  const auto columns = static_cast<std::size_t>(shape[-1]);
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::size_t matrix_start = i / (rows * columns) * rows * columns, at = i - matrix_start;
    to[matrix_start + at % columns * rows + at / columns] = from[i];
  }
  return to;
}

bool is_matrix(std::string_view theirs) {
  return !theirs.ends_with("bias") && !theirs.ends_with("scale");
}

class MoeCase {
 public:
  explicit MoeCase(const fs::path& directory)
      : case_(directory.string()),
        files_(directory.string()),
        description_(directory, case_.shape("x")[2]),
        model_(open_description(description_.toml())) {
    const Shape x = case_.shape("x");
    decoder::TracePhase phase{{.batch = x[0], .tokens = x[1]}, {.training = true, .aux = true}, {}};
    phase.hidden_size = x[2];
    phase.num_layers = 1;
    phase.carries = {phase.activations()};
    block_ = decoder::trace_block(model_.family(), model_.config(), {.block = 1, .overrides = {}},
                                  nullptr, phase);
  }

  void compare() {
    differentiate();
    read_inputs();
    const std::vector<Array> got = run(block_.graph, inputs_);
    auto output = [&](const std::string& name) {
      return floats(output_named(block_.graph, got, name));
    };
    expect_near("output", output("x"), 2e-5);
    expect_near("router", output(description_.chooses_by_logits() ? "logits" : "choice"), 2e-5);
    if (description_.number("num_experts_per_tok") > 1)
      expect_near("topk_weights", output("weights"), 2e-5);
    expect_same("topk_ids", output("ids"));
    expect_same("expert_load", output("expert_tokens"));
    expect_near("load_balance_loss", output("weighted balance"), 1e-5);
    if (case_.has("bias_update")) expect_update(got);
    expect_near("grad_x", output("grad x"), 1e-4);
    for (std::string_view theirs : files_.names()) compare_gradient(std::string(theirs), output);
  }

 private:
  // Outputs of sum(output * cotangent) + the weighted balance loss, and its gradients.
  void differentiate() {
    Graph& graph = block_.graph;
    std::vector<Tensor> results = {graph.tensor(graph.outputs()[0].value)}, wanted, seeds;
    for (const decoder::BlockGraph::Aux& aux : block_.aux) {
      Tensor value = graph.tensor(graph.outputs()[static_cast<std::size_t>(aux.value)].value);
      if (aux.desc.name == "moe_lb_loss")
        results.push_back(ops::scale(value, description_.number("load_balance_loss_weight")));
    }
    graph.add_output("weighted balance", results[1]);
    seeds = {graph.add_input("cotangent", results[0].type()),
             ops::constant(graph, results[1].type(), 1)};
    wanted = {graph.tensor(graph.inputs()[0].value)};
    for (const auto& param : block_.params)
      wanted.push_back(graph.tensor(graph.inputs()[static_cast<std::size_t>(param.input)].value));
    std::vector<Tensor> gradients =
        autodiff::vjp(graph, results, seeds, wanted, autodiff::save_everything());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!gradients[i]) gradients[i] = ops::zeros_like(wanted[i]);
      graph.add_output("grad " + graph.inputs()[graph.value(wanted[i].id).index].name,
                       ops::cast(gradients[i], DType::f32));
    }
  }

  void read_inputs() {
    std::map<std::string, std::vector<float>> values;
    values["x"] = case_.floats("x");
    values["cotangent"] = case_.floats("cotangent");
    for (std::string_view theirs : files_.names()) {
      const io::TensorView view = files_.tensor(theirs);
      const auto* from = reinterpret_cast<const float*>(view.bytes.data());
      values[ours(std::string(theirs))] =
          transposed({from, from + view.shape.num_elements()}, view.shape, is_matrix(theirs));
    }
    for (const GraphInput& input : block_.graph.inputs()) {
      const Type& type = block_.graph.type(input.value);
      inputs_.push_back(zeros(type));
      if (input.name == "segments")  // no token is padding
        inputs_.back() = array(
            type, std::vector<double>(static_cast<std::size_t>(type.shape.num_elements()), 1));
      if (auto found = values.find(input.name); found != values.end())
        std::memcpy(inputs_.back().data(), found->second.data(),
                    found->second.size() * sizeof(float));
    }
  }

  std::string ours(const std::string& theirs) const {
    const bool corrects = std::ranges::any_of(block_.graph.inputs(), [](const GraphInput& input) {
      return input.name == "router.correction_bias";
    });
    return our_name(theirs, corrects);
  }

  static std::vector<float> floats(const Array& a) {
    std::vector<float> out;
    for (double value : to_doubles(a)) out.push_back(static_cast<float>(value));
    return out;
  }

  void expect_near(const std::string& name, const std::vector<float>& got, double tolerance) {
    const std::vector<float> want = case_.floats(name);
    EXPECT_LE(inspect::max_abs_difference(got, want), tolerance * inspect::max_abs(want) + 1e-7)
        << name;
  }
  void expect_same(const std::string& name, const std::vector<float>& got) {
    const std::vector<std::int32_t> want = case_.ints(name);
    EXPECT_EQ(std::vector<std::int32_t>(got.begin(), got.end()), want) << name;
  }

  // Expects that rate * sign(value) is added to the bias.
  void expect_update(const std::vector<Array>& got) {
    ASSERT_EQ(block_.updates.size(), 1u);
    std::vector<float> update = floats(got[static_cast<std::size_t>(block_.updates[0].output)]);
    for (float& value : update)
      value = static_cast<float>(description_.number("routed_bias_update_rate")) *
              static_cast<float>((value > 0) - (value < 0));
    expect_near("bias_update", update, 1e-6);
  }

  template <typename Output>
  void compare_gradient(const std::string& theirs, Output output) {
    std::vector<float> got = output("grad " + ours(theirs));
    const Shape shape = files_.tensor(theirs).shape;
    if (is_matrix(theirs)) {
      Shape transposed_shape = shape;
      std::swap(transposed_shape[-1], transposed_shape[-2]);
      got = transposed(got, transposed_shape, true);
    }
    if (case_.has("grad." + theirs)) return expect_near("grad." + theirs, got, 1e-4);
    std::vector<float> picked(case_.floats("grad_sample." + theirs).size());
    for (std::size_t i = 0; i < picked.size(); ++i) picked[i] = got[i * 2654435761u % got.size()];
    expect_near("grad_sample." + theirs, picked, 1e-4);
    double sum = 0;
    for (float g : got) sum += static_cast<double>(g) * static_cast<double>(g);
    expect_near("grad_norm." + theirs, {static_cast<float>(std::sqrt(sum))}, 1e-4);
  }

  inspect::GoldenCase case_;
  io::WeightFiles files_;
  Description description_;
  decoder::Model model_;
  decoder::BlockGraph block_;
  std::vector<Array> inputs_;
};

class MoeGolden : public ::testing::TestWithParam<fs::path> {};

TEST_P(MoeGolden, AgreesWithMaxText) { MoeCase(GetParam()).compare(); }

INSTANTIATE_TEST_SUITE_P(All, MoeGolden,
                         ::testing::ValuesIn(golden_folders("maxtext", "config.json", "moe_")),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MoeGolden);

}  // namespace
}  // namespace lamina::testing
