// A model directory as Hugging Face lays it out: config.json, generation_config.json, tokenizer
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
  // Errors (class checkpoint): no such directory; no config.json in it (what is there is named);
  // not a JSON object.
  explicit HfDirectory(std::string path);

  const std::string& path() const { return path_; }
  // config.json, whole.
  JsonValue config() const { return config_.root(); }
  // generation_config.json, or nothing.
  JsonValue generation_config() const {
    return generation_config_ ? generation_config_->root() : JsonValue();
  }
  // Ids that end generation: eos_token_id (one or a list) of generation_config.json, else of
  // config.json, else none.
  std::vector<std::int64_t> eos_token_ids() const;
  // Placeholder token ids of config.json: images, videos, sounds.
  std::vector<std::int64_t> placeholder_token_ids() const;

 private:
  std::vector<JsonValue> configs() const;

  std::string path_;
  JsonDocument config_;
  std::optional<JsonDocument> generation_config_;
};

// generation_config.json of a model directory or a checkpoint, if it has one. Errors (class
// checkpoint): damaged.
std::optional<JsonDocument> read_generation_config(const std::string& directory);

// eos_token_id of a config.json or generation_config.json: one id, a list, or none.
std::vector<std::int64_t> eos_token_ids(const JsonValue& config);

// True unless `name` in `directory` is a link to a file elsewhere, which is not the model's to pass
// on. The blobs of the Hub's cache are the model's: the files of its snapshots link there.
bool belongs_to(const std::string& directory, const std::string& name);

// The files of `directory` that are copied unchanged when a model is exported or saved: tokenizer
// files, chat templates, generation_config.json. Sorted names, those of folders with a "/". A
// warning for each link that does not belong to the directory, which is left out.
std::vector<std::string> side_files(const std::string& directory);

// The additional chat templates of a model directory: "additional_chat_templates/NAME.jinja".
std::vector<std::string> additional_chat_templates(const std::string& directory);

// Copies side_files(from) into `to`, durably, and returns their checksums.
std::vector<FileDigest> copy_side_files(const std::string& from, const std::string& to);

}  // namespace lamina::io
