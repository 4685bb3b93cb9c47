// The manifest of a directory: which files it has, how long they are, their checksums. It is
// written last, so a directory with a whole manifest is whole.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "io/durable_file.h"

namespace lamina::io {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr int kManifestVersion = 1;

// What is there is not what was written; other errors may have other causes.
class Damaged : public UserError {
 public:
  // REQUIRES: `what` names the file.
  explicit Damaged(ErrorText text) : UserError(ExitCode::checkpoint, std::move(text)) {}
};

struct Manifest {
  std::vector<FileDigest> files;
  JsonDocument document;                                         // the whole text
  JsonValue info() const { return document.root().at("info"); }  // what the writer added
};

// Writes `directory`/manifest.json durably. `info` fills one JSON object (begin_object and
// end_object are done for it): step, cursor, versions, whatever the owner needs.
void write_manifest(const std::string& directory, const std::vector<FileDigest>& files,
                    const std::function<void(JsonWriter&)>& info);

// Errors (class checkpoint): none there, of a later version; Damaged (it carries its own checksum).
Manifest read_manifest(const std::string& directory);

enum class Check {
  sizes,      // every file is there with its length
  structure,  // and every byte that is not a value of a tensor is as written: quick at any size
  checksums,  // and every other byte
};

// The first difference between the manifest and the files, as "<file>: <what>", the damaged tensor
// named; nothing if they agree.
std::optional<std::string> first_difference(const std::string& directory, const Manifest& manifest,
                                            Check check);

// The parts of a manifest's files, to check each while it is read.
//   PartReader reader(manifest);
//   reader.read("step-1/model.safetensors", view.name, view.bytes, weights);
class PartReader {
 public:
  // Borrows the manifest.
  explicit PartReader(const Manifest& manifest);

  // Throws Damaged unless `bytes` are those that were written as `part` of the file at `path`. They
  // are copied to `copy`, unless it is null, piece by piece while they are hashed, so that they
  // come from the disk once.
  void read(const std::string& path, std::string_view part, std::span<const std::byte> bytes,
            std::byte* copy = nullptr) const;

 private:
  std::map<std::pair<std::string_view, std::string_view>, const PartDigest*> parts_;
};

// The digest of a file that is there already, eg one copied into the directory.
FileDigest digest_file(const std::string& path);

}  // namespace lamina::io
