// Checks the split rule of an op by applying it: every dim that may be split is split, and the
// parts give the same result as the whole.
#include <map>
#include <set>

#include "graph/call.h"
#include "ops/registry.h"
#include "ops/split.h"
#include "support/op_case_build.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kParts = 2;

// Returns the elements of `a` whose index is in part `part`, in each dim of `split`.
Array part_of(const Array& a, const std::vector<bool>& split, std::int64_t part) {
  Type type = a.type;
  for (int d = 0; d < type.ndim(); ++d)
    if (split[static_cast<std::size_t>(d)]) type.shape[d] /= kParts;
  Array out = zeros(type);
  for (std::int64_t i = 0; i < type.num_elements(); ++i) {
    std::int64_t rest = i, from = 0, stride = 1;
    for (int d = type.ndim() - 1; d >= 0; --d) {
      std::int64_t index = rest % type.dim(d);
      rest /= type.dim(d);
      if (split[static_cast<std::size_t>(d)]) index += part * type.dim(d);
      from += index * stride;
      stride *= a.type.dim(d);
    }
    set(out, i, get(a, from));
  }
  return out;
}

// Returns the dims of an operand that are split with `letter`; dims of size 1 broadcast and are
// not.
std::vector<bool> split_dims(const std::string& dims, const Type& type, char letter) {
  std::vector<bool> out;
  for (int d = 0; d < type.ndim(); ++d)
    out.push_back(dims[static_cast<std::size_t>(d)] == letter && type.dim(d) > 1);
  return out;
}

struct Whole {
  Built built;
  ops::SplitRule rule;
  std::vector<Array> outputs;
};

std::vector<Array> run_part(const OpCase& c, const OpCases& list, const Whole& whole, char letter,
                            std::int64_t part) {
  Graph graph;
  std::vector<Tensor> operands;
  std::vector<Array> inputs;
  bool is_sum = false;
  for (const ops::OperandSplit& output : whole.rule.outputs)
    is_sum = is_sum || output.summed.find(letter) != std::string::npos;
  std::size_t present = 0;
  for (std::size_t i = 0; i < whole.built.operands.size(); ++i) {
    operands.emplace_back();
    if (!whole.built.operands[i]) continue;
    const Array& all = whole.built.inputs[present++];
    const ops::OperandSplit& split = whole.rule.inputs[i];
    if (split.in_one_part && is_sum && part > 0) continue;
    inputs.push_back(part_of(all, split_dims(split.dims, all.type, letter), part));
    operands.back() = graph.add_input(fmt::format("in{}", i), inputs.back().type);
  }
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
  for (const auto& [name, value] : c.attrs) attrs.emplace_back(name, value);
  add_outputs(graph, graph.add_node(ops::get(list.op), operands, attrs));
  return run(graph, inputs);
}

void check_letter(const OpCase& c, const OpCases& list, const Whole& whole, char letter) {
  SCOPED_TRACE(fmt::format("split over '{}'", letter));
  std::vector<Array> parts[kParts];
  for (std::int64_t part = 0; part < kParts; ++part)
    parts[part] = run_part(c, list, whole, letter, part);
  for (std::size_t o = 0; o < whole.outputs.size(); ++o) {
    const Array& want = whole.outputs[o];
    const ops::OperandSplit& rule = whole.rule.outputs[o];
    const std::vector<bool> split = split_dims(rule.dims, want.type, letter);
    const bool summed = rule.summed.find(letter) != std::string::npos;
    Array sum;
    for (std::int64_t part = 0; part < kParts; ++part) {
      Array& got = parts[part][o];
      const Array expected = part_of(want, split, part);
      ASSERT_EQ(got.type, expected.type);
      if (summed) {
        if (part == 0) sum = got;
        for (std::int64_t i = 0; part > 0 && i < sum.type.num_elements(); ++i)
          set(sum, i, get(sum, i) + get(got, i));
        continue;
      }
      expect_close(got, to_doubles(expected), c.loosen * tolerance(want.type.dtype),
                   fmt::format("output {}, part {}", o, part));
    }
    if (summed)
      expect_close(sum, to_doubles(want), 4 * c.loosen * tolerance(want.type.dtype),
                   fmt::format("sum of output {}", o));
  }
}

// Returns the letters by which all inputs can be split.
std::set<char> letters_of(const Whole& whole) {
  std::map<char, bool> found;
  std::size_t present = 0;
  for (std::size_t i = 0; i < whole.built.operands.size(); ++i) {
    if (!whole.built.operands[i]) continue;
    const Type& type = whole.built.inputs[present++].type;
    for (int d = 0; d < type.ndim(); ++d) {
      const char letter = whole.rule.inputs[i].dims[static_cast<std::size_t>(d)];
      const bool broadcasts = letter <= '9' && type.dim(d) == 1;
      if (!ops::may_split(letter) || broadcasts) continue;
      const bool divides = type.dim(d) > 0 && type.dim(d) % kParts == 0;
      found[letter] = found.contains(letter) ? found[letter] && divides : divides;
    }
  }
  std::set<char> out;
  for (const auto& [letter, divides] : found)
    if (divides) out.insert(letter);
  return out;
}

}  // namespace

void check_split(const OpCases& list) {
  for (const OpCase& c : list.cases) {
    if (c.large) continue;
    SCOPED_TRACE(fmt::format("{}, {}", list.op, c.name));
    const DType dtype = (c.dtypes.empty() ? list.dtypes : c.dtypes).front();
    Whole whole;
    build(list, c, dtype, dtype, whole.built);
    const std::optional<ops::SplitRule> rule =
        with_node_view(whole.built.graph, whole.built.node(), ops::split_rule);
    if (!rule) continue;
    whole.rule = *rule;
    add_outputs(whole.built.graph, whole.built.results);
    whole.outputs = run(whole.built.graph, whole.built.inputs);
    for (char letter : letters_of(whole)) check_letter(c, list, whole, letter);
  }
}

}  // namespace lamina::testing
