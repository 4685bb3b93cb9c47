#include "wrong_cases.h"

#include "backends/cpu/backend.h"
#include "conformance/numbers/compare.h"
#include "conformance/numbers/one_pass.h"
#include "conformance/numbers/training.h"
#include "runtime/host_access.h"

namespace lamina::conformance {
namespace {

// Computes other norms in an unrolled stack.
void change_norms(ModelCase& c) {
  const auto open = c.open;
  c.open = [open](bool scan_layers) {
    decoder::Model whole = open(scan_layers);
    if (scan_layers) return whole;
    const std::shared_ptr<const registry::Family> family(&whole.family(),
                                                         [](const registry::Family*) {});
    config::Raw raw;
    for (const config::Entry& entry : whole.config().values().entries()) {
      config::Value value = entry.value;
      if (entry.key == "rms_norm_eps") value = 0.01;
      raw.entries.push_back({"model." + entry.key, value, entry.origin, {}, ""});
    }
    return decoder::Model(family, family->configure(raw, "test"), {.scan_layers = false});
  };
}

// Changes the last bits of a weight each time it is loaded.
void change_a_weight(ModelCase& c) {
  const auto load = c.load;
  c.load = [load, times = 0](const decoder::Model& model, DType compute) mutable {
    weights::Weights out = load(model, compute);
    const int table = model.parameters().find("embed.weight");
    const decoder::Parameter& p = model.parameters()[table];
    std::vector<float> values(static_cast<std::size_t>(p.num_elements()));
    weights::initialise(p, 1, values);
    for (float& value : values) value *= 1 + 0.02f * static_cast<float>(times);
    write_tensor<std::byte>(cpu::cpu_backend().context().queue(), out.own_tensor(table),
                            [&](std::span<std::byte> to) {
                              weights::store(values, p.used_dtype(compute), 0, to.data());
                            });
    ++times;
    return out;
  };
}

}  // namespace

std::vector<WrongCase> wrong_cases() {
  return {
      {"the unrolled stack computes other norms",
       "EQV-3",
       change_norms,
       {check_scanned_pass_is_unrolled, check_scanned_step_is_unrolled}},
      {"a rematerialised value differs",
       "EQV-4",
       change_a_weight,
       {check_remat_policies_give_the_same_bits, check_own_remat_tags}},
      {"the second of two passes differs", "NUM-2", change_a_weight, {check_the_same_pass_twice}},
  };
}

}  // namespace lamina::conformance
