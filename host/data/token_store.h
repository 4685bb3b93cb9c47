// Documents as token ids, held in memory: the first half of preparing data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/text_files.h"
#include "text/tokenizer.h"

namespace lamina::data {

// An entry of data.train or data.validation, and what was found there.
struct TokenSource {
  std::string name;  // as given: a file, a directory or a glob
  std::size_t num_files = 0;
  TextFileCounts counts;  // of all its files together
  std::uint64_t num_tokens = 0;
};

struct TokenStore {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> document_begin = {0};  // one more than there are documents
  std::vector<TokenSource> sources;                 // in the order given

  std::size_t num_documents() const { return document_begin.size() - 1; }
};

// Every document with the ids that the tokenizer's template adds (BOS), and its EOS at the end
// where it has one that the template did not add. Text is text: "<|eot|>" in it is not a token.
// Errors (class data): see find_files() and read_documents(); no patterns; no text in any file; an
// id that is not below `vocab_size`, the model's number of rows. `between` is called after each
// document and may throw to stop.
TokenStore tokenize_files(const std::vector<std::string>& patterns, Separator separator,
                          const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                          const std::function<void()>& between = {});

}  // namespace lamina::data
