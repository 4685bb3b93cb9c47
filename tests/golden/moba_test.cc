// Mixture of block attention against what MaxText computed: every folder of maxtext named attn_*
// whose config has it.
#include <gtest/gtest.h>

#include "autodiff/vjp.h"
#include "core/json.h"
#include "inspect/verify/case.h"
#include "inspect/verify/report.h"
#include "ops/tensor.h"
#include "support/goldens.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

void expect_mask_agrees(const fs::path& directory) {
  const inspect::GoldenCase golden(directory.string());
  const JsonDocument config = JsonDocument::read((directory / "config.json").string());
  const JsonValue moba = config.root().find("moba");
  if (!moba || !moba.as_bool()) return;
  Graph graph;
  std::vector<Tensor> inputs;
  std::vector<Array> values;
  for (const char* name : {"q", "k", "v", "cotangent"}) {
    const std::vector<float> floats = golden.floats(name);
    const Type type{DType::f32, golden.shape(name), {}};
    inputs.push_back(graph.add_input(name, type));
    values.push_back(array(type, std::vector<double>(floats.begin(), floats.end())));
  }
  Tensor mask = ops::call("moba_mask", {inputs[0], inputs[1]},
                          {{"chunk", config.root().at("moba_chunk_size").as_int64()},
                           {"k", config.root().at("moba_topk").as_int64()}});
  Tensor y =
      ops::call_all("attention", {inputs[0], inputs[1], inputs[2], {}, mask}, {{"scale", 1.0}})[0];
  graph.add_output("out", y);
  const std::vector<Tensor> gradients =
      autodiff::vjp(graph, std::span(&y, 1), std::span(&inputs[3], 1), std::span(inputs).first(3),
                    autodiff::save_everything());
  for (Tensor g : gradients) graph.add_output("gradient", g);
  const std::vector<Array> got = run(graph, values);
  const char* names[] = {"out", "grad_q", "grad_k", "grad_v"};
  for (std::size_t i = 0; i < got.size(); ++i) {
    std::vector<float> floats;
    for (double x : to_doubles(got[i])) floats.push_back(static_cast<float>(x));
    const std::vector<float> want = golden.floats(names[i]);
    EXPECT_LE(inspect::max_abs_difference(floats, want),
              (i == 0 ? 2e-5 : 1e-4) * inspect::max_abs(want))
        << names[i];
  }
}

TEST(MobaGolden, AgreesWithMaxText) {
  const auto folders = golden_folders("maxtext", "config.json", "attn_");
  if (folders.empty()) GTEST_SKIP() << "none in " << golden_dir();
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    expect_mask_agrees(folder);
  }
}

}  // namespace
}  // namespace lamina::testing
