#include "data/token_store.h"

#include <algorithm>

#include "core/error.h"
#include "core/read_file.h"
#include "data/find_files.h"

namespace lamina::data {

namespace {

// How files become tokens; see tokenize_files().
struct Reading {
  Separator separator;
  const text::Tokenizer& tokenizer;
  std::int64_t vocab_size;
  const std::function<void()>& between;
};

void add_file(const std::string& file, const Reading& reading, TokenSource& source,
              TokenStore& store) {
  const text::Tokenizer& tokenizer = reading.tokenizer;
  const auto eos = tokenizer.eos_id();
  const std::size_t first_of_file = store.tokens.size();
  const TextFileCounts counts =
      read_documents(file, reading.separator, [&](std::string_view document) {
        const std::size_t first = store.tokens.size();
        const std::vector<text::TokenId> ids = tokenizer.encode(document);
        store.tokens.insert(store.tokens.end(), ids.begin(), ids.end());
        if (eos && (ids.empty() || ids.back() != *eos)) store.tokens.push_back(*eos);
        store.document_begin.push_back(store.tokens.size());
        const auto largest = std::max_element(
            store.tokens.begin() + static_cast<std::ptrdiff_t>(first), store.tokens.end());
        if (largest != store.tokens.end() && *largest >= reading.vocab_size)
          throw UserError(
              ExitCode::data,
              {file,
               fmt::format(
                   "the tokenizer produces the id {} (\"{}\"), but the model has ids 0 to {}",
                   *largest, printable(tokenizer.token_bytes(*largest), 40),
                   reading.vocab_size - 1),
               {fmt::format("use the model's own tokenizer, or set model.vocab_size to at least {}",
                            tokenizer.vocab_size())}});
        if (reading.between) reading.between();
      });
  source.counts.num_documents += counts.num_documents;
  source.counts.num_empty_documents += counts.num_empty_documents;
  source.counts.num_bytes += counts.num_bytes;
  source.num_tokens += store.tokens.size() - first_of_file;
}

}  // namespace

TokenStore tokenize_files(const std::vector<std::string>& patterns, Separator separator,
                          const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                          const std::function<void()>& between) {
  if (patterns.empty())
    throw UserError(ExitCode::data,
                    {"data", "no files are given", {"list at least one text file"}});
  std::vector<std::vector<std::string>> files;
  for (const std::string& pattern : patterns) files.push_back(find_files(pattern));
  TokenStore store;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    TokenSource source{.name = patterns[i], .num_files = files[i].size(), .counts = {}};
    for (const std::string& file : files[i])
      add_file(file, {separator, tokenizer, vocab_size, between}, source, store);
    store.sources.push_back(std::move(source));
  }
  if (store.tokens.empty()) {
    std::size_t num_files = 0;
    for (const TokenSource& source : store.sources) num_files += source.num_files;
    throw UserError(ExitCode::data,
                    {files.front().front(),
                     num_files == 1 ? "the file holds no text"
                                    : fmt::format("none of the {} files holds text", num_files),
                     {"give files with text in them"}});
  }
  return store;
}

}  // namespace lamina::data
