// A driver of one described GPU, and a cuBLASLt that chooses nothing: both answer what is asked
// when programs are compiled, and refuse work.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "backends/cuda/backend.h"
#include "backends/cuda/described/described.h"
#include "core/error.h"

namespace lamina::cuda {
namespace {

constexpr auto kNotSupported = static_cast<DriverResult>(801);  // CUDA_ERROR_NOT_SUPPORTED
constexpr DriverResult kSuccess = DriverResult::success;

// Handles are never looked into.
template <typename Handle>
DriverResult give(Handle* handle) {
  static char object;
  *handle = reinterpret_cast<Handle>(&object);
  return kSuccess;
}

// The launches of this thread, while LaunchNotes exist.
thread_local std::vector<Launch>* notes = nullptr;

DriverResult note(Launch launch) {
  if (!notes) return kNotSupported;
  notes->push_back(std::move(launch));
  return kSuccess;
}

// The handle of a function is the place of its name.
DriverResult give_function(FunctionHandle* function, const char* name) {
  static std::mutex mutex;
  static std::set<std::string>& names = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  *function =
      reinterpret_cast<FunctionHandle>(const_cast<std::string*>(&*names.insert(name).first));
  return kSuccess;
}
const std::string& name_of(FunctionHandle function) {
  return *reinterpret_cast<const std::string*>(function);
}

DriverResult text_of(DriverResult error, const char** text) {
  *text = error == kNotSupported ? "this GPU is known only by its data sheet; it computes nothing"
                                 : "the described GPU has no such thing";
  return kSuccess;
}
DriverResult name_of(DriverResult error, const char** text) {
  *text = error == kNotSupported                 ? "CUDA_ERROR_NOT_SUPPORTED"
          : error == DriverResult::out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY"
                                                 : "CUDA_ERROR_INVALID_VALUE";
  return kSuccess;
}

DriverResult attribute_of(const Card& card, DeviceAttribute attribute, int* value) {
  switch (attribute) {
    case DeviceAttribute::max_threads_per_block:
      *value = 1024;
      return kSuccess;
    case DeviceAttribute::max_shared_bytes_per_block:
      *value = 48 << 10;
      return kSuccess;
    case DeviceAttribute::clock_khz:
      *value = card.clock_khz;
      return kSuccess;
    case DeviceAttribute::num_multiprocessors:
      *value = card.num_multiprocessors;
      return kSuccess;
    case DeviceAttribute::l2_bytes:
      *value = static_cast<int>(card.l2_bytes);
      return kSuccess;
    case DeviceAttribute::capability_major:
      *value = card.capability / 10;
      return kSuccess;
    case DeviceAttribute::capability_minor:
      *value = card.capability % 10;
      return kSuccess;
    case DeviceAttribute::max_opt_in_shared_bytes:
      *value = card.shared_bytes;
      return kSuccess;
  }
  return DriverResult::invalid_value;
}

// Addresses without memory: no work runs that could use them.
DriverResult give_address(DevicePointer* address, std::size_t bytes) {
  static std::atomic<DevicePointer> next{DevicePointer{1} << 40};
  *address = next.fetch_add((bytes + 511) / 256 * 256);
  return kSuccess;
}

DriverResult give_host_memory(void** memory, std::size_t bytes, unsigned) {
  *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  return *memory ? kSuccess : DriverResult::out_of_memory;
}

template <std::size_t kCard>
const Card& card_of() {
  return cards()[kCard];
}

// The functions of the driver of card number kCard.
template <std::size_t kCard>
DriverApi driver_of() {
  DriverApi api = {};
  api.init = [](unsigned) { return kSuccess; };
  api.get_version = [](int* version) { return *version = 13000, kSuccess; };
  api.get_error_name = name_of;
  api.get_error_string = text_of;
  api.device_count = [](int* count) { return *count = 1, kSuccess; };
  api.device = [](DeviceId* device, int) { return *device = 0, kSuccess; };
  api.device_name = [](char* name, int length, DeviceId) {
    const std::string_view text =
        card_of<kCard>().full_name.substr(0, static_cast<std::size_t>(length) - 1);
    name[text.copy(name, text.size())] = '\0';
    return kSuccess;
  };
  api.device_attribute = [](int* value, DeviceAttribute attribute, DeviceId) {
    return attribute_of(card_of<kCard>(), attribute, value);
  };
  api.device_memory = [](std::size_t* bytes, DeviceId) {
    return *bytes = static_cast<std::size_t>(card_of<kCard>().memory_bytes), kSuccess;
  };
  api.retain_context = [](ContextHandle* context, DeviceId) { return give(context); };
  api.release_context = [](DeviceId) { return kSuccess; };
  api.set_context = [](ContextHandle) { return kSuccess; };
  api.memory_info = [](std::size_t* free, std::size_t* total) {
    *free = *total = static_cast<std::size_t>(card_of<kCard>().memory_bytes);
    return kSuccess;
  };
  api.allocate = give_address;
  api.free = [](DevicePointer) { return kSuccess; };
  api.allocate_host = give_host_memory;
  api.free_host = [](void* memory) { return std::free(memory), kSuccess; };
  api.copy = [](DevicePointer, DevicePointer, std::size_t, StreamHandle) {
    return notes ? kSuccess : kNotSupported;
  };
  api.fill = [](DevicePointer, unsigned char, std::size_t, StreamHandle) { return kSuccess; };
  api.make_stream = [](StreamHandle* stream, unsigned) { return give(stream); };
  api.destroy_stream = [](StreamHandle) { return kSuccess; };
  api.wait_event = [](StreamHandle, EventHandle, unsigned) { return kSuccess; };
  api.make_event = [](EventHandle* event, unsigned) { return give(event); };
  api.destroy_event = [](EventHandle) { return kSuccess; };
  api.record_event = [](EventHandle, StreamHandle) { return kSuccess; };
  api.query_event = [](EventHandle) { return kSuccess; };
  api.elapsed = [](float* milliseconds, EventHandle, EventHandle) {
    return *milliseconds = 0, kSuccess;
  };
  // The other functions of graphs are null: without a capture none is called.
  api.begin_capture = [](StreamHandle, CaptureMode) { return kNotSupported; };
  api.load_module = [](ModuleHandle* module, const void*) { return give(module); };
  api.load_module_with_log = [](ModuleHandle* module, const void*, unsigned, LoadOption*, void**) {
    return give(module);
  };
  api.unload_module = [](ModuleHandle) { return kSuccess; };
  api.get_function = [](FunctionHandle* function, ModuleHandle, const char* name) {
    return give_function(function, name);
  };
  api.set_function_attribute = [](FunctionHandle, FunctionAttribute, int) { return kSuccess; };
  api.function_attribute = [](int* value, FunctionAttribute which, FunctionHandle) {
    *value = which == FunctionAttribute::max_threads_per_block ? 1024 : 0;
    return kSuccess;
  };
  api.launch = [](const LaunchConfig* c, FunctionHandle function, void**, void**) {
    return note({name_of(function), std::int64_t{c->blocks_x} * c->blocks_y * c->blocks_z,
                 static_cast<int>(c->threads_x), c->shared_bytes});
  };
  return api;
}

const DriverApi& described_driver(const Card& card) {
  static const auto drivers = []<std::size_t... kCard>(std::index_sequence<kCard...>) {
    return std::array{driver_of<kCard>()...};
  }
  (std::make_index_sequence<kNumCards>());
  return drivers.at(static_cast<std::size_t>(&card - cards().data()));
}

// ---- cuBLASLt ----

template <typename Object>
blas::Status give_object(Object** object) {
  static char made;
  *object = reinterpret_cast<Object*>(&made);
  return blas::Status::success;
}

const blas::Api& described_blas() {
  using blas::Status;
  constexpr std::size_t kWorkspaceBytes = 32 << 20;  // the most that blas/product.cc allows
  static const blas::Api api = {
      .create = give_object<blas::HandleObject>,
      .destroy = [](blas::Handle) { return Status::success; },
      .version = [] { return blas::kScalesOf128Since; },
      .status_text =
          [](Status) { return "this GPU is known only by its data sheet; it computes nothing"; },
      .create_operation = [](blas::Operation* operation, blas::ComputeType,
                             blas::DataType) { return give_object(operation); },
      .destroy_operation = [](blas::Operation) { return Status::success; },
      .set_operation = [](blas::Operation, blas::OperationAttribute, const void*,
                          std::size_t) { return Status::success; },
      .create_layout = [](blas::MatrixLayout* layout, blas::DataType, std::uint64_t, std::uint64_t,
                          std::int64_t) { return give_object(layout); },
      .destroy_layout = [](blas::MatrixLayout) { return Status::success; },
      .set_layout = [](blas::MatrixLayout, blas::LayoutAttribute, const void*,
                       std::size_t) { return Status::success; },
      .create_preference = give_object<blas::PreferenceObject>,
      .destroy_preference = [](blas::Preference) { return Status::success; },
      .set_preference = [](blas::Preference, blas::PreferenceAttribute, const void*,
                           std::size_t) { return Status::success; },
      .candidates =
          [](blas::Handle, blas::Operation, blas::MatrixLayout, blas::MatrixLayout,
             blas::MatrixLayout, blas::MatrixLayout, blas::Preference, int,
             blas::Candidate* results, int* found) {
            *results = {};
            results->workspace_bytes = kWorkspaceBytes;
            *found = 1;
            return Status::success;
          },
      .property =
          [](const blas::Algorithm*, blas::AlgorithmProperty, void* value, std::size_t bytes,
             std::size_t* written) {
            const std::int32_t yes = 1;
            std::memcpy(value, &yes, bytes);
            *written = bytes;
            return Status::success;
          },
      .multiply =
          [](blas::Handle, blas::Operation, const void*, const void*, blas::MatrixLayout,
             const void*, blas::MatrixLayout, const void*, const void*, blas::MatrixLayout, void*,
             blas::MatrixLayout, const blas::Algorithm*, void*, std::size_t, blas::Stream) {
            return note({.kernel = "cuBLASLt"}) == kSuccess ? Status::success
                                                            : Status::not_supported;
          }};
  return api;
}

// ---- cuDNN ----

// Only the library can plan, and only for a GPU that exists.
const dnn::Opened& described_dnn() {
  static const dnn::Opened none{.api = nullptr, .why_not = "is not used on a described GPU"};
  return none;
}

// A module in which every kernel is found.
constexpr ModuleImage kAnyKernels[] = {{"", nullptr}};

}  // namespace

LaunchNotes::LaunchNotes() {
  LAMINA_ASSERT(!notes);
  notes = new std::vector<Launch>;
}
LaunchNotes::~LaunchNotes() { delete std::exchange(notes, nullptr); }
std::vector<Launch> LaunchNotes::take() { return std::exchange(*notes, {}); }

std::unique_ptr<Backend> describe_backend(const Card& card) {
  return open_backend(described_driver(card), kAnyKernels, 0,
                      {.blas = described_blas, .dnn = described_dnn});
}

}  // namespace lamina::cuda
