// TRC: compares the declarations of blocks about parameters, values and states with their use.
#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "conformance/check.h"
#include "conformance/checks/axis_flow.h"
#include "conformance/checks/checks.h"
#include "conformance/subjects/decoration.h"
#include "conformance/subjects/fingerprint.h"
#include "conformance/subjects/subject.h"
#include "ops/custom.h"
#include "ops/op_code.h"
#include "registry/names.h"

namespace lamina::conformance {
namespace {

using registry::Role;

bool is_known(std::string_view name, std::span<const std::string_view> known,
              const std::string& plugin) {
  return std::ranges::find(known, name) != known.end() || name.starts_with(plugin + ".");
}

std::string_view text_of(const lamina_str_t& text) { return {text.ptr, text.len}; }

// A use of a parameter: the op and the name of its input.
struct Use {
  const Node* node;
  std::string_view input;
  bool is(ParamUse wanted) const {
    return std::ranges::any_of(node->op->def->facts.params, [&](const ParamOperand& operand) {
      return operand.use == wanted && operand.input == input;
    });
  }
};

// Finds the uses of a value, through ops that pass it on and in bodies of scans.
void find_uses(const Graph& graph, ValueId value, std::vector<Use>& to) {
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      if (node.op->def->facts.loops) {
        const Graph& body = *node.body();
        find_uses(body, body.inputs()[i].value, to);
      } else if (node.op->def->facts.moves_data || node.op->code == OpCode::cast_like) {
        find_uses(graph, node.outputs[0], to);
      } else {
        const std::size_t named = std::min(i, node.op->inputs.size() - 1);
        to.push_back({&node, node.op->inputs[named].name});
      }
    }
}

bool is_product(const Use& use) { return use.is(ParamUse::matrix); }
bool is_gain(const Use& use) { return use.is(ParamUse::gain); }
bool is_bias(const Use& use) { return use.input == "bias"; }
bool is_lookup(const Use& use) { return use.is(ParamUse::table); }
bool is_taps(const Use& use) { return use.is(ParamUse::taps); }

std::string_view role_name(Role role) {
  switch (role) {
    case Role::weight:
      return "weight";
    case Role::bias:
      return "bias";
    case Role::norm:
      return "norm";
    case Role::embedding:
      return "embedding";
    case Role::head:
      return "head";
    case Role::router:
      return "router";
    case Role::scalar:
      return "scalar";
    case Role::conv:
      return "conv";
  }
  return "unknown";
}

// The role that a use implies; nothing if any role fits.
std::optional<Role> role_of(const Use& use, const registry::ParamDesc& desc) {
  if (is_gain(use)) return Role::norm;
  if (is_bias(use)) return Role::bias;
  if (is_lookup(use)) return Role::embedding;
  if (is_taps(use)) return Role::conv;
  if (is_product(use) && desc.shape.ndim() >= 2) return Role::weight;
  return std::nullopt;
}

bool agree(Role declared, Role used) {
  if (declared == used) return true;
  // A router and a head are products too, and a tied table is a head.
  if (used == Role::weight)
    return declared == Role::router || declared == Role::head || declared == Role::embedding;
  // Experts may be chosen by a table.
  return declared == Role::router && used == Role::embedding;
}

bool is_sum(const Use& use) { return use.node->op->def->facts.adds; }

// Adds the products that make a value, through functions of it.
void find_products(const Graph& graph, ValueId value, int depth, std::set<const Node*>& to) {
  const NodeId made_by = graph.value(value).node;
  if (made_by == kNoNode || depth == 0) return;
  const Node& node = graph.nodes()[made_by];
  const OpFacts& facts = node.op->def->facts;
  if (facts.product != Product::none) {
    to.insert(&node);
    return;
  }
  if (facts.is_norm || facts.loops) return;
  for (const ValueId input : node.inputs)
    if (input != kNoValue) find_products(graph, input, depth - 1, to);
}

// The products whose largest results choose experts: rows are grouped by them.
std::set<const Node*> router_products(const Graph& whole) {
  constexpr int kMostFunctions = 8;
  std::set<const Node*> out;
  for_each_graph(whole, [&](const Graph& graph) {
    std::vector<const Node*> chosen_by(graph.values().size());
    for (const Node& node : graph.nodes()) {
      const Node* by = node.op->def->facts.chooses ? &node : nullptr;
      for (const ValueId value : node.inputs)
        if (!by && value != kNoValue && graph.type(value).dtype == DType::i32)
          by = chosen_by[value];
      if (by && node.op->code == OpCode::group_rows)
        find_products(graph, by->inputs[0], kMostFunctions, out);
      for (const ValueId value : node.outputs) chosen_by[value] = by;
    }
  });
  return out;
}

// The loss of the model with all layers unrolled, whatever custom ops its blocks have.
struct Unrolled {
  decoder::Model model;
  decoder::ModelGraph traced;
  Graph graph;

  Unrolled(const FamilySubject& subject, const SmallModel& small)
      : model(subject.open(small, false)),
        traced(model.loss_graph({2, 5}, {.training = true, .aux = true, .mtp = true})),
        graph(ops::inline_custom(traced.graph)) {}

  // Calls use(parameter, its value in the graph).
  template <typename Use>
  void for_each_parameter(Use&& use) const {
    for (std::size_t i = 0; i < traced.inputs.size(); ++i)
      if (traced.inputs[i].role == decoder::Input::parameter)
        use(model.parameters()[traced.inputs[i].members.front()], graph.inputs()[i].value);
  }
};

void check_use(const decoder::Parameter& p, const Use& use) {
  const std::optional<Role> used = role_of(use, p.desc);
  if (used && !agree(p.desc.role, *used))
    fail("parameter '{}' has the role {} and is the {} of {}{}; its role is {}", p.name,
         role_name(p.desc.role), use.input, use.node->op->name,
         use.node->origin ? " (" + to_string(*use.node->origin) + ")" : "", role_name(*used));
}

// Dims that an op combines have the same axis.
void check_axes_meet(const FamilySubject& subject, const SmallModel& small) {
  const Unrolled unrolled(subject, small);
  AxisFlow flow(unrolled.graph);
  unrolled.for_each_parameter(
      [&](const decoder::Parameter& p, ValueId value) { flow.set_parameter(value, p.desc.axes); });
  flow.run();
}

}  // namespace

void check_axes_and_tags(const FamilySubject& subject) {
  const std::string& plugin = subject.family().plugin().id;
  std::string wrong;
  const auto look = [&](std::string_view kind, std::string_view name,
                        std::span<const std::string_view> known, const lamina_where_t* at) {
    if (!wrong.empty() || name.empty() || is_known(name, known, plugin)) return;
    wrong = fmt::format("{} '{}'{} is neither in names.h nor the plugin's own ('{}.x')", kind, name,
                        at ? fmt::format(" ({}:{})", text_of(at->file), at->line) : "", plugin);
  };
  const auto look_at_axes = [&](const lamina_span_t& axes, const lamina_where_t* at) {
    for (std::uint32_t i = 0; i < axes.count; ++i)
      look("axis", text_of(static_cast<const lamina_str_t*>(axes.ptr)[i]), registry::axis_names(),
           at);
  };
  const DecoratedFamily watched(subject.source(), subject.family(),
                                {.on_call = [&](const HostCall& call) {
                                  if (call.param) look_at_axes(call.param->axes, call.at);
                                  if (call.axes) look_at_axes(*call.axes, call.at);
                                  if (call.tag)
                                    look("tag", text_of(*call.tag), registry::tag_names(), call.at);
                                  return lamina_status_t{LAMINA_OK};
                                }});
  for (const SmallModel& small : subject.models()) {
    subject.open(small, watched.family());
    if (!wrong.empty()) fail("model '{}': {}", small.name, wrong);
    check_axes_meet(subject, small);
  }
}

void check_roles(const FamilySubject& subject) {
  for (const SmallModel& small : subject.models()) {
    const Unrolled unrolled(subject, small);
    const std::set<const Node*> routers = router_products(unrolled.graph);
    unrolled.for_each_parameter([&](const decoder::Parameter& p, ValueId value) {
      if (p.layer < 0 && p.block == 0) return;  // a parameter of the host
      std::vector<Use> uses;
      find_uses(unrolled.graph, value, uses);
      for (const Use& use : uses) check_use(p, use);
      const auto is_router = [&](const Use& use) {
        return is_product(use) && routers.contains(use.node);
      };
      if (p.desc.role == Role::weight && std::ranges::any_of(uses, is_router))
        fail("give parameter '{}' the role router: the results of its product choose experts",
             p.name);
      if (p.desc.role == Role::norm && !uses.empty() && std::ranges::all_of(uses, is_sum))
        fail("give parameter '{}' the role bias: it is only added", p.name);
      const bool a_product = std::ranges::any_of(uses, is_product);
      if (p.desc.role == Role::weight && p.desc.shape.ndim() < 2 && !a_product)
        fail(
            "parameter '{}' of one dim has the role weight, which is for matrices of products; "
            "expected norm, "
            "bias or scalar",
            p.name);
    });
  }
}

void check_states(const FamilySubject& subject) {
  std::set<lamina_state_t> declared, used;
  bool is_carry = false;  // the host ensures that a region over time has it
  std::string block;
  const DecoratedFamily watched(
      subject.source(), subject.family(),
      {.on_call =
           [&](const HostCall& call) {
             if (call.emit && call.emit->state != 0) used.insert(call.emit->state);
             if (call.state) is_carry = call.state->kind == LAMINA_STATE_CUSTOM;
             return lamina_status_t{LAMINA_OK};
           },
       .on_state =
           [&](lamina_state_t state) {
             if (!is_carry) declared.insert(state);
           },
       .around =
           [&](std::string_view function, const std::function<lamina_status_t()>& call) {
             declared.clear();
             used.clear();
             const lamina_status_t status = call();
             if (status == LAMINA_OK && declared != used) block = function;
             return status;
           }});
  for (const SmallModel& small : subject.models()) {
    subject.open(small, watched.family());
    if (!block.empty())
      fail(
          "block '{}' declares a state that none of its ops uses; it would only waste "
          "memory",
          block);
  }
}

}  // namespace lamina::conformance
