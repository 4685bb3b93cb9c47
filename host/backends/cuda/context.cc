#include "backends/cuda/context.h"

#include <array>
#include <cstdlib>

#include "backends/cuda/custom/plugin_modules.h"
#include "backends/cuda/driver/open.h"
#include "backends/cuda/driver/watched_calls.h"
#include "backends/cuda/queue.h"
#include "backends/cuda/timeout.h"
#include "core/error.h"

namespace lamina::cuda {
namespace {

constexpr int kOldestCapability = 8;  // PTX of the kernels, bf16 tensor cores

// Events in a capture only order work: they have no time, and a new origin would need calls that a
// capture does not allow.
thread_local bool capturing_here = false;

// The image for compute capability 9.0 alone has kernels that wait for earlier launches.
bool begins_early(int capability) {
  const char* const text = std::getenv("LAMINA_GPU_OVERLAP");
  return capability == 90 && text && std::string_view(text) == "1";
}

[[noreturn]] void throw_no_gpu(int ordinal, int count) {
  throw DeviceError(ExitCode::memory,
                    {"cuda",
                     fmt::format("GPU {} does not exist; the driver shows {}", ordinal,
                                 count == 0   ? "none"
                                 : count == 1 ? "GPU 0 only"
                                              : fmt::format("GPUs 0 to {}", count - 1)),
                     {visible_devices_note()}});
}

}  // namespace

CudaContext::CudaContext(const DriverApi& api, std::span<const ModuleImage> images,
                         const Libraries& libraries, int ordinal, const std::string& cache)
    : api_(api), ordinal_(ordinal), libraries_(libraries), cache_(cache), patience_(gpu_timeout()) {
  watch_calls(patience_);
  set_gpu_of_calls(ordinal);
  const DriverResult started = api.init(0);  // does nothing if it has been started
  if (started == DriverResult::no_device) throw_no_gpu(ordinal, 0);
  check(api, started, "starting the driver");
  int count = 0;
  check(api, api.device_count(&count), "counting GPUs");
  if (ordinal < 0 || ordinal >= count) throw_no_gpu(ordinal, count);
  check(api, api.device(&device_, ordinal), "opening the GPU");
  if (const int major = attribute(DeviceAttribute::capability_major); major < kOldestCapability)
    throw DeviceError(
        ExitCode::memory,
        {"cuda",
         fmt::format("GPU {} ({}) has compute capability {}.{}; expected {}.0 or newer", ordinal,
                     device_name(), major, attribute(DeviceAttribute::capability_minor),
                     kOldestCapability),
         {"use another GPU, or --device cpu"}});
  check(api, api.retain_context(&handle_, device_), "opening the GPU");
  try {
    open(images);
  } catch (...) {
    close();
    throw;
  }
}

void CudaContext::open(std::span<const ModuleImage> images) {
  enter();
  check(api_, api_.make_stream(&setup_stream_, kStreamNonBlocking), "creating a stream");
  setup_progress_ = std::make_shared<QueueProgress>(*this, setup_stream_);
  progress_.add(setup_progress_);
  renew_time_origin();
  setup_progress_->finish();
  entry_.emplace(GpuInUse{.name = device_name(),
                          .capability = capability(),
                          .shared_bytes = attribute(DeviceAttribute::max_opt_in_shared_bytes),
                          .open_blas = libraries_.blas,
                          .open_dnn = libraries_.dnn});
  modules_ = std::make_unique<Modules>(api_, images, begins_early(capability()));
  plugin_modules_ = std::make_unique<PluginModules>(*this);
  queue_ = make_queue();
}

CudaContext::~CudaContext() { close(); }

void CudaContext::close() {
  if (!try_finish()) {
    // Freeing might wait forever: a GPU that hangs keeps what it has.
    static_cast<void>(blas_.release());
    static_cast<void>(dnn_.release());
    static_cast<void>(plugin_modules_.release());
    static_cast<void>(modules_.release());
    return;
  }
  queue_.reset();
  blas_.reset();
  dnn_.reset();
  plugin_modules_.reset();
  modules_.reset();
  origin_.reset();
  setup_progress_.reset();
  if (setup_stream_) api_.destroy_stream(setup_stream_);
  api_.release_context(device_);
}

void DestroyEvent::operator()(EventHandle event) const {
  if (context->try_enter()) context->api().destroy_event(event);
}

OwnedEvent CudaContext::record_event(StreamHandle stream, unsigned flags) const {
  EventHandle made = nullptr;
  check(api_, api_.make_event(&made, flags), "creating an event");
  OwnedEvent event(made, {this});
  check(api_, api_.record_event(made, stream), "recording an event");
  return event;
}

void CudaContext::renew_time_origin() {
  enter();
  EventHandle event = nullptr;
  check(api_, api_.make_event(&event, kEventDefault), "creating an event");
  const std::shared_ptr<TimeOrigin> made(new TimeOrigin{event}, [this](TimeOrigin* origin) {
    if (try_enter()) api_.destroy_event(origin->event);
    delete origin;
  });
  check(api_, api_.record_event(event, setup_stream_), "recording an event");
  const std::lock_guard lock(origin_mutex_);
  if (origin_) find_seconds(*origin_);  // long reached
  made->before = origin_;
  origin_ = made;
  origin_made_ = std::chrono::steady_clock::now();
}

void CudaContext::set_capturing(bool capturing) { capturing_here = capturing; }
bool CudaContext::is_capturing() { return capturing_here; }

std::shared_ptr<CudaContext::TimeOrigin> CudaContext::time_origin() {
  constexpr std::chrono::seconds kLongest{10};
  std::unique_lock lock(origin_mutex_);
  if (!capturing_here && std::chrono::steady_clock::now() - origin_made_ > kLongest) {
    lock.unlock();
    renew_time_origin();
    lock.lock();
  }
  return origin_;
}

double CudaContext::seconds_of(TimeOrigin& origin) {
  enter();
  const std::lock_guard lock(origin_mutex_);
  find_seconds(origin);
  return origin.seconds;
}

// Origins count from the one before, which knows its time.
void CudaContext::find_seconds(TimeOrigin& origin) {
  if (!origin.before) return;
  float milliseconds = 0;
  DriverResult result = api_.elapsed(&milliseconds, origin.before->event, origin.event);
  if (result == DriverResult::not_ready) {
    progress_.wait(origin.event);
    result = api_.elapsed(&milliseconds, origin.before->event, origin.event);
  }
  check(api_, result, "reading the time of work");
  origin.seconds = origin.before->seconds + 1e-3 * static_cast<double>(milliseconds);
  origin.before = nullptr;
}

blas::Library& CudaContext::blas() {
  enter();
  const std::lock_guard lock(libraries_mutex_);
  if (blas_) return *blas_;
  const blas::Api blas = libraries_.blas();
  std::unique_ptr<blas::ChoiceFile> file;
  if (!cache_.empty()) {
    file = std::make_unique<blas::ChoiceFile>(
        cache_, blas::ChoiceOrigin{.card = fmt::format("{} sm_{}", device_name(), capability()),
                                   .driver = version_of(api_),
                                   .library = blas.version()});
  }
  const char* const tf32 = std::getenv("LAMINA_GPU_TF32");
  blas_ =
      std::make_unique<blas::Library>(blas, tf32 && std::string_view(tf32) == "1", std::move(file));
  return *blas_;
}

dnn::DnnLibrary& CudaContext::dnn() {
  enter();
  const std::lock_guard lock(libraries_mutex_);
  if (dnn_) return *dnn_;
  const dnn::Opened& opened = libraries_.dnn();
  LAMINA_ASSERT(opened.api);
  dnn_ = std::make_unique<dnn::DnnLibrary>(*opened.api);
  return *dnn_;
}

void CudaContext::enter() const {
  if (gave_up_) throw DeviceError(ExitCode::memory, *hang_);
  set_gpu_of_calls(ordinal_);
  check(api_, api_.set_context(handle_), "using the GPU");
}

bool CudaContext::try_enter() const noexcept {
  if (gave_up_) return false;
  set_gpu_of_calls(ordinal_);
  return api_.set_context(handle_) == DriverResult::success;
}

bool CudaContext::try_finish() noexcept {
  if (!try_enter()) return false;
  try {
    progress_.finish();
  } catch (const std::exception&) {
    // The error of the device occurs again at its next use.
  }
  return !gave_up_;
}

void CudaContext::give_up(ErrorText why) {
  {
    const std::lock_guard lock(hang_mutex_);
    if (!hang_) hang_ = std::move(why);
  }
  gave_up_ = true;
  throw DeviceError(ExitCode::memory, *hang_);
}

std::unique_ptr<Queue> CudaContext::make_queue() { return std::make_unique<CudaQueue>(*this); }

int CudaContext::attribute(DeviceAttribute attribute) const {
  int value = 0;
  check(api_, api_.device_attribute(&value, attribute, device_), "reading a limit of the GPU");
  return value;
}

int CudaContext::capability() const {
  return 10 * attribute(DeviceAttribute::capability_major) +
         attribute(DeviceAttribute::capability_minor);
}

std::string CudaContext::device_name() const {
  std::array<char, 256> name = {};
  check(api_, api_.device_name(name.data(), static_cast<int>(name.size()) - 1, device_),
        "reading the name of the GPU");
  return name.data();
}

}  // namespace lamina::cuda
