#include "decoder/graph/model_parts.h"

#include <algorithm>

#include "core/error.h"
#include "decoder/graph/block_cache.h"
#include "decoder/graph/initialisers.h"
#include "decoder/graph/stack_keys.h"
#include "lamina/names.h"

namespace lamina::decoder {
namespace {

registry::ParamDesc host_param(std::string name, Shape shape,
                               std::initializer_list<std::string_view> axes, registry::Role role,
                               registry::InitSpec init) {
  registry::ParamDesc desc;
  desc.name = std::move(name);
  desc.shape = shape;
  for (std::string_view axis : axes) desc.axes.push_back(intern_axis(axis));
  desc.role = role;
  desc.init = init;
  return desc;
}

// Checks the final norm, the only op of a family that is in no traced block.
void check_norm(const ModelParts& parts) {
  const registry::NormSpec& spec = parts.options.head.norm;
  if (!spec.op) return;
  const auto fail = [&](const std::string& why) {
    const registry::PluginIdentity& plugin = parts.family->plugin();
    throw PluginError({fmt::format("head of family '{}'", parts.family->name()),
                       "its final norm is refused: " + why,
                       {fmt::format("plugin '{}' {}", plugin.id, plugin.version)}});
  };
  Graph graph;
  const std::int64_t hidden = parts.config.hidden_size();
  const Tensor x = graph.add_input("x", {DType::f32, {2, 3, hidden}, {}});
  std::vector<Tensor> inputs{x};
  for (const bool present : {spec.weight, spec.bias})
    inputs.push_back(present ? graph.add_input("w", {DType::f32, {hidden}, {}}) : Tensor{});
  inputs.resize(spec.op->inputs.size());
  std::vector<std::pair<std::string_view, AttrValue>> attrs(spec.attrs.begin(), spec.attrs.end());
  try {
    const Tensor y = graph.add_node(*spec.op, inputs, attrs).front();
    if (y.type() != x.type())
      fail(fmt::format("{} makes {} of {}", spec.op->name, to_string(y.type()),
                       to_string(x.type())));
  } catch (const UserError& refused) {
    fail(fmt::format("{}: {}", refused.text().where, refused.text().what));
  }
}

// Checks that every named target has an adapter.
void check_adapter(const ModelParts& parts) {
  if (!parts.adapter || parts.adapter->all) return;
  for (const AdapterTarget& target : parts.adapter->targets) {
    const std::string& name = target.name;
    const std::string up = adapter_name(name, kAdapterUp);
    if (std::ranges::none_of(parts.parameters.all(), [&](const Parameter& p) {
          return p.block == target.block && p.desc.name == up;
        }))
      throw UserError(ExitCode::usage,
                      {"lora.target_modules",
                       fmt::format("no `linear` reads '{}', so it cannot have an adapter", name),
                       {"name the others"}});
  }
}

class Declaration {
 public:
  explicit Declaration(ModelParts& parts) : parts_(parts), blocks_(parts, {}) {}

  int add(registry::ParamDesc desc) {
    std::string name = desc.name;
    return parts_.parameters.add({std::move(name), -1, 0, std::move(desc)});
  }

  // Declares the parameters of a block; `layer` replaces {L} in published names.
  void block(const BlockGraph& block, std::uint32_t id, const std::string& scope,
             std::int64_t layer) {
    for (const BlockGraph::Param& param : block.params)
      parts_.parameters.add({scope + param.desc.name, layer, id, param.desc});
    note_length(block);
    has_ |= block.has;
  }

  // Declares the parameters that a layer does not share with its owner.
  void unshared(const BlockGraph& block, std::uint32_t id, const std::string& scope,
                std::int64_t layer) {
    for (const BlockGraph::Param& param : block.params)
      if (param.desc.unshared)
        parts_.parameters.add({scope + param.desc.name, layer, id, param.desc});
  }

  void note_length(const BlockGraph& block) {
    const std::int64_t from = block.length_dependent_from;
    if (from == 0) return;
    const std::int64_t before = parts_.length_dependent_from.value_or(from);
    parts_.rotation_changes_once =
        parts_.rotation_changes_once && block.rotation_changes_once && before == from;
    parts_.length_dependent_from = std::min(before, from);
  }

  void layers() {
    for (const StackSegment& segment : parts_.stack.segments)
      for (std::int64_t time = 0; time < segment.times; ++time)
        for (std::size_t p = 0; p < segment.unit.size(); ++p)
          layer(segment, p, segment.layer(time, p));
  }

  BlockCache& blocks() { return blocks_; }
  // Returns the parts that any block has.
  const BlockParts& has() const { return has_; }

  // Later traces must repeat these declarations. Checks now that repeated traces agree.
  void finish() {
    parts_.declared = blocks_.declarations();
    BlockCache(parts_, {}).check_repeated(blocks_);
    BlockCache(parts_, {{.batch = 2, .tokens = 3}}).trace_all(parts_.declared);
  }

 private:
  void layer(const StackSegment& segment, std::size_t p, std::int64_t index) {
    const registry::PositionSpec& position = segment.unit[p];
    std::string scope = fmt::format("layers.{}.", index);
    if (parts_.engram && parts_.engram->find(index)) block(blocks_.engram(index), 0, scope, index);
    const BlockGraph& graph = blocks_.layer(segment, p);
    if (!position.params_of) return block(graph, position.block, scope, index);
    check_shared(graph, index, *position.params_of);
    unshared(graph, position.block, scope, index);
    note_length(graph);
  }

  // Refuses an adapter of a matrix that a layer has for later ones and does not use itself.
  void refuse_adapter(const std::string& name, std::int64_t index, std::int64_t owner) const {
    if (!parts_.adapter) return;
    for (const AdapterTarget& target : parts_.adapter->targets)
      for (const std::string_view part : {kAdapterDown, kAdapterUp, kAdapterMagnitude})
        if (adapter_name(target.name, part) == name)
          throw UserError(
              ExitCode::usage,
              {"lora.target_modules",
               fmt::format("layer {} uses '{}' of layer {}, which does not use it itself, so it "
                           "cannot have an adapter",
                           index, target.name, owner),
               {"list the modules to adapt, without this one, instead of \"all-linear\""}});
  }

  // Checks that every parameter of the layer is a parameter of its owner.
  void check_shared(const BlockGraph& graph, std::int64_t index, std::int64_t owner) const {
    const auto fail = [&](std::string what) {
      const registry::PluginIdentity& plugin = parts_.family->plugin();
      throw PluginError(
          {fmt::format("plan of family '{}'", parts_.family->name()),
           fmt::format("layer {} uses the parameters of layer {}, {}", index, owner, what),
           {fmt::format("plugin '{}' {}", plugin.id, plugin.version)}});
    };
    for (const BlockGraph::Param& param : graph.params) {
      if (param.desc.unshared) continue;
      const int at = parts_.parameters.find(fmt::format("layers.{}.{}", owner, param.desc.name));
      if (at < 0) {
        refuse_adapter(param.desc.name, index, owner);
        fail(fmt::format("which has no '{}'", param.desc.name));
      }
      const registry::ParamDesc& owned = parts_.parameters[at].desc;
      if (owned.shape != param.desc.shape)
        fail(fmt::format("whose '{}' is {}; its own would be {}", param.desc.name,
                         to_string(owned.shape), to_string(param.desc.shape)));
      if (!(owned == param.desc))
        fail(fmt::format("which describes '{}' differently", param.desc.name));
    }
  }

  ModelParts& parts_;
  BlockCache blocks_;
  BlockParts has_;
};

}  // namespace

// Declares embedding, positions, norm and head, which are the host's parameters, and the parameters
// in traces.
void declare_parameters(ModelParts& parts) {
  using Init = registry::InitSpec::Kind;
  const registry::EmbedSpec& embed = parts.options.embed;
  const registry::HeadSpec& head = parts.options.head;
  const registry::MtpSpec& mtp = parts.options.mtp;
  std::int64_t vocab = parts.config.vocab_size(), hidden = parts.config.hidden_size();
  std::int64_t num_layers = parts.config.num_layers();
  check_norm(parts);
  Declaration declare(parts);
  parts.embed = declare.add(
      host_param(LAMINA_NAME_EMBED, {vocab, hidden}, {LAMINA_AXIS_VOCAB, LAMINA_AXIS_EMBED},
                 registry::Role::embedding, {Init::normal, embed.init_std, 0}));
  if (embed.positions == registry::Positions::learned)
    parts.positions = declare.add(host_param(LAMINA_NAME_POSITIONS, {embed.max_positions, hidden},
                                             {LAMINA_AXIS_POSITIONS, LAMINA_AXIS_EMBED},
                                             registry::Role::embedding,
                                             {Init::normal, embed.positions_init_std, 0}));
  if (embed.entry) declare.block(declare.blocks().entry(), embed.entry, "entry.", -1);
  declare.layers();
  if (head.exit) declare.block(declare.blocks().exit(), head.exit, "exit.", -1);

  const registry::NormSpec& spec = head.norm;
  if (spec.op && spec.weight)
    parts.norm =
        declare.add(host_param(LAMINA_NAME_NORM, {hidden}, {LAMINA_AXIS_NORM}, registry::Role::norm,
                               {Init::constant, spec.initial_weight(), 0}));
  if (spec.op && spec.bias)
    parts.norm_bias = declare.add(host_param(LAMINA_NAME_NORM_BIAS, {hidden}, {LAMINA_AXIS_NORM},
                                             registry::Role::bias, {Init::zeros, 0, 0}));
  if (!head.tied)
    parts.head = declare.add(host_param(LAMINA_NAME_HEAD, {vocab, hidden},
                                        {LAMINA_AXIS_VOCAB, LAMINA_AXIS_EMBED},
                                        registry::Role::head, {Init::normal, head.init_std, 0}));
  if (head.bias)
    parts.head_bias = declare.add(host_param(LAMINA_NAME_HEAD_BIAS, {vocab}, {LAMINA_AXIS_VOCAB},
                                             registry::Role::bias, {Init::zeros, 0, 0}));
  for (std::int64_t j = 0; j < mtp.depth; ++j)
    declare.block(declare.blocks().mtp(), mtp.block, fmt::format("mtp.{}.", j), num_layers + j);
  declare.finish();
  check_adapter(parts);
  refuse_idle_keys(parts, declare.has());
  apply_initializer(parts);
}

}  // namespace lamina::decoder
