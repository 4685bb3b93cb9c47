#include "backends/cuda/context.h"

#include <array>

#include "backends/cuda/queue.h"
#include "core/error.h"

namespace lamina::cuda {
namespace {

constexpr int kOldestCapability = 8;  // PTX of the kernels, bf16 tensor cores

}  // namespace

CudaContext::CudaContext(const DriverApi& api, std::span<const ModuleImage> images,
                         blas::OpenApi open_blas, int ordinal)
    : api_(api), open_blas_(open_blas) {
  check(api, api.init(0), "starting the driver");  // does nothing if it has been started
  int count = 0;
  check(api, api.device_count(&count), "counting GPUs");
  if (ordinal < 0 || ordinal >= count)
    throw DeviceError(ExitCode::memory,
                      {"cuda",
                       fmt::format("GPU {} does not exist; the driver shows {}", ordinal,
                                   count == 0   ? "none"
                                   : count == 1 ? "GPU 0 only"
                                                : fmt::format("GPUs 0 to {}", count - 1)),
                       {"CUDA_VISIBLE_DEVICES limits the GPUs of a process"}});
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
  enter();
  check(api, api.make_stream(&setup_stream_, kStreamNonBlocking), "creating a stream");
  renew_time_origin();
  shared_limit_.emplace(attribute(DeviceAttribute::max_opt_in_shared_bytes));
  modules_ = std::make_unique<Modules>(api, images);
  queue_ = make_queue();
}

CudaContext::~CudaContext() {
  if (api_.set_context(handle_) != DriverResult::success) return;
  queue_.reset();
  blas_.reset();
  modules_.reset();
  origin_.reset();
  api_.destroy_stream(setup_stream_);
  api_.release_context(device_);
}

void CudaContext::renew_time_origin() {
  enter();
  EventHandle event = nullptr;
  check(api_, api_.make_event(&event, kEventDefault), "creating an event");
  const std::shared_ptr<TimeOrigin> made(new TimeOrigin{event, 0}, [this](TimeOrigin* origin) {
    if (api_.set_context(handle_) == DriverResult::success) api_.destroy_event(origin->event);
    delete origin;
  });
  check(api_, api_.record_event(event, setup_stream_), "recording an event");
  check(api_, api_.finish_event(event), "waiting for an event");
  const std::lock_guard lock(origin_mutex_);
  if (origin_) {
    float milliseconds = 0;
    check(api_, api_.elapsed(&milliseconds, origin_->event, event), "reading the time of work");
    made->seconds = origin_->seconds + 1e-3 * static_cast<double>(milliseconds);
  }
  origin_ = made;
  origin_made_ = std::chrono::steady_clock::now();
}

std::shared_ptr<const CudaContext::TimeOrigin> CudaContext::time_origin() {
  constexpr std::chrono::seconds kLongest{10};
  std::unique_lock lock(origin_mutex_);
  if (std::chrono::steady_clock::now() - origin_made_ > kLongest) {
    lock.unlock();
    renew_time_origin();
    lock.lock();
  }
  return origin_;
}

blas::Library& CudaContext::blas() {
  enter();
  const std::lock_guard lock(blas_mutex_);
  if (!blas_) blas_ = std::make_unique<blas::Library>(open_blas_());
  return *blas_;
}

void CudaContext::enter() const { check(api_, api_.set_context(handle_), "using the GPU"); }

std::unique_ptr<Queue> CudaContext::make_queue() { return std::make_unique<CudaQueue>(*this); }

int CudaContext::attribute(DeviceAttribute attribute) const {
  int value = 0;
  check(api_, api_.device_attribute(&value, attribute, device_), "reading a limit of the GPU");
  return value;
}

std::string CudaContext::device_name() const {
  std::array<char, 256> name = {};
  check(api_, api_.device_name(name.data(), static_cast<int>(name.size()) - 1, device_),
        "reading the name of the GPU");
  return name.data();
}

}  // namespace lamina::cuda
