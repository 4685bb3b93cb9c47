// Options for reading the files of a run as documents of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/json_lines.h"
#include "data/text_parts.h"
#include "text/tokenizer.h"

namespace lamina::chat {
class Form;
class ReasoningMarks;
}  // namespace lamina::chat

namespace lamina::data {

// Content of a file; the values of data.form.
enum class DataForm {
  text,        // documents, one after another
  jsonl,       // objects, one per line; a field of each is the document
  chat,        // objects, one per line; each is a conversation
  tokens,      // ids, see TokenBins
  preference,  // objects, one per line; each is a pair of answers: two documents
};

// Returns whether documents have a mask of the tokens in the loss.
inline bool has_masks(DataForm form) {
  return form == DataForm::chat || form == DataForm::preference;
}

// The part of a conversation in the loss; the values of data.loss_on.
enum class LossOn { assistant, last, all };

// Notes of errors: what to change. The default texts name the keys of a run file; a command without
// one names its options.
struct NextSteps {
  std::string chat_template =
      "set data.chat_template, or data.tokenizer to the directory of a model with one";
  std::string chat_of_texts = "data.form = \"jsonl\" reads objects with a text";
  std::string preference = "a preference record: set data.form = \"preference\"";
  std::string bad_record =  // empty: bad records cannot be skipped
      "data.bad_records = \"skip\" skips and counts such records";
  std::string no_label =
      "`lamina data show` prints the rows; check data.loss_on, or raise data.sequence_length";
};

struct Reading {
  DataForm form = DataForm::text;
  Separator separator = Separator::file;  // of text
  std::string field = "text";             // of jsonl
  LossOn loss_on = LossOn::assistant;     // of chat
  // Marks of the reasoning that is removed from assistant messages; null: it stays.
  const chat::ReasoningMarks* dropped_thinking = nullptr;
  bool skip_bad_records = false;  // false: the first one is an error
  const text::Tokenizer& tokenizer;
  std::int64_t vocab_size = 0;          // upper bound of ids: the model's number of rows
  const chat::Form* chat = nullptr;     // for forms with masks; null for texts only
  std::string tokenizer_path = "byte";  // data.tokenizer, for errors
  std::function<void()> between = {};   // called after each document; may throw to stop
  NextSteps next_steps = {};

  // The end of a document in a file of this form.
  Separator ends() const { return form == DataForm::text ? separator : Separator::line; }
  // Limit for TextParts: records are bounded, documents of text are not.
  std::size_t max_line_bytes() const { return form == DataForm::text ? 0 : kMaxRecordBytes; }
  // Returns whether every id that is read fits into two bytes. Files of ids may have more of them
  // than the tokenizer.
  bool has_narrow_ids() const {
    return (form == DataForm::tokens ? vocab_size : tokenizer.vocab_size()) <= 1 << 16;
  }
};

}  // namespace lamina::data
