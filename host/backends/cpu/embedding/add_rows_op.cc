// add_rows: the second list merged into the memory of the first.
#include "backends/cpu/embedding/row_lists.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const std::int64_t slots = n.type(0).dim(0), more_slots = n.type(2).dim(0);
  return make_kernel(
      [=, num_rows = n.i("rows"), width = n.type(1).dim(1), dtype = n.type(1).dtype,
       ids_bytes = n.type(0).bytes(), bytes = n.type(1).bytes()](const KernelArgs& args) {
        parallel_copy(args.outputs[0], args.inputs[0], ids_bytes);  // nothing when in place
        parallel_copy(args.outputs[1], args.inputs[1], bytes);
        add_row_lists({.ids = static_cast<std::int32_t*>(args.outputs[0]),
                       .sums = args.outputs[1],
                       .slots = slots,
                       .more_ids = static_cast<const std::int32_t*>(args.inputs[2]),
                       .more = args.inputs[3],
                       .more_slots = more_slots,
                       .num_rows = num_rows,
                       .width = width,
                       .dtype = dtype,
                       .workspace = args.workspace});
      },
      row_lists_workspace_bytes(slots, more_slots));
}

constexpr KernelChoice kChoices[] = {
    {"merge", always, make, in_place_of(0) | in_place_of(1), true},
};

}  // namespace

std::span<const KernelChoice> add_rows_kernels() { return kChoices; }

}  // namespace lamina::cpu
