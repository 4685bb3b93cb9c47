// Updates of many tensors by one program: the bits of one tensor at a time.
#include <gtest/gtest.h>

#include <random>

#include "cuda/gpu_memory.h"
#include "train/optimizer/rule_programs.h"

namespace lamina::testing {
namespace {

using Results = std::vector<std::vector<std::byte>>;

Results results_of(Program& program, std::span<const Array> inputs) {
  std::vector<GpuMemory> memory;
  std::vector<ConstTensorRef> in;
  std::vector<TensorRef> out;
  for (const Array& input : inputs) in.emplace_back(memory.emplace_back(input).tensor());
  std::vector<std::size_t> places;
  for (const GraphOutput& output : program.graph().outputs()) {
    if (output.alias_input < 0)
      memory.emplace_back(static_cast<std::size_t>(program.graph().type(output.value).bytes()));
    places.push_back(output.alias_input < 0 ? memory.size() - 1
                                            : static_cast<std::size_t>(output.alias_input));
    out.push_back(memory[places.back()].tensor());
  }
  const auto arena = test_gpu().allocate(program.arena_bytes());
  program.run(in, out, *arena);
  Results results;
  for (const std::size_t place : places) results.push_back(memory[place].bytes());
  return results;
}

struct RuleCase {
  config::OptimizerSection section;
  train::UpdateRule rule;
};

// Vectors, and matrices that are wide, tall and several.
std::vector<train::UpdateKind> kinds_of(const RuleCase& of) {
  std::vector<train::UpdateKind> out;
  const bool blocks = of.section.moments == "8bit";
  for (int i = 0; i < 30; ++i) {
    train::UpdateKind kind{
        .rule = of.rule, .weight_decay = i % 3 == 0 ? 0.1 : 0, .copy = i % 2 == 0};
    if (train::is_elementwise(of.rule)) {
      kind.rows = blocks ? 1 + i % 4 : 1;
      kind.width = blocks && kind.rows > 1 ? train::kBlock : 1 + 37 * (i % 7);
    } else {
      const bool is_vector = of.rule == train::UpdateRule::adafactor && i % 2 == 0;
      kind.batch = 1 + i % 5 / 4;
      kind.rows = is_vector ? 1 : 2 + 7 * (i % 4);
      kind.width = 3 + 16 * (i % 3);
    }
    out.push_back(kind);
  }
  return out;
}

TEST(RuleGroups, HaveTheBitsOfOneTensorAtATime) {
  using train::UpdateRule;
  for (const RuleCase& of : {RuleCase{{.name = "sgd", .momentum = 0.9}, UpdateRule::sgd},
                             {{.name = "lion"}, UpdateRule::lion},
                             {{.moments = "bfloat16"}, UpdateRule::adamw},
                             {{.eps_root = 1e-8}, UpdateRule::adamw},
                             {{.moments = "8bit"}, UpdateRule::adamw},
                             {{.name = "lion", .moments = "8bit"}, UpdateRule::lion},
                             {{.name = "adafactor"}, UpdateRule::adafactor},
                             {{.name = "muon"}, UpdateRule::muon}}) {
    SCOPED_TRACE(of.section.name + " " + of.section.moments);
    std::mt19937 random(1);
    train::RulePrograms programs(of.section, test_gpu());
    const std::vector<train::UpdateKind> kinds = kinds_of(of);
    std::vector<Array> inputs;
    Results want;
    for (const train::UpdateKind& kind : kinds) {
      const Graph graph = train::update_graph(kind, of.section);
      const std::size_t first = inputs.size();
      // Not below 0, as second moments.
      for (const GraphInput& input : graph.inputs())
        inputs.push_back(random_array(graph.type(input.value), random, 0, 1));
      for (auto& bytes : results_of(programs.get({kind}), std::span(inputs).subspan(first)))
        want.push_back(std::move(bytes));
    }
    const Results got = results_of(programs.get(kinds), inputs);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << "result " << i;
  }
}

}  // namespace
}  // namespace lamina::testing
