// Token stores of a run: found by what is in its files, made where there is none.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/reading.h"
#include "data/token_files.h"
#include "data/tokenize.h"

namespace lamina::data {

struct StoreProgress {
  std::uint64_t bytes_done = 0, num_bytes = 0;  // of the files on disk
  std::uint64_t first_byte = 0;                 // where this process began
  std::uint64_t num_tokens = 0;
};

struct StoreOptions {
  std::string folder;                       // of the stores
  std::vector<std::string> template_files;  // see store_key()
  Workers workers = {};
  std::function<void(const StoreProgress&)> progress = {};  // now and then
  // Sources of fewer bytes get no store: tokenizing them is quicker than a look at the disk.
  std::uint64_t min_bytes = 0;
  // Tokenized at a time, and between two times that what is done is saved.
  std::size_t part_bytes = std::size_t{1} << 20;
  std::uint64_t save_every_bytes = std::uint64_t{256} << 20;
  bool is_required = false;  // no store is an error, and tokens are never held in memory instead
};

// The store "<folder>/<key>" of the files that `patterns` name, which is made first where there is
// none: in "<key>.building", where a process that was stopped or killed left off. While another
// process makes one in the folder, this one waits. Sources that are too small are tokenized in
// memory, and so are those whose store cannot be made because the folder cannot be written, with a
// warning, unless it is required. Errors: see tokenize_files(); DeviceError (class checkpoint)
// where the disk becomes full, or a required store cannot be made.
StoredTokens open_or_make_store(const std::vector<std::string>& patterns, const Reading& reading,
                                const StoreOptions& options);

}  // namespace lamina::data
