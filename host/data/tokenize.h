// Tokenizes files part by part on all available threads; the order of the files is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/workers.h"
#include "data/reading.h"
#include "data/text_parts.h"
#include "data/token_bins.h"
#include "data/token_part.h"

namespace lamina::data {

// An entry of data.train or data.validation, and its counts.
struct TokenSource {
  std::string name;  // as given: a file, a directory or a glob
  std::size_t num_files = 0;
  TextFileCounts counts;  // over all its files
  std::uint64_t num_tokens = 0;
  std::uint64_t num_bad_records = 0;       // skipped
  std::vector<BadRecord> bad_records;      // the first few of them
  std::vector<std::string> skipped_roles;  // see TokenPart

  void add(const TokenPart& part);  // adds the counts of the part
};

// Returns the files of each pattern; for token files without the .idx of others. Errors (class
// data): see find_files(); there are no patterns. NoFiles: a pattern has only .idx.
std::vector<std::vector<std::string>> find_sources(const std::vector<std::string>& patterns,
                                                   DataForm form);

// Iterates over every part of every file, in order.
class PartStream {
 public:
  struct Part {
    std::size_t source;
    const std::string* file;
    std::variant<TextPart, BinPart> content;
  };

  // REQUIRES: `files` and `reading` outlive this.
  PartStream(const std::vector<std::vector<std::string>>& files, const Reading& reading,
             std::size_t part_bytes);

  std::optional<Part> next();
  // Returns the number of bytes on disk that have been read.
  std::uint64_t bytes_done() const;

 private:
  std::optional<std::variant<TextPart, BinPart>> next_of(const std::string& file);

  const std::vector<std::vector<std::string>>& files_;
  const Reading& reading_;
  std::size_t part_bytes_;
  std::size_t source_ = 0, file_ = 0;
  std::optional<TextParts> text_;  // the open file, of text
  std::optional<TokenBins> bins_;  // or of tokens
  std::uint64_t bytes_of_closed_ = 0;
};

// Tokenizes the rest of the stream and calls `add` for each part, in order. An error of a part is
// thrown after the parts before it were added. reading.between is also called by the workers. [any
// thread]
void tokenize_parts(PartStream& stream, const Reading& reading, const Workers& workers,
                    const std::function<void(std::size_t source, TokenPart)>& add);

}  // namespace lamina::data
