#include "data/store_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "chat/form.h"
#include "core/error.h"
#include "core/system_error.h"
#include "data/token_bins.h"
#include "io/durable_file.h"
#include "io/mapped_file.h"

namespace lamina::data {
namespace {

namespace fs = std::filesystem;

// Raised when equal files produce different tokens than before, or when the format of the store
// changes.
constexpr int kVersion = 7;

std::string hash_of(const std::string& path) {
  const io::MappedFile file(path, ExitCode::data);
  io::MappedFile::sequential(file.bytes());
  return io::xxh3_128_hex(file.bytes());
}

// Returns names and checksums of the tokenizer's saved files: tokenizers with equal files are
// equal.
std::string tokenizer_lines(const text::Tokenizer& tokenizer) {
  std::string folder = (fs::temp_directory_path() / "lamina_tokenizer_XXXXXX").string();
  if (!::mkdtemp(folder.data()))
    throw DeviceError(ExitCode::checkpoint, {folder,
                                             "cannot be created: " + system_error_text(errno),
                                             {"set TMPDIR to a writable folder"}});
  struct Remove {
    const std::string& folder;
    ~Remove() {
      std::error_code ignored;
      // Without a free descriptor to read the folder, an empty one can still be removed.
      if (!fs::remove(folder, ignored)) fs::remove_all(folder, ignored);
    }
  } const remove{folder};
  std::vector<std::string> names = tokenizer.save(folder);
  std::ranges::sort(names);
  std::string out;
  for (const std::string& name : names)
    out += fmt::format("tokenizer {} {}\n", name, hash_of((fs::path(folder) / name).string()));
  return out;
}

}  // namespace

std::string store_key(const std::vector<std::vector<std::string>>& files, const Reading& reading) {
  std::string text = fmt::format("tokens {}\n", kVersion);
  text += fmt::format("form {} {} {} {}\n", static_cast<int>(reading.form),
                      static_cast<int>(reading.separator), static_cast<int>(reading.loss_on),
                      reading.skip_bad_records);
  text += fmt::format("field {}\n", reading.field);
  if (reading.form == DataForm::tokens)
    text += reading.has_narrow_ids() ? "ids of 2 bytes\n" : "ids of 4 bytes\n";
  // Some records that are read now were skipped by earlier versions.
  if (has_masks(reading.form) && reading.skip_bad_records) text += "null members are absent\n";
  if (reading.dropped_thinking) text += "without thinking 2\n";
  text += tokenizer_lines(reading.tokenizer);
  if (reading.chat) {
    const std::string form = reading.chat->identity();
    text += fmt::format("chat {}\n", io::xxh3_128_hex(std::as_bytes(std::span(form))));
  }
  for (const std::vector<std::string>& source : files) {
    text += "source\n";
    for (const std::string& file : source) {
      // The file name extension determines how a file is read.
      text += fmt::format("file {} {}\n", static_cast<int>(compression_of(file)), hash_of(file));
      if (const std::string index = token_index_of(file);
          reading.form == DataForm::tokens && !index.empty())
        text += fmt::format("index {}\n", hash_of(index));
      if (reading.between) reading.between();
    }
  }
  return io::xxh3_128_hex(std::as_bytes(std::span(text)));
}

}  // namespace lamina::data
