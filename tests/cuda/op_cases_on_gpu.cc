// The cases of ops on the emulated GPU: each kernel alone, in memory of exactly the size of its
// operands and as views, and programs. The main function leaves out the tests of the CPU in the
// same files.
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

// The places of operands: each at the beginning of an allocation, or as views are. Then an input
// begins one element after a multiple of 16 bytes, as a slice may, and a result is the second one
// of a stack, as a layer's result may be.
enum class Places { whole, views };

class GpuCase final : public CaseDevice {
 public:
  explicit GpuCase(Places places = Places::whole) : places_(places) {}

  const Backend& backend() const override { return test_gpu(); }

  void run(Kernel& kernel, std::span<Array* const> inputs,
           std::span<Array* const> outputs) const override {
    Queue& queue = test_gpu().context().queue();
    std::map<Array*, Placed> memory;
    const auto place = [&](Array* array, std::size_t offset_of_view) -> void* {
      if (!array) return nullptr;
      Placed& placed = memory[array];
      if (!placed.buffer) {
        placed.offset = places_ == Places::views ? offset_of_view : 0;
        placed.buffer = test_gpu().allocate(placed.offset + array->bytes.size());
        queue.copy(placed.tensor(array->type),
                   host_tensor(std::as_const(*array).data(), array->type));
      }
      return reinterpret_cast<void*>(placed.buffer->address() + placed.offset);
    };
    std::vector<const void*> in;
    std::vector<void*> out;
    for (Array* array : inputs) in.push_back(place(array, array ? element_bytes(array->type) : 0));
    for (Array* array : outputs) out.push_back(place(array, array ? array->bytes.size() : 0));
    const auto* const counting = dynamic_cast<CountingKernel*>(&kernel);
    std::vector<std::byte> counts(counting ? counting->counter_bytes() : 0);
    const std::unique_ptr<Buffer> counters = test_gpu().allocate(counts.size());  // zeroed
    if (!counts.empty()) out.push_back(reinterpret_cast<void*>(counters->address()));
    const std::unique_ptr<Buffer> workspace = test_gpu().allocate(kernel.workspace_bytes());
    queue.fill(TensorRef(*workspace, 0, bytes_type(kernel.workspace_bytes())), kUnwritten);
    queue.enqueue(kernel, {in, out, reinterpret_cast<std::byte*>(workspace->address()), &queue});
    for (const auto& [array, placed] : memory)
      queue.copy(host_tensor(array->data(), array->type), placed.tensor(array->type));
    queue.copy(host_tensor(counts.data(), bytes_type(counts.size())),
               TensorRef(*counters, 0, bytes_type(counts.size())));
    queue.finish();
    for (const std::byte count : counts) EXPECT_EQ(count, std::byte{0}) << "left in a counter";
  }

  void begin_run(bool again) const override { cuda::emulation::set_seed(again ? 2 : 1); }
  std::string_view again() const override { return "threads in another order"; }

 private:
  struct Placed {
    std::unique_ptr<Buffer> buffer;
    std::size_t offset = 0;
    TensorRef tensor(const Type& type) const { return TensorRef(*buffer, offset, type); }
  };
  static std::size_t element_bytes(const Type& type) {
    return static_cast<std::size_t>(size_bytes(type.dtype));
  }

  const Places places_;
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
      if (!takes) continue;
      check_kernel(GpuCase(), choice, built, want, allowed, fmt::format("kernel {}", choice.name));
      check_numbers(GpuCase(Places::views), choice, built, want, allowed,
                    fmt::format("kernel {}, operands are views", choice.name));
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
