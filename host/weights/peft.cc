#include "weights/peft.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "io/weight_files.h"
#include "publishers/formats.h"
#include "weights/published.h"
#include "weights/tensor_map.h"

namespace lamina::weights {
namespace {

bool is_nothing(const JsonValue& value) {
  if (!value || value.is_null()) return true;
  if (value.is_bool()) return !value.as_bool();
  if (value.is_string()) return value.as_string() == "none";
  return (value.is_array() || value.is_object()) && value.size() == 0;
}

// The parameters that the adapter adds to a matrix; -1 where it adds none.
struct Parts {
  int down, up, magnitude;
};
Parts parts_of(const decoder::Model& model, int parameter) {
  const decoder::Parameter& p = model.parameters()[parameter];
  const std::string& own = p.desc.name;
  const decoder::AdapterTarget* target = model.adapter()->find(p.block, own);
  if (!target) return {-1, -1, -1};
  const std::string scope = p.name.substr(0, p.name.size() - own.size());
  const auto find = [&](const std::string& of, std::string_view part) {
    return model.parameters().find(scope + decoder::adapter_name(of, part));
  };
  return {find(target->down_of.empty() ? own : target->down_of, decoder::kAdapterDown),
          find(own, decoder::kAdapterUp), find(own, decoder::kAdapterMagnitude)};
}

}  // namespace

double PeftConfig::scale() const {
  const double r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

PeftConfig read_peft_config(const std::string& directory) {
  const JsonDocument document = JsonDocument::read(
      fmt::format("{}/{}", directory, publishers::kAdapterConfig), {.code = ExitCode::checkpoint});
  const JsonValue all = document.root();
  if (all.at("peft_type").as_string() != "LORA")
    all.at("peft_type").fail("must be \"LORA\", got " + all.at("peft_type").describe());
  for (const char* key : {"bias", "modules_to_save", "rank_pattern", "alpha_pattern",
                          "layers_to_transform", "layer_replication", "lora_bias",
                          "target_parameters", "trainable_token_indices", "exclude_modules"})
    if (const JsonValue value = all.find(key); !is_nothing(value))
      value.fail("is " + value.describe() + "; lamina's adapters have no such thing",
                 {"merge it into its model with PEFT, and use that"});
  PeftConfig out;
  out.rank = all.at("r").as_int64();
  if (out.rank < 1) all.at("r").fail("must be at least 1, got " + all.at("r").describe());
  out.alpha = all.at("lora_alpha").as_double();
  if (const JsonValue v = all.find("lora_dropout")) out.dropout = v.as_double();
  if (const JsonValue v = all.find("use_rslora"); !is_nothing(v)) out.rslora = v.as_bool();
  if (const JsonValue v = all.find("use_dora"); !is_nothing(v)) out.dora = v.as_bool();
  const JsonValue targets = all.at("target_modules");
  if (targets.is_string())
    out.target_modules = {std::string(targets.as_string())};
  else
    for (JsonValue target : targets.elements()) out.target_modules.emplace_back(target.as_string());
  if (const JsonValue v = all.find("base_model_name_or_path"); v && v.is_string())
    out.base = v.as_string();
  return out;
}

std::string peft_config_text(const PeftConfig& config) {
  JsonWriter json(2);
  json.begin_object();
  json.key("base_model_name_or_path").value(config.base).key("bias").value("none");
  json.key("fan_in_fan_out").value(false).key("inference_mode").value(true);
  json.key("init_lora_weights").value(true).key("lora_alpha").value(config.alpha);
  json.key("lora_dropout").value(config.dropout).key("modules_to_save").null();
  json.key("peft_type").value("LORA").key("r").value(config.rank);
  json.key("target_modules");
  if (config.target_modules.size() == 1 && config.target_modules[0] == "all-linear") {
    json.value("all-linear");
  } else {
    json.begin_array();
    for (const std::string& target : config.target_modules) json.value(target);
    json.end_array();
  }
  json.key("task_type").value("CAUSAL_LM").key("use_dora").value(config.dora);
  json.key("use_rslora").value(config.rslora);
  return json.end_object().text() + "\n";
}

std::vector<io::FileDigest> write_adapter(const decoder::Model& model, const std::string& directory,
                                          const ParameterValues& values) {
  const TensorMap map = published_tensors(model);
  std::vector<io::TensorSpec> specs;
  std::map<std::string, int, std::less<>> tensors;
  for (std::size_t i = 0; i < map.tensors().size(); ++i) {
    const PublishedTensor& tensor = map.tensors()[i];
    if (!tensor.name.starts_with(publishers::kAdapterPrefix)) continue;
    specs.push_back({tensor.name, DType::f32, tensor.shape});
    tensors.emplace(tensor.name, static_cast<int>(i));
  }
  std::vector<float> whole;
  const auto bytes = [&](const io::TensorSpec& spec) {
    whole = assemble(map, tensors.at(spec.name),
                     [&](int parameter, std::int64_t first, std::int64_t count) {
                       return values(parameter).subspan(static_cast<std::size_t>(first),
                                                        static_cast<std::size_t>(count));
                     });
    return std::as_bytes(std::span<const float>(whole));
  };
  return io::write_weight_files(directory, specs, bytes,
                                {.stem = std::string(publishers::kAdapterStem)});
}

bool has_adapter(const decoder::Model& model, int parameter) {
  return model.adapter() && parts_of(model, parameter).up >= 0;
}

void merge_adapter(const decoder::Model& model, int parameter, const ParameterValues& values,
                   std::span<float> weight) {
  const Parts parts = parts_of(model, parameter);
  const Shape& shape = model.parameters()[parameter].desc.shape;
  const std::int64_t rank = model.adapter()->rank, rows = shape[-2], columns = shape[-1];
  const std::int64_t experts = shape.ndim() == 3 ? shape[0] : 1;
  const std::span<const float> down = values(parts.down), up = values(parts.up);
  const std::span<const float> lengths =
      parts.magnitude < 0 ? std::span<const float>{} : values(parts.magnitude);
  std::vector<double> row(static_cast<std::size_t>(columns));
  for (std::int64_t o = 0; o < experts * rows; ++o) {
    std::ranges::fill(row, 0.0);
    for (std::int64_t r = 0; r < rank; ++r) {
      const double by = static_cast<double>(up[static_cast<std::size_t>(o * rank + r)]);
      const std::int64_t from = (o / rows * rank + r) * columns;
      for (std::int64_t i = 0; i < columns; ++i)
        row[static_cast<std::size_t>(i)] +=
            by * static_cast<double>(down[static_cast<std::size_t>(from + i)]);
    }
    const std::span<float> out = weight.subspan(static_cast<std::size_t>(o * columns), row.size());
    double squared = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<double>(out[i]) + model.adapter()->scale * row[i];
      squared += row[i] * row[i];
    }
    const double by = lengths.empty() ? 1
                                      : static_cast<double>(lengths[static_cast<std::size_t>(o)]) /
                                            std::sqrt(squared);
    for (std::size_t i = 0; i < row.size(); ++i) out[i] = static_cast<float>(by * row[i]);
  }
}

void start_magnitudes(const decoder::Model& model, int parameter, const ParameterValues& values,
                      std::span<float> out) {
  const std::string of = decoder::adapted_name(model.parameters()[parameter].name);
  const std::span<const float> weight = values(model.parameters().find(of));
  const std::size_t columns = weight.size() / out.size();
  for (std::size_t o = 0; o < out.size(); ++o) {
    double squared = 0;
    for (const float w : weight.subspan(o * columns, columns))
      squared += static_cast<double>(w) * static_cast<double>(w);
    out[o] = static_cast<float>(std::sqrt(squared));
  }
}

}  // namespace lamina::weights
