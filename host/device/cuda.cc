#include "device/cuda.h"

#include <algorithm>

#include "backends/cuda/backend.h"
#include "backends/cuda/blas/choice_file.h"
#include "backends/cuda/described/described.h"
#include "backends/cuda/driver/open.h"
#include "backends/cuda/kernel_library.h"
#include "backends/cuda/limits/limits.h"
#include "core/error.h"
#include "graph/bytes_type.h"

namespace lamina::device {
namespace {

class GpuMemory final : public MemoryPasses {
 public:
  explicit GpuMemory(const Backend& backend) : reader_(backend) {}
  std::size_t bytes() const override { return reader_.bytes(); }
  double pass() const override { return reader_.pass(); }

 private:
  cuda::GpuMemoryReader reader_;
};

}  // namespace

CudaDevice::CudaDevice(std::string name, std::unique_ptr<Backend> backend,
                       const GpuConnection& connection)
    : connection_(connection),
      name_(std::move(name)),
      backend_(std::move(backend)),
      architecture_(cuda::architecture(*backend_)) {}

CudaDevice::~CudaDevice() = default;

double CudaDevice::read_bandwidth() const {
  constexpr int kPasses = 10;
  const GpuMemory memory(*backend_);
  double best = memory.pass();
  for (int i = 1; i < kPasses; ++i) best = std::min(best, memory.pass());
  return static_cast<double>(memory.bytes()) / best;
}

double CudaDevice::copy_bandwidth() const {
  constexpr std::size_t kLeast = 1 << 10, kMost = std::size_t{64} << 20;
  constexpr int kPasses = 4;
  const std::size_t bytes = std::clamp<std::size_t>(available_memory() / 4, kLeast, kMost);
  const Type type = bytes_type(bytes);
  const std::unique_ptr<Buffer> here = backend_->allocate(bytes),
                                host = backend_->allocate_for_copies(bytes);
  Queue& queue = backend_->context().queue();
  double best = 0;
  for (int i = 0; i < kPasses; ++i) {
    const std::shared_ptr<const Event> begin = queue.record();
    queue.copy(TensorRef(*here, 0, type), TensorRef(*host, 0, type));
    const double seconds = queue.record()->seconds() - begin->seconds();
    best = std::max(best, static_cast<double>(bytes) / std::max(seconds, 1e-9));
  }
  return best;
}

double CudaDevice::peak_flops(DType dtype, const formats::BlockFormat* /*widened*/) const {
  return cuda::peak_flops(*backend_, dtype);
}

std::unique_ptr<MemoryPasses> CudaDevice::memory() const {
  return std::make_unique<GpuMemory>(*backend_);
}

std::uint64_t CudaDevice::available_memory() const { return cuda::free_memory(*backend_); }

// The program itself is in the memory of the host.
std::uint64_t CudaDevice::resident_memory() const { return 0; }

namespace {

// Limits by the data sheet.
class DescribedGpu final : public CudaDevice {
 public:
  explicit DescribedGpu(const cuda::Card& card)
      : CudaDevice(fmt::format("cuda:{}", card.name), cuda::describe_backend(card)), card_(card) {}
  bool computes() const override { return false; }
  double read_bandwidth() const override { return card_.bytes_per_second; }
  double copy_bandwidth() const override { return card_.link_bytes_per_second; }

 private:
  const cuda::Card& card_;
};

}  // namespace

std::vector<std::string> described_gpus() {
  std::vector<std::string> names;
  for (const cuda::Card& card : cuda::cards()) names.emplace_back(card.name);
  return names;
}

std::unique_ptr<CudaDevice> describe_gpu(std::string_view card) {
  const cuda::Card* const found = cuda::find_card(card);
  LAMINA_ASSERT(found);
  return std::make_unique<DescribedGpu>(*found);
}

std::string gpu_name(int ordinal) {
  return ordinal == 0 ? "cuda" : "cuda:" + std::to_string(ordinal);
}

std::unique_ptr<CudaDevice> open_gpu(int ordinal) {
  const cuda::DriverApi& driver = cuda::open_driver();
  return std::make_unique<CudaDevice>(
      gpu_name(ordinal), cuda::open_backend(driver, cuda::open_kernel_library(driver), ordinal,
                                            cuda::Libraries{}, cuda::blas::cache_folder()));
}

}  // namespace lamina::device
