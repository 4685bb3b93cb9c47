// Tokenized documents in memory: the first half of preparing data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/reading.h"
#include "data/token_view.h"
#include "data/tokenize.h"
#include "text/tokenizer.h"

namespace lamina::data {

struct TokenStore {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> document_begin = {0};  // num_documents() + 1 values
  std::vector<std::uint8_t> in_loss;                // see TokenView; empty: all
  std::vector<TokenSource> sources;                 // in the order given

  std::size_t num_documents() const { return document_begin.size() - 1; }
};

// Returns a view of a store in memory.
TokenView view_of(std::shared_ptr<const TokenStore> store);

// Tokenizes the documents of all files, in order. Errors (class data): see find_sources() and
// tokenize_part(); no text in any file.
TokenStore tokenize_files(const std::vector<std::string>& patterns, const Reading& reading,
                          const Workers& workers = {});

// Returns the sources before anything was read.
std::vector<TokenSource> empty_sources(const std::vector<std::string>& patterns,
                                       const std::vector<std::vector<std::string>>& files);

// Throws an error if there are no tokens: the sources have no text, or no labels.
void check_tokens(std::uint64_t num_tokens, const std::vector<std::vector<std::string>>& files,
                  const std::vector<TokenSource>& sources, DataForm form);

// Tokenizes text.
TokenStore tokenize_files(const std::vector<std::string>& patterns, Separator separator,
                          const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                          const std::function<void()>& between = {});

}  // namespace lamina::data
