#include "ops/token_flow.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "ops/decode.h"
#include "ops/split.h"

namespace lamina::ops {
namespace {

bool all_same(const DimExtents& dim) {
  return std::ranges::all_of(dim, [](const Extent& e) { return e.counted == Counted::same; });
}

std::string shown(const TokenFlow& flow, int input, int dim) {
  return fmt::format("dim {} of {} {}", dim, flow.node.input_name(input),
                     to_string(flow.node.type(input)));
}

// Adds the extents of another operand's dim if they have the same sizes and each kind is one of
// both; equal elements are of every kind.
bool join_parts(DimExtents& known, const DimExtents& dim) {
  const auto agree = [](const Extent& a, const Extent& b) {
    return a.size == b.size &&
           (a.counted == b.counted || a.counted == Counted::same || b.counted == Counted::same);
  };
  if (!std::ranges::equal(known, dim, agree)) return false;
  for (std::size_t i = 0; i < dim.size(); ++i)
    if (known[i].counted == Counted::same) known[i] = dim[i];
  return true;
}

// Merges the extents of one dim of several operands.
void join(TokenFlow& flow, DimExtents& known, const DimExtents& dim, int input, int d) {
  if (all_same(known) && !dim.empty())
    known = dim;  // a dim of size 1 is repeated, so it has no information
  if (all_same(dim) || join_parts(known, dim)) return;
  if (has_tokens(known) || has_tokens(dim)) {
    if (flow.mixes.empty())
      flow.mixes = fmt::format("distinguishes tokens by their position in the call, along {}",
                               shown(flow, input, d));
    return;
  }
  std::int64_t size = 1;
  for (const Extent& e : dim) size *= e.size;
  known = dim_of(Counted::other, size);
}

// Computes the extents of outputs by the letters of the op's rule.
void follow_rule(TokenFlow& flow, const SplitRule& rule, bool may_mix) {
  std::map<char, DimExtents> of;
  const auto in_every_output = [&](char letter) {
    return std::ranges::all_of(rule.outputs, [&](const OperandSplit& output) {
      return output.dims.find(letter) != std::string::npos;
    });
  };
  for (int i = 0; i < flow.node.num_inputs(); ++i) {
    if (!flow.node.has(i)) continue;
    const std::string& letters = rule.inputs[static_cast<std::size_t>(i)].dims;
    for (int d = 0; d < flow.node.type(i).ndim(); ++d) {
      const DimExtents& dim = flow.in(i)[static_cast<std::size_t>(d)];
      const char letter = letters[static_cast<std::size_t>(d)];
      if (may_mix) {
        if (has_tokens(dim)) of.try_emplace(letter, dim);
        continue;
      }
      if (has_tokens(dim) && !(may_split(letter) && in_every_output(letter))) flow.mix(i, d);
      if (may_split(letter)) join(flow, of[letter], dim, i, d);
    }
  }
  for (int i = 0; i < flow.node.num_outputs(); ++i) {
    Extents extents = extents_of(flow.node.out_type(i), Counted::other);
    const std::string& letters = rule.outputs[static_cast<std::size_t>(i)].dims;
    for (std::size_t d = 0; d < extents.size(); ++d)
      if (const auto at = of.find(letters[d]); at != of.end() && letters[d] != '_')
        extents[d] = at->second;
    flow.outputs.push_back(std::move(extents));
  }
}

bool has_places(const Extents& extents) {
  return std::ranges::any_of(extents, [](const DimExtents& dim) {
    return std::ranges::find(dim, Counted::places, &Extent::counted) != dim.end();
  });
}

// A position depends on the number of tokens before it, which differs when a call has fewer.
void refuse_places(TokenFlow& flow) {
  for (int i = 0; i < flow.node.num_inputs(); ++i)
    if (flow.mixes.empty() && flow.node.has(i) && has_places(flow.in(i)) &&
        std::ranges::find(flow.reads_places, i) == flow.reads_places.end())
      flow.mixes = fmt::format("computes with positions of tokens among others, {} {}",
                               flow.node.input_name(i), to_string(flow.node.type(i)));
}

}  // namespace

bool has_tokens(const DimExtents& dim) {
  return std::ranges::any_of(dim, [](const Extent& e) {
    return e.counted != Counted::same && e.counted != Counted::other;
  });
}

DimExtents dim_of(Counted counted, std::int64_t size) {
  return size > 1 ? DimExtents{{counted, size}} : DimExtents{};
}

Extents extents_of(const Type& type, Counted counted) {
  Extents out;
  for (std::int64_t size : type.shape.dims()) out.push_back(dim_of(counted, size));
  return out;
}

void TokenFlow::mix(int input, int dim) {
  if (mixes.empty()) mixes = fmt::format("combines tokens, along {}", shown(*this, input, dim));
}

void TokenFlow::count(int input, int dim) {
  if (mixes.empty()) mixes = fmt::format("counts tokens, along {}", shown(*this, input, dim));
}

void GraphFlow::run() {
  for (const Node& node : graph_.nodes()) {
    std::vector<const Extents*> inputs;
    std::string mixes;
    for (ValueId value : node.inputs) {
      inputs.push_back(value == kNoValue ? nullptr : &at(value).extents);
      if (value != kNoValue && mixes.empty()) mixes = at(value).mixes;
    }
    with_node_view(graph_, node, [&](const NodeView& view) {
      TokenFlow flow{.node = view, .inputs = std::move(inputs)};
      follow_tokens(flow);
      if (mixes.empty() && !flow.mixes.empty()) {
        const std::string where = node.origin ? " (" + to_string(*node.origin) + ")" : "";
        mixes = fmt::format("runs {}, which {}{}", node.op->name, flow.mixes, where);
      }
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        at(node.outputs[i]) = {std::move(flow.outputs[i]), mixes};
    });
  }
}

void keep_extents(TokenFlow& flow) { flow.outputs = {flow.in(0)}; }

void follow_tokens(TokenFlow& flow) {
  const OpDef& def = *flow.node.op().def;
  if (def.tokens) {
    def.tokens(flow);
  } else {
    const std::optional<SplitRule> rule = split_rule(flow.node);
    LAMINA_ASSERT(rule);  // a test checks it for every op of plugins
    const bool may_mix = def.decode && def.decode != &kEachToken && def.decode != &kTrainingOnly;
    follow_rule(flow, *rule, may_mix);
  }
  refuse_places(flow);
}

}  // namespace lamina::ops
