// A chat keeps its conversation if an answer fails.
#include "cli/generate/chat_session.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/models.h"
#include "support/temp_dir.h"

namespace lamina::cli {
namespace {

TEST(ChatSession, AFailedAnswerChangesNothing) {
  const decoder::Model model = testing::open_description(
      "family = \"simple\"\n[model]\nvocab_size = 258\nhidden_size = 258\nnum_hidden_layers = 1\n");
  const std::vector<float> square(258 * 258, 0.5f), norm(258, 1);
  const std::vector<ConstTensorRef> parameters = {
      host_tensor(std::span(square)), host_tensor(std::span(square)), host_tensor(std::span(norm)),
      host_tensor(std::span(square))};
  decode::Session state(model, parameters, {.capacity = 64}, cpu::cpu_backend());
  testing::TempDir folder;
  folder.write("chat_template.jinja",
               "{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}a");
  const chat::Form form = chat::Form::load(folder.path());
  const auto tokenizer = text::make_byte_tokenizer();
  ChatSession session(
      form, *tokenizer, state, 64, [](std::string_view) {}, [] { return false; });
  session.settings.generate.max_new_tokens = 4;
  session.say("hello");
  const std::string before = session.conversation.json();

  for (std::int32_t id = 0; id < 258; ++id)
    session.settings.generate.sampler.suppressed.push_back(id);
  EXPECT_ERROR_SAYS(session.say("again"), ExitCode::numerical, "no token is left");
  EXPECT_EQ(session.conversation.json(), before);
  EXPECT_ERROR_SAYS(session.regenerate(), ExitCode::numerical, "no token is left");
  EXPECT_EQ(session.conversation.json(), before);

  session.settings.generate.sampler.suppressed.clear();
  session.regenerate();
  EXPECT_EQ(session.conversation.size(), 2u);
}

}  // namespace
}  // namespace lamina::cli
