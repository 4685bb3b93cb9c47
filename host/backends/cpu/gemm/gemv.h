// Products with few rows, as in decoding. They read the weights once: at the speed of memory for 1
// and 2 rows; on Zen 4 at 60 to 68 % of the bf16 peak with 16 rows and 62 to 82 % with 64, on Zen 3
// at 63 to 68 % of the f32 peak with 12 to 32.
//
//   auto qkv = make_gemv_group({.m = 1, .k = dim, .matrices = {{.n = q}, {.n = kv}, {.n = kv}}},
//   &why); qkv->run(x, std::array<GemvOperands, 3>{{{wq, q_out}, {wk, k_out}, {wv, v_out}}});
//
// One parallel region computes all matrices of a group. Row i of the result has the same bits for
// every m (a sequence decodes alike alone and in a batch), every grouping, and any number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/threads/isa.h"
#include "core/dtype.h"
#include "formats/block_formats.h"

namespace lamina::cpu {

// The maximum rows of x in a group.
inline constexpr std::int64_t kMaxGemvRows = 64;

struct GemvMatrix {
  std::int64_t n = 0;         // outputs
  std::int64_t ldw = 0;       // elements between stored rows of W; 0: adjacent
  std::int64_t ldo = 0;       // elements between rows of out and of addend; 0: n
  std::optional<DType> bias;  // bf16 or f32, [n]
  // The format of W, whose rows are adjacent then; null: plain. If `in` is bf16, formats of
  // stored_dots.h are multiplied as they are: x is quantised to int8 (stored/prepared_rows.h) for
  // values that are integers times scales, and FP8 values are multiplied before their scales. Else
  // panels of rows are widened to `in` before they are multiplied, with the bits of a plain W.
  const formats::BlockFormat* stored = nullptr;
};

struct GemvGroupSpec {
  std::int64_t m = 1, k = 0;
  DType in = DType::bf16;    // of x and W: bf16 or f32
  DType out = DType::bf16;   // of every out and addend: bf16 or f32
  bool w_transposed = true;  // W is stored as [n, k]; false: [k, n], a slower layout for this
  std::int64_t ldx = 0;      // elements between rows of x; 0: k
  std::vector<GemvMatrix> matrices;
  bool add = false;  // out = sum + addend (a residual; may be `out` itself), rounded once
};

struct GemvOperands {
  const void* w = nullptr;
  void* out = nullptr;           // [m, n]
  const void* bias = nullptr;    // if the matrix has one
  const void* addend = nullptr;  // [m, n], with `add`
};

class GemvGroup {
 public:
  virtual ~GemvGroup() = default;
  // Scratch memory that run() needs, 64-byte aligned; 0 if no W is stored in blocks.
  virtual std::size_t workspace_bytes() const = 0;
  // x is [m, k]; one GemvOperands per matrix. Allocates nothing. [any thread; with workspace, one
  // run at a time, not with a larger pool than when it was made]
  virtual void run(const void* x, std::span<const GemvOperands> operands,
                   std::byte* workspace = nullptr) const = 0;
  // Returns the kernel's name for `lamina explain`, eg: "rows avx512_bf16".
  virtual std::string_view kernel() const = 0;
};

// Returns the largest number of rows of `in` for which streaming weights stored as [n, k] beats
// tiles, which repack them first; at most kMaxGemvRows. Single products and groups use the same
// bound, because the two methods round differently, except with a matrix unit. `stored`: the
// format of the weights, or null. [any thread]
std::int64_t max_rows_to_stream(DType in, const formats::BlockFormat* stored);

// Returns nullptr, with the reason in *why, for a group with more than kMaxGemvRows rows, other
// element types, or a stored W that has gaps between its rows or columns as rows. [any thread]
std::unique_ptr<GemvGroup> make_gemv_group(const GemvGroupSpec& spec, std::string* why);

// Below: the functions of one instruction set, for gemv.cc, grouped.cc and products of stored rows.
// They compute a range of the outputs of one matrix.

inline constexpr std::int64_t kMaxStreamedRows = 64;

struct RowsArguments {
  std::int64_t m, k;  // m is at most kMaxStreamedRows
  const void* x;
  std::int64_t ldx;
  const void* packed_x = nullptr;  // what Named::pack made of x; nullptr: each call packs itself
  const void* w;
  std::int64_t ldw;
  const void* bias;    // nullptr: none
  const void* addend;  // nullptr: none
  void* out;
  std::int64_t ldo;
  bool bf16_in, bf16_out, bf16_bias;
};

// Computes outputs [begin, end) of every row of x.
using RowsFunction = void (*)(const RowsArguments&, std::int64_t begin, std::int64_t end);

struct GemvFunctions {
  struct Named {
    RowsFunction run;
    std::string_view name;  // for `lamina explain`
    // Packs x, which all calls of a product read, into packed_bytes(m, k) bytes, 64-byte aligned.
    // Null: run() reads x.
    std::size_t (*packed_bytes)(std::int64_t m, std::int64_t k) = nullptr;
    void (*pack)(const RowsArguments&, void* packed) = nullptr;
  };
  Named rows;            // W stored [n, k]
  Named rows_bf16 = {};  // likewise, bf16 products by vdpbf16ps: for avx512_bf16 only
  Named columns;         // W stored [k, n]

  static const GemvFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
