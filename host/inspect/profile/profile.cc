#include "inspect/profile/profile.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/json_writer.h"
#include "inspect/cost/required_work.h"
#include "runtime/node_groups.h"

namespace lamina::inspect {
namespace {

// The first node, whose op all nodes of a group have.
const Node& node_of(const TraceEvent& event) { return event.graph->node(event.nodes.front()); }

bool is_scan(const TraceEvent& event) {
  return !event.is_copy() && node_of(event).op->def->facts.loops;
}

// The work of all nodes of the event.
struct Work {
  double flops = 0, bytes = 0;
};
Work work_of(const TraceEvent& event) {
  Work out;
  for (const NodeId n : event.nodes) {
    const Node& node = event.graph->node(n);
    out.flops += required_flops(*event.graph, node, 0);
    out.bytes += moved_bytes(*event.graph, node);
  }
  return out;
}

// Rows of the viewer.
constexpr int kKernels = 1, kCopies = 2;

void begin_event(JsonWriter& json, std::string_view name, std::string_view category,
                 double begin_seconds, double seconds, int row = kKernels) {
  json.begin_object().key("name").value(name).key("cat").value(category);
  json.key("ph").value("X").key("pid").value(1).key("tid").value(row);
  json.key("ts").value(1e6 * begin_seconds).key("dur").value(1e6 * seconds);
}

void write_event(JsonWriter& json, const TraceEvent& event) {
  if (event.is_copy()) {
    begin_event(json, *event.kernel, "copy", event.begin_seconds, event.seconds, kCopies);
    json.key("args").begin_object().key("bytes").value(event.copied_bytes);
    json.end_object().end_object();
    return;
  }
  const Node& node = node_of(event);
  begin_event(json, node.op->name, is_scan(event) ? "scan" : "kernel", event.begin_seconds,
              event.seconds);
  json.key("args").begin_object().key("type").value(result_text(*event.graph, event.nodes));
  if (node.origin) json.key("scope").value(node.origin->scope);
  if (event.iteration >= 0) json.key("iteration").value(event.iteration);
  if (!is_scan(event)) {
    json.key("kernel").value(*event.kernel);
    const Work work = work_of(event);
    json.key("flops").value(work.flops).key("bytes").value(work.bytes);
  }
  json.end_object().end_object();
}

void name_row(JsonWriter& json, int row, std::string_view name) {
  json.begin_object().key("name").value("thread_name").key("ph").value("M");
  json.key("pid").value(1).key("tid").value(row).key("args");
  json.begin_object().key("name").value(name).end_object().end_object();
}

}  // namespace

std::string chrome_trace(const Trace& trace, const std::vector<Phase>& phases) {
  JsonWriter json;
  json.begin_object().key("displayTimeUnit").value("ms").key("traceEvents").begin_array();
  name_row(json, kKernels, "kernels, on all threads");
  if (std::ranges::any_of(trace.events, &TraceEvent::is_copy))
    name_row(json, kCopies, "copies between host memory and the device");
  for (const Phase& phase : phases) {
    begin_event(json, phase.name, "step", phase.begin_seconds, phase.seconds);
    json.end_object();
  }
  for (const TraceEvent& event : trace.events) write_event(json, event);
  return json.end_array().end_object().text() + "\n";
}

std::vector<KernelTime> kernel_times(const Trace& trace) {
  std::map<std::tuple<std::string, std::string, std::string>, KernelTime> by_kind;
  for (const TraceEvent& event : trace.events) {
    if (is_scan(event)) continue;
    if (event.is_copy()) {
      KernelTime& sum = by_kind[{"copy", *event.kernel, ""}];
      sum.op = "copy";
      sum.kernel = *event.kernel;
      sum.is_copy = true;
      ++sum.calls;
      sum.seconds += event.seconds;
      sum.bytes += event.copied_bytes;
      continue;
    }
    const Node& node = node_of(event);
    const std::string op(node.op->name), type = result_text(*event.graph, event.nodes);
    KernelTime& sum = by_kind[{op, *event.kernel, type}];
    sum.op = op;
    sum.kernel = *event.kernel;
    sum.type = type;
    if (!node.inputs.empty() && node.inputs[0] != kNoValue)
      sum.dtype = event.graph->type(node.inputs[0]).dtype;
    ++sum.calls;
    sum.seconds += event.seconds;
    const Work work = work_of(event);
    sum.flops += work.flops;
    sum.bytes += work.bytes;
  }
  std::vector<KernelTime> out;
  for (auto& [kind, sum] : by_kind) out.push_back(std::move(sum));
  std::ranges::stable_sort(out, std::greater<>(), &KernelTime::seconds);
  return out;
}

}  // namespace lamina::inspect
