#include "data/text_parts.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "io/mapped_file.h"

namespace lamina::data {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == line.npos; }

// Returns the offset after the last line of a document, where the text can be cut. Returns nothing
// if there is no such offset from `from` on. `from` is 0, such an offset, or inside a line.
std::optional<std::size_t> cut_after(std::string_view text, std::size_t from, Separator separator) {
  if (separator == Separator::file) return {};
  for (std::size_t at = from;;) {
    const std::size_t end = text.find('\n', at);
    if (end == text.npos) return {};
    if (separator == Separator::line) return end + 1;
    const std::size_t begin = end == 0 ? text.npos : text.rfind('\n', end - 1);
    const std::size_t first = begin == text.npos ? 0 : begin + 1;
    if (is_blank(text.substr(first, end - first))) return end + 1;
    at = end + 1;
  }
}

}  // namespace

// Source of text: a window onto the file that grows on request.
class TextParts::Source {
 public:
  virtual ~Source() = default;
  // Returns at least `num_bytes` of the text that has not been taken, fewer only at the end of the
  // file.
  virtual std::string_view look(std::size_t num_bytes) = 0;
  // Takes the first `num_bytes` of the text returned by look().
  virtual TextPart take(std::size_t num_bytes) = 0;
  virtual std::uint64_t bytes_done() const = 0;
};

namespace {

class Mapped final : public TextParts::Source {
 public:
  explicit Mapped(const std::string& path)
      : file_(std::make_shared<const io::MappedFile>(path, ExitCode::data)),
        rest_(reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()) {
    constexpr std::string_view kParquet = "PAR1";  // at the start and the end of the file
    if (rest_.starts_with(kParquet) && rest_.ends_with(kParquet))
      throw UserError(ExitCode::data,
                      {path,
                       "is a Parquet file (a columnar table), which lamina cannot read",
                       {"convert it to JSON lines, eg with pandas: read_parquet(..).to_json(.., "
                        "orient=\"records\", lines=True), and set data.form"}});
    check_ending(path, rest_);
    io::MappedFile::sequential(file_->bytes());
  }
  std::string_view look(std::size_t) override { return rest_; }
  TextPart take(std::size_t num_bytes) override {
    TextPart part{.text = rest_.substr(0, num_bytes), .owner = file_};
    rest_.remove_prefix(num_bytes);
    return part;
  }
  std::uint64_t bytes_done() const override { return file_->bytes().size() - rest_.size(); }

 private:
  std::shared_ptr<const io::MappedFile> file_;
  std::string_view rest_;
};

class Unpacked final : public TextParts::Source {
 public:
  explicit Unpacked(const std::string& path) : file_(open_compressed(path)) {}
  std::string_view look(std::size_t num_bytes) override {
    if (const std::size_t had = buffer_.size(); !ended_ && had < num_bytes) {
      buffer_.resize(num_bytes);
      const std::size_t read = file_->read(std::span(buffer_).subspan(had));
      ended_ = had + read < num_bytes;
      buffer_.resize(had + read);
    }
    return buffer_;
  }
  TextPart take(std::size_t num_bytes) override {
    std::string rest = buffer_.substr(num_bytes);
    buffer_.resize(num_bytes);
    auto owner = std::make_shared<const std::string>(std::move(buffer_));
    buffer_ = std::move(rest);
    return {.text = *owner, .owner = owner};
  }
  std::uint64_t bytes_done() const override { return file_->bytes_done(); }

 private:
  std::unique_ptr<CompressedFile> file_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace

std::optional<Separator> parse_separator(std::string_view text) {
  if (text == "file") return Separator::file;
  if (text == "blank_line") return Separator::blank_line;
  if (text == "line") return Separator::line;
  return std::nullopt;
}

TextParts::TextParts(std::string path, Separator separator, std::size_t part_bytes,
                     std::size_t max_line_bytes)
    : path_(std::move(path)),
      separator_(separator),
      part_bytes_(part_bytes),
      max_line_bytes_(max_line_bytes) {
  LAMINA_ASSERT(max_line_bytes == 0 ||
                (separator == Separator::line && max_line_bytes >= part_bytes));
  if (compression_of(path_) == Compression::none)
    source_ = std::make_unique<Mapped>(path_);
  else
    source_ = std::make_unique<Unpacked>(path_);
}

TextParts::~TextParts() = default;

std::uint64_t TextParts::bytes_done() const { return source_->bytes_done(); }

// Returns the number of bytes up to the first end of a document after part_bytes, or up to the end
// of the file. Returns 0 at the end of the file and before a line that is too long.
std::size_t TextParts::size_of_next() const {
  std::size_t wanted = part_bytes_;
  for (std::size_t from = part_bytes_;;) {
    std::string_view text = source_->look(wanted);
    std::size_t line = 0;  // start of the line that contains part_bytes
    if (max_line_bytes_ > 0 && text.size() > part_bytes_) {
      const std::size_t before = text.substr(0, part_bytes_).rfind('\n');
      line = before == text.npos ? 0 : before + 1;
      text = text.substr(0, line + max_line_bytes_ + 1);  // including its line feed
    }
    if (text.size() > from) {
      if (const auto found = cut_after(text, from, separator_)) return *found;
      from = text.size();
    }
    const std::size_t seen = text.size();
    const std::size_t all = source_->look(seen + 1).size();
    if (max_line_bytes_ > 0 && seen - line > max_line_bytes_) return line;
    if (all <= seen) return seen;
    wanted = 2 * seen;
  }
}

// Skips the current line with its line feed, in small pieces.
void TextParts::skip_line() {
  constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;
  for (bool ended = false; !ended;) {
    const std::string_view text = source_->look(kBytesAtOnce);
    const std::size_t line_feed = text.find('\n');
    ended = text.empty() || line_feed != text.npos;
    const std::size_t count = line_feed == text.npos ? text.size() : line_feed + 1;
    first_line_ += line_feed != text.npos;
    first_byte_ += count;
    static_cast<void>(source_->take(count));
  }
}

std::optional<TextPart> TextParts::next() {
  if (std::exchange(in_long_line_, false)) skip_line();
  const std::size_t cut = size_of_next();
  TextPart part;
  if (cut == 0 && !source_->look(1).empty()) {
    part.is_too_long = in_long_line_ = true;
  } else {
    // An empty file is one part, so that its document is counted as empty.
    if (cut == 0 && !(is_first_ && separator_ == Separator::file)) return {};
    part = source_->take(cut);
  }
  is_first_ = false;
  part.first_byte = first_byte_;
  part.first_line = first_line_;
  first_byte_ += cut;
  first_line_ += static_cast<std::uint64_t>(std::count(part.text.begin(), part.text.end(), '\n'));
  return part;
}

}  // namespace lamina::data
