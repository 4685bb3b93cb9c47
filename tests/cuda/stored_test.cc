// Values of weights that are stored in blocks, on the emulated GPU.
#include <algorithm>
#include <cmath>

#include "backends/cuda/stored/widen.h"
#include "cuda/gpu_memory.h"
#include "cuda/stored_values.h"
#include "ops/registry.h"

namespace lamina::testing {
namespace {

using formats::BlockFormat;

TEST(WidenStoredOfTheGpu, HasTheBitsOfTheDefinition) {
  for_all_formats([](const BlockFormat& format, DType dtype) {
    const Type type{dtype, {3 * format.num_values}, {}};
    // Values that are subnormal, and values that are infinite.
    for (const float scale : {0x1p-6f, 0x1p-22f, 0x1p-126f, 0x1p+13f, 0x1p+122f}) {
      if (std::abs(std::ilogb(scale)) > 22 && !has_wide_scale(format)) continue;
      Bytes blocks = random_blocks(format, type.num_elements(), 1, scale);
      remove_nans(format, blocks);
      const GpuMemory x(blocks), y(static_cast<std::size_t>(type.bytes()));
      cuda::Widener(gpu_context(), format, dtype)
          .run({.inputs = {}, .outputs = {}, .queue = &gpu_queue()}, x.pointer(),
               type.num_elements(), y.pointer());
      const Array got = y.array(type), want = widened(format, blocks, type);
      for (std::int64_t i = 0; i < type.num_elements(); ++i)
        EXPECT_TRUE(get(got, i) == get(want, i) ||
                    (std::isnan(get(got, i)) && std::isnan(get(want, i))))
            << "value " << i << ", scale " << scale << ": " << get(got, i) << ", expected "
            << get(want, i);
    }
  });
}

TEST(WidenStoredOfTheGpu, NoNumberStaysNone) {
  const BlockFormat& format = *formats::fp8_format(32);
  Bytes block = random_blocks(format, 32, 3, 1);
  block[4] = std::byte{0x7f}, block[5] = std::byte{0xff};
  const GpuMemory x(block), y(32 * sizeof(float));
  cuda::Widener(gpu_context(), format, DType::f32)
      .run({.inputs = {}, .outputs = {}, .queue = &gpu_queue()}, x.pointer(), 32, y.pointer());
  const Array got = y.array({DType::f32, {32}, {}});
  EXPECT_TRUE(std::isnan(get(got, 0)) && std::isnan(get(got, 1)) && !std::isnan(get(got, 2)));
}

// Rows of a table by id, by the first kernel that takes the table.
Bytes looked_up(const Type& table, const Bytes& values, const std::vector<std::int32_t>& ids) {
  Graph g;
  const Type ids_type{DType::i32, {static_cast<std::int64_t>(ids.size())}, {}};
  g.add_node(ops::get("embedding"),
             std::vector<Tensor>{g.add_input("table", table), g.add_input("ids", ids_type)}, {});
  Bytes out;
  with_node_view(g, g.nodes().back(), [&](const NodeView& view) {
    const auto choices = test_gpu().kernels(view.op());
    const auto choice = std::ranges::find_if(
        choices, [&](const KernelChoice& c) { return static_cast<bool>(c.supports(view)); });
    ASSERT_NE(choice, choices.end());
    const std::unique_ptr<Kernel> kernel = choice->make(view, gpu_context());
    const GpuMemory rows(values), list(ids), y(static_cast<std::size_t>(view.out_type().bytes()));
    const void* inputs[] = {rows.pointer(), list.pointer()};
    void* outputs[] = {y.pointer()};
    gpu_queue().enqueue(*kernel, {inputs, outputs});
    out = y.bytes();
  });
  return out;
}

TEST(EmbeddingOfTheGpu, RowsOfStoredTablesHaveTheBitsOfWidenedOnes) {
  for_all_formats([&](const BlockFormat& format, DType dtype) {
    const Type plain{dtype, {5, 512}, {}};
    Bytes blocks = random_blocks(format, plain.num_elements(), 9, 0x1p-6f);
    remove_nans(format, blocks);
    const std::vector<std::int32_t> ids = {3, 0, -1, 4, 5, 3};
    EXPECT_EQ(looked_up(plain.stored_as(&format), blocks, ids),
              looked_up(plain, widened(format, blocks, plain).bytes, ids));
  });
}

}  // namespace
}  // namespace lamina::testing
