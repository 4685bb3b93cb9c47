#include "backends/cuda/emulation/warpgroup_products.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cuda/emulation/block.h"
#include "backends/cuda/emulation/grid.h"

namespace lamina::cuda::emulation {
namespace {

constexpr int kUnitBytes = 16, kDepth = 16, kRows = 64;
constexpr std::size_t kUnits = static_cast<std::size_t>(kMostSharedBytes) / kUnitBytes;

// Bits of a descriptor between its fields.
constexpr std::uint64_t kReservedBits = 0x3ff1c000c000c000;

// The fields of a descriptor, in bytes.
struct Fields {
  int first, next_rows, next_piece;
};
int field(std::uint64_t bits, int at) { return static_cast<int>(bits >> at & 0x3fff) * kUnitBytes; }

Fields fields_of(std::uint64_t bits, bool along_k) {
  const Fields out{field(bits, 0), field(bits, 16), field(bits, 32)};
  if (bits >> 62 != 1 || (bits >> 49 & 7) != 0)
    gpu::fault("describes a matrix by %#llx; expected the swizzle of 128 bytes and no base offset",
               static_cast<unsigned long long>(bits));
  if ((bits & kReservedBits) != 0)
    gpu::fault("describes a matrix by %#llx; expected 0 in the reserved bits %#llx",
               static_cast<unsigned long long>(bits),
               static_cast<unsigned long long>(kReservedBits));
  const int in_piece = out.first % gpu::kSwizzledPieceBytes;
  if (along_k ? in_piece > 128 - 2 * kUnitBytes : in_piece != 0)
    gpu::fault("has a matrix at byte %d of shared memory; expected a multiple of %d%s", out.first,
               gpu::kSwizzledPieceBytes, along_k ? ", or a step of 32 bytes in its first row" : "");
  return out;
}

}  // namespace

WarpgroupProducts::WarpgroupProducts(SharedMemory& shared, int num_threads)
    : shared_(shared),
      under_way_(static_cast<std::size_t>(num_threads + gpu::kWarpgroupSize - 1) /
                 gpu::kWarpgroupSize),
      readers_(kUnits),
      unfenced_(kUnits),
      written_(static_cast<std::size_t>(num_threads)),
      fenced_(static_cast<std::size_t>(num_threads)) {}

void WarpgroupProducts::start() {
  for (auto& products : under_way_) products.clear();
  std::ranges::fill(readers_, std::uint16_t{0});
  std::ranges::fill(unfenced_, 0);
  for (auto& units : written_) units.clear();
  for (auto& units : fenced_) units.clear();
}

// Reads the unit at a byte of shared memory before the swizzle.
void WarpgroupProducts::read(int byte, float* to, int step, UnderWay& product) {
  const int place = byte ^ (byte >> 7 & 7) << 4;
  const gpu::detail::CheckedMemory memory = shared_.used();
  gpu::detail::check_inside("shared", memory, place, kUnitBytes);
  const auto unit = static_cast<std::size_t>(place / kUnitBytes);
  if (unfenced_[unit] != 0)
    gpu::fault(
        "multiplies byte %d of shared memory that thread %d wrote without a fence_async() and a "
        "sync() after it",
        place, writer_of(static_cast<int>(unit)));
  gpu::detail::note(memory.begin + place, kUnitBytes, false);
  ++readers_[unit];
  product.units.push_back(static_cast<int>(unit));
  std::array<std::uint16_t, 8> bits;
  std::memcpy(bits.data(), memory.begin + place, kUnitBytes);
  for (std::size_t i = 0; i < 8; ++i)
    to[static_cast<int>(i) * step] = gpu::widen(gpu::bfloat16{bits[i]});
}

WarpgroupProducts::Matrix WarpgroupProducts::load(std::uint64_t descriptor, bool along_k, int count,
                                                  UnderWay& product) {
  const Fields at = fields_of(descriptor, along_k);
  Matrix out(static_cast<std::size_t>(count * kDepth));
  if (along_k) {
    for (int i = 0; i < count; ++i)
      for (int unit = 0; unit < 2; ++unit)
        read(at.first + i / 8 * at.next_piece + i % 8 * 128 + unit * kUnitBytes,
             &out[static_cast<std::size_t>(i * kDepth + unit * 8)], 1, product);
    return out;
  }
  for (int k = 0; k < kDepth; ++k)
    for (int unit = 0; unit < count / 8; ++unit)
      read(at.first + unit / 8 * at.next_rows + k / 8 * at.next_piece + k % 8 * 128 +
               unit % 8 * kUnitBytes,
           &out[static_cast<std::size_t>(unit * 8 * kDepth + k)], kDepth, product);
  return out;
}

namespace {

const gpu::detail::WarpgroupProduct& of_lane(void* const* lanes, int lane) {
  return *static_cast<const gpu::detail::WarpgroupProduct*>(lanes[lane]);
}
int row_of(int lane, int i) { return lane / 32 * 16 + lane % 32 / 4 + i / 2 * 8; }
int column_of(int lane, int n, int i) { return n * 8 + lane % 4 * 2 + i % 2; }

// The operand that is in registers.
std::vector<float> rows_of(void* const* lanes) {
  std::vector<float> out(kRows * kDepth);
  for (int lane = 0; lane < gpu::kWarpgroupSize; ++lane)
    for (int r = 0; r < 4; ++r)
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t pair = of_lane(lanes, lane).rows[r];
        const int row = row_of(lane, r % 2 * 2), k = lane % 4 * 2 + half + r / 2 * 8;
        out[static_cast<std::size_t>(row * kDepth + k)] =
            gpu::widen(gpu::bfloat16{static_cast<std::uint16_t>(pair >> (16 * half))});
      }
  return out;
}

// Adds the products in rising order of k, as mma_16x8x16 does.
void add_products(void* const* lanes, const std::vector<float>& a, const std::vector<float>& b,
                  int columns) {
  std::vector<float> across(b.size());  // [16, columns]
  for (int c = 0; c < columns; ++c)
    for (int k = 0; k < kDepth; ++k)
      across[static_cast<std::size_t>(k * columns + c)] =
          b[static_cast<std::size_t>(c * kDepth + k)];
  std::vector<float> sums(static_cast<std::size_t>(kRows * columns));
  const auto each = [&](const auto& fn) {
    for (int lane = 0; lane < gpu::kWarpgroupSize; ++lane)
      for (int n = 0; n < columns / 8; ++n)
        for (int i = 0; i < 4; ++i)
          fn(of_lane(lanes, lane).sums[n][i],
             sums[static_cast<std::size_t>(row_of(lane, i) * columns + column_of(lane, n, i))]);
  };
  each([](float mine, float& sum) { sum = mine; });
  for (int row = 0; row < kRows; ++row)
    for (int first = 0; first < columns; first += 16) {
      float* const to = &sums[static_cast<std::size_t>(row * columns + first)];
      for (int k = 0; k < kDepth; ++k) {
        const float x = a[static_cast<std::size_t>(row * kDepth + k)];
        const float* const y = &across[static_cast<std::size_t>(k * columns + first)];
        for (int c = 0; c < 16; ++c) to[c] += x * y[c];
      }
    }
  each([](float& mine, float sum) { mine = sum; });
}

}  // namespace

void WarpgroupProducts::multiply(void* const* lanes) {
  const gpu::detail::WarpgroupProduct& first = of_lane(lanes, 0);
  for (int lane = 1; lane < gpu::kWarpgroupSize; ++lane) {
    const gpu::detail::WarpgroupProduct& other = of_lane(lanes, lane);
    if (other.a != first.a || other.b != first.b)
      gpu::fault("describes other matrices in lane %d of its warpgroup than in lane 0", lane);
    if (other.group != first.group)
      gpu::fault(
          "has committed %d groups of products in lane %d of its warpgroup, but %d in lane 0",
          other.group - 1, lane, first.group - 1);
  }
  UnderWay product{first.group, 0, {}};
  const Matrix a = first.rows ? rows_of(lanes) : load(first.a, first.a_along_k, kRows, product);
  const Matrix b = load(first.b, first.b_along_k, first.columns, product);
  add_products(lanes, a, b, first.columns);
  under_way_[static_cast<std::size_t>(gpu::this_thread->index / gpu::kWarpgroupSize)].push_back(
      std::move(product));
}

void WarpgroupProducts::end_groups(int thread, int before, int done) {
  auto& products = under_way_[static_cast<std::size_t>(thread / gpu::kWarpgroupSize)];
  for (UnderWay& product : products)
    if (product.group > before && product.group <= done) ++product.waited;
  while (!products.empty() && products.front().waited == gpu::kWarpgroupSize) {
    for (const int unit : products.front().units) --readers_[static_cast<std::size_t>(unit)];
    products.pop_front();
  }
}

bool WarpgroupProducts::all_ended(int thread, int done) const {
  const auto& products = under_way_[static_cast<std::size_t>(thread / gpu::kWarpgroupSize)];
  return std::ranges::all_of(products, [&](const UnderWay& p) { return p.group <= done; });
}

void WarpgroupProducts::check_unread(const std::byte* at, std::int64_t bytes) const {
  const std::int64_t first = at - shared_.used().begin;
  for (std::int64_t unit = first / kUnitBytes; unit * kUnitBytes < first + bytes; ++unit)
    if (readers_[static_cast<std::size_t>(unit)] != 0)
      gpu::fault("writes byte %lld of shared memory before the product that reads it has ended",
                 static_cast<long long>(unit * kUnitBytes));
}

void WarpgroupProducts::note_write(int thread, const std::byte* at, std::int64_t bytes) {
  check_unread(at, bytes);
  const std::int64_t first = at - shared_.used().begin;
  std::vector<int>& units = written_[static_cast<std::size_t>(thread)];
  for (std::int64_t unit = first / kUnitBytes; unit * kUnitBytes < first + bytes; ++unit) {
    if (!units.empty() && units.back() == unit) continue;
    ++unfenced_[static_cast<std::size_t>(unit)];
    units.push_back(static_cast<int>(unit));
  }
}

void WarpgroupProducts::fence(int thread) {
  std::vector<int>& units = written_[static_cast<std::size_t>(thread)];
  std::vector<int>& fenced = fenced_[static_cast<std::size_t>(thread)];
  fenced.insert(fenced.end(), units.begin(), units.end());
  units.clear();
}

void WarpgroupProducts::end_epoch() {
  for (std::vector<int>& units : fenced_) {
    for (const int unit : units) --unfenced_[static_cast<std::size_t>(unit)];
    units.clear();
  }
}

// REQUIRES: products cannot see a write of the unit.
int WarpgroupProducts::writer_of(int unit) const {
  const auto has_unit = [unit](const std::vector<int>& units) {
    return std::ranges::find(units, unit) != units.end();
  };
  std::size_t thread = 0;
  while (!has_unit(written_[thread]) && !has_unit(fenced_[thread])) ++thread;
  return static_cast<int>(thread);
}

}  // namespace lamina::cuda::emulation
