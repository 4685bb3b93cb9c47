// Reasoning and answers in the published forms, for every division of the text into tokens.
#include "chat/reasoning.h"

#include <gmock/gmock.h>

#include "chat/conversation.h"
#include "chat/form.h"
#include "chat/small_tokenizer.h"
#include "support/temp_dir.h"

namespace lamina::chat {
namespace {

using lamina::testing::TempDir;

// A model with these control tokens and this template.
class Speaker {
 public:
  Speaker(std::vector<std::string> control_tokens, const std::string& source = "x") {
    control_tokens.push_back("<|eos|>");
    folder_.write("tokenizer.json", lamina::testing::tokenizer_json(control_tokens));
    folder_.write("chat_template.jinja", source);
    tokenizer_ = text::load_tokenizer(folder_.path());
    Conversation conversation;
    conversation.add("user", "hi");
    form_.emplace(Form::load(folder_.path()));
    prompt_ = form_->render(conversation);
  }

  ReasoningMarks marks() const { return ReasoningMarks::published(*tokenizer_, prompt_.own_text); }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }

  // The parts of an answer. Control tokens in it are spelt out.
  Thought parts(const std::string& answer) const { return parts(answer, marks()); }
  Thought parts(const std::string& answer, const ReasoningMarks& marks) const {
    std::string shown[2];
    ReasoningSplitter splitter(marks, marks.opened_by(prompt_),
                               [&](std::string_view text, AnswerPart part) {
                                 EXPECT_FALSE(text.empty());
                                 shown[part == AnswerPart::answer] += text;
                               });
    const auto stream = tokenizer_->stream(/*skip_special=*/true);
    const auto& controls = marks.control_tokens();
    for (const text::TokenId id :
         tokenizer_->encode(answer, {.add_special = false, .parse_special = true})) {
      splitter.push(stream->push(id));
      if (std::find(controls.begin(), controls.end(), id) != controls.end())
        splitter.push_control(id);
    }
    splitter.push(stream->finish());
    splitter.finish();
    const Thought out = splitter.thought();
    if (!splitter.lacked_beginning()) {
      EXPECT_NE(shown[0].find(out.reasoning), std::string::npos);
      EXPECT_NE(shown[1].find(out.answer), std::string::npos);
    }
    return out;
  }

 private:
  TempDir folder_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<Form> form_;  // the prompt borrows its texts
  jinja::Rendered prompt_;
};

void expect_parts(const Thought& got, const char* reasoning, const char* answer) {
  EXPECT_EQ(got.reasoning, reasoning);
  EXPECT_EQ(got.answer, answer);
}

TEST(Reasoning, Example) {
  expect_parts(split_thought("<think>\nhm\n</think>\n\nyes"), "hm", "yes");
  expect_parts(split_thought("no thought"), "", "no thought");
  expect_parts(split_thought("\nno thought"), "", "\nno thought");
}

TEST(Reasoning, MarksMayBeTextOrControlTokens) {
  const Speaker text({});
  expect_parts(text.parts("<think>Hmm 2+2.</think>4"), "Hmm 2+2.", "4");
  EXPECT_TRUE(text.marks().control_tokens().empty());
  const Speaker special({"<think>", "</think>"});
  expect_parts(special.parts("<think>Hmm 2+2.</think>4"), "Hmm 2+2.", "4");
  EXPECT_EQ(special.marks().control_tokens().size(), 2u);
}

TEST(Reasoning, OfChannelsIsTheAnalysisChannel) {
  const Speaker model({"<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|call|>"});
  expect_parts(model.parts("<|channel|>analysis<|message|>Hmm 2+2.<|end|><|start|>assistant"
                           "<|channel|>final<|message|>4"),
               "Hmm 2+2.", "4");
  expect_parts(model.parts("<|channel|>final<|message|>4"), "", "4");
  expect_parts(model.parts("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>"
                           "analysis<|message|>b<|end|><|start|>assistant<|channel|>commentary"
                           "<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>"
                           "4"),
               "a\nb", "I look.4");
  // A tool call keeps its header.
  expect_parts(model.parts("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>"
                           "commentary to=functions.f json<|message|>{}<|call|>"),
               "a", "commentary to=functions.f json{}");
  expect_parts(model.parts("<|channel|>analysis<|message|>cut"), "cut", "");
}

TEST(Reasoning, HeadersOfMessagesAreNotTheirContent) {
  const Speaker model(
      {"<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|call|>", "<|constrain|>"});
  expect_parts(model.parts("<|channel|>final <|constrain|>json<|message|>{}"), "", "{}");
  expect_parts(model.parts("<|channel|>final json<|message|>{}"), "", "{}");
  expect_parts(model.parts("<|channel|>analysis <|constrain|>text<|message|>secret<|end|>"
                           "<|start|>assistant<|channel|>final<|message|>4"),
               "secret", "4");
  // A tool call in the channel of reasoning is reasoning.
  expect_parts(model.parts("<|channel|>analysis to=python code<|message|>print(1)<|call|>"),
               "analysis to=python codeprint(1)", "");
  expect_parts(model.parts("<|start|>assistant to=python<|channel|>analysis code<|message|>"
                           "print(1)<|call|>"),
               "analysis to=python codeprint(1)", "");
  expect_parts(model.parts("<|channel|>analysis<|message|>a<|end|><|start|>assistant to=python"
                           "<|channel|>analysis<|message|>print(1)<|call|>"),
               "a\nanalysis to=pythonprint(1)", "");
  const char* calls[] = {
      "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant to=functions.f<|channel|>"
      "commentary <|constrain|>json<|message|>{}<|call|>"};
  expect_parts(model.parts(calls[0]), "", "commentary to=functions.f json{}");
  expect_parts(model.parts(calls[1]), "a", "commentary to=functions.f json{}");
  // Cut before the content.
  expect_parts(model.parts("<|channel|>final <|constrain|>js"), "", "");
  // No header at all.
  expect_parts(model.parts("<|channel|>Hello there"), "", "Hello there");
  const std::string text(300, 'x');
  expect_parts(model.parts("<|channel|>" + text + "<|message|>y"), "", (text + "y").c_str());
}

// Texts for training: every message has its channel there too.
TEST(Reasoning, MessagesOfReasoningThatAreSpeltOutCountEveryTime) {
  const Speaker model({"<|channel|>", "<|message|>", "<|end|>", "<|start|>"});
  const ReasoningMarks spelt_out = model.marks().spelt_out();
  expect_parts(split_thought("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>"
                             "analysis<|message|>b<|end|><|start|>assistant<|channel|>final"
                             "<|message|>4",
                             spelt_out),
               "a\nb", "4");
  expect_parts(split_thought("<|channel|>commentary<|message|>I look.<|end|><|channel|>analysis"
                             "<|message|>b<|end|><|channel|>final<|message|>4",
                             spelt_out),
               "b", "I look.4");
}

TEST(Reasoning, AThoughtChannelEndsWithItsControlToken) {
  const Speaker model({"<|channel>", "<channel|>"});
  expect_parts(model.parts("<|channel>thought\nHmm 2+2.\n<channel|>4"), "Hmm 2+2.", "4");
  expect_parts(model.parts("<|channel>thought\n<channel|>4"), "", "4");
  expect_parts(model.parts("4"), "", "4");
}

TEST(Reasoning, BracketsAndOthersAreFoundByTheirTokens) {
  const std::pair<const char*, const char*> pairs[] = {{"[THINK]", "[/THINK]"},
                                                       {"<seed:think>", "</seed:think>"},
                                                       {"<|inner_prefix|>", "<|inner_suffix|>"},
                                                       {"<|START_THINKING|>", "<|END_THINKING|>"}};
  for (const auto& [begin, end] : pairs) {
    const std::string answer = begin + std::string("Hmm 2+2.") + end + "4";
    expect_parts(Speaker({begin, end}).parts(answer), "Hmm 2+2.", "4");
    // Spelt as text they are marks if the template contains them, and ordinary text otherwise.
    expect_parts(Speaker({}, std::string("{{ '") + end + "' }}").parts(answer), "Hmm 2+2.", "4");
    expect_parts(Speaker({}).parts(answer), "", answer.c_str());
  }
}

TEST(Reasoning, MayBeginInThePrompt) {
  const Speaker text({}, "{{ messages[0].content }}<think>\n");
  expect_parts(text.parts("Hmm.\n</think>\n\n4"), "Hmm.", "4");
  expect_parts(text.parts("cut"), "cut", "");
  expect_parts(text.parts("<think>\nHmm.</think>4"), "Hmm.", "4");
  const Speaker special({"[THINK]", "[/THINK]"}, "{{ messages[0].content }}[THINK]");
  expect_parts(special.parts("Hmm.[/THINK]4"), "Hmm.", "4");
  // A mark in the user's text does not begin reasoning.
  EXPECT_FALSE(ReasoningMarks().opened_by({.text = "<think>", .given = {{0, 7}}}));
  EXPECT_TRUE(ReasoningMarks().opened_by({.text = "x<think>\n", .given = {{0, 1}}}));
}

TEST(Reasoning, WithoutABeginningIsAllThatIsBeforeItsEnd) {
  expect_parts(split_thought("Hmm.</think>4"), "Hmm.", "4");
  expect_parts(Speaker({"[THINK]", "[/THINK]"}).parts("Hmm.[/THINK]4"), "Hmm.", "4");
}

TEST(Reasoning, AnswersMayQuoteMarks) {
  expect_parts(split_thought("<think>a</think>Write <think> and </think>."), "a",
               "Write <think> and </think>.");
  expect_parts(split_thought("Write <think> first."), "", "Write <think> first.");
}

TEST(Reasoning, CanHaveMarksOfTheUser) {
  const Speaker model({"<|r|>"});
  const ReasoningMarks marks(model.tokenizer(), "<|r|>(", "=>");
  expect_parts(model.parts("<|r|>(Hmm=>4", marks), "Hmm", "4");
  expect_parts(model.parts("<think>a</think>=>b", marks), "<think>a</think>", "b");
}

TEST(Reasoning, IsTheSameWhereverTheTextIsCut) {
  const std::string text = "<think>\nhm<</think>\n\nyes </thin";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const ReasoningMarks marks;
    ReasoningSplitter splitter(marks, false);
    splitter.push(text.substr(0, cut));
    splitter.push(text.substr(cut));
    splitter.finish();
    expect_parts(splitter.thought(), "hm<", "yes </thin");
  }
}

}  // namespace
}  // namespace lamina::chat
