#include "backends/cuda/emulation/driver.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "backends/cuda/backend.h"
#include "backends/cuda/emulation/blas.h"
#include "backends/cuda/emulation/grid.h"
#include "backends/cuda/launch.h"
#include "backends/emulated/memory.h"
#include "backends/emulated/worker.h"
#include "core/error.h"

namespace lamina::cuda {

struct DriverContext {};
struct DriverStream {
  emulated::Line line;
};
struct DriverEvent {
  std::shared_ptr<emulated::Mark> mark;
  bool has_time;
};
struct DriverModule {};
struct DriverFunction {
  const gpu::EmulatedKernel* kernel;
  std::int64_t max_shared_bytes = kUsualSharedBytes;
};

namespace emulation {
namespace {

constexpr int kDriverVersion = 13000;
constexpr std::size_t kMemoryBytes = std::size_t{1} << 30;
constexpr int kCacheBytes = 1 << 20;  // less than an H200's 60 MB: measuring takes 8 times as much
constexpr int kPoison = 0xff;
constexpr DriverResult kLost = DriverResult::launch_failed;
constexpr const char* kImage = "all kernels, compiled for the host";

// The state of the driver. Handles are the addresses of the objects that the sets own.
struct Driver {
  std::mutex mutex;
  bool started = false;
  int num_retained = 0;
  DriverContext context;
  DriverModule module;
  std::set<StreamHandle> streams;
  std::set<EventHandle> events;
  std::map<const gpu::EmulatedKernel*, std::unique_ptr<DriverFunction>> functions;
  std::map<DevicePointer, std::unique_ptr<Buffer>> memory;
  std::set<void*> host_memory;
  std::size_t used = 0;
  DriverResult failed = DriverResult::success;    // of work; all later calls return it
  std::string report;                             // of the failed kernel
  std::array<int, 3> until_fault = {-1, -1, -1};  // by place; -1: none comes

  static Driver& instance() {
    static Driver& driver = *new Driver;  // programs may end at exit
    return driver;
  }
  void fail(DriverResult result, const char* text) {
    const std::lock_guard lock(mutex);
    if (failed != DriverResult::success) return;
    failed = result;
    report = text;
  }
  // Counts a call, and returns true if it must fail.
  bool is_fault(FaultPlace place) {
    const std::lock_guard lock(mutex);
    int& left = until_fault[static_cast<std::size_t>(place)];
    return left >= 0 && left-- == 0;
  }
  bool has_failed() {
    const std::lock_guard lock(mutex);
    return failed != DriverResult::success;
  }
};

thread_local bool has_context = false;

// The result of a call that needs a context: the error of the GPU, or success.
DriverResult state() {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  if (!driver.started) return DriverResult::not_initialized;
  if (!has_context || driver.num_retained == 0) return DriverResult::invalid_context;
  return driver.failed;
}

template <typename Handle>
bool is_known(const std::set<Handle>& handles, Handle handle) {
  const std::lock_guard lock(Driver::instance().mutex);
  return handles.contains(handle);
}
bool is_stream(StreamHandle stream) { return is_known(Driver::instance().streams, stream); }
bool is_event(EventHandle event) { return is_known(Driver::instance().events, event); }

// Work of a failed GPU does nothing.
void do_work(const std::function<void()>& work) {
  Driver& driver = Driver::instance();
  if (driver.has_failed()) return;
  if (driver.is_fault(FaultPlace::work)) return driver.fail(kLost, "");
  try {
    work();
  } catch (const Error& e) {
    driver.fail(DriverResult::launch_failed, (e.text().where + ": " + e.text().what).c_str());
  }
}
void add(StreamHandle stream, std::function<void()> work) {
  emulated::Worker::instance().add(stream->line,
                                   {.run = [work = std::move(work)] { do_work(work); }});
}

DriverResult finish(StreamHandle stream) {
  auto mark = std::make_shared<emulated::Mark>();
  emulated::Worker::instance().add(stream->line, {.marks = mark});
  emulated::Worker::instance().wait(*mark);
  return state();
}

// True if the range is inside one allocation of the GPU, or elsewhere in memory of the host.
bool is_valid_range(DevicePointer at, std::size_t bytes) {
  const std::span<std::byte> memory = emulated::buffer_behind(at);
  void* const behind = emulated::behind(at);
  if (memory.empty()) return behind == reinterpret_cast<void*>(at);
  return static_cast<std::size_t>(memory.data() + memory.size() -
                                  static_cast<std::byte*>(behind)) >= bytes;
}

// ---- the driver as a whole, and its device

DriverResult init(unsigned flags) {
  if (flags != 0) return DriverResult::invalid_value;
  Driver::instance().started = true;
  return DriverResult::success;
}
DriverResult get_version(int* version) { return *version = kDriverVersion, DriverResult::success; }

struct ErrorWords {
  DriverResult result;
  const char *name, *text;
};
constexpr ErrorWords kErrorWords[] = {
    {DriverResult::success, "CUDA_SUCCESS", "no error"},
    {DriverResult::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {DriverResult::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {DriverResult::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DriverResult::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {DriverResult::invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {DriverResult::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {DriverResult::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {DriverResult::not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {DriverResult::launch_out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {DriverResult::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};
DriverResult get_error_name(DriverResult error, const char** text) {
  for (const ErrorWords& words : kErrorWords)
    if (words.result == error) return *text = words.name, DriverResult::success;
  return *text = nullptr, DriverResult::invalid_value;
}
// The text of a failed kernel is the report of the emulated GPU.
DriverResult get_error_string(DriverResult error, const char** text) {
  const Driver& driver = Driver::instance();
  if (error == driver.failed && !driver.report.empty())
    return *text = driver.report.c_str(), DriverResult::success;
  for (const ErrorWords& words : kErrorWords)
    if (words.result == error) return *text = words.text, DriverResult::success;
  return *text = nullptr, DriverResult::invalid_value;
}

DriverResult device_count(int* count) {
  if (!Driver::instance().started) return DriverResult::not_initialized;
  return *count = 1, DriverResult::success;
}
DriverResult device(DeviceId* id, int ordinal) {
  if (!Driver::instance().started) return DriverResult::not_initialized;
  if (ordinal != 0) return DriverResult::invalid_device;
  return *id = 0, DriverResult::success;
}
DriverResult device_name(char* name, int length, DeviceId id) {
  if (id != 0) return DriverResult::invalid_device;
  std::strncpy(name, "emulated GPU", static_cast<std::size_t>(length));
  return DriverResult::success;
}
DriverResult device_attribute(int* value, DeviceAttribute attribute, DeviceId id) {
  if (id != 0) return DriverResult::invalid_device;
  switch (attribute) {
    case DeviceAttribute::max_threads_per_block:
      return *value = kMostThreads, DriverResult::success;
    case DeviceAttribute::max_shared_bytes_per_block:
      return *value = kUsualSharedBytes, DriverResult::success;
    case DeviceAttribute::max_opt_in_shared_bytes:
      return *value = static_cast<int>(kMostSharedBytes), DriverResult::success;
    case DeviceAttribute::clock_khz:
      return *value = 1'980'000, DriverResult::success;
    case DeviceAttribute::num_multiprocessors:
      return *value = 132, DriverResult::success;
    case DeviceAttribute::l2_bytes:
      return *value = kCacheBytes, DriverResult::success;
    case DeviceAttribute::capability_major:
      return *value = 9, DriverResult::success;
    case DeviceAttribute::capability_minor:
      return *value = 0, DriverResult::success;
  }
  return DriverResult::invalid_value;
}
DriverResult device_memory(std::size_t* bytes, DeviceId id) {
  if (id != 0) return DriverResult::invalid_device;
  return *bytes = kMemoryBytes, DriverResult::success;
}

DriverResult retain_context(ContextHandle* context, DeviceId id) {
  Driver& driver = Driver::instance();
  if (!driver.started) return DriverResult::not_initialized;
  if (id != 0) return DriverResult::invalid_device;
  ++driver.num_retained;
  return *context = &driver.context, DriverResult::success;
}
DriverResult release_context(DeviceId id) {
  Driver& driver = Driver::instance();
  if (id != 0) return DriverResult::invalid_device;
  if (driver.num_retained == 0) return DriverResult::invalid_context;
  --driver.num_retained;
  return DriverResult::success;
}
DriverResult set_context(ContextHandle context) {
  Driver& driver = Driver::instance();
  if (!driver.started) return DriverResult::not_initialized;
  if (context && context != &driver.context) return DriverResult::invalid_context;
  has_context = context != nullptr;
  return DriverResult::success;
}
DriverResult synchronize() {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  emulated::finish_all_work();
  return state();
}

// ---- memory

DriverResult memory_info(std::size_t* free, std::size_t* total) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  *total = kMemoryBytes;
  return *free = kMemoryBytes - Driver::instance().used, DriverResult::success;
}

DriverResult allocate(DevicePointer* address, std::size_t bytes) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (bytes == 0) return DriverResult::invalid_value;
  Driver& driver = Driver::instance();
  if (driver.is_fault(FaultPlace::allocation)) return DriverResult::out_of_memory;
  try {
    std::unique_ptr<Buffer> buffer = emulated::allocate_inaccessible(bytes);
    *address = buffer->address();
    std::memset(emulated::behind(*address), kPoison, bytes);
    const std::lock_guard lock(driver.mutex);
    driver.used += bytes;
    driver.memory.emplace(*address, std::move(buffer));
    return DriverResult::success;
  } catch (const DeviceError&) {
    return DriverResult::out_of_memory;
  }
}

// Waits for all work, like the driver.
DriverResult free_memory(DevicePointer address) {
  Driver& driver = Driver::instance();
  std::unique_ptr<Buffer> buffer;
  {
    const std::lock_guard lock(driver.mutex);
    const auto found = driver.memory.find(address);
    if (found == driver.memory.end()) return DriverResult::invalid_value;
    buffer = std::move(found->second);
    driver.used -= buffer->bytes();
    driver.memory.erase(found);
  }
  buffer.reset();
  return state();
}

DriverResult allocate_host(void** memory, std::size_t bytes, unsigned) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (bytes == 0) return DriverResult::invalid_value;
  constexpr std::size_t kPage = 4096;
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (!*memory) return DriverResult::out_of_memory;
  std::memset(*memory, kPoison, bytes);
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  driver.host_memory.insert(*memory);
  return DriverResult::success;
}
DriverResult free_host(void* memory) {
  Driver& driver = Driver::instance();
  {
    const std::lock_guard lock(driver.mutex);
    if (driver.host_memory.erase(memory) == 0) return DriverResult::invalid_value;
  }
  emulated::finish_all_work();
  std::free(memory);
  return state();
}

DriverResult copy(DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_stream(stream)) return DriverResult::invalid_handle;
  if (!is_valid_range(to, bytes) || !is_valid_range(from, bytes))
    return DriverResult::invalid_value;
  add(stream, [to = emulated::behind(to), from = emulated::behind(from), bytes] {
    std::memmove(to, from, bytes);
  });
  return DriverResult::success;
}

DriverResult fill(DevicePointer to, unsigned char value, std::size_t bytes, StreamHandle stream) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_stream(stream)) return DriverResult::invalid_handle;
  if (emulated::buffer_behind(to).empty() || !is_valid_range(to, bytes))
    return DriverResult::invalid_value;
  add(stream, [to = emulated::behind(to), value, bytes] { std::memset(to, value, bytes); });
  return DriverResult::success;
}

// ---- streams and events

DriverResult make_stream(StreamHandle* stream, unsigned flags) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (flags != kStreamNonBlocking) return DriverResult::invalid_value;
  *stream = new DriverStream;
  emulated::Worker::instance().open((*stream)->line);
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  driver.streams.insert(*stream);
  return DriverResult::success;
}
DriverResult destroy_stream(StreamHandle stream) {
  Driver& driver = Driver::instance();
  {
    const std::lock_guard lock(driver.mutex);
    if (driver.streams.erase(stream) == 0) return DriverResult::invalid_handle;
  }
  emulated::Worker::instance().close(stream->line);
  delete stream;
  return state();
}
DriverResult finish_stream(StreamHandle stream) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  return is_stream(stream) ? finish(stream) : DriverResult::invalid_handle;
}
DriverResult wait_event(StreamHandle stream, EventHandle event, unsigned flags) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (flags != 0) return DriverResult::invalid_value;
  if (!is_stream(stream) || !is_event(event)) return DriverResult::invalid_handle;
  if (event->mark) emulated::Worker::instance().add(stream->line, {.waits = event->mark});
  return DriverResult::success;
}

DriverResult make_event(EventHandle* event, unsigned flags) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (flags != kEventDefault && flags != kEventWithoutTime) return DriverResult::invalid_value;
  *event = new DriverEvent{nullptr, flags == kEventDefault};
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  driver.events.insert(*event);
  return DriverResult::success;
}
DriverResult destroy_event(EventHandle event) {
  Driver& driver = Driver::instance();
  {
    const std::lock_guard lock(driver.mutex);
    if (driver.events.erase(event) == 0) return DriverResult::invalid_handle;
  }
  delete event;
  return DriverResult::success;
}
DriverResult record_event(EventHandle event, StreamHandle stream) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_event(event) || !is_stream(stream)) return DriverResult::invalid_handle;
  event->mark = std::make_shared<emulated::Mark>();
  emulated::Worker::instance().add(stream->line, {.marks = event->mark});
  return DriverResult::success;
}
DriverResult finish_event(EventHandle event) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_event(event)) return DriverResult::invalid_handle;
  if (event->mark) emulated::Worker::instance().wait(*event->mark);
  return state();
}
DriverResult elapsed(float* milliseconds, EventHandle start, EventHandle end) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  for (const EventHandle event : {start, end}) {
    if (!is_event(event) || !event->mark || !event->has_time) return DriverResult::invalid_handle;
    emulated::Worker::instance().wait(*event->mark);
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->mark->time - start->mark->time).count();
  return DriverResult::success;
}

// ---- kernels

DriverResult load_module(ModuleHandle* module, const void* image) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (image != kImage) return DriverResult::invalid_image;
  return *module = &Driver::instance().module, DriverResult::success;
}
DriverResult unload_module(ModuleHandle module) {
  return module == &Driver::instance().module ? state() : DriverResult::invalid_handle;
}
DriverResult get_function(FunctionHandle* function, ModuleHandle module, const char* name) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  Driver& driver = Driver::instance();
  if (module != &driver.module) return DriverResult::invalid_handle;
  const gpu::EmulatedKernel* kernel = find_kernel(name);
  if (!kernel) return DriverResult::not_found;
  const std::lock_guard lock(driver.mutex);
  std::unique_ptr<DriverFunction>& mine = driver.functions[kernel];
  if (!mine) mine = std::make_unique<DriverFunction>(DriverFunction{kernel});
  return *function = mine.get(), DriverResult::success;
}
DriverResult set_function_attribute(FunctionHandle function, FunctionAttribute attribute,
                                    int value) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (attribute != FunctionAttribute::max_dynamic_shared_bytes || value < 0 ||
      value > kMostSharedBytes)
    return DriverResult::invalid_value;
  return function->max_shared_bytes = value, DriverResult::success;
}

DriverResult launch(FunctionHandle function, unsigned blocks_x, unsigned blocks_y,
                    unsigned blocks_z, unsigned threads_x, unsigned threads_y, unsigned threads_z,
                    unsigned shared_bytes, StreamHandle stream, void** params, void** extra) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_stream(stream)) return DriverResult::invalid_handle;
  const unsigned blocks[] = {blocks_x, blocks_y, blocks_z};
  for (std::size_t i = 0; i < 3; ++i)
    if (blocks[i] == 0 || blocks[i] > kMostGridBlocks[i]) return DriverResult::invalid_value;
  if (threads_x == 0 || threads_x > kMostThreads || threads_y != 1 || threads_z != 1)
    return DriverResult::invalid_value;
  const gpu::EmulatedKernel& kernel = *function->kernel;
  if (static_cast<int>(threads_x) > kernel.max_threads)
    return DriverResult::launch_out_of_resources;
  if (shared_bytes > function->max_shared_bytes) return DriverResult::invalid_value;
  if (params || !extra || extra[0] != kLaunchParams || extra[2] != kLaunchParamsBytes ||
      extra[4] != kLaunchEnd)
    return DriverResult::invalid_value;
  const auto bytes = *static_cast<const std::size_t*>(extra[3]);
  if (bytes != kernel.params_bytes) return DriverResult::invalid_value;
  // Parameters are read during the call. Aligned for every type.
  const std::shared_ptr<std::max_align_t[]> copy(
      new std::max_align_t[bytes / sizeof(std::max_align_t) + 1]);
  std::memcpy(copy.get(), extra[1], bytes);
  if (Driver::instance().is_fault(FaultPlace::launch)) {
    Driver::instance().fail(kLost, "");
    return kLost;
  }
  const GridShape shape = {
      {static_cast<int>(blocks_x), static_cast<int>(blocks_y), static_cast<int>(blocks_z)},
      static_cast<int>(threads_x),
      static_cast<std::int64_t>(shared_bytes)};
  add(stream, [&kernel, copy, shape] { run_grid(kernel, copy.get(), shape); });
  return DriverResult::success;
}

constexpr auto free = free_memory;

constexpr DriverApi kApi = {
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) .field = emulation::field,
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
};
constexpr ModuleImage kImages[] = {{"", kImage}};

}  // namespace

const DriverApi& driver() { return kApi; }
std::span<const ModuleImage> images() { return kImages; }

DriverResult add_work(StreamHandle stream, std::function<void()> work) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_stream(stream)) return DriverResult::invalid_handle;
  add(stream, std::move(work));
  return DriverResult::success;
}

std::unique_ptr<Backend> open_emulated_gpu() {
  return open_backend(driver(), images(), 0, blas_api);
}

const Backend& emulated_gpu() {
  static const Backend& backend = *open_emulated_gpu().release();
  return backend;
}

void fail_later(FaultPlace place, int after) {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  driver.until_fault[static_cast<std::size_t>(place)] = after;
}

void reset_gpu() {
  emulated::finish_all_work();
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  driver.failed = DriverResult::success;
  driver.report.clear();
  driver.until_fault.fill(-1);
}

}  // namespace emulation
}  // namespace lamina::cuda
