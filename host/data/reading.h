// How the files of a run become documents of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/json_lines.h"
#include "data/text_parts.h"
#include "text/tokenizer.h"

namespace lamina::chat {
class Form;
}

namespace lamina::data {

// What a file holds; the values of data.form.
enum class Form {
  text,        // documents, one after another
  jsonl,       // objects, one a line; a field of each is the document
  chat,        // objects, one a line; each is a conversation
  tokens,      // ids, see TokenBins
  preference,  // objects, one a line; each is a pair of answers: two documents
};

// Whether documents say which of their tokens are in the loss.
inline bool has_masks(Form form) { return form == Form::chat || form == Form::preference; }

// What of a conversation is learned; the values of data.loss_on.
enum class LossOn { assistant, last, all };

struct Reading {
  Form form = Form::text;
  Separator separator = Separator::file;  // of text
  std::string field = "text";             // of jsonl
  LossOn loss_on = LossOn::assistant;     // of chat
  bool drop_thinking = false;             // of answers in messages
  bool skip_bad_records = false;          // false: the first one is an error
  const text::Tokenizer& tokenizer;
  std::int64_t vocab_size = 0;       // ids are below: the model's number of rows
  const chat::Form* chat = nullptr;  // of those with masks; may be null for prompts and completions
  std::function<void()> between = {};  // called after each document; may throw to stop

  // Where the documents of a file of this form end.
  Separator ends() const { return form == Form::text ? separator : Separator::line; }
  // As TextParts takes it: records are bounded, documents of text are not.
  std::size_t max_line_bytes() const { return form == Form::text ? 0 : kMaxRecordBytes; }
};

}  // namespace lamina::data
