// Cases of adapted_lengths. Its kernel for stored matrices: tests/train/stored_adapters_test.cc.
#include <cmath>

#include "support/op_cases.h"

namespace lamina::testing {
namespace {

// Lengths of the rows of w[O, I] + scale up[O, R] down[R, I] in plain loops.
OpCase lengths(std::string name, std::int64_t outputs, std::int64_t inputs, std::int64_t rank,
               double scale) {
  return {.name = std::move(name),
          .inputs = {{.shape = {outputs, inputs}},
                     {.shape = {outputs, rank}},
                     {.shape = {rank, inputs}}},
          .attrs = {{"scale", scale}},
          .expect = [=](const std::vector<Doubles>& in) {
            Doubles out;
            for (std::int64_t o = 0; o < outputs; ++o) {
              double squared = 0;
              for (std::int64_t i = 0; i < inputs; ++i) {
                double value = in[0][static_cast<std::size_t>(o * inputs + i)];
                for (std::int64_t r = 0; r < rank; ++r)
                  value += scale * in[1][static_cast<std::size_t>(o * rank + r)] *
                           in[2][static_cast<std::size_t>(r * inputs + i)];
                squared += value * value;
              }
              out.push_back(std::sqrt(squared));
            }
            return std::vector<Doubles>{out};
          }};
}

const OpCases kCases = {
    .op = "adapted_lengths",
    .cases = {lengths("rows", 5, 17, 3, 0.5), lengths("one row", 1, 33, 2, 2),
              lengths("no rows", 0, 4, 2, 1), lengths("one value", 3, 1, 1, 1)}};
LAMINA_TEST_OP(AdaptedLengths, kCases)

}  // namespace
}  // namespace lamina::testing
