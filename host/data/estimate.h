// Estimates the number of tokens of a run's data and their memory, without reading all of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/sections.h"
#include "text/tokenizer.h"

namespace lamina::data {

struct DataEstimate {
  std::uint64_t num_files = 0;
  std::uint64_t num_bytes = 0;     // size of the files on disk
  std::uint64_t num_tokens = 0;    // of data.train, including held-out rows
  std::uint64_t stored_bytes = 0;  // of token stores on disk, mapped by the run
  std::uint64_t held_bytes = 0;    // of tokens kept in memory
  bool is_whole = true;            // everything was read: the numbers are exact
};

// Tokenizes `sample_bytes` of each source, in up to 8 files at even distances, and extrapolates.
// Errors (class data): as load_data(), for the parts that are read.
DataEstimate estimate_data(const config::DataSection& section, const text::Tokenizer& tokenizer,
                           std::int64_t vocab_size,
                           std::size_t sample_bytes = std::size_t{1} << 20);

}  // namespace lamina::data
