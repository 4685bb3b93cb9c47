// The cases of ops on the emulated GPU: each kernel alone, in memory of exactly the size of its
// operands, and programs. The main function leaves out the tests of the CPU in the same files.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/emulation/grid.h"
#include "ops/registry.h"
#include "support/op_case_kernels.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Backend& gpu() { return cuda::emulation::emulated_gpu(); }

class GpuCase final : public CaseDevice {
 public:
  const Backend& backend() const override { return gpu(); }

  void run(Kernel& kernel, std::span<Array* const> inputs,
           std::span<Array* const> outputs) const override {
    Queue& queue = gpu().context().queue();
    std::map<Array*, std::unique_ptr<Buffer>> memory;
    const auto place = [&](Array* array) -> void* {
      if (!array) return nullptr;
      std::unique_ptr<Buffer>& buffer = memory[array];
      if (!buffer) {
        buffer = gpu().allocate(array->bytes.size());
        queue.copy(TensorRef(*buffer, 0, array->type),
                   host_tensor(std::as_const(*array).data(), array->type));
      }
      return reinterpret_cast<void*>(buffer->address());
    };
    std::vector<const void*> in;
    std::vector<void*> out;
    for (Array* array : inputs) in.push_back(place(array));
    for (Array* array : outputs) out.push_back(place(array));
    const std::unique_ptr<Buffer> workspace = gpu().allocate(kernel.workspace_bytes());
    queue.fill(TensorRef(*workspace, 0, bytes_of(kernel.workspace_bytes())), std::byte{0xff});
    queue.enqueue(kernel, {in, out, reinterpret_cast<std::byte*>(workspace->address()), &queue});
    for (const auto& [array, buffer] : memory)
      queue.copy(host_tensor(array->data(), array->type), TensorRef(*buffer, 0, array->type));
    queue.finish();
  }

  void begin_run(bool again) const override { cuda::emulation::set_seed(again ? 2 : 1); }
  std::string_view again() const override { return "threads in another order"; }

 private:
  static Type bytes_of(std::size_t count) {
    return {DType::u8, {static_cast<std::int64_t>(count)}, {}};
  }
};

// Calls check(case, dtype) for each; names the ops without a kernel in the message that skips the
// test, if nothing else could be checked.
void check_each(const OpCases& list, const std::function<void(const OpCase&, DType)>& check) {
  std::set<std::string> missing;
  int checked = 0;
  for_each(list, [&](const OpCase& c, DType dtype) {
    try {
      check(c, dtype);
      ++checked;
    } catch (const DeviceError& e) {
      cuda::emulation::reset_gpu();
      if (!e.text().what.starts_with("no kernel computes")) throw;
      missing.insert(e.text().what);
    }
  });
  if (checked == 0 && !missing.empty()) GTEST_SKIP() << *missing.begin();
}

}  // namespace

void check_gpu_kernels(const OpCases& list) {
  check_each(list, [&](const OpCase& c, DType dtype) {
    const std::vector<Doubles> want = meaning(list, c, dtype);
    const Allowed allowed = allowed_errors(c, dtype);
    Built built;
    build(list, c, dtype, dtype, built);
    for (const KernelChoice& choice : gpu().kernels(ops::get(list.op))) {
      const bool takes = with_node_view(built.graph, built.node(), [&](const NodeView& view) {
        return static_cast<bool>(choice.supports(view));
      });
      if (takes)
        check_kernel(GpuCase(), choice, built, want, allowed,
                     fmt::format("kernel {}", choice.name));
    }
    add_outputs(built.graph, built.results);
    const std::vector<Array> got = lamina::testing::run(built.graph, built.inputs, gpu());
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i], want[i], allowed(got[i].type.dtype),
                   fmt::format("program, output {}", i));
  });
}

void check_gpu_decode(const OpCases& list) {
  ::testing::TestPartResultArray failures;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    check_decode(list, gpu());
  }
  for (int i = 0; i < failures.size(); ++i)
    if (const std::string message = failures.GetTestPartResult(i).message();
        message.find("no kernel computes") != message.npos)
      GTEST_SKIP() << message;
  for (int i = 0; i < failures.size(); ++i)
    ADD_FAILURE() << failures.GetTestPartResult(i).message();
}

}  // namespace lamina::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, "*.*OfTheGpu*");
  return RUN_ALL_TESTS();
}
