#include "cli/ckpt/output_directory.h"

#include <filesystem>

#include "core/log.h"
#include "text/byte_tokenizer.h"

namespace lamina::cli {

Option to_option() {
  Option out = text_option("to", 'o', "DIR", "The directory to write; it must not exist.");
  out.key.aliases = {"output"};
  out.key.required = true;
  return out;
}

Option stored_type_option(std::string doc) { return dtype_option({}, std::move(doc)); }

std::optional<DType> stored_type(const Arguments& a) {
  if (!a.has("dtype")) return std::nullopt;
  return parse_dtype(a.text("dtype"));
}

void note_tokenizer(const std::string& to) {
  if (std::filesystem::exists(std::filesystem::path(to) / text::kByteTokenizerFile))
    log::info(
        "{}: the model reads text as bytes, and other programs do not have this tokenizer: give "
        "them ids, which are 0 to 255 for bytes, 256 before a text and 257 at its end",
        to);
}

}  // namespace lamina::cli
