// The objects of the fake cuBLASLt: handles, operations, layouts and preferences.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "backends/cuda/blas/api.h"
#include "backends/cuda/emulation/blas_product.h"
#include "backends/cuda/emulation/failures_on_demand.h"

namespace lamina::cuda {
namespace blas {

struct HandleObject {};
struct OperationObject {
  ComputeType compute;
  DataType scale;
  Transpose transpose_a = Transpose::none, transpose_b = Transpose::none;
  Epilogue epilogue = Epilogue::none;
  std::uint64_t bias = 0;
  std::optional<DataType> bias_type;
  std::uint64_t a_scale = 0, b_scale = 0;
  ScaleMode a_scale_mode = ScaleMode::one, b_scale_mode = ScaleMode::one;
};
struct LayoutObject {
  emulation::BlasMatrix matrix;
};
struct PreferenceObject {
  std::uint64_t max_workspace_bytes = 0;
  std::uint32_t reduction_schemes = 7;
  std::uint32_t min_alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

}  // namespace blas

namespace emulation {

struct BlasObjects {
  std::mutex mutex;
  std::set<const void*> alive;
  FailuresOnDemand<blas::Status> failures;
  std::atomic<int> searches = 0, products = 0;
  std::atomic<std::size_t> version = 130100;

  static BlasObjects& instance();
};

// Sets the text that status_text() returns on this thread until the next call begins.
blas::Status refuse_with(blas::Status status, std::string reason);
template <typename... Args>
blas::Status refuse(blas::Status status, fmt::format_string<Args...> format, Args&&... args) {
  return refuse_with(status, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
blas::Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return refuse(blas::Status::invalid_value, format, std::forward<Args>(args)...);
}

// Begins a call of a function: returns its failure on demand, or success.
blas::Status begin_call(std::string_view function);

// True if none is destroyed.
bool are_alive(std::initializer_list<const void*> objects);

// Sets the functions that create, destroy and change objects, and those that describe the library.
void add_object_functions(blas::Api& api);

}  // namespace emulation
}  // namespace lamina::cuda
