// Rows by id: copies are exact, gradients are sums in token order.
#include "backends/cpu/embedding/embedding.h"

#include <cstring>

#include "vector_support.h"

namespace lamina::cpu {
namespace {

const std::vector<std::int32_t> kIds = {3, 0, 9, 3, 3, 7, 0, 300, 3, 299};
constexpr std::int64_t kRows = 301;

template <typename T>
DType dtype_of() {
  return std::is_same_v<T, bfloat16> ? DType::bf16 : DType::f32;
}

template <typename From, typename To>
void expect_gather(std::int64_t width, float scale) {
  const auto table = as<From>(normal_floats(static_cast<std::size_t>(kRows * width), 1));
  std::vector<To> y(kIds.size() * static_cast<std::size_t>(width));
  embedding_gather({.ids = kIds.data(),
                    .num_ids = 10,
                    .width = width,
                    .table = table.data(),
                    .table_dtype = dtype_of<From>(),
                    .y = y.data(),
                    .y_dtype = dtype_of<To>(),
                    .scale = scale});
  for (std::size_t k = 0; k < kIds.size(); ++k)
    for (std::int64_t i = 0; i < width; ++i) {
      const From x = table[static_cast<std::size_t>(kIds[k] * width + i)];
      const float product = static_cast<float>(number(x)) * scale;
      EXPECT_EQ(number(y[k * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)]),
                number(as<To>(static_cast<double>(product))));
    }
}

TEST(Embedding, GathersScaledRowsInAllDtypes) {
  for_each_isa([] {
    for (std::int64_t width : {1, 15, 16, 33}) {
      expect_gather<float, float>(width, 1);
      expect_gather<float, bfloat16>(width, 1.5f);
      expect_gather<bfloat16, float>(width, 3);
      expect_gather<bfloat16, bfloat16>(width, 1);
      expect_gather<bfloat16, bfloat16>(width, 45.25f);
    }
  });
}

TEST(Embedding, TakesWideIds) {
  const std::vector<std::int64_t> ids = {2, 1};
  const std::vector<float> table = {0, 1, 10, 11, 20, 21};
  std::vector<float> y(4);
  embedding_gather({.ids = ids.data(),
                    .id_dtype = DType::i64,
                    .num_ids = 2,
                    .width = 2,
                    .table = table.data(),
                    .table_dtype = DType::f32,
                    .y = y.data(),
                    .y_dtype = DType::f32});
  EXPECT_EQ(y, (std::vector<float>{20, 21, 10, 11}));
}

template <typename T>
std::vector<float> scatter(const std::vector<std::int32_t>& ids, const std::vector<T>& dy,
                           std::int64_t width, float scale) {
  std::vector<float> table = normal_floats(static_cast<std::size_t>(kRows * width), 2);
  const auto n = static_cast<std::int64_t>(ids.size());
  std::vector<std::byte> workspace(embedding_workspace_bytes(n));
  embedding_scatter_add({.ids = ids.data(),
                         .num_ids = n,
                         .width = width,
                         .dy = dy.data(),
                         .dy_dtype = dtype_of<T>(),
                         .dtable = table.data(),
                         .scale = scale,
                         .workspace = workspace.data()});
  return table;
}

template <typename T>
void expect_scatter_in_token_order(std::int64_t width) {
  const auto dy = as<T>(normal_floats(kIds.size() * static_cast<std::size_t>(width), 3));
  std::vector<float> want = normal_floats(static_cast<std::size_t>(kRows * width), 2);
  for (std::size_t k = 0; k < kIds.size(); ++k)
    for (std::int64_t i = 0; i < width; ++i)
      want[static_cast<std::size_t>(kIds[k] * width + i)] += static_cast<float>(
          number(dy[k * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)]));
  // A scale of 1 makes fused and separate roundings the same.
  EXPECT_EQ(scatter(kIds, dy, width, 1), want);
}

TEST(Embedding, GradientAddsRowsInTokenOrder) {
  for_each_isa([] {
    for (std::int64_t width : {1, 17, 40}) {
      expect_scatter_in_token_order<float>(width);
      expect_scatter_in_token_order<bfloat16>(width);
    }
  });
}

TEST(Embedding, GradientScales) {
  const std::vector<float> dy(kIds.size(), 1.0f), none(kIds.size(), 0.0f);
  const auto base = scatter(kIds, none, 1, 1), scaled = scatter(kIds, dy, 1, 0.5f);
  EXPECT_FLOAT_EQ(scaled[3] - base[3], 2.0f);  // id 3 occurs four times
}

TEST(Embedding, GradientHasSameBitsForAnyNumberOfThreads) {
  std::mt19937 engine(4);
  std::vector<std::int32_t> ids(3000);
  for (auto& id : ids) id = static_cast<std::int32_t>(engine() % 50 * (engine() % 7));
  const std::vector<float> dy = normal_floats(3000 * 20, 5);
  expect_same_for_any_threads([&] { return scatter(ids, dy, 20, 0.3f); });
}

TEST(Embedding, OneIdForAllTokens) {
  const std::vector<std::int32_t> ids(1000, 5);
  const std::vector<float> dy(1000 * 16, 1.0f);
  const auto base = normal_floats(static_cast<std::size_t>(kRows * 16), 2);
  expect_same_for_any_threads([&] { return scatter(ids, dy, 16, 1); });
  EXPECT_NEAR(scatter(ids, dy, 16, 1)[80], base[80] + 1000, 1e-3);
}

TEST(Embedding, NoTokensChangeNothing) {
  EXPECT_EQ(scatter(std::vector<std::int32_t>{}, std::vector<float>{}, 8, 1),
            normal_floats(static_cast<std::size_t>(kRows * 8), 2));
}

TEST(Embedding, FindsTheFirstBadId) {
  const std::vector<std::int32_t> ids = {0, 4, 5, -1};
  EXPECT_EQ(first_bad_id(ids.data(), DType::i32, 4, 6), 3);
  EXPECT_EQ(first_bad_id(ids.data(), DType::i32, 4, 5), 2);
  EXPECT_EQ(first_bad_id(ids.data(), DType::i32, 2, 5), -1);
}

}  // namespace
}  // namespace lamina::cpu
