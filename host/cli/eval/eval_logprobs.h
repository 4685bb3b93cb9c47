// The file of `lamina eval --logprobs`: JSON lines with tokens and their log probabilities.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cli/shell/command.h"
#include "core/json_writer.h"
#include "io/durable_file.h"
#include "text/tokenizer.h"

namespace lamina::cli {

class LogprobsFile {
 public:
  // Writes nothing without the option --logprobs.
  explicit LogprobsFile(const Arguments& a);

  bool is_wanted() const { return file_ != nullptr; }
  void write_line(const JsonWriter& object);
  void commit();

 private:
  std::unique_ptr<io::DurableFile> file_;
};

// Returns whether the file begins as those that LogprobsFile writes.
bool is_logprobs_file(const std::string& path);

// Members "ids", "tokens" (as the vocabulary spells them) and "logprobs" (natural logarithms).
void add_logprobs(std::span<const std::int32_t> ids, std::span<const float> logprobs,
                  const text::Tokenizer& tokenizer, JsonWriter& json);

}  // namespace lamina::cli
