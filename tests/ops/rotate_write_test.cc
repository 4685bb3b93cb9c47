// Cases of rotate_write.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

const In kStarts = ints({2}, {0, 6});
const In kAngles = {.shape = {2, 2, 3, 4}, .dtype = DType::f32};

using NamedAttrs = std::vector<std::pair<std::string, AttrValue>>;
// Attributes whose value is 1.
NamedAttrs flags(std::initializer_list<const char*> names, NamedAttrs more = {}) {
  for (const char* name : names) more.emplace_back(name, std::int64_t{1});
  return more;
}

// Heads of 64 channels, which vectors divide; `half` pairs of them rotate.
OpCase wide_heads(std::string name, std::int64_t half, NamedAttrs attrs) {
  return {.name = std::move(name),
          .inputs = {{.shape = {1, 7, 2, 64}},
                     {.shape = {1, 7, 2, 32}},
                     {.shape = {1, 3, 2, 64}},
                     {.shape = {1, 3, 2, 32}},
                     {.shape = {1, 3, 4, 64}},
                     {.shape = {2, 1, 3, half}, .dtype = DType::f32},
                     ints({1}, {2})},
          .attrs = std::move(attrs)};
}

const OpCases kCases = {.op = "rotate_write",
                        .dtypes = {DType::f32, DType::bf16, DType::f16, DType::f64},
                        .cases = {
                            {.name = "keys, values and queries",
                             .inputs = {{.shape = {2, 9, 2, 8}},
                                        {.shape = {2, 9, 2, 5}},
                                        {.shape = {2, 3, 2, 8}},
                                        {.shape = {2, 3, 2, 5}},
                                        {.shape = {2, 3, 6, 8}},
                                        kAngles,
                                        kStarts},
                             .attrs = flags({"rotate_k"})},
                            {.name = "interleaved, some dims pass",
                             .inputs = {{.shape = {2, 9, 2, 13}},
                                        {.shape = {2, 9, 2, 5}},
                                        {.shape = {2, 3, 2, 13}},
                                        {.shape = {2, 3, 2, 5}},
                                        {.shape = {2, 3, 1, 8}},
                                        kAngles,
                                        kStarts},
                             .attrs = flags({"rotate_k", "interleaved"})},
                            wide_heads("wide heads", 32, flags({"rotate_k"})),
                            wide_heads("wide heads, some dims pass", 16, flags({"rotate_k"})),
                            wide_heads("wide heads, interleaved, some dims pass", 16,
                                       flags({"rotate_k", "interleaved"})),
                            {.name = "rings of different lengths",
                             .inputs = {{.shape = {2, 4, 1, 8}},
                                        {.shape = {2, 5, 1, 3}},
                                        {.shape = {2, 3, 1, 8}},
                                        {.shape = {2, 3, 1, 3}},
                                        {.shape = {2, 3, 2, 8}},
                                        kAngles,
                                        ints({2}, {7, 1})},
                             .attrs = flags({"rotate_k", "ring"})},
                            {.name = "slots 1 to 4 as a ring",
                             .inputs = {{.shape = {2, 6, 8}},
                                        kAbsent,
                                        {.shape = {2, 3, 1, 8}},
                                        kAbsent,
                                        {.shape = {2, 3, 2, 8}},
                                        kAngles,
                                        ints({2}, {6, 0})},
                             .attrs = flags({"rotate_k", "ring"}, {{"first", std::int64_t{1}},
                                                                   {"slots", std::int64_t{4}}})},
                            {.name = "tokens that do not fit",
                             .inputs = {{.shape = {2, 4, 2, 8}},
                                        {.shape = {2, 4, 2, 8}},
                                        {.shape = {2, 3, 2, 8}},
                                        {.shape = {2, 3, 2, 8}},
                                        {.shape = {2, 3, 2, 8}},
                                        kAngles,
                                        ints({2}, {2, -1})},
                             .attrs = flags({"rotate_k"})},
                            {.name = "keys alone",
                             .inputs = {{.shape = {2, 9, 3, 8}},
                                        kAbsent,
                                        {.shape = {2, 3, 3, 8}},
                                        kAbsent,
                                        kAbsent,
                                        kAngles,
                                        kStarts},
                             .attrs = flags({"rotate_k"})},
                            {.name = "latents, whose heads the cache lacks",
                             .inputs = {{.shape = {2, 9, 6}},
                                        {.shape = {2, 9, 8}},
                                        {.shape = {2, 3, 6}},
                                        {.shape = {2, 3, 1, 8}},
                                        {.shape = {2, 3, 4, 8}},
                                        kAngles,
                                        kStarts},
                             .attrs = flags({"rotate_v"})},
                            {.name = "nothing rotates",
                             .inputs = {{.shape = {2, 9, 2, 8}},
                                        {.shape = {2, 9, 2, 8}},
                                        {.shape = {2, 3, 2, 8}},
                                        {.shape = {2, 3, 2, 8}},
                                        kAbsent,
                                        kAbsent,
                                        kStarts}},
                            {.name = "keys and values rotate",
                             .inputs = {{.shape = {2, 9, 1, 16}},
                                        {.shape = {2, 9, 1, 16}},
                                        {.shape = {2, 3, 1, 16}},
                                        {.shape = {2, 3, 1, 16}},
                                        {.shape = {2, 3, 2, 16}},
                                        kAngles,
                                        kStarts},
                             .attrs = flags({"rotate_k", "rotate_v"})},
                            {.name = "queries alone rotate",
                             .inputs = {{.shape = {2, 9, 2, 8}},
                                        {.shape = {2, 9, 2, 8}},
                                        {.shape = {2, 3, 2, 8}},
                                        {.shape = {2, 3, 2, 8}},
                                        {.shape = {2, 3, 2, 8}},
                                        kAngles,
                                        kStarts}},
                            {.name = "no tokens",
                             .inputs = {{.shape = {2, 9, 2, 8}},
                                        {.shape = {2, 9, 2, 8}},
                                        {.shape = {2, 0, 2, 8}},
                                        {.shape = {2, 0, 2, 8}},
                                        {.shape = {2, 0, 6, 8}},
                                        {.shape = {2, 2, 0, 4}, .dtype = DType::f32},
                                        kStarts},
                             .attrs = flags({"rotate_k"})},
                        }};
LAMINA_TEST_OP(RotateWrite, kCases)

}  // namespace
}  // namespace lamina::testing
