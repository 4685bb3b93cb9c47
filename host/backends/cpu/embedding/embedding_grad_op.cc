// embedding_grad: ids sorted, each row summed by one thread in the order of the ids; or each thread
// owns some columns and walks over all ids. Either way a row's sum has one order whatever the
// number of threads. Ids outside of the table are left out.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/embedding/embedding.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

template <typename T, typename Sum>
void add_columns(const std::int32_t* ids, const T* dy, Sum* sums, std::int64_t tokens,
                 std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (ids[t] < 0 || ids[t] >= rows) continue;
    Sum* sum = sums + ids[t] * width;
    for (std::int64_t i = begin; i < end; ++i) sum[i] += Number<T>::load(dy[t * width + i]);
  }
}

void start_sums(const KernelArgs& args, bool has_acc, std::int64_t bytes) {
  if (has_acc)
    parallel_copy(args.outputs[0], args.inputs[2], bytes);  // nothing when in place
  else
    parallel_zero(args.outputs[0], bytes);
}

std::unique_ptr<Kernel> make_columns(const NodeView& n) {
  const Type& out = n.out_type();
  const std::int64_t tokens = n.type(0).num_elements(), rows = out.dim(0), width = out.dim(1);
  const DType dtype = n.type(1).dtype;
  const bool has_acc = n.has(2);
  return make_kernel([=, bytes = out.bytes()](const KernelArgs& args) {
    start_sums(args, has_acc, bytes);
    with_floating(dtype, [&](auto type) {
      using T = decltype(type);
      using Sum = typename Number<T>::Wide;
      parallel_ranges(width, 64, [&](std::int64_t begin, std::int64_t end) {
        add_columns(static_cast<const std::int32_t*>(args.inputs[0]),
                    static_cast<const T*>(args.inputs[1]), static_cast<Sum*>(args.outputs[0]),
                    tokens, rows, width, begin, end);
      });
    });
  });
}

std::unique_ptr<Kernel> make_rows(const NodeView& n) {
  const Type& out = n.out_type();
  EmbeddingScatterAdd p{.ids = nullptr,
                        .num_ids = n.type(0).num_elements(),
                        .width = out.dim(1),
                        .dy = nullptr,
                        .dy_dtype = n.type(1).dtype,
                        .dtable = nullptr,
                        .workspace = nullptr};
  std::shared_ptr<Kernel> columns = make_columns(n);
  return make_kernel(
      [=, rows = out.dim(0), bytes = out.bytes(),
       has_acc = n.has(2)](const KernelArgs& args) mutable {
        if (first_bad_id(args.inputs[0], DType::i32, p.num_ids, rows) >= 0)
          return columns->run(args);
        start_sums(args, has_acc, bytes);
        p.ids = args.inputs[0];
        p.dy = args.inputs[1];
        p.dtable = static_cast<float*>(args.outputs[0]);
        p.workspace = args.workspace;
        embedding_scatter_add(p);
      },
      embedding_workspace_bytes(p.num_ids));
}

Verdict supports_columns(const NodeView& n) {
  if (!is_floating(n.type(1).dtype))
    return Verdict::no("dy must be floating, got " + to_string(n.type(1)));
  return Verdict::yes();
}

constexpr KernelChoice kChoices[] = {
    {"rows", only_f32_and_bf16, make_rows, in_place_of(2)},
    {"reference", supports_columns, make_columns, in_place_of(2)},
};

}  // namespace

std::span<const KernelChoice> embedding_grad_kernels() { return kChoices; }

}  // namespace lamina::cpu
