// adapted_lengths of a matrix that is stored in blocks; for plain ones it is lowered.
#include <cmath>

#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/reduce/reduce.h"
#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

Verdict supports(const NodeView& n) {
  if (!n.type(0).storage) return Verdict::no("reads a w in blocks");
  return only_f32_and_bf16(n);
}

constexpr std::int64_t kRows = 32;  // of a tile

// Computes tiles of rows: the product, widened weights, and squares of one row fit into a cache.
class LengthsKernel final : public Kernel {
 public:
  explicit LengthsKernel(const NodeView& n)
      : outputs_(n.type(0).dim(0)),
        inputs_(n.type(0).dim(1)),
        rank_(n.type(1).dim(1)),
        scale_(static_cast<float>(n.f("scale"))),
        dtype_(n.type(0).dtype),
        stored_(*n.type(0).storage, inputs_, dtype_),
        product_(dtype_, kRows, inputs_, rank_),
        change_bytes_(aligned(static_cast<std::size_t>(kRows * inputs_) * sizeof(float))),
        weight_bytes_(aligned(static_cast<std::size_t>(stored_.bytes_widened(kRows)))),
        square_bytes_(aligned(static_cast<std::size_t>(inputs_) * sizeof(float))),
        num_threads_(num_threads()) {}

  std::size_t workspace_bytes() const override {
    return thread_bytes() * static_cast<std::size_t>(num_threads_);
  }
  std::string detail() const override { return std::string(product_.kernel()); }

  void run(const KernelArgs& args) override {
    LAMINA_ASSERT(num_threads() <= num_threads_);
    parallel_tasks(divide_up(outputs_, kRows), [&](std::int64_t task, int thread) {
      compute(args, task * kRows, std::min(kRows, outputs_ - task * kRows),
              args.workspace + thread_bytes() * static_cast<std::size_t>(thread));
    });
  }

 private:
  std::size_t thread_bytes() const {
    return change_bytes_ + weight_bytes_ + square_bytes_ + aligned(product_.scratch_bytes());
  }

  void compute(const KernelArgs& args, std::int64_t first, std::int64_t rows,
               std::byte* memory) const {
    auto* change = reinterpret_cast<float*>(memory);
    std::byte* weights = memory + change_bytes_;
    auto* squares = reinterpret_cast<float*>(weights + weight_bytes_);
    const std::int64_t bytes = size_bytes(dtype_);
    TileArguments t = {};
    t.m = rows;
    t.n = inputs_;
    t.k = rank_;
    t.a = {at_byte(args.inputs[1], first * rank_ * bytes), rank_, 1};
    t.b = {args.inputs[2], 1, inputs_};
    t.c = change;
    t.ldc = inputs_;
    product_.multiply(t, weights + weight_bytes_ + square_bytes_);
    stored_.widen(args.inputs[0], first, rows, weights);
    const LengthFunctions& functions = isa_table<LengthFunctions>();
    const auto square = dtype_ == DType::f32 ? functions.f32 : functions.bf16;
    for (std::int64_t row = 0; row < rows; ++row) {
      square(weights + row * inputs_ * bytes, change + row * inputs_, scale_, inputs_, squares);
      ReduceTotal total = {.f = 0};
      isa_table<ReduceFunctions>().sum_f32.run(&total, squares, inputs_, 1);
      static_cast<float*>(args.outputs[0])[first + row] = std::sqrt(static_cast<float>(total.f));
    }
  }

  std::int64_t outputs_, inputs_, rank_;
  float scale_;
  DType dtype_;
  StoredRows stored_;
  TileMultiplier product_;
  std::size_t change_bytes_, weight_bytes_, square_bytes_;
  int num_threads_;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<LengthsKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"rows", supports, make}};

constexpr OpKernels kOps[] = {
    {"adapted_lengths", kChoices},
};

}  // namespace

KernelTable stored_kernels() { return kOps; }

}  // namespace lamina::cpu
