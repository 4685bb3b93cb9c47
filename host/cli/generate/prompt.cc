#include "cli/generate/prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "cli/shell/terminal.h"
#include "core/error.h"
#include "core/read_file.h"
#include "core/utf8.h"
#include "data/compressed_file.h"

namespace lamina::cli {
namespace {

// Far more than any context; a file read by mistake should not fill the memory.
constexpr std::size_t kMaxPromptBytes = std::size_t{64} << 20;

// The text of -p, of the file of -f, or of stdin (-f -, or a pipe). One line feed at the end of a
// file is removed, as with llama.cpp's -f: editors and `echo` write it.
std::string prompt_text(const Arguments& a) {
  if (a.has("prompt")) return a.text("prompt");
  const std::string path = a.has("file") ? a.text("file") : "-";
  if (path == "-" && !a.has("file") && describe_terminal(0).is_terminal)
    throw UserError(ExitCode::usage,
                    {"prompt", "is missing; use -p TEXT, -f FILE or --ids 1,2,3", {}});
  std::string text = path == "-" ? read_stdin(ExitCode::data, kMaxPromptBytes)
                                 : read_file(path, ExitCode::data, kMaxPromptBytes);
  const std::string place = path == "-" ? "stdin" : path;
  data::refuse_compressed(place, text);
  require_utf8(text, place);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void check_encoded_ids(std::span<const std::int32_t> ids, std::int64_t vocab) {
  for (std::int32_t id : ids)
    if (id >= vocab)
      throw UserError(
          ExitCode::data,
          {"prompt",
           fmt::format("the tokenizer encodes the prompt with id {}; the model's vocabulary has {}",
                       id, vocab),
           {"the tokenizer belongs to another model: copy this model's tokenizer files into the "
            "directory"}});
}

}  // namespace

void refuse_id(std::string where, std::int32_t id, std::int64_t vocab_size) {
  throw UserError(ExitCode::usage,
                  {std::move(where),
                   fmt::format("id {} is outside the vocabulary of {}; use 0 to {}", id, vocab_size,
                               vocab_size - 1),
                   {}});
}

void check_given_ids(std::span<const std::int32_t> ids, std::int64_t vocab) {
  for (std::int32_t id : ids)
    if (id >= vocab) refuse_id("--ids", id, vocab);
}

const text::Tokenizer& tokenizer_of_texts(const std::string& directory,
                                          const text::Tokenizer* tokenizer,
                                          std::string_view instead) {
  if (tokenizer) return *tokenizer;
  throw UserError(ExitCode::checkpoint,
                  {directory,
                   fmt::format("has no tokenizer, so it cannot read text; {}", instead),
                   {text::tokenizer_advice(directory)}});
}

void require_utf8(std::string_view text, const std::string& place) {
  const std::size_t bad = find_invalid_utf8(text);
  if (bad == text.npos) return;
  throw UserError(ExitCode::data,
                  {place,
                   fmt::format("is not UTF-8: byte {} is 0x{:02x}; text must be UTF-8", bad,
                               static_cast<unsigned char>(text[bad])),
                   {"convert it, eg with `iconv -t utf-8`"}});
}

std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& name) {
  std::vector<std::int32_t> out;
  const char* at = text.data();
  const char* end = at + text.size();
  for (;; ++at) {
    std::int32_t id = 0;
    auto [stop, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (stop != end && *stop != ','))
      throw UserError(ExitCode::usage,
                      {name,
                       fmt::format("got '{}'; expected numbers separated by commas, "
                                   "eg 1,2,3",
                                   text),
                       {}});
    out.push_back(id);
    if (stop == end) return out;
    at = stop;
  }
}

void check_prompt_options(const Arguments& a) {
  check_chat_options(a);
  std::vector<std::string> sources;
  for (const auto& [name, shown] :
       {std::pair{"prompt", "-p"}, {"file", "-f"}, {"ids", "--ids"}, {"messages", "--messages"}})
    if (a.has(name)) sources.emplace_back(shown);
  if (sources.size() > 1)
    throw UserError(ExitCode::usage, {"prompt",
                                      fmt::format("{} cannot be combined: each sets the prompt",
                                                  fmt::join(sources, " and ")),
                                      {"keep one of them"}});
}

Prompt read_prompt(const Arguments& a, const std::string& directory,
                   const text::Tokenizer* tokenizer, const decoder::Model& model) {
  Prompt out;
  std::vector<std::int32_t>& prompt = out.ids;
  if (a.flag("chat")) {
    out.chat = read_chat_prompt(a, directory, tokenizer, [&a] { return prompt_text(a); });
    prompt = out.chat->ids;
  } else if (a.has("ids")) {
    prompt = parse_ids(a.text("ids"));
  } else {
    prompt = tokenizer_of_texts(directory, tokenizer, "give token ids with --ids 1,2,3")
                 .encode(prompt_text(a));
  }
  if (prompt.empty() && tokenizer && tokenizer->bos_id()) prompt.push_back(*tokenizer->bos_id());
  if (prompt.empty())
    throw UserError(ExitCode::usage, {"prompt",
                                      "the prompt is empty and this tokenizer has no token that "
                                      "begins a text; give at least one character",
                                      {}});
  if (a.has("ids"))
    check_given_ids(prompt, model.vocab_size());
  else
    check_encoded_ids(prompt, model.vocab_size());
  return out;
}

void refuse_length(const Arguments& a, std::string_view what, std::int64_t tokens,
                   std::int64_t room) {
  const bool given_ids = a.has("ids");
  throw UserError(given_ids ? ExitCode::usage : ExitCode::data,
                  {given_ids ? "--ids" : "prompt",
                   fmt::format("{} has {} tokens; the context has room for {}", what, tokens, room),
                   {"shorten it, or raise --ctx-size"}});
}

std::optional<decode::PromptRows> prompt_rows(const Arguments& a, const model::OpenedModel& opened,
                                              std::span<const std::int32_t> prompt) {
  if (!a.has("embeddings")) {
    if (a.has("placeholder"))
      throw UserError(ExitCode::usage, {"--placeholder",
                                        "names the placeholder token of --embeddings, which is "
                                        "missing",
                                        {"add --embeddings FILE"}});
    return {};
  }
  std::vector<std::int64_t> ids;
  if (a.has("placeholder"))
    ids.push_back(a.integer("placeholder"));
  else if (opened.published)
    ids = opened.published->placeholder_token_ids();
  return decode::read_prompt_rows(a.text("embeddings"), prompt, ids, *opened.model);
}

}  // namespace lamina::cli
