// The kernels of adamw, adamw_rows, sum_of_squares and first_non_finite.
#include "backends/cuda/access.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/optimizer/params.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

AdamWConstants constants_of(const NodeView& n) {
  return {n.f("beta1"), n.f("beta2"), n.f("eps"), n.f("weight_decay")};
}

// One pass over parameters and moments. A thread reads its elements before it writes, so that any
// result may be in the place of p, m or v.
std::unique_ptr<Kernel> make_adamw(const NodeView& n, Context& context) {
  namespace in = operand::adamw;
  const AccessForms forms(context, "adamw");
  const std::int64_t count = n.type(0).num_elements();
  const bool has_copy = n.i("copy") != 0;
  return make_kernel([=, constants = constants_of(n)](const KernelArgs& args) {
    AdamWParams p{
        .constants = constants, .scalars = address(args.inputs[in::kScalars]), .tensor = {}};
    void* copy = has_copy ? args.outputs[3] : nullptr;
    p.tensor = {.p = address(args.inputs[in::kP]),
                .g = address(args.inputs[in::kG]),
                .m = address(args.inputs[in::kM]),
                .v = address(args.inputs[in::kV]),
                .p_out = address(args.outputs[0]),
                .m_out = address(args.outputs[1]),
                .v_out = address(args.outputs[2]),
                .copy = address(copy),
                .count = count};
    const bool by_vectors =
        count % 4 == 0 && begin_vectors({args.inputs[in::kP], args.inputs[in::kG],
                                         args.inputs[in::kM], args.inputs[in::kV], args.outputs[0],
                                         args.outputs[1], args.outputs[2], copy});
    launch(args, forms.get(by_vectors),
           {.blocks = grid_for(count / (by_vectors ? 4 : 1), 256), .threads = 256}, p);
  });
}

// One pass over the table; if lazy and in place, over the rows of the list.
class AdamWRowsKernel final : public Kernel {
 public:
  AdamWRowsKernel(const NodeView& n, Context& context)
      : rows_(context, "adamw_rows"), slots_(context, "adamw_slots") {
    params_.constants = constants_of(n);
    params_.rows = n.type(0).dim(0);
    params_.width = static_cast<int>(n.type(0).dim(1));
    params_.slots = n.type(1).dim(0);
    params_.lazy = n.i("lazy") != 0;
    params_.table.count = n.type(0).num_elements();
  }

  void run(const KernelArgs& args) override {
    namespace in = operand::adamw_rows;
    if (params_.table.count == 0) return;
    AdamWRowsParams p = params_;
    const auto& from = args.inputs;
    const auto& to = args.outputs;
    void* copy = from[in::kCopy] ? to[3] : nullptr;
    p.scalars = address(from[in::kScalars]);
    p.ids = address(from[in::kIds]);
    p.copy_in = address(from[in::kCopy]);
    p.table = {.p = address(from[in::kP]),
               .g = address(from[in::kG]),
               .m = address(from[in::kM]),
               .v = address(from[in::kV]),
               .p_out = address(to[0]),
               .m_out = address(to[1]),
               .v_out = address(to[2]),
               .copy = address(copy),
               .count = p.table.count};
    const bool in_place = to[0] == from[in::kP] && to[1] == from[in::kM] && to[2] == from[in::kV] &&
                          copy == from[in::kCopy];
    const bool by_slots = p.lazy && in_place;
    const bool by_vectors =
        p.width % 4 == 0 && begin_vectors({from[in::kP], from[in::kG], from[in::kM], from[in::kV],
                                           from[in::kCopy], to[0], to[1], to[2], copy});
    constexpr int kMaxThreads = 256;  // as the bounds of the kernels
    const RowShape shape =
        row_shape(by_slots ? p.slots : p.rows, p.width / (by_vectors ? 4 : 1), 1, kMaxThreads);
    p.threads_per_row = shape.threads_per_row;
    launch(args, (by_slots ? slots_ : rows_).get(by_vectors),
           {.blocks = shape.blocks, .threads = shape.threads}, p);
  }

 private:
  AdamWRowsParams params_ = {};
  AccessForms rows_, slots_;
};

std::unique_ptr<Kernel> make_adamw_rows(const NodeView& n, Context& context) {
  return std::make_unique<AdamWRowsKernel>(n, context);
}

Verdict takes_table(const NodeView& n) {
  constexpr std::int64_t kWidest = 1 << 30;
  if (n.type(0).dim(1) <= kWidest) return Verdict::yes();
  return Verdict::no("takes rows of up to 2^30 numbers, got " + to_string(n.type(0)));
}

// The chunks depend on the size alone: at most 1024, of at least 16384 elements.
ChunksParams chunks_of(std::int64_t count) {
  ChunksParams p = {};
  p.count = count;
  p.chunk_elements =
      round_up(std::max<std::int64_t>(16384, divide_up(count, std::int64_t{1024})), 1024);
  p.chunks = static_cast<int>(divide_up(count, p.chunk_elements));
  return p;
}

Verdict takes_f32(const NodeView& n) {
  if (n.type(0).dtype == DType::f32) return Verdict::yes();
  return Verdict::no("takes f32, got " + to_string(n.type(0)));
}

// Sums of chunks, then their sum.
std::unique_ptr<Kernel> make_sum_of_squares(const NodeView& n, Context& context) {
  const AccessForms chunks(context, "sum_of_squares");
  const Function finish = function(context, "sum_of_squares_finish");
  ChunksParams p = chunks_of(n.type(0).num_elements());
  const auto run = [=](const KernelArgs& args) mutable {
    p.x = address(args.inputs[0]);
    p.partials = address(args.workspace);
    p.y = address(args.outputs[0]);
    const bool by_vectors = p.count % 4 == 0 && begin_vectors({args.inputs[0]});
    launch(args, chunks.get(by_vectors), {.blocks = p.chunks, .threads = 256}, p);
    launch(args, finish, {.blocks = 1, .threads = 256}, p);
  };
  return make_kernel(run, static_cast<std::size_t>(p.chunks) * sizeof(double));
}

// The first such element of each chunk, then the first of all; x is read only if there is one.
std::unique_ptr<Kernel> make_first_non_finite(const NodeView& n, Context& context) {
  const Function chunks = function(context, "first_non_finite_chunks");
  const Function finish = function(context, "first_non_finite_finish");
  ChunksParams p = chunks_of(n.type(0).num_elements());
  const auto run = [=](const KernelArgs& args) mutable {
    p.x = address(args.inputs[0]);
    p.squares = address(args.inputs[1]);
    p.partials = address(args.workspace);
    p.y = address(args.outputs[0]);
    launch(args, chunks, {.blocks = p.chunks, .threads = 256}, p);
    launch(args, finish, {.blocks = 1, .threads = 256}, p);
  };
  return make_kernel(run, static_cast<std::size_t>(p.chunks) * sizeof(std::int64_t));
}

constexpr KernelChoice kAdamW[] = {
    {"elements", always, make_adamw, in_place_of(0) | in_place_of(2) | in_place_of(3), true}};
constexpr KernelChoice kAdamWRows[] = {
    {"rows", takes_table, make_adamw_rows,
     in_place_of(0) | in_place_of(3) | in_place_of(4) | in_place_of(6), true}};
constexpr KernelChoice kSumOfSquares[] = {{"chunks", takes_f32, make_sum_of_squares}};
constexpr KernelChoice kFirstNonFinite[] = {{"chunks", always, make_first_non_finite}};

constexpr OpKernels kOps[] = {
    {"adamw", kAdamW},
    {"adamw_rows", kAdamWRows},
    {"sum_of_squares", kSumOfSquares},
    {"first_non_finite", kFirstNonFinite},
};

}  // namespace

KernelTable optimizer_kernels() { return kOps; }

}  // namespace lamina::cuda
