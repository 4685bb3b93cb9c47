// Small dense models of any dense family, with weights that a test may read and write.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "model/hidden_states.h"
#include "program/records.h"
#include "program/rows.h"
#include "support/models.h"

namespace lamina::testing {

// Width 24, 2 layers, 4 heads of width 6 and 2 key/value heads; `more` adds keys.
inline std::string dense_description(const std::string& family, const std::string& more) {
  return "family = \"" + family +
         "\"\n[model]\nvocab_size = 61\nhidden_size = 24\nnum_hidden_layers = 2\n"
         "intermediate_size = 36\nnum_attention_heads = 4\nnum_key_value_heads = 2\n"
         "head_dim = 6\nrms_norm_eps = 1e-5\ninitializer_range = 0.3\n" +
         more;
}

// Fresh weights depend only on the names of their parameters, so two models have equal weights in
// the parameters that they share.
struct DenseModel {
  decoder::Model model;
  std::vector<std::vector<float>> values;

  explicit DenseModel(const std::string& text) : model(open_description(text)) {
    const auto& all = model.parameters().all();
    const auto weights = weights::Weights::initialise(model, 5, DType::f32, cpu::cpu_backend());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto* from = floats(weights.pointers()[i]);
      values.emplace_back(from, from + all[i].num_elements());
    }
  }

  bool has(const std::string& parameter) const { return model.parameters().find(parameter) >= 0; }
  std::vector<float>& operator[](const std::string& parameter) {
    if (!has(parameter)) throw std::runtime_error("no parameter " + parameter);
    return values[static_cast<std::size_t>(model.parameters().find(parameter))];
  }
  std::vector<ConstTensorRef> pointers() const { return parameters_of(values); }
  model::HiddenStates states(const std::vector<std::int32_t>& ids) {
    return model::hidden_states(model, pointers(), ids, {.layers = true}, cpu::cpu_backend());
  }
  // Returns the output of the last layer.
  std::vector<float> last(const std::vector<std::int32_t>& ids) {
    return states(ids).layers.back();
  }
  // Returns a value of the first layer, by its tag.
  std::vector<float> recorded(const std::string& tag, const std::vector<std::int32_t>& ids) {
    const auto all =
        program::record_layers(model, pointers(),
                               program::rows_of(ids, std::vector<std::int32_t>(ids.size(), -100), 1,
                                                static_cast<std::int64_t>(ids.size())),
                               DType::f32, {tag}, cpu::cpu_backend());
    return all.at({0, tag}).at(0).values;
  }
};

}  // namespace lamina::testing
