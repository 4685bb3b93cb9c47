// Decode steps whose rotations and cache writes are one kernel per layer, on the emulated GPU.
#include <gtest/gtest.h>

#include <array>

#include "cuda/gpu.h"
#include "passes/count_ops.h"
#include "support/device_models.h"

namespace lamina::testing {
namespace {

// A GPU without kernels for rotate_write.
class SeparateKernels final : public Backend {
 public:
  explicit SeparateKernels(const Backend& gpu) : gpu_(gpu) {}

  std::string_view name() const override { return gpu_.name(); }
  std::span<const KernelChoice> kernels(const Op& op) const override {
    return op.name == "rotate_write" ? std::span<const KernelChoice>() : gpu_.kernels(op);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) const override {
    return gpu_.allocate(bytes);
  }
  std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const override {
    return gpu_.allocate_for_copies(bytes);
  }
  Context& context() const override { return gpu_.context(); }
  bool reaches(MemoryKind kind) const override { return gpu_.reaches(kind); }

 private:
  const Backend& gpu_;
};

// Rotations that stay: of queries in layers that read the keys of an earlier one, of keys that are
// normed or joined with other channels before they are written, and back after attention.
struct FusedModel {
  const char* name;
  int saved;                             // launches of a decode step
  int rotate_writes, rotations, writes;  // nodes of its graph

  friend void PrintTo(const FusedModel& m, std::ostream* out) { *out << m.name; }
};

class CacheWrites : public ::testing::TestWithParam<FusedModel> {
 protected:
  const decoder::Model model = open_model(test_model(GetParam().name).path, false);
};

// The first step, which is not replayed from a graph.
std::int64_t launches_of_a_step(const decoder::Model& model, const Backend& backend) {
  const weights::Weights weights = weights_on(backend, model, DType::bf16);
  decode::Session session(model, weights.pointers(), {.capacity = 64, .dtype = DType::bf16},
                          backend);
  session.program(1);
  const std::int64_t before = cuda::emulation::driver_counts().launches;
  session.append(std::array{1});
  return cuda::emulation::driver_counts().launches - before;
}

TEST_P(CacheWrites, SaveLaunchesOfEachLayer) {
  EXPECT_EQ(launches_of_a_step(model, SeparateKernels(emulated_gpu())) -
                launches_of_a_step(model, emulated_gpu()),
            GetParam().saved);
  const weights::Weights weights = weights_on(emulated_gpu(), model, DType::f32);
  decode::Session session(model, weights.pointers(), {.capacity = 64}, emulated_gpu());
  const Graph& graph = session.program(1).program().graph();
  EXPECT_EQ(count_ops(graph, "rotate_write"), GetParam().rotate_writes);
  EXPECT_EQ(count_ops(graph, "rotate"), GetParam().rotations);
  EXPECT_EQ(count_ops(graph, "cache_write"), GetParam().writes);
}

// Prompts in pieces, then tokens; windows are shorter than the rows.
TEST_P(CacheWrites, GiveTheBitsOfSeparateKernels) {
  const Rows rows = random_rows(model, 1, 24);
  EXPECT_EQ(decoded(model, rows.ids, {7, 1, 1, 5}, test_gpu()),
            decoded(model, rows.ids, {7, 1, 1, 5}, SeparateKernels(test_gpu())));
}

INSTANTIATE_TEST_SUITE_P(All, CacheWrites,
                         ::testing::Values(FusedModel{"llama2_deep_window", 33, 11, 0, 0},
                                           FusedModel{"gemma3_window", 15, 5, 0, 0},
                                           FusedModel{"gemma4_small", 6, 2, 3, 0},
                                           FusedModel{"llama4_interleaved", 13, 7, 6, 0},
                                           FusedModel{"qwen3_vl_text", 9, 3, 0, 0},
                                           FusedModel{"gpt_oss_predicts", 6, 2, 0, 0},
                                           FusedModel{"deepseek_streams", 9, 3, 0, 0},
                                           FusedModel{"deepseek_sparse", 20, 8, 0, 0},
                                           FusedModel{"deepseek4_sparse", 9, 9, 9, 0}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lamina::testing
