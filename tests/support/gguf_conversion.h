// Writes published models as GGUF files, by the rules of llama.cpp's converters: their names of
// keys and tensors, and their changes of values. A test converts a golden case and compares the
// results of the file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "io/stored_weight.h"
#include "support/gguf_builder.h"

namespace lamina::testing {

using Floats = std::vector<float>;

class GgufConversion {
 public:
  using Change = std::function<Floats(Floats)>;
  // Names after "blk.<n>." and after "model.layers.<n>.".
  using Names = std::vector<std::pair<const char*, const char*>>;

  // `prefix`: the prefix of published names before "model." and "lm_head.".
  GgufConversion(const std::filesystem::path& directory, std::string architecture,
                 std::string prefix = "")
      : files_(directory.string()),
        config_(JsonDocument::read((directory / "config.json").string())),
        architecture_(std::move(architecture)),
        prefix_(std::move(prefix)) {
    gguf.set("general.architecture", architecture_);
  }

  GgufBuilder gguf;

  JsonValue config() const {
    const JsonValue text = config_.root().find("text_config");
    return text ? text : config_.root();
  }
  std::int64_t count(const char* published) const { return config().at(published).as_int64(); }
  float number(const char* published) const {
    return static_cast<float>(config().at(published).as_double());
  }

  // The key "<architecture>.<name>".
  template <typename T>
  GgufConversion& set(const char* name, const T& value) {
    gguf.set(architecture_ + "." + name, value);
    return *this;
  }
  GgufConversion& copy_count(const char* name, const char* published) {
    return set(name, static_cast<std::uint32_t>(count(published)));
  }
  GgufConversion& copy_number(const char* name, const char* published) {
    return set(name, number(published));
  }
  // Adds the keys that nearly all files have.
  GgufConversion& common_keys() {
    copy_count("block_count", "num_hidden_layers");
    copy_count("context_length", "max_position_embeddings");
    copy_count("embedding_length", "hidden_size");
    copy_count("attention.head_count", "num_attention_heads");
    copy_count("attention.head_count_kv", "num_key_value_heads");
    return copy_number("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  }
  GgufConversion& head_keys() {
    copy_count("attention.key_length", "head_dim");
    return copy_count("attention.value_length", "head_dim");
  }

  Floats values(const std::string& name) const {
    const io::StoredWeight weight(files_, prefix_ + name);
    Floats out(static_cast<std::size_t>(weight.shape().num_elements()));
    weight.decode(0, 1, out);
    return out;
  }
  // In GGUF's order.
  std::vector<std::int64_t> dims(const std::string& name) const {
    const Shape shape = io::StoredWeight(files_, prefix_ + name).shape();
    std::vector<std::int64_t> out(shape.dims().begin(), shape.dims().end());
    std::reverse(out.begin(), out.end());
    return out;
  }
  bool has(const std::string& name) const { return files_.contains(prefix_ + name); }
  io::TensorView stored(const std::string& name) const { return files_.tensor(prefix_ + name); }

  GgufConversion& tensor(const std::string& name, const std::string& published,
                         const Change& change = {}) {
    Floats all = values(published);
    gguf.tensor(name, dims(published), change ? change(std::move(all)) : all);
    return *this;
  }
  // Adds the token table and the final norm, and the head unless it is tied.
  GgufConversion& outer_tensors(const Change& of_norm = {}) {
    tensor("token_embd.weight", "model.embed_tokens.weight");
    tensor("output_norm.weight", "model.norm.weight", of_norm);
    return has("lm_head.weight") ? tensor("output.weight", "lm_head.weight") : *this;
  }
  // Adds weights and biases for all layers that have them.
  GgufConversion& layers(const Names& names, const Change& change = {}) {
    for (std::int64_t layer = 0; layer < count("num_hidden_layers"); ++layer)
      for (const auto& [name, published] : names)
        for (const char* kind : {".weight", ".bias"}) {
          const std::string from = published_layer(layer, published) + kind;
          if (has(from)) tensor(layer_name(layer, name) + kind, from, change);
        }
    return *this;
  }
  // Adds a stack of tensors that are published one by one: {E} in `published`.
  GgufConversion& experts(const std::string& name, const std::string& published,
                          std::int64_t how_many) {
    for (std::int64_t layer = 0; layer < count("num_hidden_layers"); ++layer) {
      Floats stack;
      std::vector<std::int64_t> one;
      for (std::int64_t e = 0; e < how_many; ++e) {
        const std::string from = published_layer(layer, expert_name(published, e));
        if (!has(from)) break;
        const Floats next = values(from);
        stack.insert(stack.end(), next.begin(), next.end());
        one = dims(from);
      }
      if (stack.empty()) continue;
      one.push_back(how_many);
      gguf.tensor(layer_name(layer, name) + ".weight", one, stack);
    }
    return *this;
  }

  static std::string layer_name(std::int64_t layer, const std::string& name) {
    return "blk." + std::to_string(layer) + "." + name;
  }
  static std::string published_layer(std::int64_t layer, const std::string& name) {
    return "model.layers." + std::to_string(layer) + "." + name;
  }
  static std::string expert_name(std::string name, std::int64_t expert) {
    return name.replace(name.find("{E}"), 3, std::to_string(expert));
  }

 private:
  io::WeightFiles files_;
  JsonDocument config_;
  std::string architecture_, prefix_;
};

// Names that most architectures share.
inline const GgufConversion::Names kAttentionNames = {{"attn_q", "self_attn.q_proj"},
                                                      {"attn_k", "self_attn.k_proj"},
                                                      {"attn_v", "self_attn.v_proj"},
                                                      {"attn_output", "self_attn.o_proj"}};
inline const GgufConversion::Names kFeedForwardNames = {
    {"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}};
inline const GgufConversion::Names kNormNames = {{"attn_norm", "input_layernorm"},
                                                 {"ffn_norm", "post_attention_layernorm"}};

inline GgufConversion::Change plus(float number) {
  return [number](Floats values) {
    for (float& value : values) value += number;
    return values;
  };
}
inline GgufConversion::Change times(float number) {
  return [number](Floats values) {
    for (float& value : values) value *= number;
    return values;
  };
}
inline GgufConversion::Change both(const GgufConversion::Change& first,
                                   const GgufConversion::Change& second) {
  return [=](Floats values) { return second(first(std::move(values))); };
}

// Interleaves the two halves of each head's `head_dim` rows.
inline GgufConversion::Change interleaved(std::int64_t heads, std::int64_t head_dim) {
  return [heads, head_dim](const Floats& rows) {
    const std::int64_t head = std::ssize(rows) / heads, half = head_dim / 2,
                       width = head / head_dim;
    Floats out;
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t row = 0; row < half; ++row)
        for (std::int64_t part = 0; part < 2; ++part) {
          const auto at = rows.begin() + h * head + (part * half + row) * width;
          out.insert(out.end(), at, at + width);
        }
    return out;
  };
}

// Adds attention with the rows of queries and keys in the order of Llama's files.
inline GgufConversion& add_permuted_attention(GgufConversion& model) {
  const std::int64_t heads = model.count("num_attention_heads"),
                     kv_heads = model.count("num_key_value_heads"),
                     head_dim = model.dims("model.layers.0.self_attn.q_proj.weight")[1] / heads;
  model.layers({{"attn_q", "self_attn.q_proj"}}, interleaved(heads, head_dim));
  model.layers({{"attn_k", "self_attn.k_proj"}}, interleaved(kv_heads, head_dim));
  return model.layers({kAttentionNames.begin() + 2, kAttentionNames.end()});
}

// Starts a model of Llama's layout, without feed-forwards.
inline GgufConversion as_llama(const std::filesystem::path& directory) {
  GgufConversion model(directory, "llama");
  model.common_keys().copy_count("feed_forward_length", "intermediate_size");
  model.copy_number("rope.freq_base", "rope_theta").outer_tensors().layers(kNormNames);
  add_permuted_attention(model);
  return model;
}

// Swaps the last two dims of [.., rows, columns].
inline Floats transposed(const Floats& values, std::int64_t rows, std::int64_t columns) {
  Floats out;
  const std::int64_t matrix = rows * columns;
  for (std::int64_t begin = 0; begin < std::ssize(values); begin += matrix)
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t r = 0; r < rows; ++r)
        out.push_back(values[static_cast<std::size_t>(begin + r * columns + c)]);
  return out;
}

}  // namespace lamina::testing
