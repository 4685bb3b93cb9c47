// Cases of sinkhorn.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

const OpCases kCases = {.op = "sinkhorn",
                        .cases = {{.name = "four streams",
                                   .inputs = {{.shape = {2, 3, 4, 4}, .low = -3, .high = 3}},
                                   .attrs = {{"iterations", std::int64_t{5}}, {"eps", 1e-6}}},
                                  {.name = "one round",
                                   .inputs = {{.shape = {3, 3}}},
                                   .attrs = {{"iterations", std::int64_t{1}}, {"eps", 1e-3}}},
                                  {.name = "more than a kernel's 16",
                                   .inputs = {{.shape = {17, 17}}},
                                   .attrs = {{"iterations", std::int64_t{2}}},
                                   .gradient = false},
                                  {.name = "one stream", .inputs = {{.shape = {2, 1, 1}}}}}};

LAMINA_TEST_OP(Sinkhorn, kCases)

}  // namespace
}  // namespace lamina::testing
