#include "backends/cuda/emulation/blas_product.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "backends/cuda/emulation/plain_bytes.h"
#include "core/float16.h"
#include "formats/fp8.h"

namespace lamina::cuda::emulation {
namespace {

using blas::DataType;

// Returns an f32 number as TF32: with 11 significant bits, to nearest.
double to_tf32(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // NaN and infinity are kept
  return std::ldexp(std::round(std::ldexp(fraction, 11)), exponent - 11);
}

double read(const std::byte* base, DataType type, std::int64_t i) {
  const std::byte* at = base + i * static_cast<std::int64_t>(bytes_of(type));
  switch (type) {
    case DataType::r_32f:
      return static_cast<double>(read_as<float>(at));
    case DataType::r_64f:
      return read_as<double>(at);
    case DataType::r_16f:
      return static_cast<double>(to_float(read_as<float16>(at)));
    case DataType::r_16bf:
      return static_cast<double>(to_float(read_as<bfloat16>(at)));
    case DataType::r_8f_e4m3:
      return static_cast<double>(formats::kE4m3[read_as<std::uint8_t>(at)]);
  }
  return 0;
}

void write(std::byte* base, DataType type, std::int64_t i, double value) {
  std::byte* at = base + i * static_cast<std::int64_t>(bytes_of(type));
  switch (type) {
    case DataType::r_32f:
      return write_as(at, static_cast<float>(value));
    case DataType::r_64f:
      return write_as(at, value);
    case DataType::r_16f:
      return write_as(at, to_float16(static_cast<float>(value)));
    case DataType::r_16bf:
      return write_as(at, to_bfloat16(static_cast<float>(value)));
    case DataType::r_8f_e4m3:
      return;  // refused: no result has it
  }
}

// Returns op(A) by rows or op(B) by columns: [outer][k].
template <typename W>
std::vector<W> vectors_of(const std::byte* at, const BlasMatrix& x, std::int64_t outer,
                          std::int64_t k, bool along_columns, bool tf32) {
  std::vector<W> out(static_cast<std::size_t>(outer * k));
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t l = 0; l < k; ++l) {
      const double value = read(at, x.type, along_columns ? l + i * x.leading : i + l * x.leading);
      out[static_cast<std::size_t>(i * k + l)] = static_cast<W>(tf32 ? to_tf32(value) : value);
    }
  return out;
}

constexpr int kParts = 16;
constexpr std::int64_t kScaledValues = 128;

// The sum in parts, as blocks of a GPU add it.
template <typename W>
W dot(const W* a, const W* b, std::int64_t k, int first_part) {
  std::array<W, kParts> parts = {};
  std::int64_t l = 0;
  for (; l + kParts <= k; l += kParts)
    for (int i = 0; i < kParts; ++i) parts[static_cast<std::size_t>(i)] += a[l + i] * b[l + i];
  for (int i = 0; l < k; ++l, ++i) parts[static_cast<std::size_t>(i)] += a[l] * b[l];
  W sum = 0;
  for (int i = 0; i < kParts; ++i)
    sum += parts[static_cast<std::size_t>((first_part + i) % kParts)];
  return sum;
}

// The sums of 128 products, times their scales, in rising order.
template <typename W>
W scaled_dot(const BlasProduct& p, const W* a, const W* b, std::int64_t i, std::int64_t j) {
  W sum = 0;
  for (std::int64_t l = 0; l < p.k; l += kScaledValues) {
    const double scale = read(p.a_scales, DataType::r_32f, l / kScaledValues * p.m + i) *
                         read(p.b_scales, DataType::r_32f, l / kScaledValues * p.n + j);
    sum +=
        static_cast<W>(scale) * dot(a + l, b + l, std::min(kScaledValues, p.k - l), p.first_part);
  }
  return sum;
}

template <typename W>
void compute_one(const BlasProduct& p, std::int64_t batch) {
  const auto matrix = [&](auto* at, const BlasMatrix& x) {
    return at + batch * x.stride * static_cast<std::int64_t>(bytes_of(x.type));
  };
  const bool tf32 = p.compute == blas::ComputeType::tf32;
  const std::vector<W> a = vectors_of<W>(matrix(p.a_at, p.a), p.a, p.m, p.k, p.a_transposed, tf32);
  const std::vector<W> b = vectors_of<W>(matrix(p.b_at, p.b), p.b, p.n, p.k, !p.b_transposed, tf32);
  const std::byte* c = matrix(p.c_at, p.c);
  std::byte* d = matrix(p.d_at, p.d);
  for (std::int64_t j = 0; j < p.n; ++j)
    for (std::int64_t i = 0; i < p.m; ++i) {
      const W *row = &a[static_cast<std::size_t>(i * p.k)],
              *column = &b[static_cast<std::size_t>(j * p.k)];
      W sum = static_cast<W>(p.alpha) *
              (p.a_scales ? scaled_dot(p, row, column, i, j) : dot(row, column, p.k, p.first_part));
      // C is not read if beta is 0: it may have any bits.
      if (p.beta != 0)
        sum += static_cast<W>(p.beta) * static_cast<W>(read(c, p.c.type, i + j * p.c.leading));
      if (p.bias) sum += static_cast<W>(read(p.bias, p.d.type, i));
      write(d, p.d.type, i + j * p.d.leading, static_cast<double>(sum));
    }
}

}  // namespace

std::size_t bytes_of(DataType type) {
  switch (type) {
    case DataType::r_32f:
      return 4;
    case DataType::r_64f:
      return 8;
    case DataType::r_16f:
    case DataType::r_16bf:
      return 2;
    case DataType::r_8f_e4m3:
      return 1;
  }
  return 0;
}

std::int64_t BlasMatrix::bytes() const {
  const std::int64_t last = (batch - 1) * stride + (columns - 1) * leading + rows;
  return last * static_cast<std::int64_t>(bytes_of(type));
}

void compute(const BlasProduct& product) {
  for (std::int64_t batch = 0; batch < product.d.batch; ++batch)
    product.compute == blas::ComputeType::f64 ? compute_one<double>(product, batch)
                                              : compute_one<float>(product, batch);
}

}  // namespace lamina::cuda::emulation
