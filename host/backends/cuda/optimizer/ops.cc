// The kernels of adamw, adamw_rows, sum_of_squares and first_non_finite.
#include "backends/cuda/access.h"
#include "backends/cuda/chunks.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/optimizer/params.h"
#include "ops/operands.h"
#include "runtime/kernel_group.h"

namespace lamina::cuda {
namespace {

AdamWConstants constants_of(const NodeView& n) { return {n.f("beta1"), n.f("beta2"), n.f("eps")}; }

// The operands that updates of tensors and of tables have.
struct UpdateOperands {
  const void *p, *g, *m, *v, *scalars;
  const void* copy_in = nullptr;
};

// Adds the addresses of an update to its tensor. `copy`: null if it makes none. `width`: elements
// of a row; rows of whole vectors are read as vectors where all memory allows it.
AdamWTensor placed(AdamWTensor t, const UpdateOperands& from, void* const* to, void* copy,
                   std::int64_t width) {
  t.p = address(from.p);
  t.g = address(from.g);
  t.m = address(from.m);
  t.v = address(from.v);
  t.p_out = address(to[0]);
  t.m_out = address(to[1]);
  t.v_out = address(to[2]);
  t.copy = address(copy);
  t.scalars = address(from.scalars);
  t.by_vectors = width % 4 == 0 && begin_vectors({from.p, from.g, from.m, from.v, from.copy_in,
                                                  to[0], to[1], to[2], copy});
  return t;
}

// One pass over parameters and moments. A thread reads its elements before it writes, so that any
// result may be in the place of p, m or v.
class AdamWKernel final : public KernelGroup {
 public:
  AdamWKernel(const NodeView& n, Context& context)
      : function_(function(context, "adamw")), constants_(constants_of(n)) {
    add(n);
  }

  bool add(const NodeView& n) override {
    if (constants_of(n) != constants_) return false;
    AdamWTensor tensor = {};
    tensor.weight_decay = n.f("weight_decay");
    tensor.count = n.type(0).num_elements();
    updates_.push_back({tensor, n.num_outputs()});
    return true;
  }

  void run(const KernelArgs& args) override {
    namespace in = operand::adamw;
    TableLaunches<AdamWParams> launches(args, function_, kOptimizerThreads,
                                        {.constants = constants_, .table = {}});
    const void* const* from = args.inputs.data();
    void* const* to = args.outputs.data();
    for (const Update& update : updates_) {
      void* const copy = update.num_outputs > 3 ? to[3] : nullptr;
      const std::int64_t count = update.tensor.count;
      launches.add(placed(update.tensor,
                          {.p = from[in::kP],
                           .g = from[in::kG],
                           .m = from[in::kM],
                           .v = from[in::kV],
                           .scalars = from[in::kScalars]},
                          to, copy, count),
                   divide_up(count, std::int64_t{kUpdateChunk}));
      from += in::kScalars + 1;
      to += update.num_outputs;
    }
    launches.run();
  }

  std::string detail() const override {
    return group_text(updates_.size(), TensorTable<AdamWTensor>::kMost, "tensors");
  }

 private:
  struct Update {
    AdamWTensor tensor;  // without addresses
    int num_outputs;
  };
  Function function_;
  AdamWConstants constants_;
  std::vector<Update> updates_;
};

std::unique_ptr<Kernel> make_adamw(const NodeView& n, Context& context) {
  return std::make_unique<AdamWKernel>(n, context);
}

// One pass over the table; if lazy and in place, over the rows of the list.
class AdamWRowsKernel final : public KernelGroup {
 public:
  AdamWRowsKernel(const NodeView& n, Context& context)
      : function_(function(context, "adamw_rows")), constants_(constants_of(n)) {
    add(n);
  }

  bool add(const NodeView& n) override {
    if (constants_of(n) != constants_) return false;
    AdamWTable rows = {};
    rows.tensor.weight_decay = n.f("weight_decay");
    rows.tensor.count = n.type(0).num_elements();
    rows.rows = n.type(0).dim(0);
    rows.width = static_cast<int>(n.type(0).dim(1));
    rows.slots = n.type(1).dim(0);
    rows.lazy = n.i("lazy") != 0;
    updates_.push_back({rows, n.num_outputs()});
    return true;
  }

  void run(const KernelArgs& args) override {
    namespace in = operand::adamw_rows;
    TableLaunches<AdamWRowsParams> launches(args, function_, kOptimizerThreads,
                                            {.constants = constants_, .table = {}});
    const void* const* from = args.inputs.data();
    void* const* to = args.outputs.data();
    for (const Update& update : updates_) {
      if (update.table.tensor.count > 0) {
        const AdamWTable table = place(update.table, from, to);
        launches.add(table, divide_up(table.by_slots ? table.slots : table.rows,
                                      std::int64_t{kOptimizerThreads / table.threads_per_row}));
      }
      from += in::kCopy + 1;
      to += update.num_outputs;
    }
    launches.run();
  }

  std::string detail() const override {
    return group_text(updates_.size(), TensorTable<AdamWTable>::kMost, "tables");
  }

 private:
  struct Update {
    AdamWTable table;  // without addresses
    int num_outputs;
  };
  static AdamWTable place(AdamWTable p, const void* const* from, void* const* to) {
    namespace in = operand::adamw_rows;
    void* const copy = from[in::kCopy] ? to[3] : nullptr;
    p.tensor = placed(p.tensor,
                      {.p = from[in::kP],
                       .g = from[in::kG],
                       .m = from[in::kM],
                       .v = from[in::kV],
                       .scalars = from[in::kScalars],
                       .copy_in = from[in::kCopy]},
                      to, copy, p.width);
    p.copy_in = address(from[in::kCopy]);
    p.ids = address(from[in::kIds]);
    p.by_slots = p.lazy && to[0] == from[in::kP] && to[1] == from[in::kM] &&
                 to[2] == from[in::kV] && copy == from[in::kCopy];
    p.threads_per_row =
        row_shape(1, p.width / (p.tensor.by_vectors ? 4 : 1), 1, kOptimizerThreads).threads_per_row;
    return p;
  }

  Function function_;
  AdamWConstants constants_;
  std::vector<Update> updates_;
};

std::unique_ptr<Kernel> make_adamw_rows(const NodeView& n, Context& context) {
  return std::make_unique<AdamWRowsKernel>(n, context);
}

Verdict takes_table(const NodeView& n) {
  constexpr std::int64_t kWidest = 1 << 30;
  if (n.type(0).dim(1) <= kWidest) return Verdict::yes();
  return Verdict::no("takes rows of up to 2^30 numbers, got " + to_string(n.type(0)));
}

// Returns the elements of a chunk, by the size of the tensor alone: at least 16384, and as many as
// at most 1024 chunks need.
std::int64_t chunk_of(std::int64_t count) {
  return round_up(std::max<std::int64_t>(16384, divide_up(count, std::int64_t{1024})), 1024);
}

Verdict takes_f32(const NodeView& n) {
  if (n.type(0).dtype == DType::f32) return Verdict::yes();
  return Verdict::no("takes f32, got " + to_string(n.type(0)));
}

// A kernel for the chunks of all tensors, one per block, then a kernel with a block per tensor.
// Params: partial results of 8 bytes per chunk, and a table.
template <typename Params, typename Tensor>
class ChunksKernel final : public KernelGroup {
 public:
  // Returns the tensor of a call's operands, without its chunks.
  using Place = Tensor (*)(const void* const* inputs, void* const* outputs, std::int64_t count);
  ChunksKernel(const NodeView& n, Function chunks, Function finish, Place place)
      : chunks_(chunks),
        finish_(finish),
        place_(place),
        num_inputs_(static_cast<std::size_t>(n.num_inputs())) {
    add(n);
  }

  bool add(const NodeView& n) override {
    const std::int64_t count = n.type(0).num_elements();
    counts_.push_back(count);
    num_chunks_ += divide_up(count, chunk_of(count));
    return true;
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(num_chunks_) * sizeof(double);
  }

  void run(const KernelArgs& args) override {
    constexpr std::size_t kMost = TensorTable<Tensor>::kMost;
    std::byte* partials = args.workspace;
    for (std::size_t first = 0; first < counts_.size(); first += kMost) {
      Params p = {.partials = address(partials), .table = {}};
      for (std::size_t i = first; i < std::min(first + kMost, counts_.size()); ++i) {
        Tensor tensor =
            place_(args.inputs.data() + i * num_inputs_, args.outputs.data() + i, counts_[i]);
        tensor.chunk_elements = chunk_of(tensor.count);
        add_tensor(p.table, tensor, divide_up(tensor.count, tensor.chunk_elements));
      }
      p.table.chunks_per_block = 1;
      launch(args, chunks_, {.blocks = p.table.num_chunks, .threads = kOptimizerThreads}, p);
      launch(args, finish_, {.blocks = p.table.num_tensors, .threads = kOptimizerThreads}, p);
      partials += static_cast<std::size_t>(p.table.num_chunks) * sizeof(double);
    }
  }

  std::string detail() const override {
    return group_text(counts_.size(), TensorTable<Tensor>::kMost, "tensors");
  }

 private:
  Function chunks_, finish_;
  Place place_;
  std::size_t num_inputs_;
  std::vector<std::int64_t> counts_;
  std::int64_t num_chunks_ = 0;
};

// Sums of chunks, then their sums.
std::unique_ptr<Kernel> make_sum_of_squares(const NodeView& n, Context& context) {
  const auto place = [](const void* const* in, void* const* out, std::int64_t count) {
    return SquaresTensor{.x = address(in[0]),
                         .y = address(out[0]),
                         .count = count,
                         .chunk_elements = 0,
                         .by_vectors = count % 4 == 0 && begin_vectors({in[0]})};
  };
  return std::make_unique<ChunksKernel<SquaresParams, SquaresTensor>>(
      n, function(context, "sum_of_squares"), function(context, "sum_of_squares_finish"), place);
}

// The first such element of each chunk, then the first of all; x is read only if there is one.
std::unique_ptr<Kernel> make_first_non_finite(const NodeView& n, Context& context) {
  const auto place = [](const void* const* in, void* const* out, std::int64_t count) {
    return SearchTensor{.x = address(in[0]),
                        .squares = address(in[1]),
                        .y = address(out[0]),
                        .count = count,
                        .chunk_elements = 0};
  };
  return std::make_unique<ChunksKernel<SearchParams, SearchTensor>>(
      n, function(context, "first_non_finite_chunks"), function(context, "first_non_finite_finish"),
      place);
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
