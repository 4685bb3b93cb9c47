#include "io/manifest.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "core/system_error.h"
#include "io/mapped_file.h"

namespace lamina::io {
namespace {

// Small enough to stay in the cache between hashing and copying.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::string_view kFormat = "lamina-manifest";
// The checksum covers the text before the value of this key.
constexpr std::string_view kSelfKey = "\"manifest_xxh3_128\": \"";

std::string checksum(std::string_view text) { return xxh3_128_hex(std::as_bytes(std::span(text))); }

ErrorText text_of(const std::string& path, std::string what) {
  return {path, std::move(what), {"use another checkpoint of this run (`lamina ckpt ls`)"}};
}

[[noreturn]] void fail_version(const std::string& path, std::int64_t version) {
  throw UserError(ExitCode::checkpoint,
                  text_of(path, fmt::format("was written by a newer lamina (manifest version {}, "
                                            "expected {})",
                                            version, kManifestVersion)));
}

std::string not_as_written(const PartDigest& part) {
  return fmt::format(
      "tensor '{}' (bytes {} to {}) does not match its "
      "checksum",
      printable(part.name), part.first_byte, part.first_byte + part.num_bytes);
}

void write_files(JsonWriter& json, const std::vector<FileDigest>& files) {
  json.key("files").begin_array();
  for (const FileDigest& file : files) {
    json.begin_object();
    json.key("name").value(file.name);
    json.key("bytes").value(file.num_bytes);
    json.key("xxh3_128").value(file.xxh3_128);
    json.key("parts").begin_array();
    for (const PartDigest& part : file.parts) {
      JsonWriter line;
      line.begin_array().value(part.name).value(part.first_byte).value(part.num_bytes);
      json.raw(line.value(part.xxh3_64).end_array().text());
    }
    json.end_array().end_object();
  }
  json.end_array();
}

PartDigest read_part(const JsonValue& value) {
  if (value.size() != 4) value.fail(fmt::format("must have 4 elements, got {}", value.size()));
  auto field = value.elements().begin();
  PartDigest part;
  part.name = (*field).as_string();
  part.first_byte = (*++field).as_uint64();
  part.num_bytes = (*++field).as_uint64();
  part.xxh3_64 = (*++field).as_string();
  return part;
}

}  // namespace

void write_manifest(const std::string& directory, const std::vector<FileDigest>& files,
                    const std::function<void(JsonWriter&)>& info) {
  JsonWriter json(1);
  json.begin_object();
  json.key("format").value(kFormat).key("version").value(kManifestVersion);
  json.key("info").begin_object();
  info(json);
  json.end_object();
  write_files(json, files);
  json.key("manifest_xxh3_128").value("");
  std::string text = json.text();
  text.pop_back();  // the closing quote
  text += checksum(text) + "\"\n}\n";
  write_durably(directory + "/" + kManifestName, text);
}

FileManifest read_manifest(const std::string& directory) {
  const std::string path = directory + "/" + kManifestName;
  std::string text = read_file(path, ExitCode::checkpoint);
  const auto self = text.rfind(kSelfKey);
  const std::string_view covered =
      std::string_view(text).substr(0, self == text.npos ? 0 : self + kSelfKey.size());
  const bool whole = self != text.npos &&
                     text.compare(covered.size(), text.npos, checksum(covered) + "\"\n}\n") == 0;
  if (!whole) {
    // A newer version may have another layout; it must not be reported as damage.
    const auto version = text.find("\"version\": ");
    const bool ours = text.find(kFormat) != text.npos;
    if (ours && version != text.npos && std::atoi(text.c_str() + version + 11) > kManifestVersion)
      fail_version(path, std::atoi(text.c_str() + version + 11));
    throw Damaged(text_of(path, text.empty()
                                    ? "is empty"
                                    : "does not match its own checksum: it is damaged or was "
                                      "edited"));
  }
  FileManifest manifest{{},
                        JsonDocument::parse(std::move(text), path, {.code = ExitCode::checkpoint})};
  const JsonValue root = manifest.document.root();
  if (root.at("format").as_string() != kFormat)
    throw Damaged(text_of(path, "is not a lamina manifest"));
  if (const std::int64_t version = root.at("version").as_int64(); version != kManifestVersion)
    fail_version(path, version);
  for (JsonValue file : root.at("files").elements()) {
    FileDigest digest{std::string(file.at("name").as_string()),
                      file.at("bytes").as_uint64(),
                      std::string(file.at("xxh3_128").as_string()),
                      {}};
    for (JsonValue part : file.at("parts").elements()) digest.parts.push_back(read_part(part));
    manifest.files.push_back(std::move(digest));
  }
  return manifest;
}

std::optional<std::string> first_difference(const std::string& directory,
                                            const FileManifest& manifest, ManifestCheck check) {
  for (const FileDigest& file : manifest.files) {
    const std::string path = directory + "/" + file.name;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
      return fmt::format("{}: cannot be read: {}", path, system_error_text(errno));
    if (!S_ISREG(status.st_mode)) return path + ": is not a regular file";
    if (static_cast<std::uint64_t>(status.st_size) != file.num_bytes)
      return fmt::format("{}: has {} bytes; expected {}", path, status.st_size, file.num_bytes);
  }
  if (check == ManifestCheck::sizes) return std::nullopt;
  for (const FileDigest& file : manifest.files) {
    const MappedFile mapped(directory + "/" + file.name);
    const auto bytes = mapped.bytes();
    if (check == ManifestCheck::structure && !file.parts.empty()) {
      // The first part is the header, the others are tensors.
      const PartDigest& header = file.parts.front();
      if (header.first_byte != 0 || header.num_bytes > bytes.size() ||
          xxh3_64_hex(bytes.first(header.num_bytes)) != header.xxh3_64)
        return fmt::format("{}: its header does not match its checksum", mapped.path());
      continue;
    }
    MappedFile::sequential(bytes);
    if (xxh3_128_hex(bytes) == file.xxh3_128) continue;
    for (const PartDigest& part : file.parts) {
      const bool inside =
          part.num_bytes <= bytes.size() && part.first_byte <= bytes.size() - part.num_bytes;
      if (!inside || xxh3_64_hex(bytes.subspan(part.first_byte, part.num_bytes)) != part.xxh3_64)
        return mapped.path() + ": " + not_as_written(part);
    }
    return fmt::format("{}: its contents do not match their checksum", mapped.path());
  }
  return std::nullopt;
}

PartReader::PartReader(const FileManifest& manifest) {
  for (const FileDigest& file : manifest.files)
    // The first part is the header, regardless of the names of tensors.
    for (std::size_t i = 1; i < file.parts.size(); ++i)
      parts_.emplace(std::pair<std::string_view, std::string_view>(file.name, file.parts[i].name),
                     &file.parts[i]);
}

void PartReader::read(const std::string& path, std::string_view part,
                      std::span<const std::byte> bytes, std::byte* copy) const {
  const auto damaged = [&](std::string what) { throw Damaged(text_of(path, std::move(what))); };
  const std::string file = std::filesystem::path(path).filename().string();
  const auto found = parts_.find(std::pair<std::string_view, std::string_view>(file, part));
  if (found == parts_.end())
    return damaged(fmt::format("its tensor '{}' is missing in the manifest", printable(part)));
  PartHash hash;
  for (auto rest = bytes; !rest.empty();) {
    const auto piece = rest.first(std::min(rest.size(), kPieceBytes));
    hash.update(piece);
    if (copy) copy = std::ranges::copy(piece, copy).out;
    rest = rest.subspan(piece.size());
  }
  const PartDigest& written = *found->second;
  if (bytes.size() != written.num_bytes || hash.hex() != written.xxh3_64)
    damaged(not_as_written(written));
}

FileDigest digest_file(const std::string& path) {
  const MappedFile file(path);
  return {std::filesystem::path(path).filename().string(),
          file.bytes().size(),
          xxh3_128_hex(file.bytes()),
          {}};
}

}  // namespace lamina::io
