// A model directory in the layout of Hugging Face: config.json, generation_config.json, tokenizer
// files, weights (io/weight_files.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "io/durable_file.h"

namespace lamina::io {

class HfDirectory {
 public:
  // Errors (class checkpoint): the directory is missing; it has no config.json (the error lists its
  // contents); config.json is not a JSON object.
  explicit HfDirectory(std::string path);

  const std::string& path() const { return path_; }
  // The whole config.json.
  JsonValue config() const { return config_.root(); }
  // Returns generation_config.json, or nothing.
  JsonValue generation_config() const {
    return generation_config_ ? generation_config_->root() : JsonValue();
  }
  // Returns the ids that end generation: eos_token_id (one or a list) of generation_config.json,
  // else of config.json, else none.
  std::vector<std::int64_t> eos_token_ids() const;
  // Returns the placeholder token ids of config.json: images, videos, sounds.
  std::vector<std::int64_t> placeholder_token_ids() const;

 private:
  std::vector<JsonValue> configs() const;

  std::string path_;
  JsonDocument config_;
  std::optional<JsonDocument> generation_config_;
};

// Reads generation_config.json of a model directory or a checkpoint, if it exists. Errors (class
// checkpoint): it is damaged.
std::optional<JsonDocument> read_generation_config(const std::string& directory);

// Returns eos_token_id of a config.json or generation_config.json: one id, a list, or none.
std::vector<std::int64_t> eos_token_ids(const JsonValue& config);

// Returns false if `name` in `directory` is a link to a file elsewhere, which is not part of the
// model. The blobs of the Hub's cache are part of it: the files of its snapshots link there.
bool belongs_to(const std::string& directory, const std::string& name);

// Returns the files of `directory` that are copied unchanged when a model is exported or saved:
// tokenizer files, chat templates, generation_config.json. Names are sorted; names of files in
// folders contain a "/". Skips each link that does not belong to the directory, with a warning.
// Errors (class checkpoint): the directory was removed meanwhile, so that files seem absent.
std::vector<std::string> side_files(const std::string& directory);

// Returns the additional chat templates of a model directory:
// "additional_chat_templates/NAME.jinja".
std::vector<std::string> additional_chat_templates(const std::string& directory);

// Copies side_files(from) into `to`, durably, and returns their checksums.
std::vector<FileDigest> copy_side_files(const std::string& from, const std::string& to);

}  // namespace lamina::io
