// The form in which a model was published, stored beside checkpoints of training that started from
// it, so that an export can restore it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/json.h"
#include "decoder/model.h"
#include "io/weight_files.h"
#include "weights/match/tensor_map.h"

namespace lamina::weights {

inline constexpr std::string_view kPublishedFormFile = "published.json";

// Its config.json, and the type and the file of each tensor:
//   {"config": {...}, "tensors": {"model.norm.weight": {"dtype": "bf16", "file": "model..."}}}
class PublishedForm {
 public:
  // Errors (class checkpoint): damaged.
  explicit PublishedForm(const std::string& path);
  // Parses the text returned by published_form().
  static PublishedForm of_text(std::string text);
  // Returns the form of a checkpoint, if it has one.
  static std::optional<PublishedForm> beside(const std::string& checkpoint);

  // Returns whether the language model is a part of a larger one, which has it as text_config.
  bool is_wrapped() const;
  JsonValue config() const { return document_.root().at("config"); }
  // Borrowed.
  const std::vector<std::string_view>& names() const { return names_; }
  std::optional<DType> dtype(std::string_view tensor) const;
  // The type of most tensors.
  DType main_dtype() const;
  const std::map<std::string, std::string, std::less<>>& file_of() const { return file_of_; }

 private:
  explicit PublishedForm(JsonDocument document);
  JsonDocument document_;
  std::vector<std::string_view> names_;
  std::map<std::string, DType, std::less<>> dtypes_;
  std::map<std::string, std::string, std::less<>> file_of_;
};

// Returns the name under which the values of a stored tensor are published: without wrapper
// modules, and without the suffix for blocks if the family knows that name.
std::string name_of_values(const decoder::Model& model, std::string_view tensor);

// Returns the type in which the values of a stored tensor are published: its own, bfloat16 for a
// compressed one.
DType published_dtype(const io::WeightFiles& files, std::string_view tensor);

// Returns the text of published.json for `model`, whose weights come from `files`, which `map` maps
// to `source`. Its config contains the values of [model] that differ from the source. Returns ""
// if the files are neither beside a config.json nor a checkpoint with a form.
std::string published_form(const decoder::Model& model, const decoder::Model& source,
                           const io::WeightFiles& files, const TensorMap& map);

}  // namespace lamina::weights
