#include "data/token_bins.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "core/read_file.h"
#include "core/system_error.h"
#include "data/compressed_file.h"
#include "io/mapped_file.h"

namespace lamina::data {
namespace {

constexpr std::string_view kMegatron{"MMIDIDX\0\0", 9};
constexpr std::size_t kLlmcHeaderBytes = 256 * 4;

[[noreturn]] void fail(const std::string& path, std::string what,
                       std::vector<std::string> notes = {}) {
  throw UserError(ExitCode::data, {path, std::move(what), std::move(notes)});
}

// No file has a name that is too long for its file system.
bool has_file(const std::filesystem::path& path) {
  std::error_code error;
  const bool found = std::filesystem::exists(path, error);
  if (error && error != std::errc::filename_too_long)
    fail(path.string(), "cannot be read: " + system_error_text(error.value()));
  return found;
}

template <typename T>
T read_at(std::span<const std::byte> bytes, std::size_t at) {
  T out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

std::int64_t read_id(const std::byte* at, int id_bytes) {
  const auto as = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<std::int64_t>(value);
  };
  return id_bytes == 2   ? as(std::uint16_t())
         : id_bytes == 4 ? as(std::int32_t())
                         : as(std::int64_t());
}

}  // namespace

struct TokenBins::Layout {
  std::shared_ptr<const io::MappedFile> file;
  std::size_t first_byte = 0;  // offset of the ids
  int id_bytes = 2;
  std::uint64_t num_tokens = 0;
  bool has_index = false;
  std::vector<std::uint64_t> document_end;  // only with an index
};

namespace {

struct Index {
  int id_bytes = 2;
  std::vector<std::uint64_t> document_end;
};

int id_bytes_of(const std::string& path, int code) {
  switch (code) {
    case 4:
      return 4;
    case 5:
      return 8;
    case 8:
      return 2;
    default:
      fail(path,
           fmt::format("has ids of type {}; expected 4 (int32), 5 (int64) or 8 (uint16)", code));
  }
}

// Sequences follow each other in the .bin; a document consists of several sequences.
Index read_index(const std::string& path) {
  const io::MappedFile file(path, ExitCode::data);
  const std::span<const std::byte> bytes = file.bytes();
  constexpr std::size_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;
  if (bytes.size() < kHeaderBytes ||
      std::memcmp(bytes.data(), kMegatron.data(), kMegatron.size()) != 0)
    fail(path, "is not a Megatron index: it must begin with MMIDIDX",
         {"remove it if the .bin beside it is not from Megatron"});
  if (const auto version = read_at<std::uint64_t>(bytes, 9); version != 1)
    fail(path, fmt::format("has version {}; expected version 1", version));
  Index out;
  out.id_bytes = id_bytes_of(path, read_at<std::uint8_t>(bytes, 17));
  const auto num_sequences = read_at<std::uint64_t>(bytes, 18);
  const auto num_borders = read_at<std::uint64_t>(bytes, 26);
  const std::uint64_t limit = bytes.size();
  if (num_sequences > limit || num_borders > limit ||
      kHeaderBytes + num_sequences * 12 + num_borders * 8 != limit)
    fail(path, fmt::format("is truncated or damaged: it has {} bytes, which does not match {} "
                           "sequences and {} document boundaries",
                           limit, num_sequences, num_borders));
  std::vector<std::uint64_t> sequence_end = {0};
  for (std::uint64_t i = 0; i < num_sequences; ++i) {
    const auto length = read_at<std::int32_t>(bytes, kHeaderBytes + i * 4);
    const auto pointer = read_at<std::int64_t>(bytes, kHeaderBytes + num_sequences * 4 + i * 8);
    const std::uint64_t expected = sequence_end.back() * static_cast<std::uint64_t>(out.id_bytes);
    if (length < 0 || pointer < 0 || static_cast<std::uint64_t>(pointer) != expected)
      fail(path, fmt::format("sequence {} of length {} is at byte {}; expected byte {}, directly "
                             "after the previous sequence",
                             i, length, pointer, expected));
    sequence_end.push_back(sequence_end.back() + static_cast<std::uint64_t>(length));
  }
  const std::size_t borders = kHeaderBytes + num_sequences * 12;
  if (num_borders > 0)
    if (const auto first = read_at<std::int64_t>(bytes, borders); first != 0)
      fail(path, fmt::format("document 0 begins at sequence {}; expected sequence 0", first));
  for (std::uint64_t i = 1; i < num_borders; ++i) {
    const auto sequence = read_at<std::int64_t>(bytes, borders + i * 8);
    if (sequence < 0 || static_cast<std::uint64_t>(sequence) > num_sequences ||
        sequence < read_at<std::int64_t>(bytes, borders + (i - 1) * 8))
      fail(path,
           fmt::format("document {} ends at sequence {} of {}", i - 1, sequence, num_sequences));
    out.document_end.push_back(sequence_end[static_cast<std::size_t>(sequence)]);
  }
  if (out.document_end.empty() || out.document_end.back() != sequence_end.back())
    fail(path, "its documents do not cover all sequences");
  return out;
}

}  // namespace

TokenBins::Layout TokenBins::layout_of(const std::string& path) {
  Layout out;
  if (compression_of(path) != Compression::none)
    fail(path, "is compressed; token files are mapped and must be uncompressed", {"unpack it"});
  out.file = std::make_shared<const io::MappedFile>(path, ExitCode::data);
  const std::span<const std::byte> bytes = out.file->bytes();
  const std::string index_path = token_index_of(path);
  const auto word = [&](std::size_t i) { return read_at<std::int32_t>(bytes, i * 4); };
  if (!index_path.empty()) {
    Index index = read_index(index_path);
    out.id_bytes = index.id_bytes;
    out.has_index = true;
    out.document_end = std::move(index.document_end);
    out.num_tokens = out.document_end.back();
    if (bytes.size() != out.num_tokens * static_cast<std::uint64_t>(out.id_bytes))
      fail(path, fmt::format("has {} bytes; {} with {} ids of {} bytes requires {}", bytes.size(),
                             index_path, out.num_tokens, out.id_bytes,
                             out.num_tokens * static_cast<std::uint64_t>(out.id_bytes)));
    return out;
  }
  if (bytes.size() >= kLlmcHeaderBytes && (word(0) == 20240520 || word(0) == 20240801)) {
    const int version = word(0) == 20240520 ? 1 : 7;
    if (word(1) != version)
      fail(path,
           fmt::format("is an llm.c file of version {}; expected version {}", word(1), version));
    out.id_bytes = version == 1 ? 2 : 4;
    out.first_byte = kLlmcHeaderBytes;
    out.num_tokens = static_cast<std::uint32_t>(word(2));
    const std::uint64_t needed =
        kLlmcHeaderBytes + out.num_tokens * static_cast<std::uint64_t>(out.id_bytes);
    if (bytes.size() != needed)
      fail(path,
           fmt::format("has {} bytes; its {} tokens require "
                       "{}",
                       bytes.size(), out.num_tokens, needed),
           {"download or copy the file again"});
    return out;
  }
  if (bytes.size() >= kMegatron.size() &&
      std::memcmp(bytes.data(), kMegatron.data(), kMegatron.size()) == 0)
    fail(path, "is a Megatron index; expected a token file",
         {"give it the name of its token file, with the extension .idx"});
  if (bytes.size() % 2 != 0)
    fail(path, fmt::format("has {} bytes, an odd number; ids have 2 bytes each without an .idx "
                           "file or an llm.c header",
                           bytes.size()));
  out.num_tokens = bytes.size() / 2;
  return out;
}

TokenBins::TokenBins(std::string path, std::optional<text::TokenId> end_of_text,
                     std::size_t part_bytes)
    : path_(std::move(path)),
      end_of_text_(end_of_text),
      part_bytes_(part_bytes),
      layout_(std::make_unique<const Layout>(layout_of(path_))) {}

TokenBins::~TokenBins() = default;

std::uint64_t TokenBins::bytes_done() const {
  return layout_->first_byte + at_ * static_cast<std::uint64_t>(layout_->id_bytes);
}

std::optional<BinPart> TokenBins::next() {
  const Layout& l = *layout_;
  if (at_ == l.num_tokens) return {};
  const auto width = static_cast<std::size_t>(l.id_bytes);
  const std::uint64_t first = at_, wanted = first + std::max<std::uint64_t>(1, part_bytes_ / width);
  BinPart out{.id_bytes = l.id_bytes, .first_token = first, .owner = l.file};
  const std::byte* ids = l.file->bytes().data() + l.first_byte;
  if (l.has_index) {
    while (at_ < wanted && document_ < l.document_end.size()) {
      at_ = l.document_end[document_++];
      out.document_end.push_back(at_ - first);
    }
  } else {
    while (at_ < l.num_tokens) {
      const bool ends = end_of_text_ && read_id(ids + at_ * width, l.id_bytes) == *end_of_text_;
      if (++at_ == l.num_tokens || ends) {
        out.document_end.push_back(at_ - first);
        if (at_ >= wanted) break;
      }
    }
  }
  out.bytes = l.file->bytes().subspan(l.first_byte + first * width, (at_ - first) * width);
  return out;
}

bool is_token_index(std::string_view path) {
  if (!path.ends_with(".idx")) return false;
  if (has_file(std::filesystem::path(path).replace_extension(".bin"))) return true;
  return read_beginning(std::string(path), ExitCode::data, kMegatron.size()) == kMegatron;
}

std::string token_index_of(const std::string& path) {
  const std::string index = std::filesystem::path(path).replace_extension(".idx").string();
  return index != path && has_file(index) ? index : "";
}

std::int64_t id_in(const BinPart& part, std::size_t i) {
  return read_id(part.bytes.data() + i * static_cast<std::size_t>(part.id_bytes), part.id_bytes);
}

}  // namespace lamina::data
