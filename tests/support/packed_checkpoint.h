// Quantised weights in the layouts of compressed-tensors, GPTQ and AWQ, written from the definition
// of each layout, number by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/float16.h"
#include "core/round_up.h"
#include "io/weight_files.h"
#include "support/temp_dir.h"

namespace lamina::testing {

struct FileBytes {
  io::TensorSpec spec;
  std::vector<std::byte> bytes;
};

template <typename T>
FileBytes file_bytes(std::string name, DType dtype, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {{std::move(name), dtype, shape}, {bytes.begin(), bytes.end()}};
}

// Values that the type represents.
inline FileBytes float_bytes(std::string name, DType dtype, Shape shape,
                             const std::vector<float>& values) {
  if (dtype == DType::f32) return file_bytes(std::move(name), dtype, shape, values);
  std::vector<std::uint16_t> out;
  for (const float v : values)
    out.push_back(dtype == DType::f16 ? to_float16(v).bits : to_bfloat16(v).bits);
  return file_bytes(std::move(name), dtype, shape, out);
}

inline void write_checkpoint(const std::string& directory, const std::vector<FileBytes>& tensors,
                             const std::string& config) {
  std::vector<io::TensorSpec> specs;
  for (const FileBytes& t : tensors) specs.push_back(t.spec);
  io::write_weight_files(directory, specs, [&](const io::TensorSpec& spec) {
    for (const FileBytes& t : tensors)
      if (t.spec.name == spec.name) return std::span<const std::byte>(t.bytes);
    return std::span<const std::byte>();
  });
  io::write_durably(directory + "/config.json", config);
}

// A matrix [rows, columns] of numbers q, 0 <= q < 2^bits, with a scale and a zero point for each
// group of columns of a row: value = scale * (q - zero point).
struct IntegerWeight {
  std::int64_t rows, columns, group;
  int bits;
  std::vector<int> numbers, zeros;
  std::vector<float> scales;
  std::vector<std::int32_t> group_of;  // of each column

  std::int64_t num_groups() const { return divide_up(columns, group); }
  std::size_t place(std::int64_t row, std::int64_t of) const {
    return static_cast<std::size_t>(row * num_groups() + of);
  }
  int number(std::int64_t row, std::int64_t column) const {
    return numbers[static_cast<std::size_t>(row * columns + column)];
  }
  double value(std::int64_t row, std::int64_t column) const {
    const std::size_t at = place(row, group_of[static_cast<std::size_t>(column)]);
    return static_cast<double>(scales[at]) * (number(row, column) - zeros[at]);
  }
  std::vector<float> values() const {
    std::vector<float> out;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) out.push_back(static_cast<float>(value(r, c)));
    return out;
  }
};

// Scales are multiples of 1/128 of their size, so that bf16 and f16 represent them.
inline IntegerWeight random_weight(std::int64_t rows, std::int64_t columns, int bits,
                                   std::int64_t group, bool with_zeros, unsigned seed) {
  std::mt19937 random(seed);
  IntegerWeight w{rows, columns, group, bits, {}, {}, {}, {}};
  for (std::int64_t i = 0; i < rows * columns; ++i)
    w.numbers.push_back(static_cast<int>(random() % (1u << bits)));
  for (std::int64_t i = 0; i < rows * w.num_groups(); ++i) {
    w.scales.push_back(std::ldexp(static_cast<float>(128 + random() % 128), -7 - 2 - bits));
    w.zeros.push_back(with_zeros ? static_cast<int>(random() % (1u << bits)) : 1 << (bits - 1));
  }
  for (std::int64_t c = 0; c < columns; ++c)
    w.group_of.push_back(static_cast<std::int32_t>(c / group));
  return w;
}

// Words of 32 bits; sets number `i` of a word.
class Words {
 public:
  Words(std::int64_t count, int bits) : words_(static_cast<std::size_t>(count)), bits_(bits) {}
  void set(std::int64_t word, std::int64_t i, int number) {
    words_[static_cast<std::size_t>(word)] |= static_cast<std::uint32_t>(number) << (i * bits_);
  }
  const std::vector<std::uint32_t>& words() const { return words_; }

 private:
  std::vector<std::uint32_t> words_;
  int bits_;
};

// compressed-tensors, pack-quantized: compressors/quantized_compressors/pack_quantized.py.
inline std::vector<FileBytes> as_words(const std::string& module, const IntegerWeight& w,
                                       DType dtype, bool with_zeros) {
  const std::int64_t n = 32 / w.bits, groups = w.num_groups();
  const std::int64_t width = divide_up(w.columns, n), height = divide_up(w.rows, n);
  Words words(w.rows * width, w.bits), zeros(height * groups, w.bits);
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t c = 0; c < w.columns; ++c)
      words.set(r * width + c / n, c % n, w.number(r, c));
    for (std::int64_t g = 0; g < groups; ++g)
      zeros.set(r / n * groups + g, r % n, w.zeros[w.place(r, g)]);
  }
  std::vector<FileBytes> out{
      file_bytes(module + ".weight_packed", DType::i32, {w.rows, width}, words.words()),
      float_bytes(module + ".weight_scale", dtype, {w.rows, groups}, w.scales),
      file_bytes<std::int64_t>(module + ".weight_shape", DType::i64, {2}, {w.rows, w.columns})};
  if (with_zeros)
    out.push_back(
        file_bytes(module + ".weight_zero_point", DType::i32, {height, groups}, zeros.words()));
  return out;
}

// compressed-tensors, int-quantized: bytes with a sign.
inline std::vector<FileBytes> as_bytes(const std::string& module, const IntegerWeight& w,
                                       DType dtype, bool with_zeros) {
  std::vector<std::int8_t> numbers, zeros;
  for (const int q : w.numbers) numbers.push_back(static_cast<std::int8_t>(q - 128));
  for (const int z : w.zeros) zeros.push_back(static_cast<std::int8_t>(z - 128));
  const Shape grid{w.rows, w.num_groups()};
  std::vector<FileBytes> out{
      file_bytes(module + ".weight", DType::i8, {w.rows, w.columns}, numbers),
      float_bytes(module + ".weight_scale", dtype, grid, w.scales)};
  if (with_zeros) out.push_back(file_bytes(module + ".weight_zero_point", DType::i8, grid, zeros));
  return out;
}

inline std::vector<float> transposed_scales(const IntegerWeight& w) {
  std::vector<float> out;
  for (std::int64_t g = 0; g < w.num_groups(); ++g)
    for (std::int64_t r = 0; r < w.rows; ++r) out.push_back(w.scales[w.place(r, g)]);
  return out;
}

// GPTQ: auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py, pack(). Version 1 stores zero points
// minus 1: gptqmodel/utils/model.py, convert_gptq_v2_to_v1_format_module().
inline std::vector<FileBytes> as_gptq(const std::string& module, const IntegerWeight& w,
                                      DType dtype, int version) {
  const std::int64_t n = 32 / w.bits, groups = w.num_groups(), width = divide_up(w.rows, n);
  Words words(w.columns / n * w.rows, w.bits), zeros(groups * width, w.bits);
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t c = 0; c < w.columns; ++c)
      words.set(c / n * w.rows + r, c % n, w.number(r, c));
    for (std::int64_t g = 0; g < groups; ++g)
      zeros.set(g * width + r / n, r % n, w.zeros[w.place(r, g)]);
  }
  std::vector<std::uint32_t> stored = zeros.words();
  if (version == 1)
    for (std::uint32_t& word : stored) word -= w.bits == 8 ? 0x01010101 : 0x11111111;
  return {file_bytes(module + ".qweight", DType::i32, {w.columns / n, w.rows}, words.words()),
          file_bytes(module + ".qzeros", DType::i32, {groups, width}, stored),
          float_bytes(module + ".scales", dtype, {groups, w.rows}, transposed_scales(w)),
          file_bytes(module + ".g_idx", DType::i32, {w.columns}, w.group_of)};
}

// AWQ: awq/modules/linear/gemm.py, from_linear().
inline std::vector<FileBytes> as_awq(const std::string& module, const IntegerWeight& w,
                                     DType dtype) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const std::int64_t groups = w.num_groups(), width = w.rows / 8;
  Words words(w.columns * width, 4), zeros(groups * width, 4);
  for (std::int64_t at = 0; at < width; ++at)
    for (int i = 0; i < 8; ++i) {
      const std::int64_t row = at * 8 + kOrder[i];
      for (std::int64_t c = 0; c < w.columns; ++c) words.set(c * width + at, i, w.number(row, c));
      for (std::int64_t g = 0; g < groups; ++g)
        zeros.set(g * width + at, i, w.zeros[w.place(row, g)]);
    }
  return {file_bytes(module + ".qweight", DType::i32, {w.columns, width}, words.words()),
          file_bytes(module + ".qzeros", DType::i32, {groups, width}, zeros.words()),
          float_bytes(module + ".scales", dtype, {groups, w.rows}, transposed_scales(w))};
}

inline std::string compressed_tensors_config(const std::string& format, int bits,
                                             const std::string& strategy, std::int64_t group,
                                             bool symmetric, const std::string& more = "",
                                             const std::string& type = "int") {
  const std::string size = group > 0 ? std::to_string(group) : "null";
  return R"({"quant_method": "compressed-tensors", "format": ")" + format +
         R"(", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": )" +
         std::to_string(bits) + R"(, "type": ")" + type + R"(", "strategy": ")" + strategy +
         R"(", "group_size": )" + size + R"(, "symmetric": )" + (symmetric ? "true" : "false") +
         more + "}}}}";
}

inline std::string gptq_config(int bits, std::int64_t group, bool symmetric, int version) {
  return R"({"quant_method": "gptq", "bits": )" + std::to_string(bits) + R"(, "group_size": )" +
         std::to_string(group) + R"(, "desc_act": false, "sym": )" +
         (symmetric ? "true" : "false") + R"(, "checkpoint_format": ")" +
         (version == 1 ? "gptq" : "gptq_v2") + "\"}";
}

inline std::string awq_config(std::int64_t group) {
  return R"({"quant_method": "awq", "bits": 4, "version": "gemm", "zero_point": true, "group_size": )" +
         std::to_string(group) + "}";
}

// As the whole config.json, for tests of files alone.
inline std::string alone(const std::string& quantization_config) {
  return R"({"quantization_config": )" + quantization_config + "}";
}

}  // namespace lamina::testing
