// group_rows: a counting sort. One thread: it moves 4 bytes an assignment.
#include <algorithm>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

// Calls fn(assignment, group), with group = `groups` where the assignment belongs to none.
// `taken` counts a group's assignments in the present element of the first dim.
template <typename Fn>
void for_each_assignment(const std::int32_t* ids, std::int64_t count, std::int64_t per_element,
                         std::int64_t groups, std::int64_t capacity, std::int32_t* taken, Fn fn) {
  for (std::int64_t a = 0; a < count; ++a) {
    if (capacity > 0 && a % per_element == 0) std::fill(taken, taken + groups, 0);
    std::int64_t group = ids[a];
    if (group < 0 || group >= groups || (capacity > 0 && taken[group]++ >= capacity))
      group = groups;
    fn(a, group);
  }
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& ids_type = n.type(0);
  const std::int64_t count = ids_type.num_elements(), groups = n.i("groups");
  const std::int64_t capacity = n.i("capacity");
  const std::int64_t per_element =
      std::max<std::int64_t>(1, product(ids_type.shape, 1, ids_type.ndim()));
  return make_kernel(
      [=](const KernelArgs& args) {
        const auto* ids = static_cast<const std::int32_t*>(args.inputs[0]);
        auto* order = static_cast<std::int32_t*>(args.outputs[0]);
        auto* offsets = static_cast<std::int32_t*>(args.outputs[1]);
        auto* next = reinterpret_cast<std::int32_t*>(args.workspace);
        std::int32_t* taken = next + groups + 1;
        std::fill(next, next + groups + 1, 0);
        for_each_assignment(ids, count, per_element, groups, capacity, taken,
                            [&](std::int64_t, std::int64_t group) { ++next[group]; });
        std::int32_t sum = 0;
        for (std::int64_t g = 0; g <= groups; ++g) {
          const std::int32_t size = next[g];
          next[g] = offsets[g] = sum;
          sum += size;
        }
        for_each_assignment(ids, count, per_element, groups, capacity, taken,
                            [&](std::int64_t a, std::int64_t group) {
                              order[next[group]++] = static_cast<std::int32_t>(a);
                            });
      },
      static_cast<std::size_t>(2 * groups + 1) * sizeof(std::int32_t));
}

constexpr KernelChoice kChoices[] = {
    {.name = "counting sort", .supports = always, .make = make, .writes_all = true}};

}  // namespace

std::span<const KernelChoice> group_rows_kernels() { return kChoices; }

}  // namespace lamina::cpu
