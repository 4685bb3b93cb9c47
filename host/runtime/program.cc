// Runs and describes a program.
#include "runtime/program.h"

#include <algorithm>
#include <map>
#include <type_traits>

#include "core/error.h"
#include "ops/op_code.h"
#include "runtime/node_groups.h"
#include "runtime/program_steps.h"

namespace lamina {

struct Program::ProfileRow {
  std::string what;
  double seconds;
  std::int64_t calls;
};

// Waits, because kernels must stay until their work has run.
Program::~Program() {
  try {
    if (staging_) queue_->finish();
  } catch (const std::exception&) {
    // Ignores an error of the work: no caller waits for its result.
  }
}
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
  if (node.op->def->facts.loops) return true;
  return with_node_view(graph, node, [&](const NodeView& view) {
    return (node.op->def->view && node.op->def->view(view)) || choose_kernel(backend, view);
  });
}

void Program::watch(Watcher* watcher) {
  watcher_ = watcher;
  for (Step& step : steps_)
    if (step.scan) step.scan->body->watch(watcher);
}

Watching::Watching(Program& program, Watcher& watcher) : program_(program) {
  program_.watch(&watcher);
}
Watching::~Watching() { program_.watch(nullptr); }

Address Program::address(const Location& location, Address arena) const {
  if (location.space == Location::kNothing) return 0;
  const auto offset = static_cast<Address>(location.offset);
  if (location.space == Location::kHost) return host_->memory->address() + offset;
  if (location.space == Location::kArena) return arena + offset;
  return slots_[static_cast<std::size_t>(location.space)].base + offset;
}

// Fills a slot with the memory of a binding, or with staging memory that is copied from or to it.
template <typename AnyBinding>
void Program::place(std::size_t slot, const AnyBinding& binding, const Type& type) {
  constexpr bool kIsOutput = std::is_same_v<AnyBinding, Binding>;
  const auto put = [&](const ConstTensorRef& ref, std::size_t bytes, Address* address) {
    *address = ref.address();
    LAMINA_ASSERT(!ref || ref.bytes() >= bytes);
    if (!ref || staging_->reaches(ref.kind())) return;
    if (in_host_[slot]) {
      LAMINA_ASSERT(ref.kind() == MemoryKind::pinned);
      return;
    }
    if (ref.kind() == MemoryKind::pinned) staging_->wait_before_reading();
    if constexpr (kIsOutput)
      staging_->add_output(ref.address(), bytes, address);
    else
      staging_->add_input(ref.address(), bytes, address);
  };
  const auto bytes = static_cast<std::size_t>(type.bytes());
  Slot& out = bound_[slot];
  std::vector<Address>& pieces = bound_pieces_[slot];
  pieces.resize(binding.pieces.size());
  out.pieces = pieces.empty() ? nullptr : pieces.data();
  if (pieces.empty()) {
    put(binding.whole, bytes, &out.base);
    return;
  }
  LAMINA_ASSERT(static_cast<std::int64_t>(pieces.size()) == type.dim(0));
  for (std::size_t i = 0; i < pieces.size(); ++i)
    put(binding.pieces[i], bytes / pieces.size(), &pieces[i]);
  out.base = 0;
}

// Checks that outputs that alias inputs are bound to the same memory, so that no const input is
// written.
void Program::check_aliases(std::span<const ConstBinding> inputs,
                            std::span<const Binding> outputs) const {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const int alias = graph_->outputs()[o].alias_input;
    if (alias < 0) continue;
    const ConstBinding& input = inputs[static_cast<std::size_t>(alias)];
    LAMINA_ASSERT(outputs[o].whole.same_place(input.whole));
    LAMINA_ASSERT(std::ranges::equal(
        outputs[o].pieces, input.pieces,
        [](const TensorRef& a, const ConstTensorRef& b) { return a.same_place(b); }));
  }
}

void Program::run(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                  const Buffer& arena) {
  std::vector<ConstBinding> in;
  std::vector<Binding> out;
  for (const ConstTensorRef& input : inputs) in.push_back({input, {}});
  for (const TensorRef& output : outputs) out.push_back({output, {}});
  run(in, out, arena);
}

void Program::run(std::span<const ConstBinding> inputs, std::span<const Binding> outputs,
                  const Buffer& arena) {
  LAMINA_ASSERT(inputs.size() == graph_->inputs().size());
  LAMINA_ASSERT(outputs.size() == graph_->outputs().size());
  LAMINA_ASSERT(arena.bytes() >= arena_bytes_);
  check_aliases(inputs, outputs);
  reserve_host_memory();
  staging_->begin();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    place(i, inputs[i], graph_->type(graph_->inputs()[i].value));
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const GraphOutput& output = graph_->outputs()[o];
    if (output.alias_input < 0) {
      place(inputs.size() + o, outputs[o], graph_->type(output.value));
      continue;
    }
    if (in_host_[static_cast<std::size_t>(output.alias_input)]) continue;
    const Binding& binding = outputs[o];
    Address ignored = 0;  // kernels use the input's address
    if (binding.whole && !staging_->reaches(binding.whole.kind()))
      staging_->add_alias(binding.whole.address(), &ignored);
    for (const TensorRef& piece : binding.pieces)
      if (!staging_->reaches(piece.kind())) staging_->add_alias(piece.address(), &ignored);
  }
  staging_->copy_in(*queue_);
  staging_->run_steps(*this, arena.address());
  if (times_) {
    queue_->finish();
    times_->read(profiling_, trace_);
    if (trace_ && host_) host_->transfers->read(*trace_);
  }
  staging_->copy_out(*queue_);
}

void Program::run_steps(std::span<const Slot> slots, Address arena) {
  slots_ = slots;
  for (Step& step : steps_) {
    StepTimes::Begin begin = times_ ? StepTimes::begin(*this) : nullptr;
    if (step.scan) {
      run_scan(step, arena);
    } else {
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        step.in_pointers[i] = reinterpret_cast<const void*>(address(step.inputs[i], arena));
      for (std::size_t i = 0; i < step.outputs.size(); ++i)
        step.out_pointers[i] = reinterpret_cast<void*>(address(step.outputs[i], arena));
      if (watcher_) show_operands(step);
      queue_->enqueue(*step.kernel,
                      {step.in_pointers, step.out_pointers,
                       reinterpret_cast<std::byte*>(address(step.workspace, arena)), queue_});
      if (watcher_) show(step);
    }
    if (times_) times_->end(*this, step, std::move(begin));
  }
}

void Program::show_operands(const Step& step) const {
  std::size_t i = 0;
  for (const NodeId node : step.nodes) {
    std::vector<ConstTensorRef> operands;
    for (const ValueId v : graph_->node(node).inputs) {
      const auto at = reinterpret_cast<Address>(step.in_pointers[i++]);
      operands.push_back(v == kNoValue ? TensorRef() : TensorRef(at, memory_, graph_->type(v)));
    }
    watcher_->starts(*graph_, node, operands);
  }
}

void Program::show(const Step& step) const {
  std::size_t i = 0;
  for (const NodeId node : step.nodes) {
    std::vector<TensorRef> results;
    for (const ValueId v : graph_->node(node).outputs)
      results.push_back(
          TensorRef(reinterpret_cast<Address>(step.out_pointers[i++]), memory_, graph_->type(v)));
    watcher_->ran(*graph_, node, results);
  }
}

void StepTimes::end(Program& program, Program::Step& step, Begin begin) {
  spans_.push_back(
      {program.graph_.get(), &step, iteration, std::move(begin), program.queue_->record()});
}

void StepTimes::read(bool profiling, Trace* trace) {
  for (const Span& span : spans_) {
    const double begin = span.begin->seconds(), seconds = span.end->seconds() - begin;
    if (profiling) {
      span.step->seconds += seconds;
      ++span.step->calls;
    }
    if (trace)
      trace->events.push_back({span.graph, span.step->nodes, &span.step->kernel_name,
                               span.iteration, begin - trace->begin, seconds});
  }
  spans_.clear();
}

namespace {

std::string to_string(const Location& location, const Graph& graph) {
  if (location.space == Location::kNothing) return "-";
  std::string at = location.offset ? fmt::format("+{}", location.offset) : "";
  if (location.space == Location::kArena) return fmt::format("arena+{}", location.offset);
  if (location.space == Location::kHost) return fmt::format("host memory+{}", location.offset);
  std::size_t space = static_cast<std::size_t>(location.space);
  if (space < graph.inputs().size()) return graph.inputs()[space].name + at;
  return graph.outputs()[space - graph.inputs().size()].name + at;
}

}  // namespace

void Program::print(std::string& out, int indent) const {
  std::string margin(static_cast<std::size_t>(indent), ' ');
  for (const Step& step : steps_) {
    std::size_t i = 0;
    for (const NodeId n : step.nodes) {
      const Node& node = graph_->node(n);
      std::vector<std::string> results;
      for (const ValueId v : node.outputs)
        results.push_back(fmt::format("{} at {}", to_string(graph_->type(v)),
                                      to_string(step.outputs[i++], *graph_)));
      out += fmt::format("{}{:<18} {:<22} {}\n", margin, node.op->name,
                         n == step.nodes.front() ? step.kernel_name : "in the same call",
                         fmt::join(results, ", "));
    }
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
    if (step.scan) out.push_back({step.nodes.front(), step.scan->times, step.scan->body.get()});
  return out;
}

std::string Program::describe() const {
  std::string out;
  print(out, 0);
  out += fmt::format("arena {} bytes ({} without sharing)\n", arena_bytes_, unshared_bytes_);
  if (host_)
    out += fmt::format("host memory {} bytes; a run copies {:.0f} bytes there and {:.0f} back\n",
                       host_bytes_, stored_bytes(), loaded_bytes());
  return staging_ ? out + staging_->graph_text(*this) : out;
}

void Program::time(const std::shared_ptr<StepTimes>& times) {
  times_ = times;
  for (Step& step : steps_)
    if (step.scan) step.scan->body->time(times);
}

void Program::set_profiling(bool enabled) {
  profiling_ = enabled;
  for (Step& step : steps_) {
    if (enabled) step.seconds = 0, step.calls = 0;
    if (step.scan) step.scan->body->set_profiling(enabled);
  }
  time(profiling_ || trace_ ? std::make_shared<StepTimes>() : nullptr);
}

void Program::set_trace(Trace* trace) {
  trace_ = trace;
  if (trace && host_) reserve_host_memory();
  if (host_ && host_->transfers) host_->transfers->measure(trace != nullptr);
  time(profiling_ || trace_ ? std::make_shared<StepTimes>() : nullptr);
}

// The steps of a body have the times of all scans that run it.
void Program::collect_profile(std::vector<ProfileRow>& rows, std::set<const Program*>& seen) const {
  if (!seen.insert(this).second) return;
  for (const Step& step : steps_) {
    if (step.scan) {
      step.scan->body->collect_profile(rows, seen);
      continue;
    }
    rows.push_back({fmt::format("{:<18} {:<20} {}", graph_->node(step.nodes.front()).op->name,
                                step.kernel_name, result_text(*graph_, step.nodes)),
                    step.seconds, step.calls});
  }
}

std::string Program::profile() const {
  std::vector<ProfileRow> rows;
  std::set<const Program*> seen;
  collect_profile(rows, seen);
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
