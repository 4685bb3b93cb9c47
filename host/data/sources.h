// What a [data] section says of its sources: how they are read, and where their tokens are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/sections.h"
#include "data/load.h"
#include "data/reading.h"
#include "data/stores.h"

namespace lamina::data {

// The chat template of data.chat_template, else of the directory that data.tokenizer names; null
// where data.form has no use for one, or where neither names one. Errors: class data.
std::unique_ptr<const chat::Form> load_chat_form(const config::DataSection& section);

class Sources {
 public:
  // REQUIRES: `tokenizer` outlives this. Errors: see load_chat_form().
  Sources(const config::DataSection& section, const text::Tokenizer& tokenizer,
          std::int64_t vocab_size, const LoadHooks& hooks);
  ~Sources();

  const Reading& reading() const { return reading_; }
  bool has_stores() const { return !store_.folder.empty(); }
  // Whether the tokens of files of so many bytes are in a store, not in memory.
  bool stores(std::uint64_t num_bytes) const {
    return has_stores() && num_bytes >= store_.min_bytes;
  }
  void store_all() {
    store_.min_bytes = 0;
    store_.is_required = true;
  }

  // The tokens of the files that `patterns` name. Errors: see open_or_make_store().
  StoredTokens read(const std::vector<std::string>& patterns) const;

 private:
  std::unique_ptr<const chat::Form> chat_;
  Reading reading_;
  StoreOptions store_;
};

// The entries of `section` whose tokens are kept together: all of data.train, or each of them where
// they have weights, and data.validation.
std::vector<std::vector<std::string>> kept_together(const config::DataSection& section);

}  // namespace lamina::data
