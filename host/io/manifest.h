// The manifest of a directory: which files it has, how long they are, their checksums. It is
// written last, so a directory with a whole manifest is whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/json_writer.h"
#include "io/durable_file.h"

namespace lamina::io {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr int kManifestVersion = 1;

struct Manifest {
  std::vector<FileDigest> files;
  JsonDocument document;                                         // the whole text
  JsonValue info() const { return document.root().at("info"); }  // what the writer added
};

// Writes `directory`/manifest.json durably. `info` fills one JSON object (begin_object and
// end_object are done for it): step, cursor, versions, whatever the owner needs.
void write_manifest(const std::string& directory, const std::vector<FileDigest>& files,
                    const std::function<void(JsonWriter&)>& info);

// Errors (class checkpoint): none there, damaged (it carries its own checksum), of a later version.
Manifest read_manifest(const std::string& directory);

enum class Check {
  sizes,      // every file is there with its length
  checksums,  // and every byte is as written
};

// The first difference between the manifest and the files, as "<file>: <what>", the damaged tensor
// named; nothing if they agree.
std::optional<std::string> first_difference(const std::string& directory, const Manifest& manifest,
                                            Check check);

// The digest of a file that is there already, eg one copied into the directory.
FileDigest digest_file(const std::string& path);

}  // namespace lamina::io
