#include "support/op_cases.h"

#include <algorithm>

#include "backends/cpu/backend.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "passes/common_subexpressions.h"
#include "passes/lower.h"
#include "support/op_case_build.h"
#include "support/op_case_kernels.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

class CpuCase final : public CaseDevice {
 public:
  const Backend& backend() const override { return cpu::cpu_backend(); }
  void run(Kernel& kernel, std::span<Array* const> inputs,
           std::span<Array* const> outputs) const override {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (Array* array : inputs) in.push_back(array ? array->data() : nullptr);
    for (Array* array : outputs) out.push_back(array ? array->data() : nullptr);
    std::vector<std::byte> workspace(kernel.workspace_bytes() + 64, kUnwritten);
    const auto start = (reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) / 64 * 64;
    kernel.run({in, out, reinterpret_cast<std::byte*>(start)});
  }
  void begin_run(bool again) const override { cpu::set_threads(again ? 1 : 2, false); }
  std::string_view again() const override { return "one thread instead of two"; }
};

constexpr cpu::Isa kSets[] = {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512,
                              cpu::Isa::avx512_bf16};
// Attributes with one of them changed, if the op accepts the change.
std::vector<AttrValue> other_values(const AttrValue& value) {
  if (auto i = std::get_if<std::int64_t>(&value)) return {*i + 1, *i - 1, *i + 2, 1 - *i, *i + 4};
  if (auto f = std::get_if<double>(&value)) return {*f * 0.5 + 0.125, *f + 1};
  if (std::holds_alternative<std::string>(value))
    return {std::string("f32"), std::string("f64"), std::string("bf16"), std::string("linear"),
            std::string("gelu")};
  if (auto list = std::get_if<std::vector<std::int64_t>>(&value)) {
    std::vector<AttrValue> out;
    std::vector<std::int64_t> reversed(list->rbegin(), list->rend()), longer = *list,
                                                                      shorter = *list;
    longer.insert(longer.begin(), 1);
    if (!shorter.empty()) shorter.pop_back();
    for (auto& other : {reversed, longer, shorter, std::vector<std::int64_t>{0}})
      if (other != *list) out.emplace_back(other);
    return out;
  }
  return {};
}

}  // namespace

void check_shape_rule(const OpCases& list) {
  const Op& op = ops::get(list.op);
  if (!op.def->lower) return;
  for_each(list, [&](const OpCase& c, DType dtype) {
    Built built;
    build(list, c, dtype, dtype, built);
    add_outputs(built.graph, built.results);
    Graph lowered =
        passes::lower(built.graph, [&](const Graph&, const Node& node) { return node.op != &op; });
    for (std::size_t i = 0; i < built.results.size(); ++i)
      EXPECT_EQ(to_string(built.results[i].type()),
                to_string(lowered.type(lowered.outputs()[i].value)));
  });
}

void check_kernels(const OpCases& list) {
  for_each(list, [&](const OpCase& c, DType dtype) {
    const std::vector<Doubles> want = meaning(list, c, dtype);
    const Allowed allowed = allowed_errors(c, dtype);
    Built built;
    build(list, c, dtype, dtype, built);
    const cpu::Isa best = cpu::best_isa();
    for (cpu::Isa set : kSets) {
      if (set > best) break;
      if (c.large && set < best) continue;
      cpu::ScopedIsa limit(set);
      for (const KernelChoice& choice : cpu::cpu_backend().kernels(ops::get(list.op))) {
        bool takes = with_node_view(built.graph, built.node(), [&](const NodeView& view) {
          return static_cast<bool>(choice.supports(view));
        });
        if (takes)
          check_kernel(CpuCase(), choice, built, want, allowed,
                       fmt::format("kernel {} with {}", choice.name, cpu::name(set)));
      }
    }
    // And in a program: chosen, lowered or only a view.
    add_outputs(built.graph, built.results);
    std::vector<Array> got = run(built.graph, built.inputs);
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i], want[i], allowed(got[i].type.dtype),
                   fmt::format("program, output {}", i));
  });
}

void check_merging(const OpCases& list) {
  const Op& op = ops::get(list.op);
  for (const OpCase& c : list.cases) {
    const DType dtype = (c.dtypes.empty() ? list.dtypes : c.dtypes).front();
    Built base;
    build(list, c, dtype, dtype, base);
    const Node node = base.node();
    for (std::size_t a = 0; a < op.attrs.size(); ++a)
      for (const AttrValue& other : other_values(node.attrs[a])) {
        if (same_attr(other, node.attrs[a])) continue;
        Built built;
        build(list, c, dtype, dtype, built);
        Node changed = node;
        changed.attrs = node.attrs.with(a, other);
        std::vector<Tensor> twin, apart;
        try {
          apart = built.graph.add_node_like(changed, built.operands);
        } catch (const Error&) {
          continue;  // the case cannot have this attribute
        }
        twin = built.graph.add_node_like(node, built.operands);
        built.graph.add_output("node", built.results[0]);
        built.graph.add_output("twin", twin[0]);
        built.graph.add_output("apart", apart[0]);
        Graph merged = passes::merge_common_subexpressions(built.graph);
        EXPECT_TRUE(op.def->in_place || merged.outputs()[0].value == merged.outputs()[1].value)
            << list.op << ": equal nodes are not merged";
        EXPECT_NE(merged.outputs()[0].value, merged.outputs()[2].value)
            << list.op << ": nodes that differ in '" << op.attrs[a].name << "' are merged";
      }
  }
}

void check_types(const OpCases& list) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16,    DType::f64,
                              DType::i32, DType::i64,  DType::boolean};
  const auto compile = [&](const OpCase& c, const std::vector<DType>& types) {
    Graph graph;
    std::vector<Tensor> operands;
    std::string said;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const Type type{types[i], c.inputs[i].shape, {}};
      said += " " + (c.inputs[i].absent ? "none" : to_string(type));
      operands.push_back(c.inputs[i].absent ? Tensor{}
                                            : graph.add_input("in" + std::to_string(i), type));
    }
    std::vector<std::pair<std::string_view, AttrValue>> attrs;
    for (const auto& [name, value] : c.attrs) attrs.emplace_back(name, value);
    std::vector<Tensor> results;
    try {
      results = graph.add_node(ops::get(list.op), operands, attrs);
    } catch (const Error&) {
      return;  // the shape rule refuses it
    }
    add_outputs(graph, results);
    EXPECT_NO_THROW(Program(optimized_for(cpu::cpu_backend(), graph), cpu::cpu_backend()))
        << list.op << " of" << said;
  };
  for (const OpCase& c : list.cases) {
    if (c.large) continue;
    std::vector<DType> usual;
    for (const In& in : c.inputs)
      usual.push_back(in.dtype.value_or((c.dtypes.empty() ? list.dtypes : c.dtypes).front()));
    for (DType type : kTypes) {
      std::vector<DType> all = usual;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (!c.inputs[i].dtype) all[i] = type;
        std::vector<DType> one = usual;
        one[i] = type;
        if (&c == &list.cases.front()) compile(c, one);
      }
      compile(c, all);
    }
  }
}

}  // namespace lamina::testing
