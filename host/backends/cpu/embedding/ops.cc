// The kernels of embedding, embedding_grad, sum_rows and add_rows.
#include <algorithm>
#include <cstring>

#include "backends/cpu/embedding/embedding.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMinElementsPerThread = 8192;

std::int64_t min_rows(std::int64_t width) {
  return std::max<std::int64_t>(1, kMinElementsPerThread / std::max<std::int64_t>(1, width));
}

bool is_bf16(DType dtype) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  return dtype == DType::bf16;
}

}  // namespace

std::int64_t first_bad_id(const std::int32_t* ids, std::int64_t num_ids, std::int64_t num_rows) {
  for (std::int64_t i = 0; i < num_ids; ++i)
    if (ids[i] < 0 || ids[i] >= num_rows) return i;
  return -1;
}

std::size_t embedding_workspace_bytes(std::int64_t num_ids) {
  return 2 * static_cast<std::size_t>(num_ids) * sizeof(RowOfId);
}

void embedding_scatter_add(const EmbeddingScatterAdd& p) {
  if (p.num_ids == 0) return;
  RowOfId* entries = static_cast<RowOfId*>(p.workspace);
  for (std::int64_t i = 0; i < p.num_ids; ++i) entries[i] = {p.ids[i], i};
  const RowOfId* sorted = sort_by_id(entries, entries + p.num_ids, p.num_ids);
  const EmbeddingAdd add = isa_table<EmbeddingFunctions>().add[is_bf16(p.dy_dtype)];
  const std::byte* dy = static_cast<const std::byte*>(p.dy);
  const std::int64_t row_bytes = p.width * size_bytes(p.dy_dtype);
  const auto starts_group = [&](std::int64_t i) {
    return i == 0 || sorted[i].id != sorted[i - 1].id;
  };
  // Each thread adds the groups of equal ids that begin in its range, to their ends.
  parallel_ranges(p.num_ids, min_rows(p.width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; ++first) {
      if (!starts_group(first)) continue;
      float* to = p.dtable + sorted[first].id * p.width;
      for (std::int64_t i = first; i == first || (i < p.num_ids && !starts_group(i)); ++i)
        add(to, dy + sorted[i].row * row_bytes, p.width);
    }
  });
}

namespace {

// Copies rows of the table, or widens them if it is stored in blocks; an id outside of the table
// gives zeros.
namespace embedding_op {

// Calls copy(id, to) for each token whose row exists.
template <typename Copy>
void look_up(const KernelArgs& args, std::int64_t tokens, std::int64_t vocabulary,
             std::int64_t row_bytes, const Copy& copy) {
  const auto* ids = static_cast<const std::int32_t*>(args.inputs[1]);
  if (row_bytes == 0) return;
  parallel_ranges(tokens, 1 + kMinCopyBytes / row_bytes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      std::byte* to = at_byte(args.outputs[0], t * row_bytes);
      const std::int64_t id = ids[t];
      if (id < 0 || id >= vocabulary)
        std::memset(to, 0, static_cast<std::size_t>(row_bytes));
      else
        copy(id, to);
    }
  });
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& table = n.type(0);
  const std::int64_t vocabulary = table.dim(0), tokens = n.type(1).num_elements();
  const std::int64_t row_bytes = table.dim(1) * size_bytes(table.dtype);
  return make_kernel([=](const KernelArgs& args) {
    look_up(args, tokens, vocabulary, row_bytes, [&](std::int64_t id, std::byte* to) {
      std::memcpy(to, at_byte(args.inputs[0], id * row_bytes), static_cast<std::size_t>(row_bytes));
    });
  });
}

Verdict supports_stored(const NodeView& n) {
  if (!n.type(0).storage) return Verdict::no("reads a table in blocks");
  return only_f32_and_bf16(n);
}

std::unique_ptr<Kernel> make_stored(const NodeView& n, Context&) {
  const Type& table = n.type(0);
  const std::int64_t vocabulary = table.dim(0), tokens = n.type(1).num_elements();
  return make_kernel(
      [=, rows = StoredRows(*table.storage, table.dim(1), table.dtype)](const KernelArgs& args) {
        look_up(args, tokens, vocabulary, rows.bytes_widened(1),
                [&](std::int64_t id, std::byte* to) { rows.widen(args.inputs[0], id, 1, to); });
      });
}

constexpr KernelChoice kChoices[] = {
    {"widen", supports_stored, make_stored},
    {"memcpy", reads_plain, make},
};

}  // namespace embedding_op

// Either sorts the ids, and one thread sums each row in the order of the ids; or each thread adds
// some columns for all ids. In both cases a row's sum has one order for any number of threads. Ids
// outside of the table are ignored.
namespace embedding_grad_op {

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
    parallel_copy(args.outputs[0], args.inputs[2], bytes);  // no copy when in place
  else
    parallel_zero(args.outputs[0], bytes);
}

std::unique_ptr<Kernel> make_columns(const NodeView& n, Context&) {
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

std::unique_ptr<Kernel> make_rows(const NodeView& n, Context& context) {
  const Type& out = n.out_type();
  EmbeddingScatterAdd p{.ids = nullptr,
                        .num_ids = n.type(0).num_elements(),
                        .width = out.dim(1),
                        .dy = nullptr,
                        .dy_dtype = n.type(1).dtype,
                        .dtable = nullptr,
                        .workspace = nullptr};
  std::shared_ptr<Kernel> columns = make_columns(n, context);
  return make_kernel(
      [=, rows = out.dim(0), bytes = out.bytes(),
       has_acc = n.has(2)](const KernelArgs& args) mutable {
        p.ids = static_cast<const std::int32_t*>(args.inputs[0]);
        if (first_bad_id(p.ids, p.num_ids, rows) >= 0) return columns->run(args);
        start_sums(args, has_acc, bytes);
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

}  // namespace embedding_grad_op

// Sorts the ids; one thread computes each sum, in the order of the ids.
namespace sum_rows_op {

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

std::unique_ptr<Kernel> make_fast(const NodeView& n, Context&) { return make_with(n, nullptr); }

std::unique_ptr<Kernel> make_reference(const NodeView& n, Context&) {
  return make_with(n, with_floating(n.type(1).dtype,
                                    [](auto type) -> AddRow { return add_row<decltype(type)>; }));
}

constexpr KernelChoice kChoices[] = {
    {"rows", only_f32_and_bf16, make_fast, 0, true},
    {"reference", always, make_reference, 0, true},
};

}  // namespace sum_rows_op

// Merges the second list into the memory of the first.
namespace add_rows_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const std::int64_t slots = n.type(0).dim(0), more_slots = n.type(2).dim(0);
  return make_kernel(
      [=, num_rows = n.i("rows"), width = n.type(1).dim(1), dtype = n.type(1).dtype,
       ids_bytes = n.type(0).bytes(), bytes = n.type(1).bytes()](const KernelArgs& args) {
        parallel_copy(args.outputs[0], args.inputs[0], ids_bytes);  // no copy when in place
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

}  // namespace add_rows_op

constexpr OpKernels kOps[] = {
    {"embedding", embedding_op::kChoices},
    {"embedding_grad", embedding_grad_op::kChoices},
    {"sum_rows", sum_rows_op::kChoices},
    {"add_rows", add_rows_op::kChoices},
};

}  // namespace

KernelTable embedding_kernels() { return kOps; }

}  // namespace lamina::cpu
