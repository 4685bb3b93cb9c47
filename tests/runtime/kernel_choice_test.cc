// Choice of kernels, and its description.
#include "runtime/program.h"

#include <gmock/gmock.h>

#include "backends/cpu/backend.h"
#include "backends/cpu/threads/memory.h"
#include "graph/bytes_type.h"
#include "ops/tensor.h"
#include "support/expect_error.h"

namespace lamina {
namespace {

TEST(KernelChoice, BestThatTakesTheNodeIsChosenAndRefusalsAreKept) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f64, {2, 3}, {}});
  ops::matmul(x, x, false, true);
  std::vector<Refusal> refusals;
  with_node_view(g, g.nodes()[0], [&](const NodeView& view) {
    const KernelChoice* choice = choose_kernel(cpu::cpu_backend(), view, &refusals);
    ASSERT_NE(choice, nullptr);
    EXPECT_EQ(choice->name, "reference");
  });
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].kernel, "gemm");
  EXPECT_EQ(refusals[0].why, "takes f32 and bf16, got f64");
}

TEST(Program, OpThatNoKernelTakesIsADeviceErrorWithTheReasons) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f64, {2, 3}, {}});
  g.add_output("y", ops::call("softmax", {x}));
  EXPECT_ERROR_SAYS(Program(g, cpu::cpu_backend()), ExitCode::memory,
                    "device 'cpu': no kernel computes softmax of f64[2, 3], to f64[2, 3]\n"
                    "  not rows: takes f32 and bf16, got f64[2, 3]");
}

TEST(Program, DescriptionNamesKernelsAndRefusals) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f64, {2, 3}, {}});
  g.add_output("y", ops::matmul(x, x, false, true));
  std::string text = Program(g, cpu::cpu_backend()).describe();
  EXPECT_THAT(text, ::testing::HasSubstr("matmul"));
  EXPECT_THAT(text, ::testing::HasSubstr("not gemm: takes f32 and bf16, got f64"));
  EXPECT_THAT(text, ::testing::HasSubstr("f64[2, 2] at y"));
}

TEST(CpuMemory, IsZeroedAndAligned) {
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{5} << 20}) {
    auto buffer = cpu::cpu_backend().allocate(bytes);
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(buffer->address() % (bytes > (4u << 20) ? 2u << 20 : 64u), 0u);
    const TensorRef all(*buffer, 0, bytes_type(bytes));
    const std::span<std::byte> view = host_view<std::byte>(all);
    for (std::size_t i = 0; i < bytes; i += 4099) EXPECT_EQ(view[i], std::byte{0});
  }
}

TEST(CpuMemory, SaysHowMuchWasAskedAndHowMuchThereIs) {
  EXPECT_ERROR_SAYS(cpu::cpu_backend().allocate(std::size_t{1} << 60), ExitCode::memory,
                    "cpu: out of memory asking for 1.0 EiB; ");
  EXPECT_GT(cpu::available_memory_bytes(), 1u << 20);
}

TEST(CpuMemory, SizesAreWrittenForPeople) {
  EXPECT_EQ(cpu::human_bytes(17), "17 bytes");
  EXPECT_EQ(cpu::human_bytes(512 << 10), "512.0 KiB");
  EXPECT_EQ(cpu::human_bytes(std::uint64_t{3435973837}), "3.2 GiB");
}

}  // namespace
}  // namespace lamina
