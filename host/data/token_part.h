// Tokenizes a part of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/reading.h"
#include "data/text_files.h"
#include "data/text_parts.h"
#include "data/token_bins.h"

namespace lamina::data {

// A line that is not a valid record.
struct BadRecord {
  std::string where;  // "chats.jsonl:17"
  std::string what;
};

struct TokenPart {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> document_end;  // offsets in the tokens
  std::vector<std::uint8_t> in_loss;        // per token, 0 or 1; empty: all 1
  TextFileCounts counts;
  std::uint64_t num_bad_records = 0;
  std::vector<BadRecord> bad_records;  // the first few
  // Roles of messages that no answer follows, each once; the first few.
  std::vector<std::string> skipped_roles;
};

inline constexpr std::size_t kMaxBadRecords = 5;  // kept with text; others are only counted
inline constexpr std::size_t kMaxRoles = 8;

// Adds roles that are not there yet, up to that number.
void add_roles(const std::vector<std::string>& more, std::vector<std::string>& roles);

// Tokenizes a part. Text: every document with the ids that the tokenizer's template adds (BOS), and
// EOS at the end if the tokenizer has one and the template did not add it. "<|eot|>" in text is not
// parsed as a token. Chat: the result of chat::training_tokens() for each record. Errors (class
// data): see read_documents(); an id that is not below the vocabulary size; a bad record unless
// they are skipped. [any thread]
TokenPart tokenize_part(const std::string& file, const TextPart& part, const Reading& reading);

// Reads a part of a token file. Errors (class data): an id that is negative or not below the
// vocabulary size, with its position. [any thread]
TokenPart read_bin_part(const std::string& file, const BinPart& part, const Reading& reading);

// Throws that error. `index`: the token's, in the file.
[[noreturn]] void fail_id(const std::string& file, std::uint64_t index, std::int64_t id,
                          std::int64_t vocab_size);
// Throws the error of an id of the tokenizer that is not below the vocabulary size.
[[noreturn]] void fail_produced_id(const std::string& where, std::int32_t id,
                                   const Reading& reading);

}  // namespace lamina::data
