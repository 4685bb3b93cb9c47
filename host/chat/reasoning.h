// Separates a model's reasoning from its answer, by the marks around reasoning.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/template.h"
#include "text/tokenizer.h"

namespace lamina::chat {

// An answer of a model, and the reasoning before it. The reasoning has no line breaks at its ends,
// the answer none at its beginning.
struct Thought {
  std::string reasoning, answer;
};

// The marks of one model. A mark may be ordinary text, control tokens, or both. Const and safe to
// share between threads.
class ReasoningMarks {
 public:
  // "<think>" and "</think>" in the text.
  ReasoningMarks();
  // One pair of texts, which may contain control tokens of the tokenizer. REQUIRES: neither is
  // empty.
  ReasoningMarks(const text::Tokenizer& tokenizer, std::string_view begin, std::string_view end);
  // "<think>" and "</think>", and the other published marks for which the tokenizer has a token or
  // which the template contains; `own_text` is the text of the template itself.
  static ReasoningMarks published(const text::Tokenizer& tokenizer,
                                  std::span<const std::string> own_text);

  // The same marks, all of them ordinary text: for texts in which control tokens are spelt out.
  ReasoningMarks spelt_out() const;

  // Control tokens that are part of a mark: a splitter must see them.
  const std::vector<text::TokenId>& control_tokens() const { return control_tokens_; }
  // True if a prompt ends with the mark that begins reasoning, optionally followed by white space.
  bool opened_by(const jinja::Rendered& prompt) const;

 private:
  friend class ReasoningSplitter;
  enum class Role {
    begin_reasoning,
    end_reasoning,  // without a beginning: all text before it is reasoning
    begin_answer,   // between messages
    begin_header,   // of a message: its text, with the channel, precedes the content
    constrain,      // before the type of the content, in a header
    end_header,
    reasoning_message,  // the header of a message of reasoning, and its end
  };
  struct Mark {
    std::string text;  // as published
    std::string code;  // with control tokens as codes that no text contains
    Role role;
  };
  ReasoningMarks(const text::Tokenizer& tokenizer, std::vector<Mark> marks);

  std::vector<Mark> marks_;  // longest first
  std::vector<text::TokenId> control_tokens_;
};

enum class AnswerPart { reasoning, answer };

// Splits a text that arrives in pieces. Holds back what may become a mark.
class ReasoningSplitter {
 public:
  // `marks` is borrowed. `inside`: the text begins with reasoning. `emit` gets the text without
  // marks as soon as its part is certain.
  using Emit = std::function<void(std::string_view text, AnswerPart part)>;
  ReasoningSplitter(const ReasoningMarks& marks, bool inside, Emit emit = {});

  void push(std::string_view text);
  void push_control(text::TokenId id);  // one of marks.control_tokens()
  void finish();

  // All that was pushed, after finish().
  Thought thought() const;
  // True if text was emitted as an answer and later proved to be reasoning.
  bool lacked_beginning() const { return lacked_beginning_; }

 private:
  void drain(bool at_end);
  void obey(const ReasoningMarks::Mark& mark);
  void begin_reasoning();
  void obey_header();
  void end_without_content();
  void show_header_as_answer();
  void put(std::string_view text);

  const ReasoningMarks& marks_;
  Emit emit_;
  AnswerPart part_;
  std::string held_;    // in codes
  std::string header_;  // of a message, so far
  bool in_header_ = false;
  std::string reasoning_, answer_;
  bool has_reasoning_;  // may be empty
  bool lacked_beginning_ = false;
};

// Separates a whole text. REQUIRES: no mark has control tokens.
Thought split_thought(std::string_view text, const ReasoningMarks& marks = {});

}  // namespace lamina::chat
