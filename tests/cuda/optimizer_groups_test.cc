// One call updates, or measures, many tensors: the bits of one tensor at a time, and few launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "backends/cuda/chunks.h"
#include "backends/cuda/optimizer/params.h"
#include "cuda/grouped_work.h"

namespace lamina::testing {
namespace {

// ---- updates

struct UpdateOptions {
  std::int64_t rows = 1, width = 1;
  std::vector<double> ids = {};  // of the rows of the gradient; empty: it is whole
  double weight_decay = 0, beta2 = 0.95;
  bool copy = false, lazy = false, in_place = true, may_change = true;
  std::size_t shift = 0;
};

class Updates {
 public:
  explicit Updates(unsigned seed) : random_(seed) {}

  bool flip() { return below(2) == 1; }
  std::int64_t below(std::int64_t count) {
    return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_);
  }

  Work whole(const UpdateOptions& o) {
    const Type type{DType::f32, {o.rows * o.width}, {}};
    Work work{.inputs = {numbers(type), numbers(type), numbers(type), squares(type), scalars(o)},
              .shift = o.shift};
    work.add = [o](const std::vector<Tensor>& in) {
      const auto made =
          ops::adamw({.p = in[0], .g = in[1], .m = in[2], .v = in[3], .scalars = in[4]},
                     {.beta1 = 0.9,
                      .beta2 = o.beta2,
                      .eps = 1e-8,
                      .weight_decay = o.weight_decay,
                      .copy = o.copy});
      std::vector<std::pair<Tensor, int>> out{{made.p_out, 0}, {made.m_out, 2}, {made.v_out, 3}};
      if (o.copy) out.emplace_back(made.copy, -1);
      return placed(std::move(out), o);
    };
    return work;
  }

  Work table(const UpdateOptions& o) {
    const Type type{DType::f32, {o.rows, o.width}, {}};
    const std::int64_t slots = std::ssize(o.ids);
    Work work{.inputs = {numbers(type), array({DType::i32, {slots}, {}}, o.ids),
                         numbers({DType::f32, {slots, o.width}, {}}), numbers(type), squares(type),
                         scalars(o)},
              .shift = o.shift};
    if (o.copy) work.inputs.push_back(numbers(type.with(DType::bf16)));
    work.add = [o](const std::vector<Tensor>& in) {
      const auto made = ops::adamw_rows({.p = in[0],
                                         .ids = in[1],
                                         .g = in[2],
                                         .m = in[3],
                                         .v = in[4],
                                         .scalars = in[5],
                                         .copy = o.copy ? in[6] : Tensor{}},
                                        {.beta1 = 0.9,
                                         .beta2 = o.beta2,
                                         .eps = 1e-8,
                                         .weight_decay = o.weight_decay,
                                         .lazy = o.lazy});
      std::vector<std::pair<Tensor, int>> out{{made.p_out, 0}, {made.m_out, 3}, {made.v_out, 4}};
      if (o.copy) out.emplace_back(made.copy_out, 6);
      return placed(std::move(out), o);
    };
    return work;
  }

  Array numbers(const Type& type) { return random_array(type, random_); }

 private:
  static std::vector<std::pair<Tensor, int>> placed(std::vector<std::pair<Tensor, int>> results,
                                                    const UpdateOptions& o) {
    if (!o.in_place)
      for (auto& [result, over] : results) over = -1;
    return results;
  }
  Array squares(const Type& type) { return random_array(type, random_, 0, 1); }
  Array scalars(const UpdateOptions& o) {
    const double rate = 1e-3 * static_cast<double>(1 + below(50));
    return array({DType::f32, {5}, {}}, {rate, 0.5, 0.271, 0.142625, o.may_change ? 1.0 : 0.0});
  }

  std::mt19937 random_;
};

TEST(OptimizerGroups, UpdatesHaveTheBitsOfOneTensorAtATime) {
  for (const unsigned seed : {1, 2, 3}) {
    Updates updates(seed);
    std::vector<Work> all;
    const std::int64_t count = 1 + updates.below(seed == 1 ? 100 : 30);
    for (std::int64_t i = 0; i < count; ++i) {
      constexpr std::int64_t kSizes[] = {0, 1, 3, 4, 64, 1023, 1024, 1025, 2500, 4096};
      all.push_back(updates.whole({.rows = kSizes[updates.below(std::size(kSizes))],
                                   .weight_decay = 0.1 * static_cast<double>(updates.below(3)),
                                   .copy = updates.flip(),
                                   .in_place = updates.flip(),
                                   .may_change = updates.below(5) > 0,
                                   .shift = updates.below(4) == 0 ? 4u : 0u}));
    }
    expect_bits_of_one_at_a_time(all);
  }
}

// A launch has up to 8192 blocks.
TEST(OptimizerGroups, BlocksTakeSeveralChunksOfALargeTable) {
  cuda::TensorTable<cuda::AdamWTensor> table = {};
  table.num_chunks = 8192;
  EXPECT_EQ(cuda::share_chunks(table), 8192);
  EXPECT_EQ(table.chunks_per_block, 1);
  table.num_chunks = 8193;
  EXPECT_EQ(cuda::share_chunks(table), 4097);
  EXPECT_EQ(table.chunks_per_block, 2);
}

TEST(OptimizerGroups, UpdatesHaveTheSameBitsForAnyChunksPerBlock) {
  Updates updates(4);
  std::vector<Work> all;
  for (const std::int64_t count : {5000, 1, 1024, 3001, 1028, 9})
    all.push_back(updates.whole({.rows = count}));
  const std::vector<Bytes> want = run_together(all);
  for (const std::int32_t chunks : {1, 2, 3, 100}) {
    std::vector<GpuMemory> memory;
    cuda::AdamWParams p = {.constants = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}, .table = {}};
    for (const Work& work : all) {
      for (const Array& input : work.inputs) memory.emplace_back(input);
      const auto at = [&](std::size_t i) {
        return cuda::gpu::Address{memory[memory.size() - 5 + i].address()};
      };
      const std::int64_t count = work.inputs[0].type.num_elements();
      cuda::add_tensor(p.table,
                       cuda::AdamWTensor{.p = at(0),
                                         .g = at(1),
                                         .m = at(2),
                                         .v = at(3),
                                         .p_out = at(0),
                                         .m_out = at(2),
                                         .v_out = at(3),
                                         .copy = {},
                                         .scalars = at(4),
                                         .weight_decay = 0,
                                         .count = count,
                                         .by_vectors = count % 4 == 0},
                       divide_up(count, std::int64_t{cuda::kUpdateChunk}));
    }
    p.table.chunks_per_block = chunks;
    const KernelArgs args = {.inputs = {}, .outputs = {}, .queue = &gpu_queue()};
    cuda::launch(args, cuda::function(gpu_context(), "adamw"),
                 {.blocks = divide_up(std::int64_t{p.table.num_chunks}, std::int64_t{chunks}),
                  .threads = cuda::kOptimizerThreads},
                 p);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(memory[5 * i].bytes(), want[3 * i]);
      EXPECT_EQ(memory[5 * i + 2].bytes(), want[3 * i + 1]);
      EXPECT_EQ(memory[5 * i + 3].bytes(), want[3 * i + 2]);
    }
  }
}

TEST(OptimizerGroups, UpdatesOfTablesHaveTheBitsOfOneAtATime) {
  Updates updates(5);
  std::vector<Work> all;
  for (int i = 0; i < 40; ++i) {
    constexpr std::int64_t kWidths[] = {1, 3, 4, 33, 64, 1100};
    UpdateOptions o{.rows = updates.below(30),
                    .width = kWidths[updates.below(std::size(kWidths))],
                    .weight_decay = 0.1 * static_cast<double>(updates.below(3)),
                    .copy = updates.flip(),
                    .lazy = updates.flip(),
                    .in_place = updates.flip(),
                    .may_change = updates.below(5) > 0,
                    .shift = updates.below(4) == 0 ? 4u : 0u};
    for (std::int64_t row = 0; row < o.rows; ++row)
      if (updates.flip()) o.ids.push_back(static_cast<double>(row));
    o.ids.push_back(static_cast<double>(o.rows));  // no row
    all.push_back(updates.table(o));
  }
  expect_bits_of_one_at_a_time(all);
}

// ---- sums of squares

Work sum_of(const Array& x, std::size_t shift) {
  return {.inputs = {x}, .shift = shift, .add = [](const std::vector<Tensor>& in) {
            return std::vector<std::pair<Tensor, int>>{{ops::sum_of_squares(in[0]), -1}};
          }};
}

TEST(OptimizerGroups, SumsHaveTheBitsOfOneTensorAtATime) {
  Updates updates(6);
  std::vector<Work> all;
  for (int i = 0; i < 100; ++i) {
    constexpr std::int64_t kSizes[] = {0, 1, 5, 256, 3000, 16384, 16385, 40000};
    const std::int64_t size = kSizes[i < 40 ? updates.below(5) : updates.below(std::size(kSizes))];
    all.push_back(sum_of(updates.numbers({DType::f32, {size}, {}}), i % 7 == 0 ? 4 : 0));
  }
  expect_bits_of_one_at_a_time(all);
}

// ---- searches

// The search in x; without squares it looks at no element. `bad`: the element that is infinite.
Work search_in(Array x, std::int64_t bad) {
  const bool is_bad = bad >= 0;
  if (is_bad) {
    const float infinity = std::numeric_limits<float>::infinity();
    std::memcpy(x.bytes.data() + bad * 4, &infinity, 4);
  }
  const Array squares =
      array({DType::f64, {}, {}}, {is_bad ? std::numeric_limits<double>::infinity() : 1.0});
  return {.inputs = {std::move(x), squares}, .add = [](const std::vector<Tensor>& in) {
            return std::vector<std::pair<Tensor, int>>{{ops::first_non_finite(in[0], in[1]), -1}};
          }};
}

TEST(OptimizerGroups, SearchesHaveTheBitsOfOneTensorAtATime) {
  Updates updates(11);
  std::vector<Work> all;
  for (std::int64_t i = 0; i < 90; ++i) {
    const std::int64_t size = i % 9 == 0 ? 40000 : 1 + updates.below(300);
    all.push_back(search_in(updates.numbers({DType::f32, {size}, {}}),
                            updates.flip() ? updates.below(size) : -1));
  }
  expect_bits_of_one_at_a_time(all);
  EXPECT_EQ(launches_of(all), 2);
}

// ---- launches

TEST(OptimizerGroups, ALaunchUpdatesUpTo40TensorsAnd27Tables) {
  Updates updates(7);
  std::vector<Work> tensors, tables, sums;
  for (int i = 0; i < 100; ++i) {
    tensors.push_back(updates.whole({.rows = 1 + i, .weight_decay = 0.1 * (i % 2)}));
    tables.push_back(updates.table({.rows = 3, .width = 1 + i, .ids = {1}}));
    sums.push_back(sum_of(updates.numbers({DType::f32, {i}, {}}), 0));
  }
  EXPECT_EQ(launches_of({tensors.data(), 1}), 1);
  EXPECT_EQ(launches_of({tensors.data(), 40}), 1);
  EXPECT_EQ(launches_of({tensors.data(), 41}), 2);
  EXPECT_EQ(launches_of(tensors), 3);
  EXPECT_EQ(launches_of({tables.data(), 27}), 1);
  EXPECT_EQ(launches_of({tables.data(), 28}), 2);
  EXPECT_EQ(launches_of({sums.data(), 91}), 2);
  EXPECT_EQ(launches_of({sums.data(), 92}), 4);
}

TEST(OptimizerGroups, OtherConstantsAreAnotherCall) {
  Updates updates(8);
  std::vector<Work> all;
  for (const double beta2 : {0.95, 0.95, 0.99, 0.99, 0.95})
    all.push_back(updates.whole({.rows = 9, .beta2 = beta2}));
  EXPECT_EQ(launches_of(all), 3);
  expect_bits_of_one_at_a_time(all);
}

// p is updated twice, and the second update needs the first one.
TEST(OptimizerGroups, AnUpdateOfAResultIsAnotherCall) {
  Updates updates(9);
  Work twice = updates.whole({.rows = 1030});
  const auto once = twice.add;
  twice.add = [once](const std::vector<Tensor>& in) {
    const auto first = once(in);
    return once({first[0].first, in[1], first[1].first, first[2].first, in[4]});
  };
  EXPECT_EQ(launches_of({&twice, 1}), 2);
  Work first = twice;
  first.add = once;
  std::vector<Bytes> between = run_together({&first, 1});
  for (const std::size_t i : {0, 2, 3}) first.inputs[i].bytes = between[i == 0 ? 0 : i - 1];
  EXPECT_EQ(run_together({&twice, 1}), run_together({&first, 1}));
}

TEST(OptimizerGroups, ArePartOfTheDescriptionAndTheProfile) {
  Updates updates(10);
  std::vector<Work> all;
  for (int i = 0; i < 50; ++i) all.push_back(updates.whole({.rows = 8 + i}));
  for (const auto& [count, kernel] : {std::pair{1, "elements "},
                                      {3, "elements of 3 tensors "},
                                      {50, "elements of 50 tensors, 40 per launch "}}) {
    const std::span<const Work> some(all.data(), static_cast<std::size_t>(count));
    Program program(graph_of(some), emulated_gpu());
    EXPECT_THAT(program.describe(),
                ::testing::StartsWith(fmt::format("{:<18} {}", "adamw", kernel)));
    std::vector<Array> inputs;
    for (const Work& work : some)
      inputs.insert(inputs.end(), work.inputs.begin(), work.inputs.end());
    program.set_profiling(true);
    run(program, emulated_gpu(), inputs);
    EXPECT_THAT(program.profile(),
                ::testing::HasSubstr(fmt::format("1 calls  {:<18} {}", "adamw", kernel)));
  }
}

}  // namespace
}  // namespace lamina::testing
