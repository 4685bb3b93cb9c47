// The sources of a [data] section: how they are read, and where their tokens are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/sections.h"
#include "data/load.h"
#include "data/reading.h"
#include "data/stores.h"

namespace lamina::data {

// Loads the chat template of data.chat_template, else of the directory data.tokenizer. Returns null
// if data.form does not use a template, or if neither has one. Errors: class data.
std::unique_ptr<const chat::Form> load_chat_form(const config::DataSection& section,
                                                 const NextSteps& steps = {});

// Returns whether the directory of a tokenizer has a chat template, valid or not.
bool has_chat_template(const std::string& directory);

// Returns the text of the file data.chat_template; nothing without one. Errors: class data.
std::optional<std::string> chat_template_text(const config::DataSection& section);

class Sources {
 public:
  // REQUIRES: `tokenizer` outlives this. Errors: see load_chat_form().
  Sources(const config::DataSection& section, const text::Tokenizer& tokenizer,
          std::int64_t vocab_size, const LoadHooks& hooks);
  ~Sources();

  const Reading& reading() const { return reading_; }
  bool has_stores() const { return !store_.folder.empty(); }
  // Returns whether tokens of files with this size are kept in a store, not in memory.
  bool stores(std::uint64_t num_bytes) const {
    return has_stores() && num_bytes >= store_.min_bytes;
  }
  void store_all() {
    store_.min_bytes = 0;
    store_.is_required = true;
  }

  // Returns the tokens of the files for `patterns`. Errors: see open_or_make_store().
  StoredTokens read(const std::vector<std::string>& patterns) const;

 private:
  std::unique_ptr<const chat::Form> chat_;
  std::unique_ptr<const chat::ReasoningMarks> marks_;  // of data.thinking = "drop"
  Reading reading_;
  StoreOptions store_;
};

// Returns the entries of `section` grouped by common tokens: all of data.train, or each entry
// separately if they have weights; and data.validation.
std::vector<std::vector<std::string>> kept_together(const config::DataSection& section);

}  // namespace lamina::data
