// The 32-bit words that our tile products multiply, and the packing of operands into panels of
// words. Internal to each file that includes it.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/simd/memory.h"
#include "backends/cpu/simd/vectors.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

constexpr int kWordLanes = kNativeBytes / 4;
using Native = Vectors<kWordLanes>;

// A format says what a word is: kPerWord neighbours along k, the earlier ones in its lower bits.
//   along(p): the words of kWordLanes * kPerWord elements that are neighbours along k
//   across(first, second): the words of kWordLanes rows or columns that are neighbours in memory;
//     `second` is one step of k further, null at the end; for two elements per word only
//   multiply_add(sum, a, b): sum + the products of two words

struct FloatWords {
  using Element = float;
  static constexpr int kPerWord = 1;
  LAMINA_SIMD static Native::F along(const float* p) { return Native::load(p); }
  LAMINA_SIMD static Native::F across(const float* first, const float*) {
    return Native::load(first);
  }
  LAMINA_SIMD static Native::F multiply_add(Native::F sum, Native::F a, Native::F b) {
    return Native::multiply_add(a, b, sum);
  }
};

struct WidenedWords : FloatWords {
  using Element = std::uint16_t;
  LAMINA_SIMD static Native::F along(const std::uint16_t* p) { return Native::load_bf16(p); }
  LAMINA_SIMD static Native::F across(const std::uint16_t* first, const std::uint16_t*) {
    return Native::load_bf16(first);
  }
};

struct PairWords {
  using Element = std::uint16_t;
  static constexpr int kPerWord = 2;
  LAMINA_SIMD static Native::F along(const std::uint16_t* p) { return Native::load(p); }
  LAMINA_SIMD static Native::F across(const std::uint16_t* first, const std::uint16_t* second) {
    using Halves = Vec<std::uint16_t, kWordLanes>;
    const auto low = convert<Native::Ints>(load_bits<Halves>(first)).raw;
    if (second == nullptr) return reinterpret_cast<Native::F>(low);
    return reinterpret_cast<Native::F>(low |
                                       reinterpret_cast<Native::I>(Native::load_bf16(second)));
  }
#if defined(__AVX512BF16__)
  LAMINA_SIMD static Native::F multiply_add(Native::F sum, Native::F a, Native::F b) {
    return dot_pairs(sum, a, b);
  }
#endif
};

template <class Format>
constexpr std::int64_t words_of(std::int64_t k) {
  return divide_up(k, std::int64_t{Format::kPerWord});
}

// The first `count` of kCount elements; the others are 0.
template <int kCount, class Element>
struct Padded {
  Padded(const Element* p, std::int64_t count) {
    std::memcpy(elements, p, static_cast<std::size_t>(count) * sizeof(Element));
  }
  Element elements[kCount] = {};
};

// Number of words from one panel [words][kWidth] to the next. Adds a cache line, because otherwise
// panels can be powers of two apart, and the lines of one word in several panels would compete for
// few places of the cache.
template <int kWidth>
constexpr std::int64_t panel_stride(std::int64_t num_words) {
  return round_up(num_words * kWidth, std::int64_t{16}) + 16;
}

// Writes words of kWordLanes rows or columns from `i` on, at one word of k, to their panels.
template <int kWidth>
LAMINA_SIMD void put_words(Word* panels, std::int64_t stride, std::int64_t word, std::int64_t i,
                           Native::F words) {
  Word* to = panels + i / kWidth * stride + word * kWidth + i % kWidth;
  if constexpr (kWidth % kWordLanes == 0) {
    Native::store(to, words);
  } else {
    static_assert(2 * kWidth == kWordLanes);
    const Native::Floats both{words};
    store_raw(reinterpret_cast<float*>(to), low_half(both));
    store_raw(reinterpret_cast<float*>(to + stride), high_half(both));
  }
}

// Number of rows or columns that a packed operand has room for.
template <int kWidth>
constexpr std::int64_t packed_count(std::int64_t count) {
  return round_up(count, std::int64_t{std::max(kWidth, kWordLanes)});
}

// Packing waits for memory, so the next part is prefetched. This may exceed the operand's or the
// panels' end, where prefetching does nothing.
constexpr std::int64_t kElementsAhead = 64, kStepsAhead = 16, kLinesAhead = 4;

// Prefetches the words of a panel that will be written soon, once per cache line.
template <int kWidth>
LAMINA_SIMD void fetch_words(Word* panels, std::int64_t stride, std::int64_t word, std::int64_t i) {
  constexpr std::int64_t kLine = 16;
  if constexpr (kWidth < kLine && kNativeBytes == 32)
    if (word % (kLine / kWidth) == 0)
      prefetch_for_writing(panels + i / kWidth * stride + word * kWidth + kLinesAhead * kLine);
}

template <class Format, int kWidth>
void pack_neighbours_along_k(const TileOperand& from, std::int64_t count, std::int64_t k,
                             Word* panels) {
  using Element = typename Format::Element;
  constexpr std::int64_t kElements = kWordLanes * Format::kPerWord;
  const std::int64_t stride = panel_stride<kWidth>(words_of<Format>(k));
  const auto* data = static_cast<const Element*>(from.data);
  for (std::int64_t i = 0; i < packed_count<kWidth>(count); i += kWordLanes) {
    const std::int64_t rows = std::clamp<std::int64_t>(count - i, 0, kWordLanes);
    const Element* row = data + i * from.stride;
    std::int64_t first = 0;
    for (; rows == kWordLanes && first + kElements <= k; first += kElements) {
      Native::F words[kWordLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kWordLanes; ++r) {
        words[r] = Format::along(row + r * from.stride + first);
        __builtin_prefetch(row + r * from.stride + first + kElementsAhead);
      }
      Native::transpose(words);
#pragma GCC unroll 16
      for (int w = 0; w < kWordLanes; ++w) {
        for (int panel = 0; panel < kWordLanes; panel += kWidth)
          fetch_words<kWidth>(panels, stride, first / Format::kPerWord + w, i + panel);
        put_words<kWidth>(panels, stride, first / Format::kPerWord + w, i, words[w]);
      }
    }
    for (; first < k; first += kElements) {
      const std::int64_t elements = std::min(kElements, k - first);
      Native::F words[kWordLanes] = {};
      for (std::int64_t r = 0; r < rows; ++r)
        words[r] = Format::along(
            Padded<kElements, Element>(row + r * from.stride + first, elements).elements);
      Native::transpose(words);
      for (std::int64_t w = 0; w < words_of<Format>(elements); ++w)
        put_words<kWidth>(panels, stride, first / Format::kPerWord + w, i, words[w]);
    }
  }
}

template <class Format, int kWidth>
void pack_neighbours_across(const TileOperand& from, std::int64_t count, std::int64_t k,
                            Word* panels) {
  using Element = typename Format::Element;
  constexpr int kStep = Format::kPerWord;
  // Packs long pieces of each step of k, because memory is slow if it is read in short pieces.
  constexpr std::int64_t kAtOnce = std::max(kWidth, 16 * kWordLanes);
  const std::int64_t num_words = words_of<Format>(k), width = packed_count<kWidth>(count);
  const std::int64_t stride = panel_stride<kWidth>(num_words);
  const auto* data = static_cast<const Element*>(from.data);
  for (std::int64_t begin = 0; begin < width; begin += kAtOnce) {
    const std::int64_t end = std::min(begin + kAtOnce, width);
    for (std::int64_t word = 0; word < num_words; ++word) {
      const Element* first = data + word * kStep * from.k_stride;
      const Element* second = kStep == 2 && word * kStep + 1 < k ? first + from.k_stride : nullptr;
      for (int step = 0; step < kStep; ++step) {
        const Element* ahead = first + (kStepsAhead + step) * from.k_stride;
        for (std::int64_t i = begin; i < end; i += static_cast<std::int64_t>(64 / sizeof(Element)))
          __builtin_prefetch(ahead + i);
        __builtin_prefetch(ahead + end - 1);
      }
      for (std::int64_t i = begin; i < end; i += kWordLanes) {
        const std::int64_t columns = std::clamp<std::int64_t>(count - i, 0, kWordLanes);
        using Columns = Padded<kWordLanes, Element>;
        for (int panel = 0; panel < kWordLanes; panel += kWidth)
          fetch_words<kWidth>(panels, stride, word, i + panel);
        put_words<kWidth>(
            panels, stride, word, i,
            columns == kWordLanes ? Format::across(first + i, second ? second + i : nullptr)
            : columns == 0
                ? Native::F{}
                : Format::across(Columns(first + i, columns).elements,
                                 second ? Columns(second + i, columns).elements : nullptr));
      }
    }
  }
}

// Packs panels of `count` rows or columns; missing ones in the last panels are 0.
template <class Format, int kWidth>
void pack(const TileOperand& from, std::int64_t count, std::int64_t k, Word* panels) {
  if (from.k_stride == 1)
    pack_neighbours_along_k<Format, kWidth>(from, count, k, panels);
  else
    pack_neighbours_across<Format, kWidth>(from, count, k, panels);
}

// Prefetches a part of an operand line by line, during other work.
class Fetch {
 public:
  // Spreads the part over about `num_steps` steps. With count = 0 nothing is prefetched.
  template <class Element>
  static Fetch of(const TileOperand& from, std::int64_t count, std::int64_t k,
                  std::int64_t num_steps) {
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(Element));
    const bool along = from.k_stride == 1;
    Fetch f;
    f.row_ = static_cast<const char*>(from.data);
    f.row_bytes_ = (along ? from.stride : from.k_stride) * kSize;
    f.line_bytes_ = (along ? k : count) * kSize;
    f.rows_left_ = count == 0 ? 0 : along ? count : k;
    f.lines_per_step_ = divide_up(f.rows_left_ * divide_up(f.line_bytes_, kLine), num_steps);
    return f;
  }

  void step() {
    for (std::int64_t i = 0; i < lines_per_step_ && rows_left_ > 0; ++i) {
      __builtin_prefetch(row_ + at_, 0, 2);
      at_ += kLine;
      if (at_ < line_bytes_) continue;
      at_ = 0;
      row_ += row_bytes_;
      --rows_left_;
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  const char* row_ = nullptr;
  std::int64_t row_bytes_ = 0, line_bytes_ = 0, rows_left_ = 0, lines_per_step_ = 0, at_ = 0;
};

}  // namespace
}  // namespace lamina::cpu
