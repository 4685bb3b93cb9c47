#include "decoder/trace/block_declaration.h"

#include <algorithm>

#include "core/error.h"

namespace lamina::decoder {
namespace {

constexpr std::string_view kSameDeclaration =
    "a block declares the same parameters and states in every phase and for every batch and length "
    "(M-6 of docs/plugin_requirements.md)";
constexpr std::string_view kSameGraph =
    "one config gives one graph (M-5 of docs/plugin_requirements.md)";

[[noreturn]] void fail(const BlockUse& use, const registry::Family& family, std::string what,
                       std::string_view rule = kSameDeclaration) {
  const registry::PluginIdentity& plugin = family.plugin();
  throw PluginError(
      {fmt::format("block '{}' of family '{}'", family.block(use.block).name, family.name()),
       std::move(what),
       {fmt::format("plugin '{}' {}", plugin.id, plugin.version), std::string(rule)}});
}

std::string shown(const registry::ParamDesc& param) { return to_string(param.shape); }
std::string shown(const registry::StateDesc& state) {
  return fmt::format("[{}]", fmt::join(state.dims, ", "));
}

// Throws if the two lists differ, except in order.
template <typename Desc>
void compare(const std::vector<Desc>& first, const std::vector<Desc>& now, std::string_view what,
             const BlockUse& use, const registry::Family& family) {
  const auto in = [](const std::vector<Desc>& list, const std::string& name) {
    return std::ranges::find(list, name, &Desc::name);
  };
  for (const Desc& desc : now) {
    const auto before = in(first, desc.name);
    if (before == first.end())
      fail(use, family,
           fmt::format("{} '{}' is declared in one trace and not in another", what, desc.name));
    if (shown(*before) != shown(desc))
      fail(use, family,
           fmt::format("{} '{}' is {} in one trace and {} in another", what, desc.name,
                       shown(*before), shown(desc)));
    if (!(*before == desc))
      fail(use, family,
           fmt::format("{} '{}' is described differently in two traces", what, desc.name));
  }
  for (const Desc& desc : first)
    if (in(now, desc.name) == now.end())
      fail(use, family,
           fmt::format("{} '{}' is declared in one trace and not in another", what, desc.name));
}

std::vector<registry::ParamDesc> params_of(const BlockGraph& graph) {
  std::vector<registry::ParamDesc> out;
  for (const BlockGraph::Param& param : graph.params) out.push_back(param.desc);
  return out;
}

}  // namespace

BlockDeclaration declaration_of(const BlockUse& use, const BlockGraph& graph) {
  return {use, params_of(graph), graph.declared_states};
}

void check_declaration(const BlockDeclaration& first, const BlockGraph& now,
                       const registry::Family& family) {
  compare(first.params, params_of(now), "parameter", first.use, family);
  compare(first.states, now.declared_states, "state", first.use, family);
}

void check_repeated_trace(const BlockUse& use, const BlockGraph& first, const BlockGraph& second,
                          const registry::Family& family) {
  check_declaration(declaration_of(use, first), second, family);
  if (!same_graph(first.graph, second.graph))
    fail(use, family,
         "two builds for one config, batch and length gave different graphs; a build must not "
         "depend on clocks, counters, addresses or random numbers",
         kSameGraph);
}

}  // namespace lamina::decoder
