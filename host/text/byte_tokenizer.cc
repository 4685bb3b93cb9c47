#include "text/byte_tokenizer.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "core/open_file.h"
#include "core/system_error.h"
#include "core/utf8.h"
#include "core/write_all.h"

namespace lamina::text {
namespace {

constexpr TokenId kBos = 256;
constexpr TokenId kEos = 257;
constexpr std::size_t kReplacementBytes = 3;  // of U+FFFD

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (int i = 0; i < 256; ++i) bytes_[static_cast<std::size_t>(i)] = static_cast<char>(i);
  }

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<TokenId> ids;
    ids.reserve(text.size() + 2);  // room for BOS and for EOS, which the caller may add
    if (options.add_special) ids.push_back(kBos);
    for (char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  Encoding encode_with_spans(std::string_view text, const EncodeOptions& options) const override {
    Encoding out{encode(text, options), {}};
    if (options.add_special) out.spans.push_back({0, 0});
    for (std::size_t at = 0; !text.empty();) {
      const Utf8Step step = utf8_step(text);
      const std::size_t end = at + (step.valid ? step.num_bytes : kReplacementBytes);
      out.spans.insert(out.spans.end(), step.num_bytes, {at, end});
      text.remove_prefix(step.num_bytes);
      at = end;
    }
    return out;
  }
  std::string_view token_bytes(TokenId id) const override {
    if (id < 0 || id >= 256) return {};
    return {&bytes_[static_cast<std::size_t>(id)], 1};
  }
  bool is_special(TokenId id) const override { return id == kBos || id == kEos; }
  std::optional<TokenId> find_token(std::string_view text) const override {
    if (text.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(text[0]);
  }
  std::int64_t vocab_size() const override { return 258; }
  std::optional<TokenId> bos_id() const override { return kBos; }
  std::optional<TokenId> eos_id() const override { return kEos; }
  std::optional<TokenId> pad_id() const override { return kEos; }
  std::vector<std::string> save(const std::string& directory) const override {
    JsonWriter json(2);
    json.begin_object().key("type").value("bytes").key("version").value(1);
    json.key("bos_id").value(kBos).key("eos_id").value(kEos).end_object();
    const std::string path = directory + "/" + kByteTokenizerFile;
    const int fd = open_regular_file(path, O_WRONLY | O_CREAT | O_TRUNC);
    const int error = write_all(fd, json.text() + "\n");
    if (::close(fd) != 0 || error != 0)
      throw DeviceError(
          ExitCode::checkpoint,
          {path,
           fmt::format("cannot be written: {}", system_error_text(error ? error : errno)),
           {"check the disk"}});
    return {kByteTokenizerFile};
  }

 private:
  std::array<char, 256> bytes_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> load_byte_tokenizer(const std::string& directory) {
  const JsonDocument document =
      JsonDocument::read(directory + "/" + kByteTokenizerFile, {.code = ExitCode::checkpoint});
  const JsonValue root = document.root();
  if (root.at("type").as_string() != "bytes")
    root.at("type").fail(fmt::format("must be \"bytes\", got {}", root.at("type").describe()));
  if (root.at("version").as_int64() != 1)
    root.at("version").fail(
        fmt::format("is {}; this lamina reads version 1", root.at("version").describe()),
        {"use the lamina that wrote it, or a later one"});
  return make_byte_tokenizer();
}

}  // namespace lamina::text
