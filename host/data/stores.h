// Token stores of a run: found by the contents of its files, and built if missing.
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
  std::uint64_t bytes_done = 0, num_bytes = 0;  // sizes of the files on disk
  std::uint64_t first_byte = 0;                 // where this process started
  std::uint64_t num_tokens = 0;
};

struct StoreOptions {
  std::string folder;  // of the stores
  Workers workers = {};
  std::function<void(const StoreProgress&)> progress = {};  // called at intervals
  // Smaller sources get no store: tokenizing them is faster than reading the disk.
  std::uint64_t min_bytes = 0;
  // Bytes tokenized at a time, and bytes between two saves.
  std::size_t part_bytes = std::size_t{1} << 20;
  std::uint64_t save_every_bytes = std::uint64_t{256} << 20;
  bool is_required = false;  // a missing store is an error; never fall back to memory
};

// Opens the store "<folder>/<key>" of the files for `patterns`, or builds it in "<key>.building",
// resuming from where a process was stopped or killed. Waits while another process builds a store
// in the folder. Tokens stay in memory for small sources, and, with a warning, if the folder is not
// writable or cannot be locked, unless a store is required. Errors: see tokenize_files(); an id of
// a store that is not below the vocabulary size; class data if a file changes while a store is
// built; DeviceError (class checkpoint) if the disk is full, or a required store cannot be created.
StoredTokens open_or_make_store(const std::vector<std::string>& patterns, const Reading& reading,
                                const StoreOptions& options);

}  // namespace lamina::data
