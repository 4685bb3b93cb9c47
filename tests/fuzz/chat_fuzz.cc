// Message files: an accepted file renders, and reads back equal after it is written.
#include "chat/conversation.h"
#include "chat/form.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  fuzz::write("chat_template.jinja",
              "{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content | "
              "trim }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}"
              "{{ m.reasoning_content }}{% for c in m.tool_calls %}{{ c.function | tojson }}"
              "{% endfor %}{% endfor %}{{ tools | tojson(indent=1) }}");
  static const chat::Form form = chat::Form::load(fuzz::folder().path());
  fuzz::refuse_or_accept([&] {
    const chat::Conversation conversation =
        chat::Conversation::parse(std::string(fuzz::text_of(data, size)), "messages.json");
    const std::string written = conversation.json();
    LAMINA_ASSERT(chat::Conversation::parse(written, "written.json").json() == written);
    for (std::size_t i = 0; i < conversation.size(); ++i)
      static_cast<void>(conversation.role(i).size());
    static_cast<void>(form.render(conversation));
    // The reasoning is the same for every division of the text.
    const chat::ReasoningMarks marks;
    chat::ReasoningSplitter splitter(marks, false);
    splitter.push(std::string_view(written).substr(0, size % (written.size() + 1)));
    splitter.push(std::string_view(written).substr(size % (written.size() + 1)));
    splitter.finish();
    const chat::Thought whole = chat::split_thought(written);
    LAMINA_ASSERT(splitter.thought().reasoning == whole.reasoning);
    LAMINA_ASSERT(splitter.thought().answer == whole.answer);
  });
  return 0;
}
