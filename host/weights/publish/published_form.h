// The form in which a model was published, kept beside checkpoints of training that began there: an
// export has it again.
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

// Its config.json, and for each tensor the type and the file:
//   {"config": {...}, "tensors": {"model.norm.weight": {"dtype": "bf16", "file": "model..."}}}
class PublishedForm {
 public:
  // Errors (class checkpoint): damaged.
  explicit PublishedForm(const std::string& path);
  // Reads the text that published_form() gives.
  static PublishedForm of_text(std::string text);
  // That of a checkpoint, if it has one.
  static std::optional<PublishedForm> beside(const std::string& checkpoint);

  // Returns true where the language model is a part of a larger one, which has it as text_config.
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

// The text of published.json for `model`, whose weights come from `files`, which are `map` of
// `source`. Values of [model] that differ from the source's are in its config. Compressed tensors
// will be bfloat16. "" where the files are not beside a config.json nor a checkpoint with a form.
std::string published_form(const decoder::Model& model, const decoder::Model& source,
                           const io::WeightFiles& files, const TensorMap& map);

}  // namespace lamina::weights
