#include "chat/form.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/json_writer.h"
#include "core/read_file.h"
#include "core/utf8.h"
#include "io/gguf_model.h"
#include "io/hf_directory.h"
#include "text/hf/tokenizer_files.h"

namespace lamina::chat {
namespace fs = std::filesystem;
using jinja::TemplateValue;
namespace {

constexpr const char* kDefault = "default";
constexpr const char* kForTools = "tool_use";
constexpr const char* kOwnTemplate = "chat_template.jinja";
constexpr const char* kProcessorTemplate = "chat_template.json";
constexpr std::string_view kGgufTemplate = "tokenizer.chat_template";

bool exists(const std::string& path) {
  std::error_code ec;
  return fs::exists(path, ec);
}

std::optional<JsonDocument> read_json(const std::string& path) {
  if (!exists(path)) return {};
  return JsonDocument::read(path, {.code = ExitCode::checkpoint,
                                   .max_bytes = std::size_t{256} << 20,
                                   .infinite_numbers = true});
}

jinja::Template parse_file(const std::string& path) {
  return jinja::Template::parse(read_file(path, ExitCode::data, 4 * jinja::kMaxSource), path);
}

// A text, or an object with the text and flags. Replaces an earlier value.
void set_special_token(std::string_view name, const JsonValue& token, jinja::Variables& out) {
  std::erase_if(out, [name](const auto& known) { return known.first == name; });
  const JsonValue text = token.is_object() ? token.find("content") : token;
  if (text && text.is_string())
    out.emplace_back(name,
                     jinja::made_from(text, [&] { return jinja::trusted(text.as_string()); }));
}

// bos_token, eos_token ..., and the named tokens of one model, such as image_token.
void add_special_tokens(const JsonValue& config, jinja::Variables& out) {
  const auto add_named = [&](std::string_view key) {
    if (const JsonValue named = config.find(key); named && named.is_object())
      for (const auto& [name, token] : named.members()) set_special_token(name, token, out);
  };
  add_named("model_specific_special_tokens");
  for (const auto& [name, token] : config.members())
    if (name.ends_with("_token")) set_special_token(name, token, out);
  add_named("extra_special_tokens");
}

// Likewise for a GGUF file, by their ids in its vocabulary.
jinja::Variables special_tokens(const io::GgufFile& file) {
  constexpr std::pair<const char*, const char*> kRoles[] = {{"bos", "bos_token"},
                                                            {"eos", "eos_token"},
                                                            {"padding", "pad_token"},
                                                            {"unknown", "unk_token"}};
  const std::vector<std::string_view> tokens = file.texts("tokenizer.ggml.tokens");
  jinja::Variables out;
  for (const auto& [role, name] : kRoles) {
    const auto id = file.integer(fmt::format("tokenizer.ggml.{}_token_id", role));
    if (!id || *id < 0 || *id >= std::ssize(tokens)) continue;
    try {
      out.emplace_back(name, jinja::trusted(tokens[static_cast<std::size_t>(*id)]));
    } catch (const jinja::TemplateFailure& failure) {
      file.fail("tokenizer.ggml.tokens", fmt::format("token {}: {}", *id, failure.message));
    }
  }
  return out;
}

// Roles become parts of control tokens in many templates ("<|" + role + "|>"), so a role that is a
// plain name counts as the template's own text. The rest of a message does not.
bool is_plain_name(std::string_view text) {
  return !text.empty() && text.size() <= 32 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

// Added to the end of the text to continue; the space shows if the template strips the ends of
// texts. As in transformers.
constexpr std::string_view kOpenEnd = "CONTINUE_FINAL_MESSAGE_TAG ";

TemplateValue with_open_end(const JsonValue& text) {
  return jinja::made_from(
      text, [&] { return jinja::given(std::string(text.as_string()) + std::string(kOpenEnd)); });
}

// A content with its end marked: a text, or a list of parts, in which the last one with a text
// counts.
TemplateValue open_content(const JsonValue& content) {
  if (content.is_string()) return with_open_end(content);
  jinja::Vector<TemplateValue> parts;
  std::size_t last = 0, n = 0;
  if (content.is_array())
    for (const JsonValue part : content.elements())
      if (++n; part.is_object() && part.find("text") && part.find("text").is_string()) last = n;
  if (last == 0) content.fail("must have a text to continue, got " + content.describe());
  n = 0;
  for (const JsonValue part : content.elements()) {
    if (++n != last) {
      parts.push_back(jinja::from_json(part));
      continue;
    }
    jinja::Vector<jinja::Dict::Entry> entries;
    for (const auto& [key, value] : part.members())
      entries.emplace_back(jinja::given(key),
                           key == "text" ? with_open_end(value) : jinja::from_json(value));
    parts.push_back(jinja::make_dict(std::move(entries)));
  }
  return TemplateValue::list(std::move(parts));
}

// Ends the text where the mark begins.
void cut_at_open_end(jinja::Rendered& rendered) {
  const std::string_view mark = kOpenEnd.substr(0, kOpenEnd.size() - 1);
  const std::size_t at = rendered.text.rfind(mark);
  if (at == rendered.text.npos)
    throw UserError(ExitCode::usage, {"chat",
                                      "the template omits the text of the last message, so "
                                      "the model cannot continue it",
                                      {}});
  const bool is_kept = rendered.text.compare(at, kOpenEnd.size(), kOpenEnd) == 0;
  rendered.text.resize(at);
  while (!is_kept && !rendered.text.empty()) {
    std::size_t last = rendered.text.size() - 1;
    while (utf8_continues(rendered.text[last])) --last;
    if (!jinja::is_space(utf8_decode(std::string_view(rendered.text).substr(last)))) break;
    rendered.text.resize(last);
  }
  const auto cut = [](auto& spans, std::size_t end) {
    std::erase_if(spans, [end](const jinja::RenderedSpan& span) { return span.begin >= end; });
    for (jinja::RenderedSpan& span : spans) span.end = std::min(span.end, end);
  };
  cut(rendered.given, rendered.text.size());
  cut(rendered.generated, utf8_num_characters(rendered.text));
}

// The keys for reasoning in messages, the standard one first.
constexpr std::string_view kReasoningKeys[] = {"reasoning_content", "thinking", "reasoning"};

// As in transformers 5: keys that are null are left out, and reasoning is available as "thinking"
// and as "reasoning_content", whatever its key. `is_open`: its text is to be continued.
TemplateValue message_members(const JsonValue& message, bool is_open) {
  const auto value_of = [&](std::string_view key) {
    const JsonValue value = message.find(key);
    return value && value.is_null() ? JsonValue() : value;
  };
  JsonValue reasoning;
  for (const std::string_view key : kReasoningKeys)
    if (!reasoning) reasoning = value_of(key);
  jinja::Vector<jinja::Dict::Entry> entries;
  if (reasoning) entries.emplace_back(jinja::given("thinking"), jinja::from_json(reasoning));
  for (const auto& [key, value] : message.members()) {
    if (value.is_null()) continue;
    const bool role = key == "role" && value.is_string() && is_plain_name(value.as_string());
    entries.emplace_back(jinja::given(key), role ? jinja::trusted(value.as_string())
                                            : is_open && key == "content"
                                                ? open_content(value)
                                                : jinja::from_json(value));
  }
  if (reasoning)
    entries.emplace_back(jinja::given("reasoning_content"), jinja::from_json(reasoning));
  if (is_open && !value_of("content")) message.fail("must have a text to continue");
  return jinja::make_dict(std::move(entries));
}

TemplateValue message_value(const JsonValue& message, bool is_open) {
  return jinja::made_from(message, [&] { return message_members(message, is_open); });
}

}  // namespace

Form Form::load(const std::string& directory, const std::optional<std::string>& file) {
  if (auto found = find(directory, file)) return *std::move(found);
  const std::string note =
      "give one with --chat-template FILE; `lamina decode` without --chat continues a text";
  if (const std::string gguf = io::gguf_in(directory); !gguf.empty())
    throw UserError(
        ExitCode::data,
        {gguf,
         fmt::format("has no chat template ('{}'), so it is not a chat model", kGgufTemplate),
         {note}});
  throw UserError(ExitCode::data,
                  {directory,
                   "has no chat template (chat_template.jinja, or \"chat_template\" in "
                   "tokenizer_config.json or chat_template.json), so it is not a chat model",
                   {note}});
}

std::optional<Form> Form::find(const std::string& directory,
                               const std::optional<std::string>& file) {
  if (const std::string gguf = io::gguf_in(directory); !gguf.empty()) return of_gguf(gguf, file);
  Form out;
  out.directory_ = directory;
  const std::string config_path = directory + "/tokenizer_config.json";
  const std::optional<JsonDocument> config = read_json(config_path);
  if (config) add_special_tokens(config->root(), out.special_tokens_);
  if (text::uses_special_tokens_map(config ? config->root() : JsonValue()))
    if (const auto map = read_json(directory + "/special_tokens_map.json"))
      add_special_tokens(map->root(), out.special_tokens_);
  if (file) {
    out.templates_.emplace_back(kDefault, parse_file(*file));
    return out;
  }
  out.add_files(directory);
  if (out.is_empty() && config)
    out.add_templates(config->root().find("chat_template"), config_path + ": chat_template");
  const std::string of_processor = directory + "/" + kProcessorTemplate;
  if (out.is_empty())
    if (const auto json = read_json(of_processor))
      out.add_templates(json->root().find("chat_template"), of_processor + ": chat_template");
  if (out.is_empty()) return {};
  out.require_a_choice();
  return out;
}

std::string Form::identity() const {
  JsonWriter json;
  const auto pair = [&](const std::string& name, const std::string& value) {
    json.begin_array().value(name).value(value).end_array();
  };
  json.begin_object().key("templates").begin_array();
  for (const auto& [name, parsed] : templates_) pair(name, parsed.source());
  json.end_array().key("tokens").begin_array();
  for (const auto& [name, token] : special_tokens_) pair(name, jinja::to_utf8(token.text()));
  json.end_array().end_object();
  return json.text();
}

void Form::add_files(const std::string& directory) {
  for (const std::string& name : io::additional_chat_templates(directory)) {
    const std::string path = directory + "/" + name;
    add(fs::path(name).stem().string(), [&] { return parse_file(path); });
  }
  const std::string own = directory + "/" + kOwnTemplate;
  if (!has(kDefault) && exists(own)) add(kDefault, [&] { return parse_file(own); });
}

void Form::add_templates(const JsonValue& source, const std::string& place) {
  if (!source || source.is_null()) return;
  if (source.is_string())
    return add(kDefault, [&] { return jinja::Template::parse(source.as_string(), place); });
  const auto add_named = [&](std::string_view name, const JsonValue& text) {
    const std::string_view of = text.as_string();
    add(name, [&] { return jinja::Template::parse(of, fmt::format("{} \"{}\"", place, name)); });
  };
  if (source.is_object())
    for (const auto& [name, text] : source.members()) add_named(name, text);
  else if (source.is_array())
    for (const JsonValue named : source.elements())
      add_named(named.at("name").as_string(), named.at("template"));
  else
    source.fail("must be a text, or a list or object of named texts, got " + source.describe());
}

template <typename Parse>
void Form::add(std::string_view name, const Parse& parse) {
  try {
    templates_.emplace_back(name, parse());
  } catch (const UserError& error) {
    broken_.emplace_back(name, error);
  }
}

bool Form::has(std::string_view name) const {
  const auto is_it = [name](const auto& named) { return named.first == name; };
  return std::ranges::any_of(templates_, is_it) || std::ranges::any_of(broken_, is_it);
}

// Throws if there is no template for conversations without tools, and none for those with tools.
void Form::require_a_choice() const {
  try {
    static_cast<void>(pick(false));
  } catch (const UserError&) {
    static_cast<void>(pick(true));
  }
}

std::optional<Form> Form::of_gguf(const std::string& path, const std::optional<std::string>& file) {
  const io::GgufFile source(path);
  Form out;
  out.directory_ = path;
  out.special_tokens_ = special_tokens(source);
  if (file) {
    out.templates_.emplace_back(kDefault, parse_file(*file));
    return out;
  }
  for (const io::GgufValue& value : source.metadata()) {
    if (!value.key.starts_with(kGgufTemplate) || value.key == "tokenizer.chat_templates") continue;
    // "tokenizer.chat_template.tool_use" is the template named "tool_use".
    const std::string_view name = value.key.substr(kGgufTemplate.size());
    out.add(name.starts_with('.') ? std::string(name.substr(1)) : kDefault, [&] {
      return jinja::Template::parse(*source.text(value.key),
                                    fmt::format("{}: {}", path, value.key));
    });
  }
  if (out.is_empty()) return {};
  out.require_a_choice();
  return out;
}

const jinja::Template& Form::pick(bool has_tools) const {
  for (const char* wanted : {has_tools ? kForTools : kDefault, kDefault}) {
    for (const auto& [name, parsed] : templates_)
      if (name == wanted) return parsed;
    for (const auto& [name, error] : broken_)
      if (name == wanted) throw error;
  }
  std::vector<std::string> names;
  for (const auto& [name, parsed] : templates_) names.push_back(name);
  for (const auto& [name, error] : broken_) names.push_back(name);
  throw UserError(ExitCode::data,
                  {directory_,
                   fmt::format("has the chat templates '{}' but none named 'default'",
                               fmt::join(names, "', '")),
                   {"write one of them to a file and give it with --chat-template FILE"}});
}

std::vector<std::string> Form::own_text() const {
  std::vector<std::string> out;
  for (const auto& [name, parsed] : templates_)
    out.insert(out.end(), parsed.own_text().begin(), parsed.own_text().end());
  return out;
}

void FormInputs::set(std::string_view name, TemplateValue value) {
  const auto known = std::ranges::find(variables_, name,
                                       [](const auto& v) -> std::string_view { return v.first; });
  if (known != variables_.end())
    known->second = std::move(value);
  else
    variables_.emplace_back(name, std::move(value));
}

FormInputs Form::inputs(const Conversation& conversation, const FormOptions& options) const {
  FormInputs out(pick(conversation.tools().has_value()));
  out.now_ = options.now.value_or(jinja::local_time());
  out.variables_ = special_tokens_;
  out.set("tools", TemplateValue::none());
  out.set("documents", TemplateValue::none());
  out.set("add_generation_prompt", TemplateValue::boolean(false));
  if (conversation.file())
    for (const auto& [name, value] : conversation.file()->root().members())
      if (name != "messages") out.set(name, jinja::from_json(value));
  for (const JsonDocument& message : conversation.messages())
    out.messages_.push_back(message_value(
        message.root(), options.continues_last && &message == &conversation.messages().back()));
  if (conversation.tools()) out.set("tools", jinja::from_json(conversation.tools()->root()));
  if (options.thinking) {  // the variables' names in published templates
    out.set("enable_thinking", TemplateValue::boolean(*options.thinking));
    out.set("thinking", TemplateValue::boolean(*options.thinking));
  }
  return out;
}

void FormInputs::add(const JsonValue& message) {
  messages_.push_back(message_value(message, false));
}

jinja::Rendered FormInputs::render(std::size_t num_messages, bool add_generation_prompt) {
  LAMINA_ASSERT(num_messages <= messages_.size());
  const auto end = messages_.begin() + static_cast<std::ptrdiff_t>(num_messages);
  set("messages", TemplateValue::list({messages_.begin(), end}));
  set("add_generation_prompt", TemplateValue::boolean(add_generation_prompt));
  return template_.render(variables_, {.now = now_, .elements = messages_});
}

jinja::Rendered Form::render(const Conversation& conversation, const FormOptions& options) const {
  jinja::Rendered out =
      inputs(conversation, options)
          .render(conversation.size(), options.add_generation_prompt && !options.continues_last);
  if (options.continues_last) cut_at_open_end(out);
  return out;
}

}  // namespace lamina::chat
