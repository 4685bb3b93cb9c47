// The keys of a MaxText case, and which of them were read: one that nobody reads is not computed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/json.h"

namespace lamina::testing {

class MaxTextKeys {
 protected:
  // Of objects; earlier ones win.
  explicit MaxTextKeys(std::vector<JsonValue> sources) : sources_(std::move(sources)) {
    std::erase_if(sources_, [](JsonValue source) { return !source || !source.is_object(); });
  }

  JsonValue find(const char* key) {
    read_.insert(key);
    for (JsonValue source : sources_)
      if (JsonValue v = source.find(key)) return v;
    return {};
  }
  std::int64_t integer(const char* key, std::int64_t preset) {
    JsonValue v = find(key);
    return v ? v.as_int64() : preset;
  }
  std::vector<std::int64_t> integers(const char* key) {
    std::vector<std::int64_t> out;
    if (JsonValue list = find(key))
      for (JsonValue element : list.elements()) out.push_back(element.as_int64());
    return out;
  }
  double number(const char* key, double preset) {
    JsonValue v = find(key);
    return v ? v.as_double() : preset;
  }
  bool flag(const char* key, bool preset) {
    JsonValue v = find(key);
    return v ? v.as_bool() : preset;
  }
  std::string text(const char* key, const char* preset) {
    JsonValue v = find(key);
    return std::string(v ? v.as_string() : preset);
  }

  // Marks keys that say how a case was computed, and sizes that follow from others, as read.
  void how_it_was_computed() {
    read_.insert({"emb_dim", "enable_dropout", "float32_gate_logits", "float32_logits",
                  "float32_qk_product", "global_batch_size_to_train_on", "max_target_length",
                  "micro_batch_size_to_train_on", "mlp_dim", "model_name", "moe_mlp_dim",
                  "num_decoder_layers", "num_kv_heads", "num_query_heads", "override_model_config",
                  "param_scan_axis", "per_device_batch_size", "scan_layers", "sparse_matmul"});
  }

  // What is wrong with the first key that was not read; empty if all were. Vision encoders are no
  // part of cases.
  std::string complaint() const {
    for (JsonValue source : sources_)
      for (auto [key, value] : source.members())
        if (!read_.contains(std::string(key)) && !key.ends_with("_for_vit"))
          return fmt::format("has key '{}', which nothing here computes", key);
    return {};
  }

  std::set<std::string> read_;  // also keys that say nothing to us

 private:
  std::vector<JsonValue> sources_;
};

}  // namespace lamina::testing
