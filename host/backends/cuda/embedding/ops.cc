// The kernels of embedding, embedding_grad, sum_rows and add_rows.
#include <limits>

#include "backends/cuda/embedding/copy_rows.h"
#include "backends/cuda/embedding/sums_by_id.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/stored/widen.h"
#include "core/round_up.h"

namespace lamina::cuda {
namespace {

// Copies rows of the table, or widens them if it is stored in blocks; an id outside of the table
// gives zeros.
namespace embedding_op {

Verdict supports_stored(const NodeView& n) {
  if (!n.type(0).storage) return Verdict::no("reads a table in blocks");
  return only_f32_and_bf16(n);
}

std::unique_ptr<Kernel> make_stored(const NodeView& n, Context& context) {
  const Type& table = n.type(0);
  const Function widen =
      function(context, "embedding_widen_" + kernel_name(*table.storage), table.dtype);
  WidenRowsParams p{};
  p.num_rows = table.dim(0);
  p.count = n.type(1).num_elements();
  p.width = table.dim(1);
  return make_kernel([widen, p](const KernelArgs& args) mutable {
    p.table = address(args.inputs[0]);
    p.ids = address(args.inputs[1]);
    p.to = address(args.outputs[0]);
    launch(args, widen, {.blocks = grid_for(p.count * (p.width / 8), 128), .threads = 128}, p);
  });
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& table = n.type(0);
  const CopyRows copy(context, table.dim(1) * size_bytes(table.dtype), table.dim(0),
                      n.type(1).num_elements(), 1);
  return make_kernel([copy](const KernelArgs& args) {
    copy.run(args, args.inputs[0], args.inputs[1], args.outputs[0]);
  });
}

constexpr KernelChoice kChoices[] = {
    {"widen", supports_stored, make_stored},
    {"copy", reads_plain, make},
};

}  // namespace embedding_op

Verdict supports_sums(const Type& ids, const Type& dy, std::int64_t rows) {
  if (!is_floating(dy.dtype)) return Verdict::no("dy must be floating, got " + to_string(dy));
  if (ids.num_elements() > StableSort::kMaxCount)
    return Verdict::no("takes up to 2^30 ids, got " + to_string(ids));
  if (rows > std::numeric_limits<std::int32_t>::max())
    return Verdict::no("takes tables of up to 2^31 - 1 rows, got " + std::to_string(rows));
  return Verdict::yes();
}

SumsById sums_by_id(const NodeView& n, Context& context) {
  return {context,
          {.num_ids = n.type(0).num_elements(),
           .num_rows = n.i("rows"),
           .width = n.type(1).dim(-1),
           .dtype = n.type(1).dtype}};
}

// Ids outside of the table are ignored.
namespace embedding_grad_op {

Verdict supports(const NodeView& n) { return supports_sums(n.type(0), n.type(1), n.i("rows")); }

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const SumsById sums = sums_by_id(n, context);
  return make_kernel(
      [sums, bytes = static_cast<std::size_t>(n.out_type().bytes()),
       has_acc = n.has(2)](const KernelArgs& args) {
        if (has_acc)
          copy_bytes(args, args.outputs[0], args.inputs[2], bytes);  // nothing when in place
        else
          fill_zeros(args, args.outputs[0], bytes);
        sums.add_to_table(args, args.inputs[0], args.inputs[1], args.outputs[0]);
      },
      sums.workspace_bytes());
}

constexpr KernelChoice kChoices[] = {{"sort", supports, make, in_place_of(2)}};

}  // namespace embedding_grad_op

namespace sum_rows_op {

Verdict supports(const NodeView& n) { return supports_sums(n.type(0), n.type(1), n.i("rows")); }

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const SumsById sums = sums_by_id(n, context);
  return make_kernel(
      [sums, slots = n.out_type().dim(0)](const KernelArgs& args) {
        sums.list(args, args.inputs[0], args.inputs[1], slots, args.outputs[0], args.outputs[1]);
      },
      sums.workspace_bytes());
}

constexpr KernelChoice kChoices[] = {{"sort", supports, make, 0, true}};

}  // namespace sum_rows_op

// Finds the place of each row by binary search, then copies or adds the rows.
namespace add_rows_op {

constexpr std::int64_t kMostSlots = std::int64_t{1} << 30;

Verdict supports(const NodeView& n) {
  for (int i : {0, 2})
    if (n.type(i).dim(0) > kMostSlots)
      return Verdict::no("takes lists of up to 2^30 slots, got " + to_string(n.type(i)));
  if (n.i("rows") < 0 || n.i("rows") > std::numeric_limits<std::int32_t>::max())
    return Verdict::no("rows must be 0 to 2^31 - 1, got " + std::to_string(n.i("rows")));
  return Verdict::yes();
}

class AddRowsKernel final : public Kernel {
 public:
  AddRowsKernel(const NodeView& n, Context& context)
      : count_(function(context, "add_rows_count_new")),
        place_new_(function(context, "add_rows_place_new")),
        place_(function(context, "add_rows_place")),
        merge_(function(context, "add_rows_merge", n.type(1).dtype)) {
    p_.slots = static_cast<std::int32_t>(n.type(0).dim(0));
    p_.more_slots = static_cast<std::int32_t>(n.type(2).dim(0));
    p_.limit = static_cast<std::int32_t>(n.i("rows"));
    p_.tiles = p_.more_slots / kListTile + 1;
    p_.width = n.type(1).dim(1);
  }

  std::size_t workspace_bytes() const override {
    return 2 * slots_bytes() + aligned(static_cast<std::size_t>(p_.more_slots) * 4 + 4) +
           aligned(static_cast<std::size_t>(p_.tiles) * 4);
  }

  void run(const KernelArgs& args) override {
    MergeListsParams p = p_;
    p.ids = address(args.inputs[0]);
    p.sums = address(args.inputs[1]);
    p.more_ids = address(args.inputs[2]);
    p.more = address(args.inputs[3]);
    p.ids_out = address(args.outputs[0]);
    p.sums_out = address(args.outputs[1]);
    std::byte* part = args.workspace;
    p.from = address(part);
    p.from_more = address(part += slots_bytes());
    p.new_before = address(part += slots_bytes());
    part += aligned(static_cast<std::size_t>(p_.more_slots) * 4 + 4);
    p.tile_counts = address(part);
    if (p.slots == 0) return;
    const LaunchShape tiles{.blocks = p.tiles, .threads = kListThreads};
    if (p.tiles > 1) launch(args, count_, tiles, p);
    launch(args, place_new_, tiles, p);
    launch(args, place_, {.blocks = grid_for(p.slots, 256), .threads = 256}, p);
    launch(args, merge_, {.blocks = grid_for(p.slots * p.width, 256), .threads = 256}, p);
  }

 private:
  std::size_t slots_bytes() const { return aligned(static_cast<std::size_t>(p_.slots) * 4); }

  Function count_, place_new_, place_, merge_;
  MergeListsParams p_{};
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return std::make_unique<AddRowsKernel>(n, context);
}

constexpr KernelChoice kChoices[] = {{"merge", supports, make, 0, true}};

}  // namespace add_rows_op

constexpr OpKernels kOps[] = {
    {"embedding", embedding_op::kChoices},
    {"embedding_grad", embedding_grad_op::kChoices},
    {"sum_rows", sum_rows_op::kChoices},
    {"add_rows", add_rows_op::kChoices},
};

}  // namespace

KernelTable embedding_kernels() { return kOps; }

}  // namespace lamina::cuda
