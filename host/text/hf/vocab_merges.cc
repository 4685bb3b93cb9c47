#include "text/hf/vocab_merges.h"

#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "publishers/tokenizer_classes.h"
#include "text/hf/byte_level_bpe.h"
#include "text/hf/tokenizer_files.h"
#include "text/merge_list.h"

namespace lamina::text {
namespace {

constexpr std::size_t kMaxPairFileBytes = std::size_t{256} << 20;

const publishers::TokenizerClass& class_of(const TokenizerFiles& files, const std::string& path) {
  const std::string name = files.class_name().value_or("");
  if (const publishers::TokenizerClass* known = publishers::find_tokenizer_class(name))
    return *known;
  throw UserError(
      ExitCode::checkpoint,
      {path,
       name.empty() ? "is only a vocabulary, and neither 'tokenizer_class' in "
                      "tokenizer_config.json nor 'model_type' in config.json gives the rules to "
                      "split a text"
                    : fmt::format("has the class '{}', whose rules for splitting a text lamina "
                                  "does not have",
                                  printable(name, 60)),
       {"save the tokenizer again as tokenizer.json: transformers' "
        "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"}});
}

// Lines of merges.txt with their numbers in the file; the first may be its version.
struct MergeLines {
  std::vector<std::string_view> merges;
  std::vector<std::size_t> numbers;
};

MergeLines lines_of(std::string_view file) {
  MergeLines out;
  std::size_t number = 0;
  while (!file.empty()) {
    const std::size_t length = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, length);
    file.remove_prefix(std::min(length + 1, file.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    out.merges.push_back(line);
    out.numbers.push_back(number);
  }
  return out;
}

void add_tokens(const TokenizerFiles& files, const TokenNames& names, Pipeline& out) {
  const auto refuse = [&](const std::string& content, const std::string& what) {
    user_error(ExitCode::checkpoint, files.directory() + "/tokenizer_config.json",
               "the id of the added token \"{}\" {}", printable(content, 40), what);
  };
  for (const AddedToken& token : files.added_tokens())
    out.add_token(token, [&](std::string what) { refuse(token.content, what); });
  const SpecialTokens special = files.special_tokens();
  for (const auto& tokens : {special.named, special.listed})
    for (const AddedToken& token : tokens) out.add_named(token);
  for (const auto& name : {names.bos, names.eos, names.pad, names.unk}) {
    if (!name) continue;
    if (const auto id = out.find_spelt(*name))
      out.add_token({*id, *name, false, false, false, false, true},
                    [&](std::string what) { refuse(*name, what); });
  }
}

}  // namespace

std::unique_ptr<Tokenizer> load_vocab_and_merges(const std::string& directory) {
  const std::string path = directory + "/vocab.json", merges_path = directory + "/merges.txt";
  if (std::error_code ec; !std::filesystem::exists(merges_path, ec))
    throw UserError(ExitCode::checkpoint,
                    {path,
                     "has no merges.txt beside it; expected both files of byte-level BPE",
                     {"copy all tokenizer files of the published model"}});
  const TokenizerFiles files(directory);
  const publishers::TokenizerClass& known = class_of(files, path);
  const JsonDocument document =
      JsonDocument::read(path, {.code = ExitCode::checkpoint, .max_bytes = kMaxPairFileBytes});
  Vocabulary vocabulary = Vocabulary::read(document.root(), Vocabulary::Form::byte_level);
  const std::string file = read_file(merges_path, ExitCode::checkpoint, kMaxPairFileBytes);
  const MergeLines lines = lines_of(file);
  if (lines.merges.empty())
    throw UserError(ExitCode::checkpoint, {merges_path,
                                           "is empty: every byte of a text would be a token",
                                           {"copy the file again from the published model"}});
  MergeTable merges = read_merge_lines(
      lines.merges, vocabulary, EqualMerges::last,
      [&](std::size_t place, std::string what, std::string note) {
        ErrorText error{
            fmt::format("{}:{}", merges_path, lines.numbers[place]), std::move(what), {}};
        if (!note.empty()) error.notes.push_back(std::move(note));
        throw UserError(ExitCode::checkpoint, std::move(error));
      });
  auto out = make_byte_level_bpe(
      {.source = directory,
       .vocabulary = std::move(vocabulary),
       .merges = std::move(merges),
       .rules = publishers::splitting_rules(known.rules),
       .reads_special_tokens = !files.flag_of("split_special_tokens").value_or(false),
       .add_prefix_space = files.flag_of("add_prefix_space").value_or(false)});
  const auto name = [](std::string_view token) {
    return token.empty() ? std::nullopt : std::optional(std::string(token));
  };
  const TokenNames names = files.names({.bos = name(known.begin),
                                        .eos = name(known.end),
                                        .pad = name(known.padding),
                                        .unk = name(known.end)});
  add_tokens(files, names, *out);
  out->set_names(names);
  PostTemplate around;
  if (names.add_bos && out->bos_id()) around.before.push_back(*out->bos_id());
  if (names.add_eos && out->eos_id()) around.after.push_back(*out->eos_id());
  out->set_template(std::move(around));
  return out;
}

}  // namespace lamina::text
