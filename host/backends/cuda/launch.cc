#include "backends/cuda/launch.h"

#include "backends/cuda/context.h"
#include "backends/cuda/gpus_in_use.h"
#include "backends/cuda/queue.h"
#include "core/error.h"

namespace lamina::cuda {
namespace {

CudaQueue& queue_of(const KernelArgs& args) {
  LAMINA_ASSERT(args.queue);
  return static_cast<CudaQueue&>(*args.queue);
}

// The driver would say no more than "invalid argument".
std::array<unsigned, 3> grid_blocks(Function function, const LaunchShape& shape) {
  const std::array<std::int64_t, 3> wanted = {shape.blocks, shape.blocks_y, shape.blocks_z};
  std::array<unsigned, 3> out = {};
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (wanted[i] < 0 || wanted[i] > kMostGridBlocks[i])
      throw InternalError({"cuda",
                           fmt::format("the kernel '{}' is launched with {} blocks in dim {}; "
                                       "expected at most {}",
                                       function->name, wanted[i], i, kMostGridBlocks[i]),
                           {}});
    out[i] = static_cast<unsigned>(wanted[i]);
  }
  return out;
}

}  // namespace

std::int64_t most_shared_bytes() {
  std::int64_t out = kMostSharedBytes;
  for (const GpuInUse& gpu : gpus_in_use()) out = std::min(out, gpu.shared_bytes);
  return out;
}

bool have_warpgroup_products() {
  const std::vector<GpuInUse> gpus = gpus_in_use();
  return !gpus.empty() &&
         std::ranges::all_of(gpus, [](const GpuInUse& gpu) { return gpu.capability == 90; });
}

void allow_shared_bytes(const CudaContext& context, Function function, std::size_t bytes) {
  if (bytes <= function->max_shared_bytes) return;
  check(context.api(),
        context.api().set_function_attribute(
            function->handle, FunctionAttribute::max_dynamic_shared_bytes, static_cast<int>(bytes)),
        function->name.c_str());
  function->max_shared_bytes = bytes;
}

Function function(Context& context, const std::string& name) {
  auto& mine = static_cast<CudaContext&>(context);
  mine.enter();
  const Function found = mine.modules().find(name);
  if (!found) throw InternalError({"cuda", fmt::format("there is no kernel '{}'", name), {}});
  return found;
}

Function function(Context& context, std::string_view name, DType dtype) {
  return function(context, fmt::format("{}_{}", name, lamina::name(dtype)));
}

void launch_bytes(const KernelArgs& args, Function function, const LaunchShape& shape,
                  const void* params, std::size_t bytes) {
  if (shape.blocks == 0 || shape.blocks_y == 0 || shape.blocks_z == 0) return;
  LAMINA_ASSERT(shape.threads > 0);
  CudaQueue& queue = queue_of(args);
  const DriverApi& api = queue.context().api();
  allow_shared_bytes(queue.context(), function, shape.shared_bytes);
  const std::array<unsigned, 3> blocks = grid_blocks(function, shape);
  void* extra[] = {kLaunchParams, const_cast<void*>(params), kLaunchParamsBytes, &bytes,
                   kLaunchEnd};
  LaunchAttribute early{.id = LaunchAttribute::Id::begins_early, .value = {}};
  early.value.number = 1;
  const LaunchConfig config = {.blocks_x = blocks[0],
                               .blocks_y = blocks[1],
                               .blocks_z = blocks[2],
                               .threads_x = static_cast<unsigned>(shape.threads),
                               .threads_y = 1,
                               .threads_z = 1,
                               .shared_bytes = static_cast<unsigned>(shape.shared_bytes),
                               .stream = queue.stream(),
                               .attributes = &early,
                               .num_attributes = function->may_begin_early ? 1u : 0u};
  check(api, api.launch(&config, function->handle, nullptr, extra), function->name.c_str());
  queue.note(function->name);
}

void fill_zeros(const KernelArgs& args, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  CudaQueue& queue = queue_of(args);
  check(queue.context().api(),
        queue.context().api().fill(address(to).value, 0, bytes, queue.stream()), "filling memory");
  queue.note_copy();
}

void copy_bytes(const KernelArgs& args, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  CudaQueue& queue = queue_of(args);
  check(queue.context().api(),
        queue.context().api().copy(address(to).value, address(from).value, bytes, queue.stream()),
        "copying");
  queue.note_copy();
}

}  // namespace lamina::cuda
