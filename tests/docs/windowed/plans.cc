// The plans of docs/add_a_model.md.

#include "lamina/sdk.h"

namespace windowed {

using namespace lamina::sdk;

constexpr std::uint32_t kBlock = 1, kLocal = 2, kGlobal = 3, kDense = 4, kSparse = 5, kReader = 6;

std::vector<Plan> plans(std::int64_t layers) {
  return {
      repeat(unit(kBlock)).over(layers),                                    // {B} x L
      repeat(unit(kLocal, 5) + unit(kGlobal)).over(62).remainder_prefix(),  // {LLLLLG} x 10, {LL}
      prefix("dense", unit(kDense), 3) + repeat(unit(kSparse)).over(58),    // {D} x 3, {M} x 58
      repeat(unit(kBlock, 1, {{"sliding_window", 512}}) + unit(kBlock)).over(layers),
  };
}

// The last two layers read the keys and values of an earlier one.
Plan shared_tail(std::int64_t donor) {
  return prefix("own", unit(kLocal), 4) +
         prefix("shared", Unit{{.block = kReader, .kv_donor = donor}}, 2);
}

// Every layer uses the parameters of the first.
Plan one_layer_repeated(std::int64_t layers) {
  return prefix("owner", unit(kBlock), 1) +
         prefix("users", Unit{{.block = kBlock, .params_of = 0}}, layers - 1);
}

}  // namespace windowed
