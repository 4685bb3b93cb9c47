// The cases of ops on the emulated GPU: each kernel alone, in memory of exactly the size of its
// operands, and programs. The main function leaves out the tests of the CPU in the same files.
#include <gtest/gtest.h>

#include <map>

#include "backends/cuda/emulation/grid.h"
#include "cuda/gpu.h"
#include "graph/bytes_type.h"
#include "ops/registry.h"
#include "runtime/counting_kernel.h"
#include "support/op_case_kernels.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

class GpuCase final : public CaseDevice {
 public:
  const Backend& backend() const override { return test_gpu(); }

  void run(Kernel& kernel, std::span<Array* const> inputs,
           std::span<Array* const> outputs) const override {
    Queue& queue = test_gpu().context().queue();
    std::map<Array*, std::unique_ptr<Buffer>> memory;
    const auto place = [&](Array* array) -> void* {
      if (!array) return nullptr;
      std::unique_ptr<Buffer>& buffer = memory[array];
      if (!buffer) {
        buffer = test_gpu().allocate(array->bytes.size());
        queue.copy(TensorRef(*buffer, 0, array->type),
                   host_tensor(std::as_const(*array).data(), array->type));
      }
      return reinterpret_cast<void*>(buffer->address());
    };
    std::vector<const void*> in;
    std::vector<void*> out;
    for (Array* array : inputs) in.push_back(place(array));
    for (Array* array : outputs) out.push_back(place(array));
    const auto* const counting = dynamic_cast<CountingKernel*>(&kernel);
    std::vector<std::byte> counts(counting ? counting->counter_bytes() : 0);
    const std::unique_ptr<Buffer> counters = test_gpu().allocate(counts.size());  // zeroed
    if (!counts.empty()) out.push_back(reinterpret_cast<void*>(counters->address()));
    const std::unique_ptr<Buffer> workspace = test_gpu().allocate(kernel.workspace_bytes());
    queue.fill(TensorRef(*workspace, 0, bytes_type(kernel.workspace_bytes())), kUnwritten);
    queue.enqueue(kernel, {in, out, reinterpret_cast<std::byte*>(workspace->address()), &queue});
    for (const auto& [array, buffer] : memory)
      queue.copy(host_tensor(array->data(), array->type), TensorRef(*buffer, 0, array->type));
    queue.copy(host_tensor(counts.data(), bytes_type(counts.size())),
               TensorRef(*counters, 0, bytes_type(counts.size())));
    queue.finish();
    for (const std::byte count : counts) EXPECT_EQ(count, std::byte{0}) << "left in a counter";
  }

  void begin_run(bool again) const override { cuda::emulation::set_seed(again ? 2 : 1); }
  std::string_view again() const override { return "threads in another order"; }
};

// Calls check(case, dtype) for each; a kernel that fails leaves the GPU usable for the next case.
void check_each(const OpCases& list, const std::function<void(const OpCase&, DType)>& check) {
  for_each(list, [&](const OpCase& c, DType dtype) {
    const ResetAfter reset;
    check(c, dtype);
  });
}

}  // namespace

void check_gpu_kernels(const OpCases& list) {
  check_each(list, [&](const OpCase& c, DType dtype) {
    const std::vector<Doubles> want = meaning(list, c, dtype);
    const Allowed allowed = allowed_errors(c, dtype);
    Built built;
    build(list, c, dtype, dtype, built);
    for (const KernelChoice& choice : test_gpu().kernels(ops::get(list.op))) {
      const bool takes = with_node_view(built.graph, built.node(), [&](const NodeView& view) {
        return static_cast<bool>(choice.supports(view));
      });
      if (takes)
        check_kernel(GpuCase(), choice, built, want, allowed,
                     fmt::format("kernel {}", choice.name));
    }
    add_outputs(built.graph, built.results);
    const std::vector<Array> got = lamina::testing::run(built.graph, built.inputs, test_gpu());
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i], want[i], allowed(got[i].type.dtype),
                   fmt::format("program, output {}", i));
  });
}

void check_gpu_decode(const OpCases& list) {
  const ResetAfter reset;
  check_decode(list, test_gpu());
}

}  // namespace lamina::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, "*.*OfTheGpu*");
  return RUN_ALL_TESTS();
}
