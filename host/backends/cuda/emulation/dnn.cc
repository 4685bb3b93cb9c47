#include "backends/cuda/emulation/dnn.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cuda/emulation/dnn_objects.h"
#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/emulation/memory_range.h"

namespace lamina::cuda::emulation {

using namespace dnn;

namespace {

using Kind = DnnOperation::Kind;

bool is_16_bit(DnnType type) { return type == DnnType::bf16 || type == DnnType::f16; }

// Engines of attention take matrices of 16-bit numbers with rows of 8 to 256, and broadcast one
// operand of a pointwise operation at most. Found by asking cuDNN 9.19 (ADR 52).
bool an_engine_takes(const DnnGraph& graph) {
  for (const DnnOperation& op : graph.operations) {
    if (op.kind == Kind::pointwise && op.b != 0 &&
        graph.tensors.at(op.x).dims != graph.tensors.at(op.y).dims &&
        graph.tensors.at(op.b).dims != graph.tensors.at(op.y).dims)
      return false;
    if (op.kind != Kind::matmul) continue;
    for (const std::int64_t id : {op.x, op.b, op.y}) {
      const DnnTensor& t = graph.tensors.at(id);
      if (t.is_virtual) continue;
      const std::int64_t width = t.strides[3] == 1 ? t.dims[3] : t.dims[2];
      if (!is_16_bit(t.type) || width % 8 != 0 || width > 256) return false;
    }
  }
  return true;
}

// Fills the caller's descriptors with two engines: the first adds in varying orders, the second in
// a fixed one.
DnnStatus give_configs(const DnnDescriptor& heuristic, std::int64_t most, std::int64_t* count,
                       Descriptor* out) {
  const DnnGraph& graph = heuristic.descriptor(Attribute::engine_heuristic_operation_graph)->graph;
  const bool found = an_engine_takes(graph) && DnnObjects::instance().without_engines == 0;
  *count = found ? std::min<std::int64_t>(most, 2) : 0;
  for (std::int64_t i = 0; i < *count; ++i) {
    const DnnPointer config = DnnObjects::instance().find(out[i]);
    if (!config || config->type != DescriptorType::engine_config || config->finished)
      return dnn_bad("results are not written into new configurations");
    config->graph = graph;
    config->fixed_order = i > 0;
    config->finished = true;
  }
  return DnnStatus::success;
}

DnnStatus give_engine(const DnnDescriptor& config, std::int64_t* count, Descriptor* out) {
  const DnnPointer engine = DnnObjects::instance().find(*out);
  if (!engine || engine->type != DescriptorType::engine)
    return dnn_bad("the result is not written into an engine");
  engine->fixed_order = config.fixed_order;
  engine->finished = true;
  *count = 1;
  return DnnStatus::success;
}

DnnStatus get_attribute(Descriptor descriptor, Attribute attribute, AttributeType type,
                        std::int64_t most, std::int64_t* count, void* out) {
  if (const DnnStatus status = dnn_begin("cudnnBackendGetAttribute"); status != DnnStatus::success)
    return status;
  const DnnPointer d = DnnObjects::instance().find(descriptor);
  if (!d || most < 1 || count == nullptr || out == nullptr)
    return dnn_bad("reads an attribute without a place for it");
  if (!d->finished)
    return dnn_refuse(DnnStatus::bad_param_not_finalized,
                      "reads a descriptor that is not finalized");
  if (attribute == Attribute::engine_heuristic_results && type == AttributeType::descriptor &&
      d->type == DescriptorType::engine_heuristic)
    return give_configs(*d, most, count, static_cast<Descriptor*>(out));
  if (attribute == Attribute::engine_config_engine && type == AttributeType::descriptor &&
      d->type == DescriptorType::engine_config)
    return give_engine(*d, count, static_cast<Descriptor*>(out));
  if (attribute == Attribute::engine_numerical_note && type == AttributeType::numerical_note &&
      d->type == DescriptorType::engine) {
    *count = d->fixed_order ? 0 : 1;
    if (!d->fixed_order) *static_cast<NumericalNote*>(out) = NumericalNote::nondeterministic;
    return DnnStatus::success;
  }
  if (attribute == Attribute::execution_plan_workspace_size && type == AttributeType::int64 &&
      d->type == DescriptorType::execution_plan) {
    *count = 1;
    std::memcpy(out, &d->workspace_bytes, sizeof d->workspace_bytes);
    return DnnStatus::success;
  }
  return dnn_bad("attribute {} cannot be read", static_cast<int>(attribute));
}

// Checks the places of all tensors and returns them by id.
DnnStatus place_tensors(const DnnGraph& graph, const DnnDescriptor& pack,
                        std::map<std::int64_t, void*>& places) {
  const auto ids = pack.list<std::int64_t>(Attribute::variant_pack_unique_ids);
  const auto pointers = pack.list<void*>(Attribute::variant_pack_data_pointers);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto found = graph.tensors.find(ids[i]);
    if (found == graph.tensors.end() || found->second.is_virtual)
      return dnn_bad("the pack has the id {}, which no tensor in memory has", ids[i]);
    places[ids[i]] = pointers[i];
  }
  for (const auto& [id, tensor] : graph.tensors) {
    if (tensor.is_virtual) continue;
    const auto found = places.find(id);
    if (found == places.end() || found->second == nullptr)
      return dnn_bad("the pack has no place for tensor {}", id);
    if (tensor.by_value) continue;
    const MemoryRange place = range(found->second, tensor.extent() * bytes_of(tensor.type));
    if (place.begin % static_cast<std::uint64_t>(tensor.alignment) != 0)
      return dnn_bad("tensor {} is not aligned to {} bytes", id, tensor.alignment);
    if (!place.is_allocated()) return dnn_bad("tensor {} is outside of the memory of the GPU", id);
  }
  return DnnStatus::success;
}

// A number is read when the plan is enqueued, a tensor when the work runs.
struct Work {
  DnnGraph graph;
  std::map<std::int64_t, std::byte*> places;
  std::map<std::int64_t, std::uint32_t> numbers;
  std::byte* workspace = nullptr;
  std::int64_t workspace_bytes = 0, first_k = 0;

  void run() {
    if (workspace_bytes > 0)
      std::memset(workspace, 0xa5, static_cast<std::size_t>(workspace_bytes));
    for (auto& [id, bits] : numbers) places[id] = reinterpret_cast<std::byte*>(&bits);
    compute(graph, places, first_k);
  }
};

DnnStatus execute(DnnHandle handle, Descriptor plan, Descriptor variant_pack) {
  if (const DnnStatus status = dnn_begin("cudnnBackendExecute"); status != DnnStatus::success)
    return status;
  DnnObjects& objects = DnnObjects::instance();
  const DnnPointer p = objects.find(plan), pack = objects.find(variant_pack);
  if (!p || !p->finished || p->type != DescriptorType::execution_plan || !pack || !pack->finished ||
      pack->type != DescriptorType::variant_pack)
    return dnn_refuse(DnnStatus::bad_param_not_finalized,
                      "runs without a finalized plan and variant pack");
  std::map<std::int64_t, void*> places;
  if (const DnnStatus status = place_tensors(p->graph, *pack, places); status != DnnStatus::success)
    return status;
  Work work;
  work.graph = p->graph;
  work.workspace_bytes = p->workspace_bytes;
  for (const auto& [id, place] : places) {
    if (p->graph.tensors.at(id).by_value)
      std::memcpy(&work.numbers[id], place, 4);
    else
      work.places[id] = bytes_behind(place);
  }
  if (p->workspace_bytes > 0) {
    void* const workspace = pack->get<void*>(Attribute::variant_pack_workspace);
    if (!range(workspace, p->workspace_bytes).is_allocated())
      return dnn_bad("a workspace of {} bytes is missing", p->workspace_bytes);
    work.workspace = bytes_behind(workspace);
  }
  const int count = ++objects.executions;
  work.first_k = p->fixed_order ? 0 : count;
  DnnStream stream = nullptr;
  {
    const std::lock_guard lock(objects.mutex);
    const auto found = objects.handles.find(handle);
    if (found == objects.handles.end()) return dnn_bad("uses a destroyed handle");
    stream = found->second;
  }
  const DriverResult result =
      add_work(static_cast<StreamHandle>(stream), [work]() mutable { work.run(); });
  if (result == DriverResult::success) return DnnStatus::success;
  return dnn_refuse(DnnStatus::execution_failed,
                    fmt::format("the driver returns error {}", static_cast<int>(result)));
}

}  // namespace

const Opened& dnn_opened() {
  static const DnnApi api = [] {
    DnnApi out = {};
    add_dnn_object_functions(out);
    out.get_attribute = get_attribute;
    out.execute = execute;
    return out;
  }();
  static const Opened opened{.api = &api, .why_not = {}};
  return opened;
}

void fail_next_dnn_call(std::string_view function, DnnStatus status) {
  DnnObjects::instance().failures.add(function, status);
}

NoDnnEngines::NoDnnEngines() { ++DnnObjects::instance().without_engines; }
NoDnnEngines::~NoDnnEngines() { --DnnObjects::instance().without_engines; }

DnnCalls dnn_calls() {
  const DnnObjects& objects = DnnObjects::instance();
  return {objects.plans, objects.executions};
}

int num_dnn_objects() {
  DnnObjects& objects = DnnObjects::instance();
  const std::lock_guard lock(objects.mutex);
  return static_cast<int>(objects.handles.size() + objects.descriptors.size());
}

}  // namespace lamina::cuda::emulation
