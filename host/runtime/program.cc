// Running a program, and telling what it is.
#include "runtime/program.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "core/error.h"
#include "ops/op_code.h"
#include "runtime/program_steps.h"

namespace lamina {

struct Program::ProfileRow {
  std::string what;
  double seconds;
  std::int64_t calls;
};

Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

const KernelChoice* choose_kernel(const Backend& backend, const NodeView& node,
                                  std::vector<Refusal>* refusals) {
  for (const KernelChoice& choice : backend.kernels(node.op())) {
    Verdict verdict = choice.supports(node);
    if (verdict) return &choice;
    if (refusals) refusals->push_back({std::string(choice.name), verdict.why_not});
  }
  return nullptr;
}

bool is_supported(const Backend& backend, const Graph& graph, const Node& node) {
  if (node.op->code == OpCode::scan) return true;
  return with_node_view(graph, node, [&](const NodeView& view) {
    return (node.op->def->view && node.op->def->view(view)) || choose_kernel(backend, view);
  });
}

void Program::watch(Watcher* watcher) {
  watcher_ = watcher;
  for (Step& step : steps_)
    if (step.scan) step.scan->body->watch(watcher);
}

void* Program::address(const Location& location, std::byte* arena) const {
  if (location.space == Location::kNothing) return nullptr;
  if (location.space == Location::kArena) return arena + location.offset;
  return static_cast<std::byte*>(bound_[static_cast<std::size_t>(location.space)].base) +
         location.offset;
}

void Program::run(std::span<const Binding> inputs, std::span<const Binding> outputs,
                  std::byte* arena) {
  LAMINA_ASSERT(inputs.size() == graph_->inputs().size());
  LAMINA_ASSERT(outputs.size() == graph_->outputs().size());
  std::ranges::copy(inputs, bound_.begin());
  std::ranges::copy(outputs, bound_.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
  using Clock = Trace::Clock;
  const bool timed = profiling_ || trace_ != nullptr;
  for (Step& step : steps_) {
    Clock::time_point start = timed ? Clock::now() : Clock::time_point{};
    if (step.scan) {
      run_scan(step, arena);
    } else {
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        step.in_pointers[i] = address(step.inputs[i], arena);
      for (std::size_t i = 0; i < step.outputs.size(); ++i)
        step.out_pointers[i] = address(step.outputs[i], arena);
      step.kernel->run({step.in_pointers, step.out_pointers,
                        static_cast<std::byte*>(address(step.workspace, arena))});
      if (watcher_) watcher_->ran(*graph_, step.node, step.out_pointers);
    }
    if (!timed) continue;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (profiling_) {
      step.seconds += seconds;
      ++step.calls;
    }
    if (trace_)
      trace_->events.push_back({graph_.get(), step.node, &step.kernel_name, trace_->iteration,
                                trace_->seconds_at(start), seconds});
  }
}

void Program::run_scan(Step& step, std::byte* arena) {
  Scan& scan = *step.scan;
  std::byte* workspace = static_cast<std::byte*>(address(step.workspace, arena));
  // Element `layer` of a stacked operand or result; layer 0 of the others.
  auto layer_of = [&](const Location& location, std::int64_t layer, std::int64_t stride) -> void* {
    if (location.space >= 0 && bound_[static_cast<std::size_t>(location.space)].pieces) {
      LAMINA_ASSERT(location.offset == 0);
      return bound_[static_cast<std::size_t>(location.space)].pieces[layer];
    }
    return static_cast<std::byte*>(address(location, arena)) + layer * stride;
  };
  auto carry_buffer = [&](std::size_t carry, std::int64_t iteration) {
    std::size_t second = iteration % 2 ? scan.carry_gap_bytes : 0;
    return workspace + scan.carry_offsets[carry] + second;
  };
  const std::int64_t outer = trace_ ? trace_->iteration : -1;
  for (std::int64_t iteration = 0; iteration < scan.times; ++iteration) {
    if (trace_) trace_->iteration = iteration;
    std::int64_t layer = scan.reverse ? scan.times - 1 - iteration : iteration;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      std::size_t carry = i - scan.num_consts;
      bool is_carry = i >= scan.num_consts && carry < scan.num_carries;
      scan.inputs[i].base =
          is_carry && iteration > 0
              ? carry_buffer(carry, iteration - 1)
              : layer_of(step.inputs[i], is_carry ? 0 : layer, scan.input_strides[i]);
    }
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      bool is_carry = i < scan.num_carries;
      scan.outputs[i].base =
          is_carry && iteration + 1 < scan.times
              ? carry_buffer(i, iteration)
              : layer_of(step.outputs[i], is_carry ? 0 : layer, scan.output_strides[i]);
    }
    if (watcher_) watcher_->enter(*graph_, step.node, layer);
    scan.body->run(scan.inputs, scan.outputs, workspace + scan.body_arena_offset);
    if (watcher_) watcher_->leave();
  }
  if (trace_) trace_->iteration = outer;
}

namespace {

std::string to_string(const Location& location, const Graph& graph) {
  if (location.space == Location::kNothing) return "-";
  std::string at = location.offset ? fmt::format("+{}", location.offset) : "";
  if (location.space == Location::kArena) return fmt::format("arena+{}", location.offset);
  std::size_t space = static_cast<std::size_t>(location.space);
  if (space < graph.inputs().size()) return graph.inputs()[space].name + at;
  return graph.outputs()[space - graph.inputs().size()].name + at;
}

}  // namespace

void Program::print(std::string& out, int indent) const {
  std::string margin(static_cast<std::size_t>(indent), ' ');
  for (const Step& step : steps_) {
    const Node& node = graph_->node(step.node);
    std::vector<std::string> results;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      results.push_back(fmt::format("{} at {}", to_string(graph_->type(node.outputs[i])),
                                    to_string(step.outputs[i], *graph_)));
    out += fmt::format("{}{:<18} {:<22} {}\n", margin, node.op->name, step.kernel_name,
                       fmt::join(results, ", "));
    for (const Refusal& r : step.refusals)
      out += fmt::format("{}  not {}: {}\n", margin, r.kernel, r.why);
    if (step.scan) {
      out += fmt::format("{}  {} times{}, its arena {} bytes:\n", margin, step.scan->times,
                         step.scan->reverse ? " backwards" : "", step.scan->body->arena_bytes());
      step.scan->body->print(out, indent + 4);
    }
  }
}

std::vector<Program::Body> Program::bodies() const {
  std::vector<Body> out;
  for (const Step& step : steps_)
    if (step.scan) out.push_back({step.node, step.scan->times, step.scan->body.get()});
  return out;
}

std::string Program::describe() const {
  std::string out;
  print(out, 0);
  return out + fmt::format("arena {} bytes ({} without sharing)\n", arena_bytes_, unshared_bytes_);
}

void Program::set_profiling(bool enabled) {
  profiling_ = enabled;
  for (Step& step : steps_) {
    if (enabled) step.seconds = 0, step.calls = 0;
    if (step.scan) step.scan->body->set_profiling(enabled);
  }
}

void Program::set_trace(Trace* trace) {
  trace_ = trace;
  for (Step& step : steps_)
    if (step.scan) step.scan->body->set_trace(trace);
}

void Program::collect_profile(std::vector<ProfileRow>& rows) const {
  for (const Step& step : steps_) {
    if (step.scan) {
      step.scan->body->collect_profile(rows);
      continue;
    }
    const Node& node = graph_->node(step.node);
    std::string type = node.outputs.empty() ? "" : to_string(graph_->type(node.outputs[0]));
    rows.push_back({fmt::format("{:<18} {:<20} {}", node.op->name, step.kernel_name, type),
                    step.seconds, step.calls});
  }
}

std::string Program::profile() const {
  std::vector<ProfileRow> rows;
  collect_profile(rows);
  std::map<std::string, ProfileRow> merged;
  double total = 0;
  for (const ProfileRow& row : rows) {
    ProfileRow& sum = merged.try_emplace(row.what, ProfileRow{row.what, 0, 0}).first->second;
    sum.seconds += row.seconds;
    sum.calls += row.calls;
    total += row.seconds;
  }
  std::vector<ProfileRow> sorted;
  for (auto& [what, row] : merged) sorted.push_back(row);
  std::ranges::sort(sorted, std::greater{}, &ProfileRow::seconds);
  std::string out;
  for (const ProfileRow& row : sorted)
    if (row.calls)
      out += fmt::format("{:8.3f} ms {:5.1f} % {:7} calls  {}\n", row.seconds * 1e3,
                         100 * row.seconds / total, row.calls, row.what);
  return out;
}

}  // namespace lamina
