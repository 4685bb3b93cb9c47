#include "backends/cuda/emulation/blas_objects.h"

#include <algorithm>
#include <cstring>

namespace lamina::cuda::emulation {

using namespace blas;

namespace {

thread_local std::string refusal;

bool is_alive(const void* object) {
  BlasObjects& objects = BlasObjects::instance();
  const std::lock_guard lock(objects.mutex);
  return objects.alive.contains(object);
}

template <typename Object>
Status enter(Object** out, Object object) {
  BlasObjects& objects = BlasObjects::instance();
  *out = new Object(std::move(object));
  const std::lock_guard lock(objects.mutex);
  objects.alive.insert(*out);
  return Status::success;
}
template <typename Object>
Status leave(Object* object) {
  BlasObjects& objects = BlasObjects::instance();
  const std::lock_guard lock(objects.mutex);
  if (objects.alive.erase(object) == 0) return invalid("destroys an object that does not exist");
  delete object;
  return Status::success;
}

// Sets an attribute from a value of exactly its size.
template <typename T>
Status assign(T& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T))
    return invalid("an attribute of {} bytes is set to {} bytes", sizeof(T), bytes);
  std::memcpy(&to, value, sizeof(T));
  return Status::success;
}

Status create(Handle* handle) {
  if (const Status status = begin_call("cublasLtCreate"); status != Status::success) return status;
  return enter(handle, HandleObject{});
}
Status destroy(Handle handle) { return leave(handle); }
std::size_t version() { return BlasObjects::instance().version; }
const char* status_text(Status status) {
  if (!refusal.empty()) return refusal.c_str();
  return status == Status::success            ? "success"
         : status == Status::alloc_failed     ? "the resource allocation failed"
         : status == Status::not_supported    ? "the functionality requested is not supported"
         : status == Status::arch_mismatch    ? "the device does not have the required feature"
         : status == Status::execution_failed ? "the GPU program failed to execute"
                                              : "an internal operation failed";
}

Status create_operation(Operation* operation, ComputeType compute, DataType scale) {
  if (const Status status = begin_call("cublasLtMatmulDescCreate"); status != Status::success)
    return status;
  return enter(operation, OperationObject{.compute = compute, .scale = scale});
}
Status destroy_operation(Operation operation) { return leave(operation); }
Status set_operation(Operation operation, OperationAttribute attribute, const void* value,
                     std::size_t bytes) {
  if (!is_alive(operation)) return invalid("sets an attribute of a destroyed operation");
  switch (attribute) {
    case OperationAttribute::transpose_a:
      return assign(operation->transpose_a, value, bytes);
    case OperationAttribute::transpose_b:
      return assign(operation->transpose_b, value, bytes);
    case OperationAttribute::epilogue:
      return assign(operation->epilogue, value, bytes);
    case OperationAttribute::bias_pointer:
      return assign(operation->bias, value, bytes);
    case OperationAttribute::bias_type:
      return assign(operation->bias_type.emplace(), value, bytes);
    case OperationAttribute::a_scale_pointer:
      return assign(operation->a_scale, value, bytes);
    case OperationAttribute::b_scale_pointer:
      return assign(operation->b_scale, value, bytes);
    case OperationAttribute::a_scale_mode:
    case OperationAttribute::b_scale_mode:
      if (version() < kScalesOf128Since) break;
      return assign(attribute == OperationAttribute::a_scale_mode ? operation->a_scale_mode
                                                                  : operation->b_scale_mode,
                    value, bytes);
  }
  return invalid("operations have no attribute {}", static_cast<int>(attribute));
}

Status create_layout(MatrixLayout* layout, DataType type, std::uint64_t rows, std::uint64_t columns,
                     std::int64_t leading) {
  if (const Status status = begin_call("cublasLtMatrixLayoutCreate"); status != Status::success)
    return status;
  if (bytes_of(type) == 0) return invalid("there is no type {}", static_cast<int>(type));
  return enter(layout, LayoutObject{{.type = type,
                                     .rows = static_cast<std::int64_t>(rows),
                                     .columns = static_cast<std::int64_t>(columns),
                                     .leading = leading}});
}
Status destroy_layout(MatrixLayout layout) { return leave(layout); }
Status set_layout(MatrixLayout layout, LayoutAttribute attribute, const void* value,
                  std::size_t bytes) {
  if (!is_alive(layout)) return invalid("sets an attribute of a destroyed layout");
  switch (attribute) {
    case LayoutAttribute::batch_count:
      return assign(layout->matrix.batch, value, bytes);
    case LayoutAttribute::batch_stride:
      return assign(layout->matrix.stride, value, bytes);
  }
  return invalid("layouts have no attribute {}", static_cast<int>(attribute));
}

Status create_preference(Preference* preference) {
  if (const Status status = begin_call("cublasLtMatmulPreferenceCreate"); status != Status::success)
    return status;
  return enter(preference, PreferenceObject{});
}
Status destroy_preference(Preference preference) { return leave(preference); }
Status set_preference(Preference preference, PreferenceAttribute attribute, const void* value,
                      std::size_t bytes) {
  if (!is_alive(preference)) return invalid("sets an attribute of a destroyed preference");
  switch (attribute) {
    case PreferenceAttribute::max_workspace_bytes:
      return assign(preference->max_workspace_bytes, value, bytes);
    case PreferenceAttribute::reduction_schemes:
      return assign(preference->reduction_schemes, value, bytes);
    case PreferenceAttribute::min_alignment_a:
    case PreferenceAttribute::min_alignment_b:
    case PreferenceAttribute::min_alignment_c:
    case PreferenceAttribute::min_alignment_d:
      return assign(
          preference->min_alignment[static_cast<int>(attribute) -
                                    static_cast<int>(PreferenceAttribute::min_alignment_a)],
          value, bytes);
  }
  return invalid("preferences have no attribute {}", static_cast<int>(attribute));
}

}  // namespace

BlasObjects& BlasObjects::instance() {
  static BlasObjects& objects = *new BlasObjects;  // programs may end at exit
  return objects;
}

Status refuse_with(Status status, std::string reason) {
  refusal = std::move(reason);
  return status;
}

Status begin_call(std::string_view function) {
  refusal.clear();
  return BlasObjects::instance().failures.take(function);
}

bool are_alive(std::initializer_list<const void*> objects) {
  return std::ranges::all_of(objects, is_alive);
}

void add_object_functions(Api& api) {
  api.create = create;
  api.destroy = destroy;
  api.version = version;
  api.status_text = status_text;
  api.create_operation = create_operation;
  api.destroy_operation = destroy_operation;
  api.set_operation = set_operation;
  api.create_layout = create_layout;
  api.destroy_layout = destroy_layout;
  api.set_layout = set_layout;
  api.create_preference = create_preference;
  api.destroy_preference = destroy_preference;
  api.set_preference = set_preference;
}

}  // namespace lamina::cuda::emulation
