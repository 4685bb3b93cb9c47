// Hyper-connections, compared with MaxText: every folder of maxtext named mhc_*.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

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
using Values = std::map<std::string, std::vector<float>>;

// Adds outputs "grad <input>" of sum(output 0 * cotangent) for every floating input.
void differentiate(Graph& graph) {
  std::vector<Tensor> results = {graph.tensor(graph.outputs()[0].value)}, wanted;
  for (const GraphInput& input : graph.inputs())
    if (is_floating(graph.type(input.value).dtype)) wanted.push_back(graph.tensor(input.value));
  std::vector<std::string> names;
  for (Tensor t : wanted) names.push_back(graph.inputs()[graph.value(t.id).index].name);
  std::vector<Tensor> seeds = {graph.add_input("cotangent", results[0].type())};
  std::vector<Tensor> gradients =
      autodiff::vjp(graph, results, seeds, wanted, autodiff::save_everything());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    graph.add_output("grad " + names[i], gradients[i] ? gradients[i] : ops::zeros_like(wanted[i]));
}

// Outputs by name; the first is "x".
Values run_with(const Graph& graph, const Values& values) {
  std::vector<Array> inputs;
  for (const GraphInput& input : graph.inputs()) {
    inputs.push_back(zeros(graph.type(input.value)));
    const auto found = values.find(input.name);
    if (found == values.end()) continue;
    LAMINA_ASSERT(inputs.back().bytes.size() == found->second.size() * sizeof(float));
    std::memcpy(inputs.back().data(), found->second.data(), inputs.back().bytes.size());
  }
  const std::vector<Array> results = run(graph, inputs);
  Values out;
  for (std::size_t i = 0; i < results.size(); ++i)
    for (double value : to_doubles(results[i]))
      out[graph.outputs()[i].name].push_back(static_cast<float>(value));
  return out;
}

std::vector<float> transposed(const std::vector<float>& from, std::size_t rows) {
  std::vector<float> to(from.size());
  const std::size_t columns = from.size() / rows;
  for (std::size_t i = 0; i < from.size(); ++i) to[i % columns * rows + i / columns] = from[i];
  return to;
}

void append(std::vector<float>& to, const std::vector<float>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

class Module {
 public:
  explicit Module(const fs::path& directory)
      : case_(directory.string()),
        files_(directory.string()),
        document_(JsonDocument::read((directory / "config.json").string(),
                                     {.code = ExitCode::checkpoint})) {
    const JsonValue iterations = document_.root().find("sinkhorn_iterations");
    const JsonValue eps = document_.root().find("normalization_layer_epsilon");
    const JsonValue lite = document_.root().find("enable_mhc_lite");
    streams_ = document_.root().at("mhc_expansion_rate").as_int64();
    width_ = document_.root().at("emb_dim").as_int64();
    model_.emplace(open_description(
        fmt::format("family = \"streams_case\"\n[model]\nhidden_size = {}\nstreams = {}\n"
                    "iterations = {}\nnorm_eps = {}\npermutations = {}\n",
                    width_, streams_, iterations ? iterations.as_int64() : 20,
                    eps ? eps.as_double() : 1e-6, lite && lite.as_bool())));
  }

  void compare_connection() {
    decoder::BlockGraph block = trace(decoder::BlockUse::Kind::layer, 1);
    differentiate(block.graph);
    Values in{{"x", golden("x")},
              {"cotangent", golden("cotangent")},
              {"norm.weight", golden("branch_norm_scale")},
              {"branch.weight", transposed(golden("branch_weight"), width())},
              {"mhc.norm.weight", theirs("mhc_norm/scale")}};
    for (const char* part : {"pre", "post", "res"}) {
      append(in["mhc.fn.weight"], transposed(theirs(fmt::format("{}_alpha", part)), flat()));
      append(in["mhc.base"], theirs(fmt::format("{}_beta", part)));
      append(in["mhc.scale"], theirs(fmt::format("{}_alpha_scale", part)));
    }
    graph_input_names(block, in);
    Values got = run_with(block.graph, in);
    for (const decoder::BlockGraph::Record& record : block.records)
      got[record.tag] = got[block.graph.outputs()[static_cast<std::size_t>(record.output)].name];
    expect_near("output", got[block.graph.outputs()[0].name], 2e-5);
    expect_near("collapsed", got["mhc_collapsed"], 2e-5);
    expect_near("post", got["mhc_post"], 2e-5);
    expect_near("res", got["mhc_comb"], 2e-5);
    expect_near("branch_in", got["branch_in"], 2e-5);
    expect_near("branch_out", got["branch_out"], 2e-5);
    expect_near("reduce_out", got["reduced"], 2e-5);
    expect_near("grad_x", got["grad " + carry_], 1e-4);
    expect_near("grad_branch_norm_scale", got["grad norm.weight"], 1e-4);
    expect_near("grad_branch_weight", transposed(got["grad branch.weight"], width()), 1e-4);
    expect_gradient("grad.mhc_norm/scale", got["grad mhc.norm.weight"]);
    std::size_t row = 0, of_fn = 0;
    for (const char* part : {"pre", "post", "res"}) {
      const std::size_t rows = theirs(fmt::format("{}_beta", part)).size();
      auto cut = [](const std::vector<float>& from, std::size_t begin, std::size_t size) {
        auto first = from.begin() + static_cast<std::ptrdiff_t>(begin);
        return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(size));
      };
      expect_gradient(
          fmt::format("grad.{}_alpha", part),
          transposed(cut(got["grad mhc.fn.weight"], row * flat(), rows * flat()), rows));
      expect_gradient(fmt::format("grad.{}_beta", part), cut(got["grad mhc.base"], row, rows));
      expect_gradient(fmt::format("grad.{}_alpha_scale", part),
                      cut(got["grad mhc.scale"], of_fn++, 1));
      row += rows;
    }
  }

  void compare_expansion() {
    decoder::BlockGraph block = trace(decoder::BlockUse::Kind::entry, 2);
    Values in{{"x", golden("expand_in")}};
    graph_input_names(block, in);
    expect_near("expand_out", run_with(block.graph, in)[block.graph.outputs()[0].name], 0);
  }

  void compare_head() {
    decoder::BlockGraph block = trace(decoder::BlockUse::Kind::exit, 3);
    differentiate(block.graph);
    Values in{{"x", golden("x")},
              {"cotangent", golden("cotangent")},
              {"head.fn.weight", transposed(theirs("hc_fn"), flat())},
              {"head.base", theirs("hc_base")},
              {"head.scale", theirs("hc_scale")}};
    graph_input_names(block, in);
    Values got = run_with(block.graph, in);
    expect_near("output", got[block.graph.outputs()[0].name], 2e-5);
    expect_near("grad_x", got["grad " + carry_], 1e-4);
    const auto rows = static_cast<std::size_t>(streams_);
    expect_gradient("grad.hc_fn", transposed(got["grad head.fn.weight"], rows));
    expect_gradient("grad.hc_base", got["grad head.base"]);
    expect_gradient("grad.hc_scale", got["grad head.scale"]);
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(width_); }
  std::size_t flat() const { return static_cast<std::size_t>(streams_ * width_); }

  decoder::BlockGraph trace(decoder::BlockUse::Kind kind, std::uint32_t id) {
    const Shape x = case_.shape("x");
    decoder::TracePhase phase{
        {.batch = x[0], .tokens = x[1]},
        {.training = true, .aux = true, .records = {"mhc_collapsed", "mhc_post", "mhc_comb"}},
        {}};
    phase.hidden_size = width_;
    phase.num_layers = 1;
    phase.carries = {{DType::f32, x, {}}};
    const std::size_t results = kind == decoder::BlockUse::Kind::entry ? 1 : 0;
    return decoder::trace_block(
        model_->family(), model_->config(),
        {.kind = kind, .block = id, .overrides = {}, .num_results = results}, nullptr, phase);
  }

  // The tracer chooses the name of the carry.
  void graph_input_names(const decoder::BlockGraph& block, Values& in) {
    carry_ = block.graph.inputs()[0].name;
    std::vector<float> x = std::move(in["x"]);
    in.erase("x");
    in[carry_] = std::move(x);
  }

  std::vector<float> golden(const std::string& name) { return case_.floats(name); }
  std::vector<float> theirs(const std::string& name) const {
    const io::TensorView view = files_.tensor(name);
    const auto* from = reinterpret_cast<const float*>(view.bytes.data());
    return {from, from + view.shape.num_elements()};
  }
  void expect_near(const std::string& name, const std::vector<float>& got, double tolerance) {
    const std::vector<float> want = golden(name);
    EXPECT_LE(inspect::max_abs_difference(got, want), tolerance * inspect::max_abs(want) + 1e-7)
        << name;
  }
  // For large tensors the golden has some elements and the norm.
  void expect_gradient(const std::string& name, const std::vector<float>& got) {
    if (case_.has(name)) return expect_near(name, got, 1e-4);
    const std::string rest = name.substr(std::string_view("grad.").size());
    std::vector<float> picked(golden("grad_sample." + rest).size());
    for (std::size_t i = 0; i < picked.size(); ++i) picked[i] = got[i * 2654435761u % got.size()];
    expect_near("grad_sample." + rest, picked, 1e-4);
    double sum = 0;
    for (float g : got) sum += static_cast<double>(g) * static_cast<double>(g);
    expect_near("grad_norm." + rest, {static_cast<float>(std::sqrt(sum))}, 1e-4);
  }

  inspect::GoldenCase case_;
  io::WeightFiles files_;
  JsonDocument document_;
  std::int64_t streams_ = 0, width_ = 0;
  std::optional<decoder::Model> model_;
  std::string carry_;
};

class MhcGolden : public ::testing::TestWithParam<fs::path> {};

TEST_P(MhcGolden, AgreesWithMaxText) {
  Module module(GetParam());
  if (GetParam().filename().string().starts_with("mhc_head")) return module.compare_head();
  module.compare_connection();
  module.compare_expansion();
}

INSTANTIATE_TEST_SUITE_P(All, MhcGolden,
                         ::testing::ValuesIn(golden_folders("maxtext", "config.json", "mhc_")),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MhcGolden);

TEST(MhcSinkhorn, AgreesWithMaxText) {
  const auto folders = golden_folders("maxtext", "golden.safetensors", "mhc_sinkhorn");
  if (folders.empty()) GTEST_SKIP() << "none in " << golden_dir();
  inspect::GoldenCase golden(folders[0].string());
  int count = 0;
  for (; golden.has(fmt::format("{}.t", count)); ++count) {
    auto name = [&](const char* part) { return fmt::format("{}.{}", count, part); };
    Graph graph;
    Tensor t = graph.add_input("t", {DType::f32, golden.shape(name("t")), {}});
    const std::int64_t iterations = golden.ints(name("iterations")).front();
    graph.add_output("x", ops::call("sinkhorn", {t}, {{"iterations", iterations}}));
    differentiate(graph);
    Values got = run_with(
        graph, {{"t", golden.floats(name("t"))}, {"cotangent", golden.floats(name("cotangent"))}});
    for (auto [ours, theirs] : {std::pair{"x", "out"}, std::pair{"grad t", "grad_t"}}) {
      const std::vector<float> want = golden.floats(name(theirs));
      EXPECT_LE(inspect::max_abs_difference(got[ours], want), 1e-5 * inspect::max_abs(want) + 1e-7)
          << name(theirs);
    }
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace lamina::testing
