#include "backends/cuda/dnn/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace lamina::cuda::dnn {
namespace {

// Bytes. Ids of segments and lengths are aligned to one element only.
std::int64_t alignment_of(DnnType type) { return type == DnnType::i32 ? 4 : 16; }

// Heuristic A recommends fewer; the first is nearly always taken.
constexpr std::int64_t kMostEngines = 16;

std::string reason(const DnnApi& api, DnnStatus status) {
  if (std::string text = last_error(api); !text.empty()) return text;
  const char* const name = api.status_text(status);
  return name ? name : fmt::format("status {}", static_cast<int>(status));
}

// Reads up to `most` values of an attribute. Returns how many cuDNN reports, which may be more.
std::int64_t get_attribute(const DnnApi& api, Descriptor descriptor, Attribute attribute,
                           AttributeType type, std::int64_t most, void* values) {
  std::int64_t count = 0;
  check(api, api.get_attribute(descriptor, attribute, type, most, &count, values),
        "cudnnBackendGetAttribute");
  return count;
}

}  // namespace

OwnedDescriptor::OwnedDescriptor(const DnnApi& api, DescriptorType type) : api_(api) {
  check(api_, api_.create_descriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}
OwnedDescriptor::~OwnedDescriptor() { api_.destroy_descriptor(descriptor_); }

void OwnedDescriptor::set(Attribute attribute, AttributeType type, std::int64_t count,
                          const void* values) const {
  check(api_, api_.set_attribute(descriptor_, attribute, type, count, values),
        "cudnnBackendSetAttribute");
}

void OwnedDescriptor::finalize() const { check(api_, try_finalize(), "cudnnBackendFinalize"); }
DnnStatus OwnedDescriptor::try_finalize() const { return api_.finalize(descriptor_); }

Dims dense(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

void Plan::run(DnnLibrary& library, DnnStream stream, std::vector<std::int64_t> ids,
               std::vector<void*> pointers, void* workspace) const {
  LAMINA_ASSERT(ids.size() == pointers.size());
  for (const Scalar& scalar : scalars_) {
    ids.push_back(scalar.id);
    pointers.push_back(const_cast<std::byte*>(scalar.value.data()));
  }
  const OwnedDescriptor pack(library.api(), DescriptorType::variant_pack);
  pack.set(Attribute::variant_pack_data_pointers, AttributeType::void_ptr, std::ssize(pointers),
           pointers.data());
  pack.set(Attribute::variant_pack_unique_ids, AttributeType::int64, std::ssize(ids), ids.data());
  pack.set(Attribute::variant_pack_workspace, AttributeType::void_ptr, workspace);
  pack.finalize();
  library.execute(stream, plan_->get(), pack.get());
}

DnnGraphBuilder::DnnGraphBuilder(DnnLibrary& library)
    : library_(library), api_(library.api()), made_(std::make_unique<Plan>()) {}

OwnedDescriptor& DnnGraphBuilder::add(DescriptorType type) {
  return *made_->descriptors_.emplace_back(std::make_unique<OwnedDescriptor>(api_, type));
}

GraphTensor DnnGraphBuilder::add_tensor(GraphTensor t, bool is_virtual, bool by_value) {
  t.id = next_id_++;
  const OwnedDescriptor& d = add(DescriptorType::tensor);
  d.set(Attribute::tensor_data_type, AttributeType::data_type, t.type);
  d.set(Attribute::tensor_dimensions, AttributeType::int64, 4, t.dims.data());
  d.set(Attribute::tensor_strides, AttributeType::int64, 4, t.strides.data());
  d.set(Attribute::tensor_unique_id, AttributeType::int64, t.id);
  d.set(Attribute::tensor_byte_alignment, AttributeType::int64, alignment_of(t.type));
  if (is_virtual) d.set(Attribute::tensor_is_virtual, AttributeType::boolean, true);
  if (by_value) d.set(Attribute::tensor_is_by_value, AttributeType::boolean, true);
  d.finalize();
  t.descriptor = &d;
  return t;
}

GraphTensor DnnGraphBuilder::tensor(DnnType type, const Dims& dims, const Dims& strides) {
  return add_tensor({.dims = dims, .strides = strides, .type = type}, false, false);
}
GraphTensor DnnGraphBuilder::intermediate(DnnType type, const Dims& dims) {
  return intermediate(type, dims, dense(dims));
}
GraphTensor DnnGraphBuilder::intermediate(DnnType type, const Dims& dims, const Dims& strides) {
  return add_tensor({.dims = dims, .strides = strides, .type = type}, true, false);
}

GraphTensor DnnGraphBuilder::add_scalar(DnnType type, const void* value) {
  const GraphTensor t =
      add_tensor({.dims = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .type = type}, false, true);
  std::memcpy(made_->scalars_.emplace_back(Plan::Scalar{t.id, {}}).value.data(), value, 4);
  return t;
}
GraphTensor DnnGraphBuilder::scalar(float value) { return add_scalar(DnnType::f32, &value); }
GraphTensor DnnGraphBuilder::scalar(std::int32_t value) { return add_scalar(DnnType::i32, &value); }

void DnnGraphBuilder::matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c,
                             const MatmulLimits& limits) {
  const OwnedDescriptor& kind = add(DescriptorType::matmul);
  kind.set(Attribute::matmul_compute_type, AttributeType::data_type, DnnType::f32);
  if (limits.pad) kind.set(Attribute::matmul_padding_value, AttributeType::f64, 0.0);
  kind.finalize();
  const OwnedDescriptor& op = add(DescriptorType::operation_matmul);
  op.set_descriptor(Attribute::operation_matmul_a, *a.descriptor);
  op.set_descriptor(Attribute::operation_matmul_b, *b.descriptor);
  op.set_descriptor(Attribute::operation_matmul_c, *c.descriptor);
  op.set_descriptor(Attribute::operation_matmul_descriptor, kind);
  if (limits.m) op.set_descriptor(Attribute::operation_matmul_m_override, *limits.m.descriptor);
  if (limits.n) op.set_descriptor(Attribute::operation_matmul_n_override, *limits.n.descriptor);
  if (limits.k) op.set_descriptor(Attribute::operation_matmul_k_override, *limits.k.descriptor);
  op.finalize();
  operations_.push_back(op.get());
}

void DnnGraphBuilder::pointwise_operation(PointwiseMode mode, const GraphTensor& x,
                                          const GraphTensor& b, const GraphTensor& t,
                                          const GraphTensor& y, DnnType compute,
                                          std::int64_t axis) {
  const OwnedDescriptor& kind = add(DescriptorType::pointwise);
  kind.set(Attribute::pointwise_mode, AttributeType::pointwise_mode, mode);
  kind.set(Attribute::pointwise_math_precision, AttributeType::data_type, compute);
  if (axis >= 0) kind.set(Attribute::pointwise_axis, AttributeType::int64, axis);
  kind.finalize();
  const OwnedDescriptor& op = add(DescriptorType::operation_pointwise);
  op.set_descriptor(Attribute::operation_pointwise_descriptor, kind);
  op.set_descriptor(Attribute::operation_pointwise_x, *x.descriptor);
  if (b) op.set_descriptor(Attribute::operation_pointwise_b, *b.descriptor);
  if (t) op.set_descriptor(Attribute::operation_pointwise_t, *t.descriptor);
  op.set_descriptor(Attribute::operation_pointwise_y, *y.descriptor);
  op.finalize();
  operations_.push_back(op.get());
}

GraphTensor DnnGraphBuilder::pointwise(PointwiseMode mode, const GraphTensor& x,
                                       const GraphTensor& b, DnnType type, DnnType compute) {
  Dims dims = x.dims;
  if (b)
    for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = std::max(dims[i], b.dims[i]);
  const GraphTensor y =
      dims == x.dims ? intermediate(type, dims, x.strides) : intermediate(type, dims);
  pointwise_operation(mode, x, b, {}, y, compute);
  return y;
}
void DnnGraphBuilder::pointwise_into(const GraphTensor& y, PointwiseMode mode, const GraphTensor& x,
                                     const GraphTensor& b, DnnType compute) {
  pointwise_operation(mode, x, b, {}, y, compute);
}

GraphTensor DnnGraphBuilder::index(const GraphTensor& x, std::int64_t dim) {
  const GraphTensor y = intermediate(DnnType::i32, x.dims, x.strides);
  pointwise_operation(PointwiseMode::gen_index, x, {}, {}, y, DnnType::f32, dim);
  return y;
}
GraphTensor DnnGraphBuilder::select(const GraphTensor& x, const GraphTensor& b,
                                    const GraphTensor& where) {
  const GraphTensor y = intermediate(x.type, x.dims, x.strides);
  pointwise_operation(PointwiseMode::binary_select, x, b, where, y, DnnType::f32);
  return y;
}

void DnnGraphBuilder::reduce(ReductionOperator operation, const GraphTensor& x,
                             const GraphTensor& y) {
  const OwnedDescriptor& kind = add(DescriptorType::reduction);
  kind.set(Attribute::reduction_operator, AttributeType::reduction_operator, operation);
  kind.set(Attribute::reduction_compute_type, AttributeType::data_type, DnnType::f32);
  kind.finalize();
  const OwnedDescriptor& op = add(DescriptorType::operation_reduction);
  op.set_descriptor(Attribute::operation_reduction_descriptor, kind);
  op.set_descriptor(Attribute::operation_reduction_x, *x.descriptor);
  op.set_descriptor(Attribute::operation_reduction_y, *y.descriptor);
  op.finalize();
  operations_.push_back(op.get());
}

GraphTensor DnnGraphBuilder::reshape(const GraphTensor& x, const Dims& dims, const Dims& strides,
                                     DnnType type) {
  const GraphTensor y = intermediate(type, dims, strides);
  const OwnedDescriptor& op = add(DescriptorType::operation_reshape);
  op.set_descriptor(Attribute::operation_reshape_x, *x.descriptor);
  op.set_descriptor(Attribute::operation_reshape_y, *y.descriptor);
  op.finalize();
  operations_.push_back(op.get());
  return y;
}

bool DnnGraphBuilder::is_deterministic(Descriptor engine_config) const {
  const OwnedDescriptor engine(api_, DescriptorType::engine);
  Descriptor place = engine.get();
  get_attribute(api_, engine_config, Attribute::engine_config_engine, AttributeType::descriptor, 1,
                &place);
  std::array<NumericalNote, 32> notes = {};
  const std::int64_t count =
      get_attribute(api_, engine.get(), Attribute::engine_numerical_note,
                    AttributeType::numerical_note, std::ssize(notes), notes.data());
  const auto end = notes.begin() + std::min<std::int64_t>(count, std::ssize(notes));
  return std::find(notes.begin(), end, NumericalNote::nondeterministic) == end;
}

PlanResult DnnGraphBuilder::plan() {
  const DnnHandle handle = library_.handle();
  const OwnedDescriptor& graph = add(DescriptorType::operation_graph);
  graph.set(Attribute::operation_graph_operations, AttributeType::descriptor,
            std::ssize(operations_), operations_.data());
  graph.set(Attribute::operation_graph_handle, AttributeType::handle, handle);
  if (const DnnStatus status = graph.try_finalize(); status != DnnStatus::success)
    return {.plan = nullptr, .why_not = reason(api_, status)};
  const OwnedDescriptor& heuristic = add(DescriptorType::engine_heuristic);
  heuristic.set_descriptor(Attribute::engine_heuristic_operation_graph, graph);
  heuristic.set(Attribute::engine_heuristic_mode, AttributeType::heuristic_mode, HeuristicMode::a);
  if (const DnnStatus status = heuristic.try_finalize(); status != DnnStatus::success)
    return {.plan = nullptr, .why_not = reason(api_, status)};
  std::vector<Descriptor> configs;
  for (std::int64_t i = 0; i < kMostEngines; ++i)
    configs.push_back(add(DescriptorType::engine_config).get());
  const std::int64_t found =
      get_attribute(api_, heuristic.get(), Attribute::engine_heuristic_results,
                    AttributeType::descriptor, kMostEngines, configs.data());
  std::string why_not = "no engine takes the graph";
  for (std::int64_t i = 0; i < std::min(found, kMostEngines); ++i) {
    const Descriptor config = configs[static_cast<std::size_t>(i)];
    if (!is_deterministic(config)) {
      why_not = "no engine adds in a fixed order";
      continue;
    }
    const OwnedDescriptor& plan = add(DescriptorType::execution_plan);
    plan.set(Attribute::execution_plan_handle, AttributeType::handle, handle);
    plan.set(Attribute::execution_plan_engine_config, AttributeType::descriptor, config);
    if (const DnnStatus status = plan.try_finalize(); status != DnnStatus::success) {
      why_not = reason(api_, status);
      continue;
    }
    std::int64_t bytes = 0;
    get_attribute(api_, plan.get(), Attribute::execution_plan_workspace_size, AttributeType::int64,
                  1, &bytes);
    made_->workspace_bytes_ = static_cast<std::size_t>(bytes);
    made_->plan_ = &plan;
    return {.plan = std::move(made_), .why_not = {}};
  }
  return {.plan = nullptr, .why_not = why_not};
}

}  // namespace lamina::cuda::dnn
