// The manifest of a directory: names, lengths and checksums of its files. It is written last, so a
// directory with a complete manifest is complete.
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

// A file does not match its manifest; other errors may have other causes.
class Damaged : public UserError {
 public:
  // REQUIRES: `what` names the file.
  explicit Damaged(ErrorText text) : UserError(ExitCode::checkpoint, std::move(text)) {}
};

struct FileManifest {
  std::vector<FileDigest> files;
  JsonDocument document;                                         // the whole text
  JsonValue info() const { return document.root().at("info"); }  // data of the writer
};

// Writes `directory`/manifest.json durably. `info` writes the members of one JSON object: step,
// cursor, versions, or any other data of the owner.
void write_manifest(const std::string& directory, const std::vector<FileDigest>& files,
                    const std::function<void(JsonWriter&)>& info);

// Errors (class checkpoint): it is missing, or of a newer version; Damaged (it contains its own
// checksum).
FileManifest read_manifest(const std::string& directory);

enum class ManifestCheck {
  sizes,      // every file exists with its length
  structure,  // also every byte outside tensor values: fast for any size
  checksums,  // also every other byte
};

// Returns the first difference between the manifest and the files, as "<file>: <what>", with the
// damaged tensor; nothing if they agree.
std::optional<std::string> first_difference(const std::string& directory,
                                            const FileManifest& manifest, ManifestCheck check);

// Reads the parts of a manifest's files and checks each.
//   PartReader reader(manifest);
//   reader.read("step-1/model.safetensors", view.name, view.bytes, weights);
class PartReader {
 public:
  // Borrows the manifest.
  explicit PartReader(const FileManifest& manifest);

  // Throws Damaged unless `bytes` equal what was written as `part` of the file at `path`. Copies
  // them to `copy`, unless it is null, piece by piece while hashing, so that they are read from the
  // disk once.
  void read(const std::string& path, std::string_view part, std::span<const std::byte> bytes,
            std::byte* copy = nullptr) const;

 private:
  std::map<std::pair<std::string_view, std::string_view>, const PartDigest*> parts_;
};

// Computes the digest of an existing file, eg: one copied into the directory.
FileDigest digest_file(const std::string& path);

}  // namespace lamina::io
