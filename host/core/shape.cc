#include "core/shape.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/out_of_memory.h"

namespace lamina {
namespace {

// Larger than the address space of this machine; the total bytes of many such tensors still fit
// into 64 bits.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;

}  // namespace

Shape::Shape(std::span<const std::int64_t> dims) : ndim_(static_cast<int>(dims.size())) {
  LAMINA_ASSERT(dims.size() <= static_cast<std::size_t>(kMaxDims));
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::num_elements() const {
  std::int64_t n = 1;
  bool fits = true;
  for (std::int64_t d : dims()) fits = !__builtin_mul_overflow(n, d, &n) && fits;
  if (!fits && std::ranges::find(dims(), 0) != dims().end()) return 0;
  if (!fits || n > kMaxElements)
    throw OutOfMemory(
        {"tensor",
         fmt::format("{} has more than 2^50 elements, which exceeds any memory", to_string(*this)),
         {}});
  return n;
}

Shape Shape::with_leading(std::int64_t size) const {
  Shape out;
  out.ndim_ = ndim_ + 1;
  LAMINA_ASSERT(out.ndim_ <= kMaxDims);
  out.dims_[0] = size;
  std::copy_n(dims_.begin(), ndim_, out.dims_.begin() + 1);
  return out;
}

Shape Shape::without_leading() const {
  LAMINA_ASSERT(ndim_ >= 1);
  return Shape(dims().subspan(1));
}

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.dims(), b.dims()); }

// Optimised, because shape rules build this text for every operand, for errors that are rarely
// raised.
std::string to_string(const Shape& shape) {
  std::array<char, 24 * kMaxDims> text;
  char* end = text.data();
  *end++ = '[';
  for (int i = 0; i < shape.ndim(); ++i) {
    if (i) *end++ = ',', *end++ = ' ';
    end = std::to_chars(end, text.data() + text.size(), shape[i]).ptr;
  }
  *end++ = ']';
  return {text.data(), end};
}

}  // namespace lamina
