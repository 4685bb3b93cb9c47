#include "model/adapter.h"

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"
#include "publishers/formats.h"

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
  bool alone;             // it is the whole of that tensor
};

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::vector<Candidate> candidates_of(const decoder::Model& base) {
  std::vector<Candidate> out;
  for (const decoder::Parameter& p : base.parameters().all()) {
    const bool in_layer = p.block != 0 && p.layer >= 0 && p.layer < base.config().num_layers();
    if (!in_layer || p.desc.role != registry::Role::weight || p.desc.shape.ndim() != 2) continue;
    if (std::ranges::any_of(
            out, [&](const Candidate& c) { return c.block == p.block && c.name == p.desc.name; }))
      continue;
    Candidate c{p.block, p.desc.name, decoder::module_name(p.desc.name), {}, {}, true};
    for (const registry::TensorRow& row : base.family().tensor_rows()) {
      if (row.ignore || row.block != p.block || row.param != p.desc.name) continue;
      c.published = row.published;
      c.module = decoder::module_name(row.published);
      c.alone = row.transforms.empty() ||
                (row.transforms.size() == 1 &&
                 row.transforms[0].kind == registry::Transform::Kind::transpose);
      break;
    }
    out.push_back(std::move(c));
  }
  return out;
}

bool is_called(const std::string& name, const std::string& target) {
  return name == target || name.ends_with("." + target);
}

}  // namespace

decoder::Adapter adapter_of(const decoder::Model& base, const weights::PeftConfig& config,
                            const std::string& where) {
  const std::vector<Candidate> candidates = candidates_of(base);
  decoder::Adapter out{
      .rank = config.rank, .scale = config.scale(), .dropout = config.dropout, .targets = {}};
  const auto add = [&](const Candidate& c) {
    const auto target = std::pair(c.block, c.name);
    if (std::ranges::find(out.targets, target) == out.targets.end()) out.targets.push_back(target);
  };
  for (const std::string& target : config.target_modules) {
    bool any = false;
    out.all = out.all || target == kAllLinear;
    for (const Candidate& c : candidates) {
      const bool all = target == kAllLinear;
      if (!all && !is_called(c.module, target) && !is_called(c.ours, target)) continue;
      if (!c.alone && all) continue;
      if (!c.alone)
        throw UserError(ExitCode::usage,
                        {where,
                         fmt::format("'{}' is '{}', a part of '{}'", target, c.name, c.published),
                         {"adapters are of matrices that are published whole"}});
      add(c);
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
