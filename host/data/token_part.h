// The tokens of a part of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/reading.h"
#include "data/text_files.h"
#include "data/text_parts.h"
#include "data/token_bins.h"

namespace lamina::data {

// A line that is no record of its form.
struct BadRecord {
  std::string where;  // "chats.jsonl:17"
  std::string what;
};

struct TokenPart {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> document_end;  // into the tokens
  std::vector<std::uint8_t> in_loss;        // of each token, 0 or 1; empty: all are
  TextFileCounts counts;
  std::uint64_t num_bad_records = 0;
  std::vector<BadRecord> bad_records;  // the first few
};

inline constexpr std::size_t kMaxBadRecords = 5;  // of which more than the number is kept

// Text: every document with the ids that the tokenizer's template adds (BOS), and its EOS at the
// end where it has one that the template did not add. "<|eot|>" in it is not a token. Chat: what
// chat::training_tokens() makes of a record. Errors (class data): see read_documents(); an id that
// is not below the vocabulary size; a bad record unless they are skipped. [any thread]
TokenPart tokenize_part(const std::string& file, const TextPart& part, const Reading& reading);

// What is in a part of a file of tokens. Errors (class data): an id that is negative or not below
// the vocabulary size, with its place. [any thread]
TokenPart read_bin_part(const std::string& file, const BinPart& part, const Reading& reading);

}  // namespace lamina::data
