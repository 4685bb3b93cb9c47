#include "text/sentencepiece/sentencepiece_file.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "core/utf8.h"
#include "text/model.h"
#include "text/tiktoken/base64.h"
#include "text/vocabulary.h"

namespace lamina::text {
namespace {

using File = SentencePieceFile;

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

// The fields of one message in order.
class Fields {
 public:
  Fields(std::string_view bytes, std::size_t first_byte, const std::string& path)
      : bytes_(bytes), first_byte_(first_byte), path_(path) {}

  // False at the end. Otherwise sets `number` and `kind` of the field.
  bool next() {
    if (at_ == bytes_.size()) return false;
    field_at_ = at_;
    const std::uint64_t tag = varint();
    number = tag >> 3;
    kind = static_cast<unsigned>(tag & 7);
    if (number == 0) fail("a field with the number 0");
    return true;
  }
  std::uint64_t integer() {
    expect(0, "an integer");
    return varint();
  }
  bool truth() { return integer() != 0; }
  float real() {
    expect(5, "a number of 32 bits");
    float value;
    std::memcpy(&value, take(4).data(), 4);
    return value;
  }
  std::string_view text() {
    expect(2, "bytes");
    return take(varint());
  }
  Fields message() {
    const std::string_view bytes = text();
    return {bytes, first_byte_ + at_ - bytes.size(), path_};
  }
  void skip() {
    if (kind == 0)
      varint();
    else if (kind == 1)
      take(8);
    else if (kind == 2)
      take(varint());
    else if (kind == 5)
      take(4);
    else
      fail(fmt::format("a field of the kind {}", kind));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(
        ExitCode::checkpoint,
        {path_,
         fmt::format("is not a SentencePiece model: byte {} has {}", first_byte_ + field_at_, what),
         {"copy the file again from the published model"}});
  }

  std::uint64_t number = 0;
  unsigned kind = 0;

 private:
  void expect(unsigned wanted, std::string_view what) const {
    if (kind != wanted)
      fail(fmt::format("a field of the kind {}; expected field {} with {}", kind, number, what));
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) fail("a number that is cut off");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than 64 bits");
  }
  std::string_view take(std::uint64_t num_bytes) {
    if (num_bytes > bytes_.size() - at_)
      fail(fmt::format("a field of {} bytes; {} follow", num_bytes, bytes_.size() - at_));
    const std::string_view out = bytes_.substr(at_, num_bytes);
    at_ += num_bytes;
    return out;
  }

  std::string_view bytes_;
  std::size_t first_byte_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::size_t field_at_ = 0;
};

File::Piece read_piece(Fields fields) {
  File::Piece out;
  while (fields.next()) {
    if (fields.number == 1) {
      out.text = fields.text();
    } else if (fields.number == 2) {
      out.score = fields.real();
    } else if (fields.number == 3) {
      const std::uint64_t type = fields.integer();
      if (type < 1 || type > 6)
        fields.fail(fmt::format("a piece of the type {}; expected 1 to 6", type));
      out.type = static_cast<File::Type>(type);
    } else {
      fields.skip();
    }
  }
  return out;
}

void read_trainer(Fields fields, File& out) {
  // Negative ids are 64-bit numbers.
  const auto id = [&fields] { return static_cast<std::int64_t>(fields.integer()); };
  while (fields.next()) {
    switch (fields.number) {
      case 3: {
        const std::uint64_t model = fields.integer();
        if (model < 1 || model > 4)
          fields.fail(fmt::format("a model of the type {}; expected 1 to 4", model));
        out.model = static_cast<File::Model>(model);
        break;
      }
      case 24:
        out.treat_whitespace_as_suffix = fields.truth();
        break;
      case 35:
        out.byte_fallback = fields.truth();
        break;
      case 41:
        out.bos_id = id();
        break;
      case 42:
        out.eos_id = id();
        break;
      case 43:
        out.pad_id = id();
        break;
      case 44:
        out.unknown_surface = fields.text();
        break;
      default:
        fields.skip();
    }
  }
}

void read_normalizer(Fields fields, File& out) {
  while (fields.next()) {
    switch (fields.number) {
      case 2:
        out.character_map = fields.text();
        break;
      case 3:
        out.add_dummy_prefix = fields.truth();
        break;
      case 4:
        out.remove_extra_whitespaces = fields.truth();
        break;
      case 5:
        out.escape_whitespaces = fields.truth();
        break;
      default:
        fields.skip();
    }
  }
}

bool changes_text(Fields denormalizer) {
  while (denormalizer.next()) {
    if (denormalizer.number == 2 && !denormalizer.text().empty()) return true;
    if (denormalizer.number != 2) denormalizer.skip();
  }
  return false;
}

// True for a file of tiktoken: Llama 3's ranks are published as tokenizer.model, too.
bool begins_with_a_rank(std::string_view file) {
  const std::string_view line = file.substr(0, file.find('\n'));
  const std::size_t space = line.find(' ');
  return space != line.npos && space > 0 && space + 1 < line.size() &&
         base64_decode(line.substr(0, space)) &&
         line.find_first_not_of("0123456789\r", space + 1) == line.npos;
}

[[noreturn]] void refuse(const std::string& path, std::string what) {
  throw UserError(ExitCode::checkpoint,
                  {path, std::move(what), {"use the file that was published with the model"}});
}

void check_pieces(const File& file, const RefusePiece& refuse) {
  if (static_cast<std::int64_t>(file.pieces.size()) > kMaxIds)
    refuse({}, fmt::format("has {} pieces; at most {} are possible", file.pieces.size(), kMaxIds));
  std::size_t unknown = 0;
  std::set<unsigned char> bytes;
  for (std::size_t i = 0; i < file.pieces.size(); ++i) {
    const File::Piece& piece = file.pieces[i];
    const auto refuse_piece = [&](std::string what) { refuse(i, std::move(what)); };
    if (piece.text.empty()) refuse_piece("is empty; pieces have at least one byte");
    if (find_invalid_utf8(piece.text) != piece.text.npos) refuse_piece("is not UTF-8");
    if (!std::isfinite(piece.score)) refuse_piece("has a score that is not a finite number");
    unknown += piece.type == File::Type::unknown;
    if (piece.type != File::Type::byte) continue;
    const auto byte = byte_of_token(piece.text);
    if (!byte) refuse_piece("has the type byte; such pieces are spelled <0x00> to <0xFF>");
    if (!file.byte_fallback) refuse_piece("has the type byte, but byte_fallback is off");
    bytes.insert(*byte);
  }
  if (unknown > 1 || (unknown == 0 && !file.byte_fallback))
    refuse({}, fmt::format("has {} pieces of the type unknown; it must have one, or none with "
                           "byte_fallback",
                           unknown));
  if (file.byte_fallback && bytes.size() != 256)
    refuse({}, fmt::format("has pieces for {} bytes; with byte_fallback it must have all 256",
                           bytes.size()));
}

}  // namespace

SentencePieceFile parse_sentencepiece(std::string bytes, const std::string& path) {
  static_assert(std::endian::native == std::endian::little);
  File out;
  out.bytes = std::move(bytes);
  bool denormalizes = false;
  for (Fields fields(out.bytes, 0, path); fields.next();) {
    if (fields.number == 1)
      out.pieces.push_back(read_piece(fields.message()));
    else if (fields.number == 2)
      read_trainer(fields.message(), out);
    else if (fields.number == 3)
      read_normalizer(fields.message(), out);
    else if (fields.number == 5)
      denormalizes = changes_text(fields.message());
    else
      fields.skip();
  }
  if (out.model != File::Model::unigram && out.model != File::Model::bpe)
    refuse(path, "is a model of words or characters; lamina has SentencePiece's BPE and Unigram");
  if (denormalizes) refuse(path, "has a denormalizer, which lamina does not have");
  check_pieces(out, [&](std::optional<std::size_t> piece, std::string what) {
    if (piece)
      what =
          fmt::format("piece {} ('{}') {}", *piece, printable(out.pieces[*piece].text, 40), what);
    refuse(path, std::move(what));
  });
  return out;
}

SentencePieceFile make_sentencepiece_file(const std::vector<SentencePieceFile::Piece>& pieces,
                                          const RefusePiece& refuse) {
  File out;
  out.may_repeat = true;
  out.bytes.reserve(64);  // moving a short string, stored in the object, would move its text
  for (const File::Piece& piece : pieces) {
    out.bytes += piece.text;
    out.byte_fallback = out.byte_fallback || piece.type == File::Type::byte;
  }
  std::size_t at = 0;
  for (const File::Piece& piece : pieces) {
    out.pieces.push_back({std::string_view(out.bytes).substr(at, piece.text.size()), piece.score,
                          piece.type, piece.includes_space});
    at += piece.text.size();
  }
  check_pieces(out, refuse);
  return out;
}

SentencePieceFile read_sentencepiece(const std::string& path) {
  std::string bytes = read_file(path, ExitCode::checkpoint, kMaxFileBytes);
  if (begins_with_a_rank(bytes))
    throw UserError(
        ExitCode::checkpoint,
        {path,
         "has tiktoken's ranks, lines like \"IQ== 0\"; expected a SentencePiece model",
         {"use the tokenizer.json that was published with the model, or rename the file "
          "to ranks.tiktoken and write a tiktoken.json with its pattern (\"pat_str\")"}});
  return parse_sentencepiece(std::move(bytes), path);
}

}  // namespace lamina::text
