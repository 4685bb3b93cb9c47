// Compiling a graph into a program: kernels, places, in-place writes, lifetimes.
#include <algorithm>
#include <map>
#include <optional>

#include "core/error.h"
#include "graph/views.h"
#include "graph/written_over.h"
#include "ops/op_code.h"
#include "runtime/counting_kernel.h"
#include "runtime/memory_plan.h"
#include "runtime/node_groups.h"
#include "runtime/output_places.h"
#include "runtime/own_outputs.h"
#include "runtime/placed_values.h"
#include "runtime/program_steps.h"

namespace lamina {
namespace {

// True if the result needs memory even if it is never read.
bool must_exist(const Node& node, std::size_t i, const KernelChoice* choice) {
  return i == 0 || static_cast<int>(i) < node.op->def->in_place || !choice || choice->writes_all;
}

// "linear of f32[2, 3] and f64[4, 3], to f32[2, 4]"
std::string call_text(const NodeView& node) {
  std::vector<std::string> operands, results;
  for (int i = 0; i < node.num_inputs(); ++i)
    operands.push_back(node.has(i) ? to_string(node.type(i)) : "nothing");
  for (int i = 0; i < node.num_outputs(); ++i) results.push_back(to_string(node.out_type(i)));
  return fmt::format("{} of {}, to {}", node.op().name,
                     operands.empty() ? "nothing" : fmt::format("{}", fmt::join(operands, " and ")),
                     fmt::join(results, " and "));
}

}  // namespace

// Determines, in order: the last use of each value, a kernel and places for every node, the offsets
// of storages in the arena, and from these the locations of each step.
struct Program::Planner {
  // Memory that one or several values share.
  struct Storage {
    std::size_t bytes = 0;
    int space = Location::kArena;  // or the number of an input or output
    Lifetime life;
    ValueId value = kNoValue;  // the first value in it; none for a workspace
  };
  struct Place {
    int storage = -1;
    std::int64_t offset = 0;
  };

  const Graph& graph;
  const Backend& backend;
  std::vector<Storage> storages;
  std::vector<Place> places;   // one per value
  std::vector<int> last_uses;  // last step that reads a value (or a view of it), one per value
  std::map<ValueId, ValueId> aliased_outputs;  // to the graph inputs that they overwrite
  // From results to the graph inputs over which they, or results written over them, are copied
  // later.
  std::map<ValueId, ValueId> copied_to;
  std::map<ValueId, ValueId> copied_at_once;  // those that are copied themselves
  std::map<ValueId, int> made_in_outputs;     // and the numbers of the outputs

  std::map<const Graph*, std::shared_ptr<Program>> compiled;  // bodies of scans
  std::vector<int> workspaces;      // storage of each step's workspace, or -1
  const std::vector<bool> in_host;  // values in host memory
  MemoryPlan plan, host_plan;
  std::size_t counter_bytes = 0;  // of all steps

  Planner(const Graph& g, const Backend& b)
      : graph(g),
        backend(b),
        places(g.values().size()),
        last_uses(g.values().size(), -1),
        in_host(b.reaches(MemoryKind::pinned) ? std::vector<bool>(g.values().size())
                                              : host_values(g)) {
    find_last_uses();
    made_in_outputs = output_places(graph, backend, last_uses, in_host);
  }

  static constexpr int kBeforeRun = -1;
  int new_storage(std::size_t bytes, int space, int step) {
    storages.push_back({bytes, space, {bytes, step, step}, kNoValue});
    return static_cast<int>(storages.size() - 1);
  }

  int space_of_result(ValueId v) const {
    if (in_host[v]) return Location::kHost;
    const auto output = made_in_outputs.find(v);
    if (output == made_in_outputs.end()) return Location::kArena;
    return static_cast<int>(graph.inputs().size()) + output->second;
  }

  void find_last_uses() {
    int end = static_cast<int>(graph.nodes().size());
    for (int n = 0; n < end; ++n)
      for (ValueId v : graph.node(static_cast<NodeId>(n)).inputs)
        if (v != kNoValue) last_uses[v] = n;
    for (const GraphOutput& output : graph.outputs()) {
      last_uses[output.value] = end;
      if (output.alias_input >= 0)
        aliased_outputs.emplace(output.value,
                                graph.inputs()[static_cast<std::size_t>(output.alias_input)].value);
    }
    // A value must live as long as its views.
    for (int n = end - 1; n >= 0; --n) {
      const Node& node = graph.node(static_cast<NodeId>(n));
      std::int64_t offset;
      if (is_view(graph, node, &offset))
        last_uses[node.inputs[0]] = std::max(last_uses[node.inputs[0]], last_uses[node.outputs[0]]);
    }
    for (const Node& node : graph.nodes())
      if (ValueId target = alias_target(node); target != kNoValue)
        copied_to.emplace(node.inputs[0], target);
    copied_at_once = copied_to;
    // Operands that an op may overwrite with such a result get the same place.
    for (int n = end - 1; n >= 0; --n)
      for (ValueId made : graph.node(static_cast<NodeId>(n)).outputs) {
        auto target = copied_to.find(made);
        if (target == copied_to.end()) continue;
        for (ValueId v : graph.node(static_cast<NodeId>(n)).inputs)
          if (v != kNoValue && last_uses[v] == n && graph.value(v).node != kNoNode &&
              graph.type(v) == graph.type(made))
            copied_to.emplace(v, target->second);
      }
  }

  // Returns the graph input to which copy node `node` moves an aliased output, or kNoValue.
  ValueId alias_target(const Node& node) const {
    if (node.op->code != OpCode::copy) return kNoValue;
    const auto target = aliased_outputs.find(node.outputs[0]);
    return target == aliased_outputs.end() ? kNoValue : target->second;
  }

  // Returns the value whose place result `i` of the node must or may take, if any.
  std::optional<ValueId> written_over(const Node& node, std::size_t i, int step,
                                      const KernelChoice* choice) {
    if (ValueId v = always_written_over(node, i); v != kNoValue) {
      LAMINA_ASSERT(last_uses[made_at(graph, v)] <= step);
      return v;
    }
    if (ValueId v = alias_target(node); v != kNoValue) return v;
    if (!choice) return std::nullopt;
    ValueId result = node.outputs[i];
    if (const int space = space_of_result(result); space != Location::kArena)
      return operand_in(space, node);
    auto target = copied_to.find(result);
    if (!choice->in_place) return unread_target(result, step);
    std::optional<ValueId> temporary;
    for (std::size_t input = 0; input < node.inputs.size(); ++input) {
      ValueId v = node.inputs[input];
      if (v == kNoValue || !(choice->in_place >> std::min<std::size_t>(input, 31) & 1)) continue;
      if (!may_write_over(node, i, v, step)) continue;
      // A result that is copied over a graph input later is written there directly, if possible.
      if (target != copied_to.end() && places[target->second].storage == places[v].storage)
        return v;
      const Storage& storage = storages[static_cast<std::size_t>(places[v].storage)];
      if (!temporary && storage.space == Location::kArena && storage.life.last <= step &&
          storage.bytes == static_cast<std::size_t>(graph.type(result).bytes()))
        temporary = v;
    }
    return temporary ? temporary : unread_target(result, step);
  }

  // Returns the operand in the place of an output that the node makes, if any: output_places() puts
  // no other operand there.
  std::optional<ValueId> operand_in(int space, const Node& node) const {
    if (space == Location::kHost) return std::nullopt;
    for (ValueId v : node.inputs)
      if (v != kNoValue && location(v).space == space) return v;
    return std::nullopt;
  }

  // Returns the graph input over which the result is copied later, if nothing needs the memory of
  // this input from the step on: then the result is made there.
  std::optional<ValueId> unread_target(ValueId result, int step) const {
    const auto target = copied_at_once.find(result);
    if (target == copied_at_once.end() || last_uses[target->second] >= step) return std::nullopt;
    const Place& place = places[target->second];
    if (storages[static_cast<std::size_t>(place.storage)].life.last >= step) return std::nullopt;
    return target->second;
  }

  // True if operand `v` of the node has the result's type, and its memory is not read later and
  // contains no other operand or earlier result.
  bool may_write_over(const Node& node, std::size_t i, ValueId v, int step) const {
    if (last_uses[made_at(graph, v)] != step || places[v].offset != 0) return false;
    if (graph.type(v) != graph.type(node.outputs[i])) return false;
    for (ValueId other : node.inputs)
      if (other != v && other != kNoValue && places[other].storage == places[v].storage)
        return false;
    for (std::size_t o = 0; o < i; ++o)
      if (places[node.outputs[o]].storage == places[v].storage) return false;
    return true;
  }

  void touch(ValueId v, int step) {
    Lifetime& life = storages[static_cast<std::size_t>(places[v].storage)].life;
    life.last = std::max(life.last, step);
  }

  // Returns the location of a value. Offsets of arena storages are added after planning.
  Location location(ValueId v) const {
    if (v == kNoValue) return {};
    const Place& place = places[v];
    return {storages[static_cast<std::size_t>(place.storage)].space, place.offset};
  }

  std::unique_ptr<Scan> plan_scan(const Node& node, std::size_t* workspace_bytes) {
    auto scan = std::make_unique<Scan>();
    auto body = node.body();
    std::shared_ptr<Program>& program = compiled[body.get()];
    if (!program) {
      program = std::make_shared<Program>(*body, backend);
      program->staging_ = nullptr;  // the outer program reaches all of its memory
    }
    scan->body = program;
    scan->times = node.int_attr("times");
    scan->shape = scan_shape(node);
    scan->reverse = node.int_attr("reverse") != 0;
    const std::size_t first_x = scan->shape.first_x();
    for (std::size_t i = 0; i < body->inputs().size(); ++i)
      scan->input_strides.push_back(i < first_x ? 0 : body->type(body->inputs()[i].value).bytes());
    std::size_t offset = 0;
    for (std::size_t i = 0; i < body->outputs().size(); ++i) {
      std::int64_t bytes = body->type(body->outputs()[i].value).bytes();
      scan->output_strides.push_back(i < scan->shape.carries ? 0 : bytes);
      if (i < scan->shape.carries) {
        scan->carry_offsets.push_back(offset);
        if (scan->times > 1) offset += aligned(static_cast<std::size_t>(bytes));
      }
    }
    scan->carry_gap_bytes = scan->times > 2 ? offset : 0;
    offset += scan->carry_gap_bytes;
    plan_host_parts(node, *scan);
    scan->host_buffers_offset = offset;
    offset += scan->num_host_buffers * scan->host_buffer_bytes;
    scan->body_arena_offset = offset;
    *workspace_bytes = offset + program->arena_bytes();
    scan->slots.resize(body->inputs().size() + body->outputs().size());
    return scan;
  }

  // Finds the operands and results in host memory, and their places in the buffers. With copies
  // both ways there are three buffers: one arrives, one is used, one leaves.
  void plan_host_parts(const Node& node, Scan& scan) const {
    std::vector<Scan::HostPart>& parts = scan.host_parts;
    const auto add = [&](Scan::HostPart part, std::int64_t bytes) {
      part.bytes = static_cast<std::size_t>(bytes);
      part.offset = scan.host_buffer_bytes;
      scan.host_buffer_bytes += aligned(part.bytes);
      parts.push_back(part);
    };
    for (std::size_t i = scan.shape.first_x(); i < node.inputs.size(); ++i)
      if (in_host[made_at(graph, node.inputs[i])])
        add({.input = static_cast<int>(i)}, scan.input_strides[i]);
    bool both_ways = false;
    for (std::size_t o = scan.shape.carries; o < node.outputs.size(); ++o) {
      const int over = node.body()->outputs()[o].alias_input;
      const auto operand = std::ranges::find(parts, over, &Scan::HostPart::input);
      if (over >= 0 && operand != parts.end())
        operand->output = static_cast<int>(o), both_ways = true;
      else if (in_host[node.outputs[o]])
        add({.output = static_cast<int>(o)}, scan.output_strides[o]);
    }
    if (!parts.empty())
      scan.num_host_buffers =
          static_cast<std::size_t>(std::min<std::int64_t>(scan.times, both_ways ? 3 : 2));
  }

  void place_inputs() {
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      places[graph.inputs()[i].value].storage = new_storage(0, static_cast<int>(i), kBeforeRun);
  }

  // Places a node that needs no step because its result is in its operand's memory. Returns false
  // for other nodes.
  bool place_view(const Node& node) {
    std::int64_t view_offset = 0;
    if (!is_view(graph, node, &view_offset)) return false;
    const Place& source = places[node.inputs[0]];
    places[node.outputs[0]] = {source.storage, source.offset + view_offset};
    return true;
  }

  [[noreturn]] void refuse(const NodeView& node, const std::vector<Refusal>& refusals) const {
    std::vector<std::string> notes;
    for (const Refusal& r : refusals) notes.push_back(fmt::format("not {}: {}", r.kernel, r.why));
    if (notes.empty()) notes.push_back("it has no kernel for this op");
    throw DeviceError(ExitCode::memory,
                      {fmt::format("device '{}'", backend.name()),
                       fmt::format("no kernel computes {}", call_text(node)), std::move(notes)});
  }

  // Makes the kernel of the step's node, which may take further nodes into the step, or plans its
  // scan. Sets `workspace_bytes`. Returns null for a scan.
  const KernelChoice* make_kernel_of(Step& step, std::size_t* workspace_bytes) {
    const KernelChoice* choice = nullptr;
    const Node& node = graph.node(step.nodes.front());
    if (node.op->def->facts.loops) {
      step.kernel_name = "scan";
      step.scan = plan_scan(node, workspace_bytes);
      return choice;
    }
    with_node_view(graph, node, [&](const NodeView& view) {
      choice = choose_kernel(backend, view, &step.refusals);
      if (!choice) refuse(view, step.refusals);
      step.kernel = choice->make(view, backend.context());
      if (auto* group = dynamic_cast<KernelGroup*>(step.kernel.get()))
        step.nodes = add_following_nodes(graph, backend, step.nodes.front(), *choice, *group);
      if (auto* counting = dynamic_cast<CountingKernel*>(step.kernel.get())) {
        step.counter_bytes = counting->counter_bytes();
        counter_bytes += aligned(step.counter_bytes);
      }
      std::string detail = step.kernel->detail();
      step.kernel_name = std::string(choice->name) + (detail.empty() ? "" : " " + detail);
      *workspace_bytes = step.kernel->workspace_bytes();
    });
    return choice;
  }

  // All operands of a group are in use until its last node, at which all its results are made.
  void hold_operands(std::span<const NodeId> group) {
    const int last = static_cast<int>(group.back());
    for (const NodeId n : group)
      for (ValueId v : graph.node(n).inputs) {
        if (v == kNoValue) continue;
        for (ValueId used : {v, made_at(graph, v)})
          last_uses[used] = std::max(last_uses[used], last);
        touch(v, last);
      }
  }

  // Places the views between the nodes of a group whose operands the group may need.
  void place_views_between(std::span<const NodeId> group) {
    for (NodeId n = group.front() + 1; n < group.back(); ++n)
      if (!std::ranges::binary_search(group, n) && places[graph.node(n).inputs[0]].storage >= 0)
        place_view(graph.node(n));
  }

  void place_results(const Node& node, int n, const KernelChoice* choice) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      ValueId v = node.outputs[i];
      if (last_uses[v] < 0 && !must_exist(node, i, choice)) continue;
      if (auto over = written_over(node, i, n, choice)) {
        places[v] = places[*over];
      } else {
        std::size_t bytes = static_cast<std::size_t>(graph.type(v).bytes());
        places[v].storage = new_storage(bytes, space_of_result(v), n);
        storages.back().value = v;
      }
      touch(v, std::max(n, last_uses[v]));
    }
  }

  std::vector<Step> make_steps() {
    std::vector<Step> steps;
    std::vector<bool> is_done(graph.nodes().size());
    for (int n = 0; n < static_cast<int>(graph.nodes().size()); ++n) {
      if (is_done[static_cast<std::size_t>(n)] || place_view(graph.node(static_cast<NodeId>(n))))
        continue;
      Step& step = steps.emplace_back();
      step.nodes = {static_cast<NodeId>(n)};
      std::size_t workspace_bytes = 0;
      const KernelChoice* choice = make_kernel_of(step, &workspace_bytes);
      if (step.nodes.size() > 1) {
        place_views_between(step.nodes);
        hold_operands(step.nodes);
      }
      const int last = static_cast<int>(step.nodes.back());
      for (const NodeId member : step.nodes) {
        is_done[member] = true;
        place_results(graph.node(member), last, choice);
      }
      workspaces.push_back(workspace_bytes ? new_storage(workspace_bytes, Location::kArena, last)
                                           : -1);
    }
    return steps;
  }

  // Sets the offset of every storage in the arena.
  void plan_arena(Program& program) {
    std::vector<Lifetime> lifetimes;
    for (Storage& s : storages) {
      const Lifetime life = s.space == Location::kArena ? s.life : Lifetime{};
      program.unshared_bytes_ += aligned(life.bytes);
      lifetimes.push_back(life);
    }
    plan = plan_memory(lifetimes);
    std::vector<Lifetime> on_host;
    for (const Storage& s : storages)
      on_host.push_back(s.space == Location::kHost ? s.life : Lifetime{});
    host_plan = plan_memory(on_host);
    program.host_bytes_ = host_plan.arena_bytes;
    // No step may use the memory of counters, so they are behind the temporaries.
    program.unshared_bytes_ += counter_bytes;
    program.arena_bytes_ = plan.arena_bytes + counter_bytes;
    program.lower_bound_bytes_ = plan.lower_bound_bytes + counter_bytes;
    for (std::size_t i = 0; i < lifetimes.size(); ++i)
      if (lifetimes[i].bytes > 0)
        program.arena_blocks_.push_back({storages[i].value, plan.offsets[i], lifetimes[i].bytes,
                                         lifetimes[i].first, lifetimes[i].last});
    if (counter_bytes > 0)
      program.arena_blocks_.push_back(
          {kNoValue, plan.arena_bytes, counter_bytes, 0, static_cast<int>(graph.nodes().size())});
  }

  // Returns the value's location. REQUIRES: plan_arena() was called.
  Location final_location(ValueId v) const {
    if (v == kNoValue || places[v].storage < 0) return {};
    Location out = location(v);
    if (out.space == Location::kArena || out.space == Location::kHost)
      out.offset += offset_of(places[v].storage);
    return out;
  }

  std::int64_t offset_of(int storage) const {
    const auto s = static_cast<std::size_t>(storage);
    return static_cast<std::int64_t>(
        (storages[s].space == Location::kHost ? host_plan : plan).offsets[s]);
  }

  void fill_locations(std::vector<Step>& steps) const {
    auto counters = static_cast<std::int64_t>(plan.arena_bytes);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      Step& step = steps[s];
      for (const NodeId n : step.nodes) {
        for (ValueId v : graph.node(n).inputs) step.inputs.push_back(final_location(v));
        for (ValueId v : graph.node(n).outputs) step.outputs.push_back(final_location(v));
      }
      if (workspaces[s] >= 0) step.workspace = {Location::kArena, offset_of(workspaces[s])};
      if (step.counter_bytes > 0) {
        step.outputs.push_back({Location::kArena, counters});
        counters += static_cast<std::int64_t>(aligned(step.counter_bytes));
      }
      step.in_pointers.resize(step.inputs.size());
      step.out_pointers.resize(step.outputs.size());
    }
  }
};

Program::Program(const Graph& graph, const Backend& backend)
    : graph_(std::make_shared<const Graph>(with_own_outputs(graph))),
      queue_(&backend.context().queue()),
      memory_(backend.reaches(MemoryKind::host) ? MemoryKind::host : MemoryKind::device),
      bound_(graph_->inputs().size() + graph_->outputs().size()),
      bound_pieces_(bound_.size()),
      staging_(std::make_unique<Staging>(backend)) {
  Planner planner(*graph_, backend);
  planner.place_inputs();
  steps_ = planner.make_steps();
  planner.plan_arena(*this);
  planner.fill_locations(steps_);
  for (const GraphInput& input : graph_->inputs()) in_host_.push_back(planner.in_host[input.value]);
  in_host_.resize(bound_.size());
  if (std::ranges::any_of(
          steps_, [](const Step& step) { return step.scan && !step.scan->host_parts.empty(); }))
    host_ = std::make_shared<HostPlace>(backend);
}

}  // namespace lamina
