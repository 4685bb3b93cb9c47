// Both matrix units against Intel's definitions. Machines without AMX emulate its instructions.
#include "backends/cpu/gemm/matrix_unit.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/gemm/matrix_units.h"
#include "backends/cpu/threads/isa.h"
#include "core/float16.h"
#include "support/amx_arithmetic.h"
#include "support/amx_emulator.h"
#include "support/expect_error.h"

namespace lamina::cpu {
namespace {

using testing::AmxEmulator;
using testing::AmxTile;
using Bytes = std::vector<std::uint8_t>;

constexpr std::int64_t kStep = 80;  // bytes between rows in memory

struct Shape {
  std::uint8_t rows, depth_words, columns;  // c[rows, columns] += a[rows, depth] b[depth, columns]
};
constexpr Shape kShapes[] = {{16, 16, 16}, {16, 8, 16}, {5, 3, 7},
                             {1, 1, 1},    {16, 1, 2},  {1, 16, 16}};

TileShapes shapes_of(const Shape& s) {
  const auto bytes = [](int words) { return static_cast<std::uint8_t>(4 * words); };
  TileShapes out;
  out.rows = {s.rows, 0, 0, 0, s.rows, 0, s.depth_words, 0};
  out.row_bytes = {bytes(s.columns), 64, 64, 64, bytes(s.depth_words), 64, bytes(s.columns), 64};
  return out;
}

AmxTile tile_of(const Bytes& memory, const TileShapes& shapes, std::size_t tile) {
  AmxTile out;
  out.rows = shapes.rows[tile];
  out.row_bytes = shapes.row_bytes[tile];
  for (int r = 0; r < out.rows; ++r)
    std::memcpy(out.bytes[r], memory.data() + r * kStep, out.row_bytes);
  return out;
}

// Memory for one tile, with a pattern where the tile has no bytes.
Bytes tile_memory() { return Bytes(16 * kStep, 0xa5); }

// Rows of random bf16 or f32 numbers of about this size.
Bytes random_bf16(unsigned seed, float size) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  Bytes out = tile_memory();
  for (std::size_t i = 0; i + 2 <= out.size(); i += 2) {
    const bfloat16 x = to_bfloat16(normal(random));
    std::memcpy(out.data() + i, &x, 2);
  }
  return out;
}
Bytes random_f32(unsigned seed, float size) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  Bytes out = tile_memory();
  for (std::size_t i = 0; i + 4 <= out.size(); i += 4) {
    const float x = normal(random);
    std::memcpy(out.data() + i, &x, 4);
  }
  return out;
}
Bytes repeated(bfloat16 first, bfloat16 second) {
  Bytes out = tile_memory();
  for (std::size_t i = 0; i + 4 <= out.size(); i += 4) {
    std::memcpy(out.data() + i, &first, 2);
    std::memcpy(out.data() + i + 2, &second, 2);
  }
  return out;
}
Bytes with_words(float value) {
  Bytes out = tile_memory();
  for (std::size_t i = 0; i + 4 <= out.size(); i += 4) std::memcpy(out.data() + i, &value, 4);
  return out;
}

// Stores c after `multiply` of tiles 0, 4 and 6 into a copy of its memory.
template <class Unit, typename Multiply>
Bytes run(const TileShapes& shapes, const Bytes& a, const Bytes& b, const Bytes& c,
          const Multiply& multiply) {
  Bytes out = c;
  Unit::configure(shapes);
  Unit::template load<0>(c.data(), kStep);
  Unit::template load<4>(a.data(), kStep);
  Unit::template load<6>(b.data(), kStep);
  multiply();
  Unit::template store<0>(out.data(), kStep);
  Unit::release();
  return out;
}

template <class Unit>
Bytes multiply_bf16(const TileShapes& shapes, const Bytes& a, const Bytes& b, const Bytes& c) {
  return run<Unit>(shapes, a, b, c, [] { Unit::template multiply_bf16<0, 4, 6>(); });
}

// The bytes of c by the definition; `multiply` is one of amx_arithmetic.h.
template <typename Multiply>
Bytes by_definition(const TileShapes& shapes, const Bytes& a, const Bytes& b, Bytes c,
                    const Multiply& multiply) {
  AmxTile sums = tile_of(c, shapes, 0);
  multiply(sums, tile_of(a, shapes, 4), tile_of(b, shapes, 6));
  for (int r = 0; r < sums.rows; ++r)
    std::memcpy(c.data() + r * kStep, sums.bytes[r], sums.row_bytes);
  return c;
}

float first_sum(const Bytes& c) {
  float sum;
  std::memcpy(&sum, c.data(), sizeof sum);
  return sum;
}

template <class Unit>
class MatrixUnits : public ::testing::Test {
  AmxEmulator amx_;
};
#if defined(__x86_64__)
using Units = ::testing::Types<PlainTiles, AmxTiles>;
#else
using Units = ::testing::Types<PlainTiles>;
#endif
TYPED_TEST_SUITE(MatrixUnits, Units);

TYPED_TEST(MatrixUnits, MultiplyPairsByTheDefinition) {
  // The last sizes make products and sums that are too small to be normal.
  for (const Shape& shape : kShapes)
    for (const float size : {1.0f, 1e18f, 1e-18f, 1e-19f, 3e-20f, 1e-38f}) {
      const TileShapes shapes = shapes_of(shape);
      const Bytes a = random_bf16(1, size), b = random_bf16(2, size);
      const Bytes c = random_f32(3, size * size);
      EXPECT_EQ(multiply_bf16<TypeParam>(shapes, a, b, c),
                by_definition(shapes, a, b, c, testing::amx_multiply_bf16))
          << int{shape.rows} << " x " << int{shape.depth_words} << " x " << int{shape.columns}
          << ", " << size;
    }
}

TYPED_TEST(MatrixUnits, TakeSubnormalOperandsForZero) {
  const bfloat16 tiny = to_bfloat16(0x1p-127f), large = to_bfloat16(0x1p100f);
  EXPECT_EQ(first_sum(multiply_bf16<TypeParam>(shapes_of({16, 16, 16}), repeated(tiny, tiny),
                                               repeated(large, large), with_words(0x1p-130f))),
            0.0f);
}

// 2^-126 - 2^-150 has 24 bits, and is below 2^-126; 2^-126 - 2^-151 rounds to 2^-126.
TYPED_TEST(MatrixUnits, RoundBeforeTheyDecideThatASumIsTooSmall) {
  const TileShapes shapes = shapes_of({1, 2, 1});
  const auto sum = [&](float subtracted) {
    Bytes a = tile_memory(), b = tile_memory();
    const bfloat16 zero = to_bfloat16(0), root = to_bfloat16(0x1p-63f);
    const bfloat16 pairs_a[] = {root, zero, to_bfloat16(-0x1p-75f), zero};
    const bfloat16 first_b[] = {root, zero}, second_b[] = {to_bfloat16(subtracted), zero};
    std::memcpy(a.data(), pairs_a, sizeof pairs_a);
    std::memcpy(b.data(), first_b, sizeof first_b);
    std::memcpy(b.data() + kStep, second_b, sizeof second_b);
    return first_sum(multiply_bf16<TypeParam>(shapes, a, b, with_words(0)));
  };
  EXPECT_EQ(sum(0x1p-75f), 0.0f);
  EXPECT_EQ(sum(0x1p-76f), 0x1p-126f);
}

TYPED_TEST(MatrixUnits, KeepInfinitiesAndNaN) {
  const bfloat16 one = to_bfloat16(1);
  const bfloat16 infinity = to_bfloat16(std::numeric_limits<float>::infinity());
  const auto sum = [&](bfloat16 x, bfloat16 y) {
    return first_sum(multiply_bf16<TypeParam>(shapes_of({1, 1, 1}), repeated(x, y),
                                              repeated(one, one), with_words(1)));
  };
  EXPECT_EQ(sum(infinity, one), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(sum(infinity, to_bfloat16(-std::numeric_limits<float>::infinity()))));
}

TYPED_TEST(MatrixUnits, LeaveTheSettingsOfTheThread) {
  volatile float small = 0x1p-126f;
  multiply_bf16<TypeParam>(shapes_of({16, 16, 16}), random_bf16(1, 1), random_bf16(2, 1),
                           random_f32(3, 1));
  EXPECT_GT(small / 4, 0);
}

template <class Unit, Signs signs>
void expect_exact_int8(bool signed_a, bool signed_b) {
  std::mt19937 random(5);
  Bytes a = tile_memory(), b = tile_memory(), c = tile_memory();
  for (Bytes* bytes : {&a, &b})
    for (std::uint8_t& byte : *bytes) byte = static_cast<std::uint8_t>(random());
  for (std::size_t i = 0; i + 4 <= c.size(); i += 4) {
    const std::uint32_t nearly_largest = 0x7fffff00u + static_cast<std::uint32_t>(random() % 512);
    std::memcpy(c.data() + i, &nearly_largest, 4);
  }
  for (const Shape& shape : kShapes) {
    const TileShapes shapes = shapes_of(shape);
    EXPECT_EQ(run<Unit>(shapes, a, b, c, [] { Unit::template multiply_int8<0, 4, 6, signs>(); }),
              by_definition(shapes, a, b, c,
                            [&](AmxTile& sums, const AmxTile& x, const AmxTile& y) {
                              testing::amx_multiply_int8(sums, x, y, signed_a, signed_b);
                            }))
        << int{shape.rows} << " x " << int{shape.depth_words} << " x " << int{shape.columns};
  }
}

TYPED_TEST(MatrixUnits, MultiplyBytesExactlyAndWrap) {
  expect_exact_int8<TypeParam, Signs::ss>(true, true);
  expect_exact_int8<TypeParam, Signs::su>(true, false);
  expect_exact_int8<TypeParam, Signs::us>(false, true);
  expect_exact_int8<TypeParam, Signs::uu>(false, false);
}

TYPED_TEST(MatrixUnits, ReadAndWriteTheRowsOfTheirShapeAlone) {
  std::vector<std::uint32_t> from(20 * 5), to(20 * 5, 7);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint32_t>(100 + i);
  TileShapes shapes;
  shapes.rows[3] = 5;
  shapes.row_bytes[3] = 12;
  TypeParam::configure(shapes);
  TypeParam::template load<3>(from.data(), 80);
  TypeParam::template store<3>(to.data(), 80);
  TypeParam::release();
  for (std::size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], i % 20 < 3 ? from[i] : 7u) << i;
}

TYPED_TEST(MatrixUnits, ClearTheWordsThatATileDoesNotHave) {
  const TileShapes small = shapes_of({3, 2, 5});
  const Bytes c = random_f32(1, 1);
  TypeParam::configure(small);
  TypeParam::template load<0>(c.data(), kStep);
  TypeParam::template zero<0>();
  Bytes out = tile_memory();
  TypeParam::template store<0>(out.data(), kStep);
  TypeParam::release();
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(out[i], i / kStep < 3 && i % kStep < 20 ? 0 : 0xa5) << i;
}

#if defined(__x86_64__)
// On a machine with AMX the processor faults without a message.
#define EXPECT_AMX_FAULT(statement, text) \
  EXPECT_DEATH(                           \
      {                                   \
        const AmxEmulator amx;            \
        statement;                        \
      },                                  \
      has_matrix_unit() ? "" : text)

TEST(AmxEmulator, WrongConfigurationsAreReported) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto configure = [](std::uint8_t rows, std::uint8_t row_bytes) {
    TileShapes shapes;
    shapes.rows[2] = rows;
    shapes.row_bytes[2] = row_bytes;
    AmxTiles::configure(shapes);
  };
  EXPECT_AMX_FAULT(configure(17, 64), "AMX: LDTILECFG faults: a tile of more than 16 rows");
  EXPECT_AMX_FAULT(configure(16, 68), "AMX: LDTILECFG faults: a row of more than 64 bytes");
  EXPECT_AMX_FAULT(configure(16, 0), "AMX: LDTILECFG faults: a tile with rows of 0 bytes");
}

TEST(AmxEmulator, TilesThatDoNotMatchAreReported) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Bytes memory = tile_memory();
  const auto multiply = [&](const auto& change) {
    TileShapes shapes = shapes_of({16, 16, 16});
    change(shapes);
    AmxTiles::configure(shapes);
    AmxTiles::multiply_bf16<0, 4, 6>();
  };
  EXPECT_AMX_FAULT(multiply([](TileShapes& s) { s.rows[4] = 15; }),
                   "AMX: TDPBF16PS faults: the result and a have different numbers of rows");
  EXPECT_AMX_FAULT(multiply([](TileShapes& s) { s.row_bytes[6] = 60; }),
                   "AMX: TDPBF16PS faults: the result and b have rows of different lengths");
  EXPECT_AMX_FAULT(multiply([](TileShapes& s) { s.rows[6] = 8; }),
                   "AMX: TDPBF16PS faults: a row of a has not as many words as b has rows");
  EXPECT_AMX_FAULT(multiply([](TileShapes& s) { s.rows[6] = 0; }),
                   "AMX: TDPBF16PS faults: the tile is not configured");
  EXPECT_AMX_FAULT(AmxTiles::load<1>(memory.data(), kStep),
                   "AMX: TILELOADD faults: tiles are not configured");
}

TEST(AmxEmulator, OtherIllegalInstructionsEndTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const AmxEmulator amx;
        asm volatile("ud2");
      },
      ::testing::KilledBySignal(SIGILL), "");
}

TEST(AmxEmulator, CountsTheInstructionsOfMachinesWithoutAmx) {
  const AmxEmulator amx;
  AmxTiles::configure(shapes_of({1, 1, 1}));
  AmxTiles::zero<0>();
  AmxTiles::release();
  EXPECT_EQ(amx.instructions(), has_matrix_unit() ? 0 : 3);
}
#endif

TEST(PlainTiles, ShapesThatWouldFaultAreErrorsOfTheProgram) {
  TileShapes shapes = shapes_of({16, 16, 16});
  shapes.rows[4] = 15;
  PlainTiles::configure(shapes);
  EXPECT_THROW((PlainTiles::multiply_bf16<0, 4, 6>()), InternalError);
  shapes.rows[4] = 17;
  EXPECT_THROW(PlainTiles::configure(shapes), InternalError);
  shapes.rows[4] = 16;
  shapes.row_bytes[4] = 68;
  EXPECT_THROW(PlainTiles::configure(shapes), InternalError);
  PlainTiles::release();
}

}  // namespace
}  // namespace lamina::cpu
