// How many tokens the data of a run have and what they take, without reading all of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/sections.h"
#include "text/tokenizer.h"

namespace lamina::data {

struct DataEstimate {
  std::uint64_t num_files = 0;
  std::uint64_t num_bytes = 0;     // of the files as they are on the disk
  std::uint64_t num_tokens = 0;    // of data.train, what is held out of it included
  std::uint64_t stored_bytes = 0;  // of token stores: on the disk, and mapped by the run
  std::uint64_t held_bytes = 0;    // of tokens in memory
  bool is_whole = true;            // all was read, so that nothing is estimated
};

// Tokenizes `sample_bytes` of each source, in up to 8 files at even distances, and takes the rest
// to be like it. Errors (class data): those of load_data() in what is read.
DataEstimate estimate_data(const config::DataSection& section, const text::Tokenizer& tokenizer,
                           std::int64_t vocab_size,
                           std::size_t sample_bytes = std::size_t{1} << 20);

}  // namespace lamina::data
