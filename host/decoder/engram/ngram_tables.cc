#include "decoder/engram/ngram_tables.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <set>

namespace lamina::decoder {
namespace {

// NumPy's SeedSequence: spreads a seed over four words, then generates the requested number of
// words.
class SeedSequence {
 public:
  explicit SeedSequence(std::uint64_t seed) {
    std::array<std::uint32_t, kWords> entropy{static_cast<std::uint32_t>(seed),
                                              static_cast<std::uint32_t>(seed >> 32)};
    for (std::size_t i = 0; i < kWords; ++i) pool_[i] = hash(entropy[i]);
    for (std::size_t from = 0; from < kWords; ++from)
      for (std::size_t to = 0; to < kWords; ++to)
        if (to != from) pool_[to] = mix(pool_[to], hash(pool_[from]));
  }

  std::uint64_t next64() {
    std::uint64_t low = next32();
    return low | static_cast<std::uint64_t>(next32()) << 32;
  }

 private:
  static constexpr std::size_t kWords = 4;

  std::uint32_t hash(std::uint32_t value) {
    value ^= in_;
    in_ *= 0x931e8875u;
    value *= in_;
    return value ^ value >> 16;
  }
  static std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
    std::uint32_t z = 0xca01f9ddu * x - 0x4973f715u * y;
    return z ^ z >> 16;
  }
  std::uint32_t next32() {
    std::uint32_t value = pool_[next_++ % kWords] ^ out_;
    out_ *= 0x58f38dedu;
    value *= out_;
    return value ^ value >> 16;
  }

  std::array<std::uint32_t, kWords> pool_{};
  std::uint32_t in_ = 0x43b0d7e5u, out_ = 0x8b51f9ddu;
  std::size_t next_ = 0;
};

// PCG64, XSL-RR 128/64 (O'Neill 2014), seeded and sampled as NumPy does.
class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed) {
    SeedSequence words(seed);
    std::uint64_t high = words.next64(), low = words.next64();
    Wide start = wide(high, low);
    high = words.next64(), low = words.next64();
    increment_ = wide(high, low) << 1 | 1;
    step();
    state_ += start;
    step();
  }

  // Returns a uniform number in [0, bound). Lemire 2019.
  std::uint32_t below(std::uint32_t bound) {
    if (bound == 1) return 0;
    std::uint64_t product = std::uint64_t{next32()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      std::uint32_t threshold = (0u - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold)
        product = std::uint64_t{next32()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static Wide wide(std::uint64_t high, std::uint64_t low) { return Wide{high} << 64 | low; }

  void step() { state_ = state_ * wide(0x2360ed051fc65da4u, 0x4385df649fccf645u) + increment_; }
  std::uint32_t next32() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    step();
    std::uint64_t folded =
        static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
    std::uint64_t value = std::rotr(folded, static_cast<int>(state_ >> 122));
    half_ = static_cast<std::uint32_t>(value >> 32);
    has_half_ = true;
    return static_cast<std::uint32_t>(value);
  }

  Wide state_ = 0, increment_ = 0;
  std::uint32_t half_ = 0;
  bool has_half_ = false;
};

bool is_prime(std::int64_t n) {
  if (n < 4) return n >= 2;
  if (n % 2 == 0) return false;
  for (std::int64_t d = 3; d * d <= n; d += 2)
    if (n % d == 0) return false;
  return true;
}

}  // namespace

std::vector<std::int64_t> ngram_multipliers(std::int64_t vocabulary, std::int64_t seed,
                                            std::int64_t layer, std::int64_t count) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kSeedStep = 10007;
  std::int64_t half = std::max<std::int64_t>(1, kMax / vocabulary / 2);
  Pcg64 random(static_cast<std::uint64_t>(seed + kSeedStep * layer));
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(2 * std::int64_t{random.below(static_cast<std::uint32_t>(half))} + 1);
  return out;
}

NgramTableSizes ngram_table_sizes(std::size_t layers, std::span<const std::int64_t> bases,
                                  std::int64_t heads) {
  std::set<std::int64_t> taken;
  NgramTableSizes out(layers);
  for (auto& layer : out)
    for (std::int64_t base : bases) {
      auto& sizes = layer.emplace_back();
      std::int64_t next = base;
      for (std::int64_t head = 0; head < heads; ++head) {
        while (!is_prime(next) || taken.contains(next)) ++next;
        taken.insert(next);
        sizes.push_back(next++);
      }
    }
  return out;
}

}  // namespace lamina::decoder
