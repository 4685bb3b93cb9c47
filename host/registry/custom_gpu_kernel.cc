// Reads a plugin's kernels for GPUs (ext/draft/custom_ops_gpu.h) and collects their launches.
#include <algorithm>
#include <exception>

#include "registry/abi_ops.h"
#include "registry/kernel_call.h"

namespace lamina::registry {
namespace {

using Launcher = std::function<void(const ops::GpuLaunch&)>;
using GpuRunFunction = decltype(lamina_gpu_kernel_t::run);

struct LaunchingCall : RunningCall {
  const Launcher* launcher = nullptr;
};

lamina_status_t launch(const lamina_kernel_call_t* of, const lamina_gpu_launch_t* from) {
  auto& call = *const_cast<LaunchingCall*>(static_cast<const LaunchingCall*>(of));
  if (call.thrown) return LAMINA_ERROR_ARGUMENT;
  try {
    const auto launch = abi::copy(from, "its launch");
    const std::string function = abi::text(launch.function, "the function of its launch");
    constexpr std::uint64_t kMostBytes = 4096;  // limit of the driver, for every GPU
    if (launch.params_bytes > kMostBytes || (launch.params_bytes > 0 && launch.params == nullptr))
      abi::refuse("launches '{}' with {} bytes of parameters{}; expected at most {}", function,
                  launch.params_bytes, launch.params ? "" : " at a null address", kMostBytes);
    ops::GpuLaunch out;
    out.function = function;
    std::copy_n(launch.blocks, 3, out.blocks.begin());
    std::copy_n(launch.threads, 3, out.threads.begin());
    out.shared_bytes = launch.shared_bytes;
    out.params = {static_cast<const std::byte*>(launch.params), launch.params_bytes};
    (*call.launcher)(out);
    return LAMINA_OK;
  } catch (const abi::ContractError& broken) {
    call.broken = broken.what();
  } catch (...) {
    call.thrown = std::current_exception();
  }
  return LAMINA_ERROR_ARGUMENT;
}

constexpr lamina_gpu_api_t kGpuApi = {
    .size = sizeof(lamina_gpu_api_t), ._pad0 = 0, .launch = launch};

class PluginGpuRun final : public ops::CustomGpuRun {
 public:
  PluginGpuRun(const KernelSource& source, GpuRunFunction function, const NodeView& n)
      : user_(source.user), run_(function), kernel_(source, n) {}

  std::size_t workspace_bytes() const override { return kernel_.workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
           const Launcher& launcher) override {
    LaunchingCall call{};
    call.launcher = &launcher;
    kernel_.run(call, inputs, outputs, workspace, [&] { return run_(user_, &call, &kGpuApi); });
  }

 private:
  void* user_;
  GpuRunFunction run_;
  PreparedKernel kernel_;
};

class PluginGpuKernel final : public ops::CustomGpuKernel {
 public:
  PluginGpuKernel(KernelSource source, GpuRunFunction function,
                  std::shared_ptr<const GpuImages> images)
      : source_(std::move(source)), run_(function), images_(std::move(images)) {}

  std::string refusal(const NodeView& n) const override { return refusal_of(source_, n); }
  std::unique_ptr<ops::CustomGpuRun> prepare(const NodeView& n) const override {
    return std::make_unique<PluginGpuRun>(source_, run_, n);
  }
  std::span<const ops::GpuImage> images() const override { return *images_; }
  std::string plugin() const override {
    return fmt::format("plugin '{}' {}", source_.plugin->id, source_.plugin->version);
  }

 private:
  const KernelSource source_;
  GpuRunFunction run_;
  std::shared_ptr<const GpuImages> images_;
};

ops::GpuImage read_image(const lamina_gpu_image_t& from, std::size_t number) {
  const std::string what = fmt::format("GPU image {}", number);
  abi::check_flags(from.flags, LAMINA_GPU_ONLY_THIS_CAPABILITY, what);
  if (from.kind != LAMINA_GPU_PTX && from.kind != LAMINA_GPU_CUBIN)
    abi::refuse("{} has kind {}; expected {} (PTX) or {} (cubin)", what, from.kind, LAMINA_GPU_PTX,
                LAMINA_GPU_CUBIN);
  if (from.capability < 50 || from.capability > 999)
    abi::refuse("{} has compute capability {}; expected 10 major + minor, eg 80", what,
                from.capability);
  if (from.data == nullptr || from.bytes == 0) abi::refuse("{} is empty", what);
  const std::span data(static_cast<const char*>(from.data), from.bytes);
  const bool is_ptx = from.kind == LAMINA_GPU_PTX;
  if (is_ptx && data.back() != '\0')
    abi::refuse("{} is PTX that does not end with a zero byte", what);
  return {.kind = is_ptx ? ops::GpuImage::Kind::ptx : ops::GpuImage::Kind::cubin,
          .capability = static_cast<int>(from.capability),
          .only_this_capability = (from.flags & LAMINA_GPU_ONLY_THIS_CAPABILITY) != 0,
          .data = data};
}

}  // namespace

std::shared_ptr<const GpuImages> read_gpu_images(const lamina_custom_ops_gpu_t& table) {
  GpuImages out;
  for (const auto& image : abi::copies<lamina_gpu_image_t>(table.images, "lamina_gpu_image_t"))
    out.push_back(read_image(image, out.size()));
  return std::make_shared<const GpuImages>(std::move(out));
}

std::unique_ptr<const ops::CustomGpuKernel> read_gpu_kernel(
    const lamina_gpu_kernel_t& source, const std::string& op, bool is_backward,
    std::shared_ptr<const GpuImages> images, std::shared_ptr<const PluginIdentity> plugin) {
  return std::make_unique<PluginGpuKernel>(KernelSource(source, op, is_backward, std::move(plugin)),
                                           source.run, std::move(images));
}

}  // namespace lamina::registry
