// The chat form of a model: loads the template from its directory, and renders conversations.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/conversation.h"
#include "core/error.h"
#include "jinja/template.h"

namespace lamina::chat {

struct FormOptions {
  std::optional<bool> thinking = {};  // absent: the template's default
  bool add_generation_prompt = true;  // end where the model's answer begins
  // Instead of that: end at the end of the last message's text, for the model to continue.
  bool continues_last = false;
  std::optional<std::tm> now = {};  // the time shown to the template; absent: now
};

// Template inputs of a conversation: made once, for rendering several of its prefixes.
class FormInputs {
 public:
  // Adds a message after the last one.
  void add(const JsonValue& message);
  // Errors: as Form::render(). REQUIRES: the form exists.
  jinja::Rendered render(std::size_t num_messages, bool add_generation_prompt);

 private:
  friend class Form;
  explicit FormInputs(const jinja::Template& t) : template_(t) {}
  void set(std::string_view name, jinja::TemplateValue value);

  const jinja::Template& template_;
  std::tm now_ = {};
  jinja::Variables variables_;
  std::vector<jinja::TemplateValue> messages_;
};

// Const and safe to share between threads.
class Form {
 public:
  // Loads the template from `file`, else from the model directory: chat_template.jinja and
  // additional_chat_templates/NAME.jinja, else "chat_template" of tokenizer_config.json, else of
  // chat_template.json; in a GGUF file from "tokenizer.chat_template". If there are several named
  // templates, "tool_use" is for conversations with tools, "default" for others. Errors: class data
  // for a model without a template; class checkpoint for damaged JSON; class usage for an invalid
  // template, with line and column, when a conversation uses it, at once if none can be used.
  static Form load(const std::string& directory, const std::optional<std::string>& file = {});
  // Likewise, but returns nothing for a model without a template.
  static std::optional<Form> find(const std::string& directory,
                                  const std::optional<std::string>& file = {});
  // Returns its templates and special tokens as one text: forms with equal texts render alike.
  std::string identity() const;

  // The text that the model reads, and its parts that came from outside. Errors (class usage):
  // errors raised by the template, eg for unknown roles; a last message to continue that has no
  // text, or whose text the template omits.
  jinja::Rendered render(const Conversation& conversation, const FormOptions& options = {}) const;
  // Inputs for several renderings; ignores the options about the end.
  FormInputs inputs(const Conversation& conversation, const FormOptions& options = {}) const;

  // The text that all its templates hold, as in jinja::Rendered.
  std::vector<std::string> own_text() const;

 private:
  Form() = default;
  static std::optional<Form> of_gguf(const std::string& path,
                                     const std::optional<std::string>& file);
  jinja::Variables special_tokens_;
  std::vector<std::pair<std::string, jinja::Template>> templates_;  // by name
  // Likewise: the errors of those that cannot be parsed, for conversations that use them.
  std::vector<std::pair<std::string, UserError>> broken_;
  // Reads a named template with parse().
  template <typename Parse>
  void add(std::string_view name, const Parse& parse);
  bool has(std::string_view name) const;
  bool is_empty() const { return templates_.empty() && broken_.empty(); }
  void require_a_choice() const;
  // `source`: a text, an object of texts by name, or a list of objects with name and template.
  // `place`: its location, for errors.
  void add_templates(const JsonValue& source, const std::string& place);
  void add_files(const std::string& directory);
  const jinja::Template& pick(bool has_tools) const;
  std::string directory_;
};

}  // namespace lamina::chat
