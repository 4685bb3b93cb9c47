// Custom ops of plugins with kernels for GPUs (ext/draft/custom_ops_gpu.h).
#include "backends/cuda/custom/images.h"
#include "backends/cuda/custom/plugin_modules.h"
#include "backends/cuda/gpus_in_use.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/queue.h"
#include "core/error.h"
#include "ops/custom.h"

namespace lamina::cuda {
namespace {

using ops::GpuLaunch;

constexpr std::array<std::uint32_t, 3> kMostBlockThreads = {1024, 1024, 64};
// Padding at the end of a C struct is less than the alignment of its fields.
constexpr std::size_t kMostAlignment = 16;

Verdict supports(const NodeView& n) {
  const ops::CustomOp& op = ops::custom_of(n.op());
  if (op.gpu_kernels_are_of_another_minor)
    return Verdict::no(
        "the plugin was built for another minor of the contract, and GPU kernels are a draft");
  if (!op.gpu_kernel)
    return Verdict::no(op.kernel ? "the plugin's kernel computes on the CPU; it has none for GPUs"
                                 : "the plugin has no kernel for it");
  if (std::string why = op.gpu_kernel->refusal(n); !why.empty()) return Verdict::no(std::move(why));
  for (const GpuInUse& gpu : gpus_in_use())
    if (!choose_image(op.gpu_kernel->images(), gpu.capability))
      return Verdict::no(
          fmt::format("the plugin has no image for compute capability {} ({}); it has: {}",
                      capability_text(gpu.capability), gpu.name, text_of(op.gpu_kernel->images())));
  return Verdict::yes();
}

// The launches of one node. The constructor looks up their functions and checks their sizes.
class PluginKernel final : public Kernel {
 public:
  PluginKernel(const NodeView& n, CudaContext& context)
      : context_(context),
        kernel_(*ops::custom_of(n.op()).gpu_kernel),
        image_(*choose_image(kernel_.images(), context.capability())),
        run_(kernel_.prepare(n)),
        op_(n.op().name),
        place_(n.origin() ? to_string(*n.origin()) : ""),
        most_shared_bytes_(
            static_cast<std::size_t>(context.attribute(DeviceAttribute::max_opt_in_shared_bytes))) {
    context.enter();
    const std::vector<const void*> inputs(static_cast<std::size_t>(n.num_inputs()));
    std::vector<void*> outputs(static_cast<std::size_t>(n.num_outputs()));
    run_->run(inputs, outputs, nullptr, [&](const GpuLaunch& launch) { add(launch); });
  }

  std::size_t workspace_bytes() const override { return run_->workspace_bytes(); }

  void run(const KernelArgs& args) override {
    std::size_t next = 0;
    run_->run(args.inputs, args.outputs, args.workspace, [&](const GpuLaunch& launch) {
      if (next == launches_.size() || !launches_[next].is_like(launch))
        fail(fmt::format("launches '{}' in a run, but not when the program was made",
                         launch.function),
             {"launches depend on shapes and attributes only"});
      launch_it(args, *launches_[next++].function, launch);
    });
    if (next != launches_.size())
      fail(fmt::format("makes {} launches in a run, but {} when the program was made", next,
                       launches_.size()),
           {"launches depend on shapes and attributes only"});
  }

 private:
  struct Known {
    ImageFunction* function;
    std::array<std::uint32_t, 3> blocks, threads;
    std::uint32_t shared_bytes;
    std::size_t params_bytes;

    bool is_like(const GpuLaunch& launch) const {
      return function->name == launch.function && blocks == launch.blocks &&
             threads == launch.threads && shared_bytes == launch.shared_bytes &&
             params_bytes == launch.params.size();
    }
  };

  [[noreturn]] void fail(const std::string& what, std::vector<std::string> notes = {}) const {
    if (!place_.empty()) notes.insert(notes.begin(), place_);
    notes.push_back(fmt::format("{}, on {} of compute capability {}, with {}; its images: {}",
                                kernel_.plugin(), context_.device_name(),
                                capability_text(context_.capability()), text_of(image_),
                                text_of(kernel_.images())));
    notes.push_back("LAMINA_PLUGIN_KERNELS=0 computes the op by its lowering");
    throw PluginError({fmt::format("the GPU kernel of op '{}'", op_), what, std::move(notes)});
  }

  ImageFunction& find(const std::string& name) const {
    PluginModules::Rejection rejection;
    ImageFunction* const found = context_.plugin_modules().find(image_, name, rejection);
    if (!rejection.what.empty())
      fail(fmt::format("the driver rejects {}: {}", text_of(image_), rejection.what),
           std::move(rejection.log));
    if (!found)
      fail(fmt::format("launches '{}', which {} does not contain", name, text_of(image_)),
           {"a function needs extern \"C\" and __global__"});
    return *found;
  }

  void add(const GpuLaunch& launch) {
    ImageFunction& function = find(std::string(launch.function));
    const std::uint64_t threads =
        std::uint64_t{launch.threads[0]} * launch.threads[1] * launch.threads[2];
    if (threads == 0 || threads > function.max_threads)
      fail(fmt::format("launches '{}' with blocks of {} threads; expected 1 to {}", launch.function,
                       threads, function.max_threads));
    for (std::size_t i = 0; i < 3; ++i) {
      if (launch.threads[i] > kMostBlockThreads[i])
        fail(fmt::format("launches '{}' with blocks of {} threads in dim {}; expected at most {}",
                         launch.function, launch.threads[i], i, kMostBlockThreads[i]));
      if (launch.blocks[i] > kMostGridBlocks[i])
        fail(fmt::format("launches '{}' with {} blocks in dim {}; expected at most {}",
                         launch.function, launch.blocks[i], i, kMostGridBlocks[i]));
    }
    if (const std::size_t bytes = launch.shared_bytes + function.static_shared_bytes;
        bytes > most_shared_bytes_)
      fail(fmt::format("launches '{}' with {} bytes of shared memory per block; the GPU has {}",
                       launch.function, bytes, most_shared_bytes_));
    const std::size_t given = launch.params.size(),
                      expected = function.params_bytes.value_or(given);
    if (given < expected || given - expected >= kMostAlignment)
      fail(fmt::format("launches '{}' with {} bytes of parameters; it has {}", launch.function,
                       given, expected));
    launches_.push_back(
        {&function, launch.blocks, launch.threads, launch.shared_bytes, launch.params.size()});
  }

  void launch_it(const KernelArgs& args, ImageFunction& function, const GpuLaunch& launch) const {
    for (const std::uint32_t blocks : launch.blocks)
      if (blocks == 0) return;
    auto& queue = static_cast<CudaQueue&>(*args.queue);
    const DriverApi& api = context_.api();
    allow_shared_bytes(context_, &function, launch.shared_bytes);
    std::size_t bytes = function.params_bytes.value_or(launch.params.size());
    void* extra[] = {kLaunchParams, const_cast<std::byte*>(launch.params.data()),
                     kLaunchParamsBytes, &bytes, kLaunchEnd};
    // Without attributes: it begins after all earlier work.
    const LaunchConfig config = {.blocks_x = launch.blocks[0],
                                 .blocks_y = launch.blocks[1],
                                 .blocks_z = launch.blocks[2],
                                 .threads_x = launch.threads[0],
                                 .threads_y = launch.threads[1],
                                 .threads_z = launch.threads[2],
                                 .shared_bytes = launch.shared_bytes,
                                 .stream = queue.stream(),
                                 .attributes = nullptr,
                                 .num_attributes = 0};
    check(api, api.launch(&config, function.handle, nullptr, extra), function.name.c_str());
    queue.note(function.name);
  }

  CudaContext& context_;
  const ops::CustomGpuKernel& kernel_;
  const ops::GpuImage& image_;
  const std::unique_ptr<ops::CustomGpuRun> run_;
  const std::string op_, place_;
  const std::size_t most_shared_bytes_;
  std::vector<Known> launches_;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return std::make_unique<PluginKernel>(n, static_cast<CudaContext&>(context));
}

constexpr KernelChoice kChoices[] = {{"plugin", supports, make, 0, true}};
constexpr OpKernels kOps[] = {{"custom", kChoices}};

}  // namespace

KernelTable custom_kernels() { return kOps; }

}  // namespace lamina::cuda
