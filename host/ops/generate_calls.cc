// Generates C++ from ops.def and internal.def: ops/operands.h with the positions of inputs and
// results by name, and ops/calls.h with calls.cc, where every op is a function with typed
// attributes.
//
//   lamina_generate_calls DIR
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "ops/rows.h"

namespace lamina::ops {
namespace {

// Ops with more convenient forms in ops/tensor.h; the generated ones are in ops::plain.
const std::set<std::string_view> kHandWritten = {"broadcast",  "cast",       "constant", "matmul",
                                                 "reduce_max", "reduce_sum", "reshape",  "scale",
                                                 "shift",      "slice",      "transpose"};

constexpr std::size_t kMaxPositional = 4;  // inputs; more are passed in a struct

// "key_positions" -> "KeyPositions"
std::string camel(std::string_view name) {
  std::string out;
  bool upper = true;
  for (char c : name) {
    if (c != '_') out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = c == '_';
  }
  return out;
}

bool variadic(const std::vector<OpInput>& operands) {
  return !operands.empty() && operands.back().variadic;
}

std::string places(const std::string& space, const std::string& op,
                   const std::vector<OpInput>& operands) {
  std::vector<std::string> names;
  for (const OpInput& operand : operands) names.push_back("k" + camel(operand.name));
  if (names.empty()) return {};
  return fmt::format("namespace {}::{} {{\nenum : int {{ {} }};\n}}\n", space, op,
                     fmt::join(names, ", "));
}

struct TypeAndDefault {
  std::string type, fallback;
};
TypeAndDefault field_of(const OpAttr& attr) {
  if (auto* i = std::get_if<std::int64_t>(&attr.fallback))
    return attr.is_flag ? TypeAndDefault{"bool", *i ? "true" : "false"}
                        : TypeAndDefault{"std::int64_t", std::to_string(*i)};
  if (auto* f = std::get_if<double>(&attr.fallback)) return {"double", fmt::format("{}", *f)};
  if (auto* s = std::get_if<std::string>(&attr.fallback))
    return {"std::string", fmt::format("\"{}\"", *s)};
  if (std::holds_alternative<std::vector<std::int64_t>>(attr.fallback))
    return {"std::vector<std::int64_t>", "{}"};
  if (std::holds_alternative<std::vector<double>>(attr.fallback))
    return {"std::vector<double>", "{}"};
  return {"std::shared_ptr<const Graph>", "{}"};
}

std::string attrs_struct(const Op& op) {
  std::string out = fmt::format("struct {}Attrs {{\n", camel(op.name));
  for (const OpAttr& attr : op.attrs) {
    auto [type, fallback] = field_of(attr);
    out += fmt::format("  {} {} = {};\n", type, attr.name, fallback);
  }
  return out + "};\n";
}

std::string result_type(const Op& op) {
  if (variadic(op.outputs)) return "std::vector<Tensor>";
  return op.outputs.size() == 1 ? "Tensor" : camel(op.name) + "Results";
}

// Returns the function's head; declarations have defaults.
std::string head(const Op& op, bool defaults) {
  std::vector<std::string> params;
  if (op.inputs.empty()) params.push_back("Graph& graph");
  if (op.inputs.size() > kMaxPositional) {
    params.push_back(fmt::format("const {}Inputs& in", camel(op.name)));
  } else {
    bool rest_optional = true;
    for (std::size_t i = op.inputs.size(); i-- > 0;) {
      const OpInput& input = op.inputs[i];
      rest_optional = rest_optional && input.optional;
      params.insert(params.begin(), input.variadic
                                        ? fmt::format("const std::vector<Tensor>& {}", input.name)
                                        : fmt::format("Tensor {}{}", input.name,
                                                      defaults && rest_optional ? " = {}" : ""));
    }
  }
  if (!op.attrs.empty())
    params.push_back(
        fmt::format("const {}Attrs& attrs{}", camel(op.name), defaults ? " = {}" : ""));
  return fmt::format("{} {}({})", result_type(op), op.name, fmt::join(params, ", "));
}

std::string declaration(const Op& op) {
  std::string out = fmt::format("\n// {}\n", op.doc);
  if (!op.attrs.empty()) out += attrs_struct(op);
  if (op.inputs.size() > kMaxPositional) {
    out += fmt::format("struct {}Inputs {{\n", camel(op.name));
    for (const OpInput& input : op.inputs) out += fmt::format("  Tensor {} = {{}};\n", input.name);
    out += "};\n";
  }
  if (!variadic(op.outputs) && op.outputs.size() > 1) {
    out += fmt::format("struct {}Results {{\n", camel(op.name));
    for (const OpInput& output : op.outputs) out += fmt::format("  Tensor {};\n", output.name);
    out += "};\n";
  }
  return out + head(op, true) + ";\n";
}

std::string definition(const Op& op) {
  std::string out = "\n" + head(op, false) + " {\n";
  const std::string from = op.inputs.size() > kMaxPositional ? "in." : "";
  std::vector<std::string> fixed;
  for (const OpInput& input : op.inputs)
    if (!input.variadic) fixed.push_back(from + input.name);
  if (variadic(op.inputs) && fixed.empty()) {
    out += fmt::format("  const std::vector<Tensor>& inputs = {};\n", op.inputs.back().name);
  } else {
    out += fmt::format("  std::vector<Tensor> inputs{{{}}};\n", fmt::join(fixed, ", "));
    if (variadic(op.inputs))
      out += fmt::format("  inputs.insert(inputs.end(), {0}.begin(), {0}.end());\n",
                         op.inputs.back().name);
  }
  std::vector<std::string> values;
  for (const OpAttr& attr : op.attrs)
    values.push_back(attr.is_flag ? fmt::format("std::int64_t{{attrs.{}}}", attr.name)
                                  : "attrs." + attr.name);
  out += fmt::format("  std::vector<Tensor> made = add_op_node({}, OpCode::{}, inputs, {{{}}});\n",
                     op.inputs.empty() ? "graph" : "graph_of(inputs)", op.name,
                     fmt::join(values, ", "));
  if (variadic(op.outputs))
    out += "  return made;\n";
  else if (op.outputs.size() == 1)
    out += "  return made[0];\n";
  else {
    out += fmt::format("  made.resize({});  // null what this node does not make\n",
                       op.outputs.size());
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) parts.push_back(fmt::format("made[{}]", i));
    out += fmt::format("  return {{{}}};\n", fmt::join(parts, ", "));
  }
  return out + "}\n";
}

constexpr std::string_view kNote =
    "// Generated from ops.def and internal.def by ops/generate_calls.cc.\n";

int generate(const std::filesystem::path& dir) {
  std::string operands = fmt::format(
      "{}//\n// Places of the inputs and results of every op: operand::attention::kMask.\n"
      "#pragma once\n\nnamespace lamina {{\n\n",
      kNote);
  std::string calls = fmt::format(
      "{}//\n// Every op as a function: ops::concat({{a, b}}, {{.dim = 2}}). Inputs that may be "
      "absent\n"
      "// may be null. Types are checked by the op's infer, which throws. Ops in plain have\n"
      "// more convenient forms in ops/tensor.h.\n#pragma once\n\n"
      "#include <cstdint>\n#include <memory>\n#include <string>\n#include <vector>\n\n"
      "#include \"graph/graph.h\"\n\nnamespace lamina::ops {{\n",
      kNote);
  std::string source = fmt::format(
      "{}#include \"ops/calls.h\"\n\n#include \"core/error.h\"\n#include "
      "\"ops/op_code.h\"\n#include \"ops/registry.h\"\n\n"
      "namespace lamina::ops {{\nnamespace {{\n\n"
      "Graph& graph_of(const std::vector<Tensor>& inputs) {{\n"
      "  for (const Tensor& t : inputs)\n    if (t) return *t.graph;\n"
      "  LAMINA_ASSERT(!\"an op is given a tensor\");\n  return *inputs.front().graph;\n}}\n\n"
      "std::vector<Tensor> add_op_node(Graph& graph, OpCode op, const std::vector<Tensor>& "
      "inputs,\n"
      "                                std::vector<AttrValue> attrs) {{\n"
      "  return graph.add_node_like({{&get(op), {{}}, AttrList(std::move(attrs)), {{}}, "
      "graph.origin()}},\n"
      "                             inputs);\n}}\n\n}}  // namespace\n",
      kNote);
  for (const Op& op : parse_rows()) {
    operands += places("operand", op.name, op.inputs) + places("result", op.name, op.outputs);
    const bool plain = kHandWritten.contains(op.name);
    const std::string_view open = plain ? "\nnamespace plain {" : "", close = plain ? "}\n" : "";
    calls += fmt::format("{}{}{}", open, declaration(op), close);
    source += fmt::format("{}{}{}", open, definition(op), close);
  }
  std::filesystem::create_directories(dir);
  auto write = [&](const char* name, const std::string& text, const char* space) {
    const std::string whole = fmt::format("{}\n}}  // namespace {}\n", text, space);
    // An unchanged file keeps its time, so that files that include it are not recompiled.
    std::ifstream in(dir / name);
    if (in && std::string(std::istreambuf_iterator<char>(in), {}) == whole) return true;
    std::ofstream out(dir / name);
    out << whole;
    out.close();
    return out.good();
  };
  return write("operands.h", operands, "lamina") && write("calls.h", calls, "lamina::ops") &&
                 write("calls.cc", source, "lamina::ops")
             ? 0
             : 1;
}

}  // namespace
}  // namespace lamina::ops

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: lamina_generate_calls DIR\n", stderr);
    return 2;
  }
  return lamina::ops::generate(argv[1]);
}
