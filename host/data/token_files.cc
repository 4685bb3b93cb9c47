#include "data/token_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/json_writer.h"
#include "core/read_file.h"
#include "core/system_error.h"
#include "core/write_all.h"
#include "data/source_json.h"
#include "io/durable_file.h"
#include "io/manifest.h"
#include "io/mapped_file.h"

namespace lamina::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokens = "tokens";
constexpr const char* kDocuments = "documents";
constexpr const char* kLoss = "loss";
constexpr const char* kProgress = "progress.json";

[[noreturn]] void fail(const std::string& path, std::string_view doing, int error) {
  throw DeviceError(ExitCode::checkpoint,
                    {path,
                     fmt::format("{}: {}", doing, system_error_text(error)),
                     {"free space, or set data.store to a folder with more space; run the same "
                      "command again to resume"}});
}

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::span<const T> values_in(const io::MappedFile& file) {
  return {reinterpret_cast<const T*>(file.bytes().data()), file.bytes().size() / sizeof(T)};
}

}  // namespace

// An append-only file. Its checksum is computed while it is written.
struct TokenFilesWriter::File {
  std::string path;
  int descriptor = -1;
  std::unique_ptr<io::PartHash> hash = std::make_unique<io::PartHash>();

  explicit File(std::string where) : path(std::move(where)) {
    descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) fail(path, "cannot be opened", errno);
  }
  File(File&& other) noexcept
      : path(std::move(other.path)),
        descriptor(std::exchange(other.descriptor, -1)),
        hash(std::move(other.hash)) {}
  ~File() {
    if (descriptor >= 0) ::close(descriptor);
  }

  void cut(std::uint64_t num_bytes) const {
    if (::ftruncate(descriptor, static_cast<off_t>(num_bytes)) != 0 ||
        ::lseek(descriptor, 0, SEEK_END) < 0)
      fail(path, "cannot be cut", errno);
  }
  void clear() {
    cut(0);
    hash = std::make_unique<io::PartHash>();
  }
  // Hashes what another process wrote. Returns false if the checksum is another.
  bool has(std::uint64_t num_bytes, std::string_view checksum) const {
    const io::MappedFile mapped(path);
    if (mapped.bytes().size() < num_bytes) return false;
    const auto saved = mapped.bytes().first(num_bytes);
    io::MappedFile::sequential(saved);
    hash->update(saved);
    return hash->hex() == checksum;
  }
  void write(std::string_view bytes) const {
    if (const int error = write_all(descriptor, bytes); error != 0)
      fail(path, "cannot be written", error);
    hash->update(std::as_bytes(std::span(bytes)));
  }
  void sync() const {
    if (::fdatasync(descriptor) != 0) fail(path, "cannot be written", errno);
  }
};

TokenFilesWriter::TokenFilesWriter(std::string directory, Shape shape,
                                   std::vector<TokenSource>& sources)
    : directory_(std::move(directory)), shape_(shape) {
  files_.emplace_back(directory_ + "/" + kTokens);
  files_.emplace_back(directory_ + "/" + kDocuments);
  if (shape_.has_loss) files_.emplace_back(directory_ + "/" + kLoss);
  if (restore(sources)) return;
  for (File& file : files_) file.clear();
  file(1).write(std::string(sizeof(std::uint64_t), '\0'));
}

TokenFilesWriter::~TokenFilesWriter() = default;

TokenFilesWriter::File& TokenFilesWriter::file(std::size_t n) { return files_[n]; }

// Returns false if there is no complete state to resume from. A crash may leave other bytes than
// were written.
bool TokenFilesWriter::restore(std::vector<TokenSource>& sources) {
  const std::string path = directory_ + "/" + kProgress;
  if (!fs::exists(path)) return false;
  // A file that cannot be opened is not damaged: the tokens stay.
  std::string text = read_file(path, ExitCode::checkpoint);
  try {
    const JsonDocument document =
        JsonDocument::parse(std::move(text), path, {.code = ExitCode::checkpoint});
    const JsonValue saved = document.root();
    const std::uint64_t parts = saved.at("parts").as_uint64(),
                        tokens = saved.at("tokens").as_uint64(),
                        documents = saved.at("documents").as_uint64();
    const std::uint64_t sizes[] = {tokens * (shape_.is_narrow ? 2 : 4),
                                   (documents + 1) * sizeof(std::uint64_t), tokens};
    std::size_t i = 0;
    for (const JsonValue checksum : saved.at("xxh3_64").elements()) {
      if (i == files_.size() || !files_[i].has(sizes[i], checksum.as_string())) return false;
      ++i;
    }
    if (i < files_.size()) return false;
    std::vector<TokenSource> read = sources;
    read_sources(saved.at("sources"), read);
    for (i = 0; i < files_.size(); ++i) files_[i].cut(sizes[i]);
    sources = std::move(read);
    num_parts_ = parts;
    num_tokens_ = tokens;
    num_documents_ = documents;
    return true;
  } catch (const UserError&) {  // damaged, or written by a version without checksums
    return false;
  }
}

void TokenFilesWriter::add(const TokenPart& part) {
  if (shape_.is_narrow)
    write_narrow(part.tokens);
  else
    file(0).write(bytes_of(part.tokens));
  std::vector<std::uint64_t> ends = part.document_end;
  for (std::uint64_t& end : ends) end += num_tokens_;
  file(1).write(bytes_of(ends));
  if (shape_.has_loss) file(2).write(bytes_of(part.in_loss));
  num_tokens_ += part.tokens.size();
  num_documents_ += part.document_end.size();
  ++num_parts_;
}

// A part may be a whole large file, so both widths of its ids are never in memory together.
void TokenFilesWriter::write_narrow(std::span<const std::int32_t> ids) {
  constexpr std::size_t kIdsAtOnce = std::size_t{1} << 18;
  for (std::size_t at = 0; at < ids.size(); at += kIdsAtOnce) {
    const auto some = ids.subspan(at, std::min(kIdsAtOnce, ids.size() - at));
    LAMINA_ASSERT(std::ranges::max(some) <= UINT16_MAX);
    file(0).write(bytes_of(std::vector<std::uint16_t>(some.begin(), some.end())));
  }
}

void TokenFilesWriter::save(const std::vector<TokenSource>& sources) {
  for (const File& file : files_) file.sync();
  JsonWriter json;
  json.begin_object().key("parts").value(num_parts_).key("tokens").value(num_tokens_);
  json.key("documents").value(num_documents_).key("xxh3_64").begin_array();
  for (const File& file : files_) json.value(file.hash->hex());
  json.end_array().key("sources");
  write_sources(sources, json);
  io::write_durably(directory_ + "/" + kProgress, json.end_object().text());
}

void TokenFilesWriter::finish(const std::vector<TokenSource>& sources) {
  std::vector<io::FileDigest> digests;
  for (const File& file : files_) {
    file.sync();
    const io::MappedFile mapped(file.path);
    digests.push_back({fs::path(file.path).filename().string(),
                       mapped.bytes().size(),
                       io::xxh3_128_hex(mapped.bytes()),
                       {}});
  }
  io::write_manifest(directory_, digests, [&](JsonWriter& json) {
    json.key("id_bytes").value(shape_.is_narrow ? 2 : 4).key("tokens").value(num_tokens_);
    json.key("documents").value(num_documents_).key("sources");
    write_sources(sources, json);
  });
  std::error_code ignored;
  fs::remove(directory_ + "/" + kProgress, ignored);
}

namespace {

// The checksums cover what was written. This covers what may be written wrongly.
void check_offsets(const std::string& directory, const TokenView& view) {
  const std::span<const std::uint64_t> begin = view.document_begin;
  const bool ends_fit = !begin.empty() && begin.front() == 0 && begin.back() == view.tokens.size();
  if (!ends_fit || !std::ranges::is_sorted(begin))
    throw io::Damaged({directory + "/" + kDocuments + ": does not fit the number of tokens",
                       "its offsets must rise from 0 to the number of tokens",
                       {}});
  if (!view.in_loss.empty() && view.in_loss.size() != view.tokens.size())
    throw io::Damaged({directory + "/" + kLoss + ": does not fit the number of tokens",
                       "it must have a byte for each token",
                       {}});
}

}  // namespace

std::optional<StoredTokens> open_token_files(const std::string& directory) {
  if (!fs::exists(directory + "/" + io::kManifestName)) return {};
  const io::FileManifest manifest = io::read_manifest(directory);
  if (const auto difference =
          io::first_difference(directory, manifest, io::ManifestCheck::checksums))
    throw io::Damaged({*difference, "does not match its checksum", {}});
  struct Files {
    io::MappedFile tokens, documents, loss;
  };
  auto files = std::make_shared<Files>();
  files->tokens = io::MappedFile(directory + "/" + kTokens);
  files->documents = io::MappedFile(directory + "/" + kDocuments);
  if (fs::exists(directory + "/" + kLoss)) files->loss = io::MappedFile(directory + "/" + kLoss);
  StoredTokens out;
  out.path = directory;
  if (manifest.info().at("id_bytes").as_int64() == 2)
    out.view.tokens = values_in<std::uint16_t>(files->tokens);
  else
    out.view.tokens = values_in<std::int32_t>(files->tokens);
  out.view.document_begin = values_in<std::uint64_t>(files->documents);
  out.view.in_loss = values_in<std::uint8_t>(files->loss);
  check_offsets(directory, out.view);
  out.view.digest = digest(out.view.tokens, out.view.document_begin, out.view.in_loss);
  out.view.owner = files;
  out.sources.resize(manifest.info().at("sources").size());
  read_sources(manifest.info().at("sources"), out.sources);
  return out;
}

}  // namespace lamina::data
