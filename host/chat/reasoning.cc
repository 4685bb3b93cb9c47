#include "chat/reasoning.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"

namespace lamina::chat {
namespace {

constexpr std::string_view kBegin = "<think>", kEnd = "</think>";

// A pair of marks of published models, besides <think>.
struct PublishedPair {
  std::string_view begin, end;
};
constexpr PublishedPair kPairs[] = {
    {"[THINK]", "[/THINK]"},
    {"<|channel>thought", "<channel|>"},
    {"<seed:think>", "</seed:think>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<longcat_think>", "</longcat_think>"},
    {"\u25c1think\u25b7", "\u25c1/think\u25b7"},
};

// The harmony format: each message of an answer names its channel.
// https://developers.openai.com/cookbook/articles/openai-harmony
constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>",
                           kConstrain = "<|constrain|>";
constexpr std::string_view kReasoningChannel = "<|channel|>analysis<|message|>";
constexpr std::string_view kReasoningName = "analysis";
constexpr std::string_view kChannelNames[] = {kReasoningName, "commentary", "final"};
// A longer header is text: a model that writes no header is shown while it writes.
constexpr std::size_t kMaxHeader = 256;

// The text between the role of a message and its content: "final", "commentary to=functions.f
// <|constrain|>json". The recipient may be before the channel.
struct Header {
  std::string_view channel, recipient, type;
};

Header parse_header(std::string_view text) {
  Header out;
  for (std::size_t at = 0; (at = text.find_first_not_of(" \t\r\n", at)) != text.npos;) {
    std::string_view word = text.substr(at, text.find_first_of(" \t\r\n", at) - at);
    at += word.size();
    if (word.starts_with(kConstrain))
      out.type = word.substr(kConstrain.size());
    else if (word.starts_with("to="))
      out.recipient = word;
    else if (out.channel.empty())
      out.channel = word;
    else
      out.type = word;
  }
  return out;
}

bool is_known_channel(std::string_view name) {
  return std::find(std::begin(kChannelNames), std::end(kChannelNames), name) !=
         std::end(kChannelNames);
}

// This byte never occurs in UTF-8. With the next byte it encodes a control token.
constexpr char kControl = '\xff';

std::string code_of(std::size_t control) { return {kControl, static_cast<char>(control + 1)}; }

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

std::string_view without_space_after(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

std::string without_codes(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kControl)
      ++i;
    else
      out += text[i];
  }
  return out;
}

}  // namespace

ReasoningMarks::ReasoningMarks()
    : marks_{{std::string(kEnd), std::string(kEnd), Role::end_reasoning},
             {std::string(kBegin), std::string(kBegin), Role::begin_reasoning}} {}

ReasoningMarks::ReasoningMarks(const text::Tokenizer& tokenizer, std::string_view begin,
                               std::string_view end)
    : ReasoningMarks(tokenizer, {{std::string(begin), {}, Role::begin_reasoning},
                                 {std::string(end), {}, Role::end_reasoning}}) {
  LAMINA_ASSERT(!begin.empty() && !end.empty());
}

ReasoningMarks::ReasoningMarks(const text::Tokenizer& tokenizer, std::vector<Mark> marks)
    : marks_(std::move(marks)) {
  std::vector<std::string> controls;
  for (const text::AddedText& token : tokenizer.added_tokens()) {
    const auto id = tokenizer.find_token(token.text);
    const bool is_used = std::any_of(marks_.begin(), marks_.end(), [&](const Mark& mark) {
      return mark.text.find(token.text) != std::string::npos;
    });
    if (!id || !is_used || !tokenizer.is_special(*id)) continue;
    controls.push_back(token.text);
    control_tokens_.push_back(*id);
  }
  for (Mark& mark : marks_)
    for (std::size_t at = 0; at < mark.text.size();) {
      std::size_t longest = controls.size();
      for (std::size_t i = 0; i < controls.size(); ++i)
        if (mark.text.compare(at, controls[i].size(), controls[i]) == 0 &&
            (longest == controls.size() || controls[i].size() > controls[longest].size()))
          longest = i;
      mark.code += longest < controls.size() ? code_of(longest) : std::string(1, mark.text[at]);
      at += longest < controls.size() ? controls[longest].size() : 1;
    }
  std::stable_sort(marks_.begin(), marks_.end(),
                   [](const Mark& a, const Mark& b) { return a.code.size() > b.code.size(); });
}

ReasoningMarks ReasoningMarks::published(const text::Tokenizer& tokenizer,
                                         std::span<const std::string> own_text) {
  const std::vector<text::AddedText> tokens = tokenizer.added_tokens();
  const auto is_used = [&](std::string_view mark) {
    return std::any_of(tokens.begin(), tokens.end(),
                       [&](const text::AddedText& token) { return token.text == mark; }) ||
           std::any_of(own_text.begin(), own_text.end(),
                       [&](const std::string& text) { return text.find(mark) != text.npos; });
  };
  std::vector<Mark> marks = ReasoningMarks().marks_;
  for (Mark& mark : marks) mark.code.clear();
  for (const PublishedPair& pair : kPairs) {
    if (!is_used(pair.end)) continue;
    marks.push_back({std::string(pair.begin), {}, Role::begin_reasoning});
    marks.push_back({std::string(pair.end), {}, Role::end_reasoning});
  }
  if (is_used(kChannel)) {
    marks.push_back({std::string(kReasoningChannel), {}, Role::reasoning_message});
    marks.push_back({"<|start|>assistant", {}, Role::begin_header});
    marks.push_back({std::string(kChannel), {}, Role::begin_header});
    marks.push_back({std::string(kConstrain), {}, Role::constrain});
    marks.push_back({std::string(kMessage), {}, Role::end_header});
    marks.push_back({"<|end|>", {}, Role::begin_answer});
  }
  return {tokenizer, std::move(marks)};
}

ReasoningMarks ReasoningMarks::spelt_out() const {
  ReasoningMarks out;
  out.marks_ = marks_;
  for (Mark& mark : out.marks_) mark.code = mark.text;
  std::stable_sort(out.marks_.begin(), out.marks_.end(),
                   [](const Mark& a, const Mark& b) { return a.code.size() > b.code.size(); });
  return out;
}

bool ReasoningMarks::opened_by(const jinja::Rendered& prompt) const {
  const std::string_view text = without_space_after(prompt.text);
  if (!prompt.given.empty() && prompt.given.back().end >= text.size()) return false;
  return std::any_of(marks_.begin(), marks_.end(), [&](const Mark& mark) {
    return (mark.role == Role::begin_reasoning || mark.role == Role::reasoning_message) &&
           text.ends_with(mark.text);
  });
}

ReasoningSplitter::ReasoningSplitter(const ReasoningMarks& marks, bool inside, Emit emit)
    : marks_(marks),
      emit_(std::move(emit)),
      part_(inside ? AnswerPart::reasoning : AnswerPart::answer),
      has_reasoning_(inside) {}

void ReasoningSplitter::push(std::string_view text) {
  held_ += text;
  drain(false);
}

void ReasoningSplitter::push_control(text::TokenId id) {
  const auto& all = marks_.control_tokens();
  const auto at = std::find(all.begin(), all.end(), id);
  LAMINA_ASSERT(at != all.end());
  held_ += code_of(static_cast<std::size_t>(at - all.begin()));
  drain(false);
}

void ReasoningSplitter::finish() {
  drain(true);
  if (in_header_) end_without_content();
}

// The longest mark at a position counts, so a shorter one waits while a longer one is possible.
void ReasoningSplitter::drain(bool at_end) {
  std::size_t done = 0;
  for (std::size_t at = 0; at < held_.size();) {
    const std::string_view rest = std::string_view(held_).substr(at);
    const ReasoningMarks::Mark* found = nullptr;
    for (const ReasoningMarks::Mark& mark : marks_.marks_) {
      if (rest.starts_with(mark.code)) found = &mark;
      if (found) break;
      if (!at_end && std::string_view(mark.code).starts_with(rest)) {
        put(std::string_view(held_).substr(done, at - done));
        held_.erase(0, at);
        return;
      }
    }
    if (found) {
      put(std::string_view(held_).substr(done, at - done));
      obey(*found);
      done = at + found->code.size();
    }
    at = found ? done : at + (held_[at] == kControl ? 2 : 1);
  }
  put(std::string_view(held_).substr(done));
  held_.clear();
}

void ReasoningSplitter::obey(const ReasoningMarks::Mark& mark) {
  using Role = ReasoningMarks::Role;
  // Answers may mention marks that are ordinary text: such marks count once, at the beginning.
  const bool is_text = mark.code.find(kControl) == std::string::npos;
  if (in_header_ && (mark.role == Role::begin_reasoning || mark.role == Role::end_reasoning ||
                     mark.role == Role::begin_answer))
    end_without_content();
  switch (mark.role) {
    case Role::begin_header:
      header_ = in_header_ ? header_ + ' ' : "";
      in_header_ = true;
      return;
    case Role::constrain:
      if (in_header_)
        header_ += fmt::format(" {}", mark.text);
      else if (is_text)
        put(mark.text);
      return;
    case Role::end_header:
      obey_header();
      return;
    case Role::reasoning_message:  // counts every time, as every header of a message does
      header_ += fmt::format(" {}", kReasoningName);
      in_header_ = true;
      obey_header();
      return;
    case Role::begin_reasoning:
      if (part_ == AnswerPart::reasoning) {
        if (is_text && !is_blank(reasoning_)) put(mark.text);
        return;
      }
      if (is_text && (!is_blank(answer_) || has_reasoning_)) return put(mark.text);
      begin_reasoning();
      return;
    case Role::end_reasoning:
      if (part_ == AnswerPart::reasoning) {
        part_ = AnswerPart::answer;
      } else if (!has_reasoning_) {
        reasoning_ = std::exchange(answer_, {});
        has_reasoning_ = lacked_beginning_ = true;
      } else if (is_text) {
        put(mark.text);
      }
      return;
    case Role::begin_answer:
      part_ = AnswerPart::answer;
      return;
  }
}

void ReasoningSplitter::begin_reasoning() {
  part_ = AnswerPart::reasoning;
  has_reasoning_ = true;
  if (!is_blank(reasoning_) && !reasoning_.ends_with('\n')) put("\n");
}

// The channel decides the part. The text of a tool call begins with its header.
void ReasoningSplitter::obey_header() {
  const std::string text = in_header_ ? std::exchange(header_, {}) : "";
  in_header_ = false;
  const Header header = parse_header(text);
  if (header.channel == kReasoningName)
    begin_reasoning();
  else
    part_ = AnswerPart::answer;
  if (header.recipient.empty() && (header.channel.empty() || is_known_channel(header.channel)))
    return;
  std::string shown;
  for (const std::string_view word : {header.channel, header.recipient, header.type})
    if (!word.empty()) shown += fmt::format("{}{}", shown.empty() ? "" : " ", word);
  put(shown);
}

// Text without the channel of a header belongs to the answer.
void ReasoningSplitter::end_without_content() {
  if (is_known_channel(parse_header(header_).channel)) header_.clear();
  show_header_as_answer();
}

void ReasoningSplitter::show_header_as_answer() {
  in_header_ = false;
  part_ = AnswerPart::answer;
  put(std::exchange(header_, {}));
}

void ReasoningSplitter::put(std::string_view codes) {
  const std::string text = without_codes(codes);
  if (text.empty()) return;
  if (in_header_) {
    header_ += text;
    if (header_.size() > kMaxHeader) show_header_as_answer();
    return;
  }
  (part_ == AnswerPart::reasoning ? reasoning_ : answer_) += text;
  if (emit_) emit_(text, part_);
}

Thought ReasoningSplitter::thought() const {
  std::string_view reasoning = reasoning_, answer = answer_;
  while (reasoning.starts_with('\n')) reasoning.remove_prefix(1);
  while (reasoning.ends_with('\n')) reasoning.remove_suffix(1);
  if (has_reasoning_)
    while (answer.starts_with('\n')) answer.remove_prefix(1);
  return {std::string(reasoning), std::string(answer)};
}

Thought split_thought(std::string_view text, const ReasoningMarks& marks) {
  LAMINA_ASSERT(marks.control_tokens().empty());
  ReasoningSplitter splitter(marks, false);
  splitter.push(text);
  splitter.finish();
  return splitter.thought();
}

}  // namespace lamina::chat
