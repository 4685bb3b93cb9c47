#include "backends/cuda/emulation/dnn_objects.h"

#include <algorithm>
#include <cstring>

namespace lamina::cuda::emulation {

using namespace dnn;

namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 20;

// The attributes of NVIDIA's reference of the backend API that lamina uses.
struct Rule {
  DescriptorType of;
  Attribute attribute;
  AttributeType type;
  std::int64_t least, most;  // elements
  bool required;
};
using D = DescriptorType;
using A = Attribute;
using T = AttributeType;
constexpr Rule kRules[] = {
    {D::tensor, A::tensor_data_type, T::data_type, 1, 1, true},
    {D::tensor, A::tensor_dimensions, T::int64, 4, 4, true},
    {D::tensor, A::tensor_strides, T::int64, 4, 4, true},
    {D::tensor, A::tensor_unique_id, T::int64, 1, 1, true},
    {D::tensor, A::tensor_byte_alignment, T::int64, 1, 1, true},
    {D::tensor, A::tensor_is_virtual, T::boolean, 1, 1, false},
    {D::tensor, A::tensor_is_by_value, T::boolean, 1, 1, false},
    {D::matmul, A::matmul_compute_type, T::data_type, 1, 1, true},
    {D::matmul, A::matmul_padding_value, T::f64, 1, 1, false},
    {D::operation_matmul, A::operation_matmul_a, T::descriptor, 1, 1, true},
    {D::operation_matmul, A::operation_matmul_b, T::descriptor, 1, 1, true},
    {D::operation_matmul, A::operation_matmul_c, T::descriptor, 1, 1, true},
    {D::operation_matmul, A::operation_matmul_descriptor, T::descriptor, 1, 1, true},
    {D::operation_matmul, A::operation_matmul_m_override, T::descriptor, 1, 1, false},
    {D::operation_matmul, A::operation_matmul_n_override, T::descriptor, 1, 1, false},
    {D::operation_matmul, A::operation_matmul_k_override, T::descriptor, 1, 1, false},
    {D::pointwise, A::pointwise_mode, T::pointwise_mode, 1, 1, true},
    {D::pointwise, A::pointwise_math_precision, T::data_type, 1, 1, true},
    {D::pointwise, A::pointwise_axis, T::int64, 1, 1, false},
    {D::operation_pointwise, A::operation_pointwise_descriptor, T::descriptor, 1, 1, true},
    {D::operation_pointwise, A::operation_pointwise_x, T::descriptor, 1, 1, true},
    {D::operation_pointwise, A::operation_pointwise_b, T::descriptor, 1, 1, false},
    {D::operation_pointwise, A::operation_pointwise_t, T::descriptor, 1, 1, false},
    {D::operation_pointwise, A::operation_pointwise_y, T::descriptor, 1, 1, true},
    {D::reduction, A::reduction_operator, T::reduction_operator, 1, 1, true},
    {D::reduction, A::reduction_compute_type, T::data_type, 1, 1, true},
    {D::operation_reduction, A::operation_reduction_descriptor, T::descriptor, 1, 1, true},
    {D::operation_reduction, A::operation_reduction_x, T::descriptor, 1, 1, true},
    {D::operation_reduction, A::operation_reduction_y, T::descriptor, 1, 1, true},
    {D::operation_reshape, A::operation_reshape_x, T::descriptor, 1, 1, true},
    {D::operation_reshape, A::operation_reshape_y, T::descriptor, 1, 1, true},
    {D::operation_graph, A::operation_graph_handle, T::handle, 1, 1, true},
    {D::operation_graph, A::operation_graph_operations, T::descriptor, 1, kMany, true},
    {D::engine_heuristic, A::engine_heuristic_operation_graph, T::descriptor, 1, 1, true},
    {D::engine_heuristic, A::engine_heuristic_mode, T::heuristic_mode, 1, 1, true},
    {D::execution_plan, A::execution_plan_handle, T::handle, 1, 1, true},
    {D::execution_plan, A::execution_plan_engine_config, T::descriptor, 1, 1, true},
    {D::variant_pack, A::variant_pack_unique_ids, T::int64, 1, kMany, true},
    {D::variant_pack, A::variant_pack_data_pointers, T::void_ptr, 1, kMany, true},
    {D::variant_pack, A::variant_pack_workspace, T::void_ptr, 1, 1, true},
};

std::int64_t size_of(AttributeType type) {
  switch (type) {
    case T::boolean:
      return 1;
    case T::int64:
    case T::f64:
    case T::handle:
    case T::void_ptr:
    case T::descriptor:
      return 8;
    default:
      return 4;
  }
}

thread_local std::string refusal;

DnnStatus create(DnnHandle* handle) {
  if (const DnnStatus status = dnn_begin("cudnnCreate"); status != DnnStatus::success)
    return status;
  DnnObjects& objects = DnnObjects::instance();
  const std::lock_guard lock(objects.mutex);
  *handle = reinterpret_cast<DnnHandle>(new char);
  objects.handles.emplace(*handle, nullptr);
  return DnnStatus::success;
}

DnnStatus destroy(DnnHandle handle) {
  DnnObjects& objects = DnnObjects::instance();
  const std::lock_guard lock(objects.mutex);
  if (objects.handles.erase(handle) == 0) return dnn_bad("destroys a handle that does not exist");
  delete reinterpret_cast<char*>(handle);
  return DnnStatus::success;
}

DnnStatus set_stream(DnnHandle handle, DnnStream stream) {
  if (const DnnStatus status = dnn_begin("cudnnSetStream"); status != DnnStatus::success)
    return status;
  DnnObjects& objects = DnnObjects::instance();
  const std::lock_guard lock(objects.mutex);
  const auto found = objects.handles.find(handle);
  if (found == objects.handles.end()) return dnn_bad("uses a destroyed handle");
  found->second = stream;
  return DnnStatus::success;
}

DnnStatus create_descriptor(DescriptorType type, Descriptor* descriptor) {
  if (const DnnStatus status = dnn_begin("cudnnBackendCreateDescriptor");
      status != DnnStatus::success)
    return status;
  auto made = std::make_shared<DnnDescriptor>();
  made->type = type;
  *descriptor = made.get();
  DnnObjects& objects = DnnObjects::instance();
  const std::lock_guard lock(objects.mutex);
  objects.descriptors.emplace(*descriptor, std::move(made));
  return DnnStatus::success;
}

DnnStatus destroy_descriptor(Descriptor descriptor) {
  DnnObjects& objects = DnnObjects::instance();
  const std::lock_guard lock(objects.mutex);
  if (objects.descriptors.erase(descriptor) == 0)
    return dnn_bad("destroys a descriptor that does not exist");
  return DnnStatus::success;
}

DnnStatus read_descriptors(const void* from, DnnValue& value) {
  for (std::int64_t i = 0; i < value.count; ++i) {
    const DnnPointer found = DnnObjects::instance().find(static_cast<const Descriptor*>(from)[i]);
    if (!found) return dnn_bad("uses a descriptor that does not exist");
    if (!found->finished)
      return dnn_refuse(DnnStatus::bad_param_not_finalized,
                        "uses a descriptor that is not finalized");
    value.descriptors.push_back(found);
  }
  return DnnStatus::success;
}

DnnStatus set_attribute(Descriptor descriptor, Attribute attribute, AttributeType type,
                        std::int64_t count, const void* from) {
  if (const DnnStatus status = dnn_begin("cudnnBackendSetAttribute"); status != DnnStatus::success)
    return status;
  const DnnPointer d = DnnObjects::instance().find(descriptor);
  if (!d || from == nullptr) return dnn_bad("sets an attribute without a descriptor or values");
  if (d->finished)
    return dnn_refuse(DnnStatus::not_initialized, "sets an attribute of a finalized descriptor");
  const auto rule = std::ranges::find_if(
      kRules, [&](const Rule& r) { return r.of == d->type && r.attribute == attribute; });
  if (rule == std::end(kRules))
    return dnn_bad("descriptors of type {} have no attribute {}", static_cast<int>(d->type),
                   static_cast<int>(attribute));
  if (rule->type != type || count < rule->least || count > rule->most)
    return dnn_bad("attribute {} is set to {} values of type {}; it has {} to {} of type {}",
                   static_cast<int>(attribute), count, static_cast<int>(type), rule->least,
                   rule->most, static_cast<int>(rule->type));
  DnnValue value{.count = count, .bytes = {}, .descriptors = {}};
  if (type == AttributeType::descriptor) {
    if (const DnnStatus status = read_descriptors(from, value); status != DnnStatus::success)
      return status;
  } else {
    const auto* first = static_cast<const std::byte*>(from);
    value.bytes.assign(first, first + count * size_of(type));
  }
  d->values.insert_or_assign(attribute, std::move(value));
  return DnnStatus::success;
}

DnnStatus finalize(Descriptor descriptor) {
  if (const DnnStatus status = dnn_begin("cudnnBackendFinalize"); status != DnnStatus::success)
    return status;
  const DnnPointer d = DnnObjects::instance().find(descriptor);
  if (!d) return dnn_bad("finalizes a descriptor that does not exist");
  for (const Rule& rule : kRules)
    if (rule.of == d->type && rule.required && !d->has(rule.attribute))
      return dnn_bad("attribute {} is not set", static_cast<int>(rule.attribute));
  const DnnStatus status = finish(*d);
  d->finished = status == DnnStatus::success;
  return status;
}

void last_error(char* text, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t length = std::min(bytes - 1, refusal.size());
  std::memcpy(text, refusal.data(), length);
  text[length] = '\0';
}

const char* status_text(DnnStatus status) {
  switch (category(status)) {
    case DnnStatus::success:
      return "CUDNN_STATUS_SUCCESS";
    case DnnStatus::bad_param:
      return "CUDNN_STATUS_BAD_PARAM";
    case DnnStatus::not_supported:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case DnnStatus::execution_failed:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return status == DnnStatus::device_allocation_failed
                 ? "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
                 : "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

}  // namespace

DnnObjects& DnnObjects::instance() {
  static DnnObjects& objects = *new DnnObjects;  // programs may end at exit
  return objects;
}

DnnPointer DnnObjects::find(const void* descriptor) {
  const std::lock_guard lock(mutex);
  const auto found = descriptors.find(descriptor);
  return found == descriptors.end() ? nullptr : found->second;
}

DnnStatus dnn_refuse(DnnStatus status, std::string reason) {
  refusal = std::move(reason);
  return status;
}

DnnStatus dnn_begin(std::string_view function) {
  refusal.clear();
  return DnnObjects::instance().failures.take(function);
}

void add_dnn_object_functions(DnnApi& api) {
  api.create = create;
  api.destroy = destroy;
  api.set_stream = set_stream;
  api.version = [] { return kOldestVersion; };
  api.cuda_version = [] { return std::size_t{12000}; };
  api.status_text = status_text;
  api.last_error = last_error;
  api.create_descriptor = create_descriptor;
  api.destroy_descriptor = destroy_descriptor;
  api.finalize = finalize;
  api.set_attribute = set_attribute;
}

}  // namespace lamina::cuda::emulation
