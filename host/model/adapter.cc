#include "model/adapter.h"

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"
#include "publishers/formats.h"
#include "weights/tensor_map.h"

namespace lamina::model {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

// A matrix of the layers, by our name and by its module's.
struct Candidate {
  std::uint32_t block;
  std::string name;       // "attention.wq.weight"
  std::string ours;       // "attention.wq"
  std::string module;     // "model.layers.{L}.self_attn.q_proj"
  std::string published;  // the tensor of the family's map
  bool alone;             // it is the whole of that tensor, or of one of an expert
  bool is_stack;          // of the matrices of all experts
};

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::vector<Candidate> candidates_of(const decoder::Model& base) {
  std::vector<Candidate> out;
  for (const decoder::Parameter& p : base.parameters().all()) {
    const bool in_layer = p.block != 0 && p.layer >= 0 && p.layer < base.config().num_layers();
    if (!in_layer || p.desc.role != registry::Role::weight || p.desc.shape.ndim() < 2 ||
        p.desc.shape.ndim() > 3)
      continue;
    if (std::ranges::any_of(
            out, [&](const Candidate& c) { return c.block == p.block && c.name == p.desc.name; }))
      continue;
    const bool is_stack = p.desc.shape.ndim() == 3;
    Candidate c{.block = p.block,
                .name = p.desc.name,
                .ours = decoder::module_name(p.desc.name),
                .module = {},
                .published = p.desc.name,
                .alone = !is_stack,
                .is_stack = is_stack};
    for (const registry::TensorRow& row : base.family().tensor_rows()) {
      if (row.ignore || row.block != p.block || row.param != p.desc.name) continue;
      c.published = row.published;
      c.module = decoder::module_name(row.published);
      c.alone = (!is_stack || row.published.find("{E}") != std::string::npos) &&
                (row.transforms.empty() ||
                 (row.transforms.size() == 1 &&
                  row.transforms[0].kind == registry::Transform::Kind::transpose));
      break;
    }
    out.push_back(std::move(c));
  }
  return out;
}

bool is_called(const std::string& name, const std::string& target) {
  return name == target || name.ends_with("." + target);
}

// Matrices that files hold as one called `target` ("qkv_proj"): adapters of its rows.
std::vector<decoder::AdapterTarget> parts_called(const decoder::Model& base,
                                                 const std::vector<Candidate>& candidates,
                                                 const std::string& target) {
  const weights::TensorMap map = weights::published_tensors(base, weights::Layout::fused);
  std::vector<decoder::AdapterTarget> out;
  for (const weights::PublishedTensor& tensor : map.tensors()) {
    if (!is_called(decoder::module_name(tensor.name), target)) continue;
    std::vector<weights::Piece> pieces;
    for (const int piece : tensor.pieces)
      pieces.push_back(map.pieces()[static_cast<std::size_t>(piece)]);
    std::ranges::sort(pieces, {}, [](const weights::Piece& p) { return p.view.offset; });
    const auto& first = base.parameters()[pieces.front().parameter];
    for (const weights::Piece& piece : pieces) {
      const decoder::Parameter& p = base.parameters()[piece.parameter];
      const auto known = std::ranges::find_if(candidates, [&](const Candidate& c) {
        return c.block == p.block && c.name == p.desc.name && c.alone;
      });
      if (pieces.size() < 2 || known == candidates.end()) continue;
      out.push_back({p.block, p.desc.name, first.desc.name});
    }
  }
  return out;
}

}  // namespace

decoder::Adapter adapter_of(const decoder::Model& base, const weights::PeftConfig& config,
                            const std::string& where) {
  const std::vector<Candidate> candidates = candidates_of(base);
  decoder::Adapter out{
      .rank = config.rank, .scale = config.scale(), .dropout = config.dropout, .dora = config.dora};
  const auto add = [&](const decoder::AdapterTarget& target) {
    const decoder::AdapterTarget* known = out.find(target.block, target.name);
    if (!known) return out.targets.push_back(target);
    if (*known != target)
      throw UserError(
          ExitCode::usage,
          {where,
           fmt::format("'{}' would have an adapter by itself and as a part", target.name),
           {"name either the whole or its parts"}});
  };
  const auto refuse = [&](const std::string& target, const Candidate& c) {
    throw UserError(ExitCode::usage,
                    {where,
                     fmt::format("'{}' is '{}', a part of '{}'", target, c.name, c.published),
                     {"adapters are of matrices that are published whole, and of experts that are "
                      "published one by one"}});
  };
  for (const std::string& target : config.target_modules) {
    bool any = false;
    const Candidate* stack = nullptr;  // of experts in one tensor, which are no modules
    out.all = out.all || target == kAllLinear;
    for (const Candidate& c : candidates) {
      const bool all = target == kAllLinear;
      if (!all && !is_called(c.module, target) && !is_called(c.ours, target)) continue;
      if (!c.alone && all) continue;
      if (c.is_stack && !c.alone) {
        stack = &c;
        continue;
      }
      if (!c.alone) refuse(target, c);
      add({c.block, c.name});
      any = true;
    }
    if (any) continue;
    if (stack) refuse(target, *stack);
    for (const decoder::AdapterTarget& part : parts_called(base, candidates, target)) {
      add(part);
      any = true;
    }
    if (any) continue;
    std::vector<std::string> names;
    for (const Candidate& c : candidates)
      if (c.alone) {
        names.push_back(last_part(c.module));
        names.push_back(c.ours);
      }
    std::vector<std::string> notes;
    if (const std::string near = nearest_name(target, names); !near.empty())
      notes.push_back(fmt::format("did you mean '{}'?", near));
    else if (!names.empty())
      notes.push_back(fmt::format("there are '{}' and others", names.front()));
    throw UserError(
        ExitCode::usage,
        {where, fmt::format("no matrix of the layers is called '{}'", target), std::move(notes)});
  }
  return out;
}

decoder::Adapter adapter_of(const decoder::Model& base, const std::string& directory) {
  return adapter_of(base, weights::read_peft_config(directory),
                    fmt::format("{}/{}", directory, publishers::kAdapterConfig));
}

}  // namespace lamina::model
