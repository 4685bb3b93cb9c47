#include "core/dtype.h"

#include <array>

namespace lamina {
namespace {

struct Row {
  DType dtype;
  int bytes;
  std::string_view name;
  std::string_view long_name;
};

constexpr std::array kTable = {
    Row{DType::f32, 4, "f32", "float32"},
    Row{DType::bf16, 2, "bf16", "bfloat16"},
    Row{DType::f16, 2, "f16", "float16"},
    Row{DType::f64, 8, "f64", "float64"},
    Row{DType::i32, 4, "i32", "int32"},
    Row{DType::i64, 8, "i64", "int64"},
    Row{DType::u8, 1, "u8", "uint8"},
    Row{DType::i8, 1, "i8", "int8"},
    Row{DType::boolean, 1, "bool", "bool"},
    Row{DType::f8_e4m3, 1, "f8_e4m3", "float8_e4m3fn"},
    Row{DType::f8_e5m2, 1, "f8_e5m2", "float8_e5m2"},
    Row{DType::f8_e8m0, 1, "f8_e8m0", "float8_e8m0fnu"},
    Row{DType::i16, 2, "i16", "int16"},
    Row{DType::u16, 2, "u16", "uint16"},
    Row{DType::u32, 4, "u32", "uint32"},
    Row{DType::u64, 8, "u64", "uint64"},
};

const Row& row(DType dtype) { return kTable[static_cast<std::size_t>(dtype) - 1]; }

}  // namespace

int size_bytes(DType dtype) { return row(dtype).bytes; }

std::string_view name(DType dtype) { return row(dtype).name; }

std::string_view long_name(DType dtype) { return row(dtype).long_name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (const Row& r : kTable)
    if (text == r.name || text == r.long_name) return r.dtype;
  return std::nullopt;
}

bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f64;
}

}  // namespace lamina
