// GPU kernels of plugins on the emulated GPU: the choice of an image, launches, and every mistake
// that the host can detect.
#include <cstdlib>
#include <cstring>
#include <deque>

#include "backends/cuda/custom/images.h"
#include "backends/cuda/gpu/gpu.h"
#include "conformance/check.h"
#include "conformance/numbers/kernel_comparison.h"
#include "cuda/gpu.h"
#include "ops/custom.h"
#include "ops/op.h"
#include "registry/abi_read.h"
#include "registry/custom_ops.h"
#include "support/expect_error.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

using cuda::choose_image;
using ops::GpuImage;

// ---- Choice of images ----

GpuImage image(GpuImage::Kind kind, int capability, bool only = false) {
  return {.kind = kind, .capability = capability, .only_this_capability = only, .data = {}};
}
GpuImage ptx(int capability) { return image(GpuImage::Kind::ptx, capability); }
GpuImage cubin(int capability) { return image(GpuImage::Kind::cubin, capability); }

TEST(GpuImages, TheCubinOfTheGpuIsBeforePtx) {
  const std::vector<GpuImage> all = {ptx(80), cubin(80), cubin(86), ptx(90), cubin(90)};
  EXPECT_EQ(choose_image(all, 90), &all[4]);
  EXPECT_EQ(choose_image(all, 89), &all[2]);
  EXPECT_EQ(choose_image(all, 80), &all[1]);
}

TEST(GpuImages, PtxOfTheHighestCapabilityIsForNewerGpus) {
  const std::vector<GpuImage> all = {ptx(80), cubin(80), ptx(90), ptx(120)};
  EXPECT_EQ(choose_image(all, 100), &all[2]);
}

TEST(GpuImages, CubinsOfAnotherMajorCapabilityAreForNoOtherGpu) {
  const std::vector<GpuImage> all = {cubin(80), cubin(91)};
  EXPECT_EQ(choose_image(all, 90), nullptr);
}

TEST(GpuImages, ImagesOfOneCapabilityAreForThatOnly) {
  const std::vector<GpuImage> all = {image(GpuImage::Kind::ptx, 90, true)};
  EXPECT_EQ(choose_image(all, 90), &all[0]);
  EXPECT_EQ(choose_image(all, 100), nullptr);
  EXPECT_EQ(cuda::text_of(std::span(all)), "PTX for 9.0 only");
}

// ---- An op whose kernel and lowering differ, so that a result shows which of them ran ----

struct ScaleParams {
  cuda::gpu::Address x, y;
  std::int64_t count;
  float by;
};
LAMINA_GPU_KERNEL(test_scale, ScaleParams) {
  using namespace cuda::gpu;
  const Global<const float> x(p.x);
  const Global<float> y(p.y);
  for (std::int64_t i = first_index(); i < p.count; i += num_indices()) y[i] = p.by * x[i];
}

// Its parameters end with padding in C, but not in PTX.
struct ShortParams {
  cuda::gpu::Address x, y;
  std::int32_t count;
};
LAMINA_GPU_KERNEL(test_triple, ShortParams) {
  using namespace cuda::gpu;
  const Global<const float> x(p.x);
  const Global<float> y(p.y);
  for (std::int64_t i = first_index(); i < p.count; i += num_indices()) y[i] = 3 * x[i];
}

// As nvcc writes it, without the instructions.
constexpr char kPtx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n\n.visible .entry test_scale(\n"
    "\t.param .align 8 .b8 test_scale_param_0[32]\n)\n{\n\tret;\n}\n";

constexpr char kShortPtx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n\n.visible .entry test_triple(\n"
    "\t.param .u64 test_triple_param_0,\n\t.param .u64 test_triple_param_1,\n"
    "\t.param .u32 test_triple_param_2\n)\n{\n\tret;\n}\n";

// The declaration of a plugin. `run` gets the number of its call, from 0.
struct Plugin {
  std::string text = std::string(kPtx, sizeof kPtx);
  std::uint32_t capability = 80, kind = LAMINA_GPU_PTX;
  std::uint32_t threads = 32, blocks = 2, shared_bytes = 0, threads_z = 1;
  std::uint64_t params_bytes = sizeof(ScaleParams);
  const char* function = "test_scale";
  bool changes_launches = false, of_this_minor = true, calls_parallel_for = false;
  bool takes_shapes = true;
  int calls = 0;
  std::uint32_t num_images = 1;
};

lamina_status_t launch(void* user, const lamina_kernel_call_t* call, const lamina_gpu_api_t* gpu) {
  auto& plugin = *static_cast<Plugin*>(user);
  const auto* in = static_cast<const lamina_buffer_t*>(call->inputs.ptr);
  const auto* out = static_cast<const lamina_buffer_t*>(call->outputs.ptr);
  const ScaleParams params{.x = {reinterpret_cast<std::uintptr_t>(in->data)},
                           .y = {reinterpret_cast<std::uintptr_t>(out->data)},
                           .count = in->dims[0],
                           .by = 3};
  const ShortParams short_params{
      .x = params.x, .y = params.y, .count = static_cast<std::int32_t>(params.count)};
  if (plugin.calls_parallel_for)
    call->api->parallel_for(
        call, 1, [](void*, std::uint64_t) {}, nullptr);
  lamina_gpu_launch_t launch{};
  launch.size = sizeof launch;
  launch.function = {plugin.function, std::strlen(plugin.function)};
  launch.blocks[0] = plugin.blocks;
  launch.threads[0] = plugin.threads;
  launch.shared_bytes = plugin.shared_bytes;
  launch.blocks[1] = launch.blocks[2] = launch.threads[1] = 1;
  launch.threads[2] = plugin.threads_z;
  if (plugin.changes_launches) launch.threads[0] += static_cast<std::uint32_t>(plugin.calls);
  ++plugin.calls;
  const bool is_short = plugin.text.starts_with(kShortPtx);
  launch.params = is_short ? static_cast<const void*>(&short_params) : &params;
  launch.params_bytes = plugin.params_bytes;
  return gpu->launch(call, &launch);
}

lamina_status_t prepare(void* user, const lamina_kernel_call_t*, uint64_t*) {
  return static_cast<Plugin*>(user)->takes_shapes ? LAMINA_OK : LAMINA_ERROR_UNSUPPORTED;
}

// The lowering is made by the test.
lamina_status_t lower(void*, lamina_build_t*, const lamina_lowering_t*) { return LAMINA_OK; }

constexpr lamina_str_t str(std::string_view text) { return {text.data(), text.size()}; }

const registry::CustomOps& read(Plugin& plugin) {
  lamina_custom_op_t op{};
  op.size = sizeof op;
  op.name = str("test.scale");
  op.doc = str("2 x, and 3 x by its kernel");
  op.inputs = str("x");
  op.outputs = str("y");
  op.lower = lower;
  lamina_gpu_image_t image{};
  image.size = sizeof image;
  image.kind = plugin.kind;
  image.capability = plugin.capability;
  image.data = plugin.text.data();
  image.bytes = plugin.text.size();
  lamina_gpu_kernel_t kernel{};
  kernel.size = sizeof kernel;
  kernel.dtypes = 1u << LAMINA_DTYPE_F32;
  kernel.user = &plugin;
  kernel.prepare = prepare;
  kernel.run = launch;
  lamina_gpu_custom_op_t on_gpu{};
  on_gpu.size = sizeof on_gpu;
  on_gpu.forward = &kernel;
  const lamina_custom_ops_gpu_t gpu{
      sizeof gpu, 0, {&image, plugin.num_images, sizeof image}, {&on_gpu, 1, sizeof on_gpu}};
  auto identity = std::make_shared<registry::PluginIdentity>();
  identity->id = "org.example.scale";
  identity->version = "1.2.0";
  identity->of_this_minor = plugin.of_this_minor;
  static auto& kept = *new std::deque<registry::CustomOps>;
  return kept.emplace_back(registry::read_custom_ops(
      {sizeof(lamina_custom_ops_t), 0, {&op, 1, sizeof op}}, identity, &gpu));
}

const Type kRow{DType::f32, {3}, {}};

// `count` of the op, one after the other.
Graph graph_of(const ops::CustomOp& op, int count = 1, const Type& type = kRow) {
  auto body = std::make_shared<Graph>();
  const Tensor inside = body->add_input("x", type);
  body->add_output("y", inside + inside);
  Graph graph;
  Tensor x = graph.add_input("x", type);
  const std::pair<std::string_view, AttrValue> attr{"body", std::shared_ptr<const Graph>(body)};
  for (int i = 0; i < count; ++i) x = graph.add_node(op, std::array{x}, std::span(&attr, 1))[0];
  graph.add_output("y", x);
  return graph;
}

// y for x = [1, 2, 3].
Doubles result_of(Plugin& plugin, const Type& type = kRow) {
  const Graph graph = graph_of(read(plugin)[0]->op, 1, type);
  return to_doubles(run(graph, {array(type, {1, 2, 3})}, emulated_gpu())[0]);
}

std::string refusal_of(Plugin& plugin, const Type& type = kRow) {
  const Graph graph = graph_of(read(plugin)[0]->op, 1, type);
  std::vector<Refusal> refusals;
  with_node_view(graph, graph.nodes().front(),
                 [&](const NodeView& view) { choose_kernel(emulated_gpu(), view, &refusals); });
  return refusals.empty() ? "" : refusals[0].why;
}

// Places that plugins keep until the process ends.
Plugin& make(Plugin plugin) {
  static auto& kept = *new std::deque<Plugin>;
  return kept.emplace_back(std::move(plugin));
}

const Doubles kByKernel = {3, 6, 9}, kByLowering = {2, 4, 6};

TEST(GpuKernelOfAPlugin, ComputesTheOp) { EXPECT_EQ(result_of(make({})), kByKernel); }

// Four nodes, because a graph has at least four kernel calls.
TEST(GpuKernelOfAPlugin, IsRecordedAsAGraph) {
  constexpr int kNodes = 4, kRuns = 5;
  Plugin& plugin = make({});
  const Graph graph = graph_of(read(plugin)[0]->op, kNodes);
  Program program(optimized_for(emulated_gpu(), graph), emulated_gpu());
  std::vector<std::unique_ptr<Buffer>> memory;
  for (int i = 0; i < 2; ++i) memory.push_back(emulated_gpu().allocate(12));
  const TensorRef x(*memory[0], 0, kRow), y(*memory[1], 0, kRow);
  const auto arena = emulated_gpu().allocate(program.arena_bytes());
  std::array<float, 3> numbers = {1, 2, 3};
  Queue& queue = emulated_gpu().context().queue();
  const std::int64_t replays = cuda::emulation::driver_counts().replays;
  for (int time = 0; time < kRuns; ++time) {
    queue.copy(x, host_tensor(std::span<float>(numbers)));
    program.run(std::array{ConstTensorRef(x)}, std::array{y}, *arena);
    std::array<float, 3> got = {};
    queue.copy(host_tensor(std::span<float>(got)), y);
    queue.finish();
    EXPECT_EQ(got[2], 81 * numbers[2]);
    numbers[2] += 1;
  }
  EXPECT_EQ(cuda::emulation::driver_counts().replays - replays, kRuns - 1);
}

TEST(GpuKernelOfAPlugin, IsTheLoweringWithoutAnImageForTheCard) {
  Plugin& plugin = make({.capability = 100});
  EXPECT_EQ(result_of(plugin), kByLowering);
  EXPECT_EQ(refusal_of(plugin),
            "the plugin has no image for compute capability 9.0 (emulated GPU); it has: PTX for "
            "10.0 and newer");
}

TEST(GpuKernelOfAPlugin, IsTheLoweringWithoutAnyImage) {
  Plugin& plugin = make({.num_images = 0});
  EXPECT_EQ(result_of(plugin), kByLowering);
  EXPECT_EQ(refusal_of(plugin),
            "the plugin has no image for compute capability 9.0 (emulated GPU); it has: none");
}

TEST(GpuKernelOfAPlugin, IsTheLoweringForATypeThatItDoesNotSupport) {
  const Type type{DType::bf16, {3}, {}};
  Plugin& plugin = make({});
  EXPECT_EQ(result_of(plugin, type), kByLowering);
  EXPECT_EQ(refusal_of(plugin, type), "the plugin's kernel does not support bf16[3]");
}

TEST(GpuKernelOfAPlugin, IsTheLoweringForShapesThatItDoesNotSupport) {
  Plugin& plugin = make({.takes_shapes = false});
  EXPECT_EQ(result_of(plugin), kByLowering);
  EXPECT_EQ(refusal_of(plugin), "the plugin's kernel does not support these shapes");
}

TEST(GpuKernelOfAPlugin, IsTheLoweringIfThePluginHasAnotherMinor) {
  Plugin& plugin = make({.of_this_minor = false});
  EXPECT_EQ(result_of(plugin), kByLowering);
  EXPECT_EQ(refusal_of(plugin),
            "the plugin was built for another minor of the contract, and GPU kernels are a draft");
}

// The host of another minor may not be able to read the table.
TEST(GpuKernelOfAPlugin, IsNotReadIfThePluginHasAnotherMinor) {
  EXPECT_EQ(result_of(make({.kind = 3, .of_this_minor = false})), kByLowering);
}

TEST(GpuKernelOfAPlugin, IsTheLoweringIfKernelsOfPluginsAreOff) {
  ::setenv("LAMINA_PLUGIN_KERNELS", "0", 1);
  EXPECT_EQ(result_of(make({})), kByLowering);
  ::unsetenv("LAMINA_PLUGIN_KERNELS");
}

// The end of each message: plugin, card, and all images.
constexpr const char* kAbout =
    "plugin 'org.example.scale' 1.2.0, on emulated GPU of compute capability 9.0, with PTX for 8.0 "
    "and newer; its images: PTX for 8.0 and newer";

TEST(GpuKernelOfAPlugin, ReportsTheLogOfTheDriver) {
  Plugin& plugin = make({.text = std::string(".target sm_80\n\0", 15)});
  EXPECT_ERROR_SAYS(
      result_of(plugin), ExitCode::plugin,
      "the GPU kernel of op 'test.scale': the driver rejects PTX for 8.0 and newer: a "
      "PTX JIT compilation failed (CUDA_ERROR_INVALID_PTX, error 218)");
  EXPECT_ERROR_SAYS(result_of(plugin), ExitCode::plugin,
                    "ptxas fatal   : Missing .version directive at start of file");
  EXPECT_ERROR_SAYS(result_of(plugin), ExitCode::plugin, kAbout);
  EXPECT_ERROR_SAYS(result_of(plugin), ExitCode::plugin,
                    "LAMINA_PLUGIN_KERNELS=0 computes the op by its lowering");
}

TEST(GpuKernelOfAPlugin, ReportsAnImageForAnotherCardThanItClaims) {
  Plugin& cubin = make({.text = "\x7f"
                                "ELF of sm_80",
                        .capability = 90,
                        .kind = LAMINA_GPU_CUBIN});
  EXPECT_ERROR_SAYS(result_of(cubin), ExitCode::plugin,
                    "the driver rejects a cubin for 9.0 to 9.9: no kernel image is available for "
                    "execution on the device (CUDA_ERROR_NO_BINARY_FOR_GPU, error 209)");
  std::string newer(kPtx, sizeof kPtx);
  newer.replace(newer.find("sm_80"), 5, "sm_100");
  Plugin& ptx_of_100 = make({.text = newer});
  EXPECT_ERROR_SAYS(result_of(ptx_of_100), ExitCode::plugin,
                    "SM version specified by .target is higher than default SM version assumed");
}

TEST(GpuKernelOfAPlugin, NamesAFunctionThatTheImageLacks) {
  EXPECT_ERROR_SAYS(result_of(make({.function = "_Z10test_scale"})), ExitCode::plugin,
                    "launches '_Z10test_scale', which PTX for 8.0 and newer does not contain");
}

TEST(GpuKernelOfAPlugin, ChecksTheSizeOfParameters) {
  EXPECT_ERROR_SAYS(result_of(make({.params_bytes = 24})), ExitCode::plugin,
                    "launches 'test_scale' with 24 bytes of parameters; it has 32");
  EXPECT_ERROR_SAYS(result_of(make({.params_bytes = 48})), ExitCode::plugin,
                    "launches 'test_scale' with 48 bytes of parameters; it has 32");
}

TEST(GpuKernelOfAPlugin, MayHavePaddingAfterItsParameters) {
  static_assert(sizeof(ShortParams) == 24);
  EXPECT_EQ(result_of(make({.text = std::string(kShortPtx, sizeof kShortPtx),
                            .params_bytes = sizeof(ShortParams),
                            .function = "test_triple"})),
            kByKernel);
}

TEST(GpuKernelOfAPlugin, MustNotCallParallelFor) {
  EXPECT_ERROR_SAYS(result_of(make({.calls_parallel_for = true})), ExitCode::plugin,
                    "calls parallel_for, which is not available to GPU kernels");
}

TEST(GpuKernelOfAPlugin, ChecksTheLimitsOfTheCard) {
  EXPECT_ERROR_SAYS(result_of(make({.threads = 2048})), ExitCode::plugin,
                    "launches 'test_scale' with blocks of 2048 threads; expected 1 to 1024");
  EXPECT_ERROR_SAYS(
      result_of(make({.threads = 1, .threads_z = 128})), ExitCode::plugin,
      "launches 'test_scale' with blocks of 128 threads in dim 2; expected at most 64");
  EXPECT_ERROR_SAYS(
      result_of(make({.shared_bytes = 300 << 10})), ExitCode::plugin,
      "launches 'test_scale' with 307200 bytes of shared memory per block; the GPU has "
      "232448");
  EXPECT_ERROR_SAYS(result_of(make({.blocks = 0x80000000u})), ExitCode::plugin,
                    "launches 'test_scale' with 2147483648 blocks in dim 0; expected at most "
                    "2147483647");
}

TEST(GpuKernelOfAPlugin, MustLaunchTheSameInEachRun) {
  EXPECT_ERROR_SAYS(result_of(make({.changes_launches = true})), ExitCode::plugin,
                    "launches 'test_scale' in a run, but not when the program was made");
}

// The kit compares the kernel with the lowering, which gives other numbers.
TEST(GpuKernelOfAPlugin, MustEqualTheLoweringInTheKit) {
  const conformance::Compute compute{.backend = &emulated_gpu(), .set_threads = [](int) {}};
  const conformance::ComparingBackend backend(compute);
  const Graph graph = graph_of(read(make({}))[0]->op);
  try {
    run(graph, {array(kRow, {1, 2, 3})}, backend);
    ADD_FAILURE() << "the kernel passes";
  } catch (const conformance::Failure& failure) {
    EXPECT_THAT(failure.what(),
                ::testing::HasSubstr(
                    "the kernel of op 'test.scale' for f32[3] differs from the lowering by 3"));
  }
}

TEST(GpuKernelOfAPlugin, IsReadFromAGoodTableOnly) {
  Plugin& wrong_kind = make({.kind = 3});
  EXPECT_THROW(read(wrong_kind), registry::abi::ContractError);
  Plugin& no_end = make({.text = ".version 8.0"});
  EXPECT_THROW(read(no_end), registry::abi::ContractError);
  Plugin& no_capability = make({.capability = 8});
  EXPECT_THROW(read(no_capability), registry::abi::ContractError);
}

}  // namespace
}  // namespace lamina::testing
