// The chat form of a model: the template in its directory, and rendering conversations with it.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/conversation.h"
#include "jinja/template.h"

namespace lamina::chat {

struct FormOptions {
  std::optional<bool> thinking = {};  // absent: as the template has it
  bool add_generation_prompt = true;  // end where the model's answer begins
  // In place of that: end where the text of the last message does, for the model to go on with.
  bool continues_last = false;
  std::optional<std::tm> now = {};  // what the template takes for the time; absent: the time
};

// What a template is given of a conversation: made once, for renderings of its first messages.
class FormInputs {
 public:
  // Errors: as Form::render(). REQUIRES: the form is there.
  jinja::Rendered render(std::size_t num_messages, bool add_generation_prompt);

 private:
  friend class Form;
  explicit FormInputs(const jinja::Template& t) : template_(t) {}
  void set(std::string_view name, jinja::Value value);

  const jinja::Template& template_;
  std::tm now_ = {};
  jinja::Variables variables_;
  std::vector<jinja::Value> messages_;
};

// Const and safe to share between threads.
class Form {
 public:
  // The template of `file`, else of the model directory: chat_template.jinja and
  // additional_chat_templates/NAME.jinja, else "chat_template" of tokenizer_config.json, else that
  // of chat_template.json; of a GGUF file "tokenizer.chat_template". Of several named templates
  // "tool_use" serves conversations with tools, "default" the others. Errors: class data for a
  // model without one; class checkpoint for damaged JSON; class usage for an invalid template, with
  // line and column.
  static Form load(const std::string& directory, const std::optional<std::string>& file = {});
  // The files of a model directory that load() reads, as far as they are there.
  static std::vector<std::string> files(const std::string& directory);

  // What the model reads, and what of it came from outside. Errors (class usage): what the
  // template raises, eg for roles that it does not know; a last message to go on with that has no
  // text, or whose text the template leaves out.
  jinja::Rendered render(const Conversation& conversation, const FormOptions& options = {}) const;
  // For several of them; what the options say of the end does not count.
  FormInputs inputs(const Conversation& conversation, const FormOptions& options = {}) const;

 private:
  Form() = default;
  static Form of_gguf(const std::string& path, const std::optional<std::string>& file);
  jinja::Variables special_tokens_;
  std::vector<std::pair<std::string, jinja::Template>> templates_;  // by name
  // A text, or a list of objects with name and template. `place`: of the value, for errors.
  void add_templates(const JsonValue& source, const std::string& place);
  void add_files(const std::string& directory);
  const jinja::Template& pick(bool has_tools) const;
  std::string directory_;
};

}  // namespace lamina::chat
