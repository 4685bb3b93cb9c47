// sum_rows: ids sorted, each sum made by one thread in the order of the ids.
#include "backends/cpu/embedding/row_lists.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

template <typename T>
void add_row(void* sum, const void* row, std::int64_t width) {
  using Sum = typename Number<T>::Wide;
  for (std::int64_t i = 0; i < width; ++i)
    static_cast<Sum*>(sum)[i] += Number<T>::load(static_cast<const T*>(row)[i]);
}

std::unique_ptr<Kernel> make_with(const NodeView& n, AddRow add) {
  const RowSums sums{.ids = nullptr,
                     .num_ids = n.type(0).num_elements(),
                     .num_rows = n.i("rows"),
                     .width = n.type(1).dim(-1),
                     .dy = nullptr,
                     .dy_dtype = n.type(1).dtype,
                     .slots = n.out_type().dim(0),
                     .sum_ids = nullptr,
                     .sums = nullptr,
                     .workspace = nullptr,
                     .add = add};
  return make_kernel(
      [sums](const KernelArgs& args) {
        RowSums p = sums;
        p.ids = static_cast<const std::int32_t*>(args.inputs[0]);
        p.dy = args.inputs[1];
        p.sum_ids = static_cast<std::int32_t*>(args.outputs[0]);
        p.sums = args.outputs[1];
        p.workspace = args.workspace;
        sum_rows_by_id(p);
      },
      row_sums_workspace_bytes(sums.num_ids));
}

std::unique_ptr<Kernel> make_fast(const NodeView& n) { return make_with(n, nullptr); }

std::unique_ptr<Kernel> make_reference(const NodeView& n) {
  return make_with(n, with_floating(n.type(1).dtype,
                                    [](auto type) -> AddRow { return add_row<decltype(type)>; }));
}

constexpr KernelChoice kChoices[] = {
    {"rows", only_f32_and_bf16, make_fast, 0, true},
    {"reference", always, make_reference, 0, true},
};

}  // namespace

std::span<const KernelChoice> sum_rows_kernels() { return kChoices; }

}  // namespace lamina::cpu
