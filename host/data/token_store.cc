#include "data/token_store.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"

namespace lamina::data {
namespace {

// Tokenized by one thread at a time.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

}  // namespace

TokenView view_of(std::shared_ptr<const TokenStore> store) {
  const TokenStore& s = *store;
  return {.tokens = s.tokens,
          .document_begin = s.document_begin,
          .in_loss = s.in_loss,
          .digest = digest(s.tokens, s.document_begin, s.in_loss),
          .name = s.sources.empty() ? "data" : s.sources.front().name,
          .owner = std::move(store)};
}

std::vector<TokenSource> empty_sources(const std::vector<std::string>& patterns,
                                       const std::vector<std::vector<std::string>>& files) {
  std::vector<TokenSource> out;
  for (std::size_t i = 0; i < patterns.size(); ++i)
    out.push_back({.name = patterns[i], .num_files = files[i].size(), .counts = {}});
  return out;
}

namespace {

// Says why these records, which are all that there are, have no labels.
std::string unlearned_text(std::uint64_t num_records, DataForm form) {
  if (form == DataForm::preference)
    return num_records == 1
               ? "both answers of the pair are the same"
               : fmt::format("both answers are the same in each of the {} pairs", num_records);
  return num_records == 1 ? "the conversation has no answer"
                          : fmt::format("none of the {} conversations has an answer", num_records);
}

std::string advice_on_roles(const std::vector<TokenSource>& sources) {
  std::vector<std::string> roles;
  for (const TokenSource& source : sources) add_roles(source.skipped_roles, roles);
  if (std::ranges::find(roles, "assistant") != roles.end())
    return "an answer follows another message, and neither \"weight\" nor \"train\" excludes it";
  if (roles.empty()) return "an answer is a message with the role assistant; there are no messages";
  for (std::string& role : roles) role = printable(role, 40);
  return fmt::format("the messages have the roles {}; an answer has the role assistant",
                     fmt::join(roles, ", "));
}

}  // namespace

void check_tokens(std::uint64_t num_tokens, const std::vector<std::vector<std::string>>& files,
                  const std::vector<TokenSource>& sources, DataForm form) {
  if (num_tokens > 0) return;
  std::size_t num_files = 0;
  for (const std::vector<std::string>& source : files) num_files += source.size();
  std::uint64_t num_unlearned = 0;
  std::vector<std::string> notes;
  for (const TokenSource& source : sources) {
    num_unlearned += source.counts.num_unlearned_records;
    for (const BadRecord& record : source.bad_records)
      notes.push_back(fmt::format("skipped {}: {}", record.where, record.what));
  }
  if (num_unlearned > 0) {
    if (form == DataForm::chat) notes.push_back(advice_on_roles(sources));
    throw UserError(
        ExitCode::data,
        {files.front().front(), "no token is in the loss: " + unlearned_text(num_unlearned, form),
         std::move(notes)});
  }
  notes.emplace_back("give files that contain text");
  throw UserError(ExitCode::data,
                  {files.front().front(),
                   num_files == 1 ? "the file contains no text"
                                  : fmt::format("none of the {} files contains text", num_files),
                   std::move(notes)});
}

TokenStore tokenize_files(const std::vector<std::string>& patterns, const Reading& reading,
                          const Workers& workers) {
  const auto files = find_sources(patterns, reading.form);
  TokenStore store;
  store.sources = empty_sources(patterns, files);
  PartStream stream(files, reading, kPartBytes);
  tokenize_parts(stream, reading, workers, [&store](std::size_t source, TokenPart part) {
    const std::uint64_t first = store.tokens.size();
    store.sources[source].add(part);
    if (store.tokens.empty())
      store.tokens = std::move(part.tokens);
    else
      store.tokens.insert(store.tokens.end(), part.tokens.begin(), part.tokens.end());
    store.in_loss.insert(store.in_loss.end(), part.in_loss.begin(), part.in_loss.end());
    for (std::uint64_t end : part.document_end) store.document_begin.push_back(first + end);
  });
  check_tokens(store.tokens.size(), files, store.sources, reading.form);
  return store;
}

TokenStore tokenize_files(const std::vector<std::string>& patterns, Separator separator,
                          const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                          const std::function<void()>& between) {
  return tokenize_files(patterns, {.separator = separator,
                                   .tokenizer = tokenizer,
                                   .vocab_size = vocab_size,
                                   .between = between});
}

}  // namespace lamina::data
